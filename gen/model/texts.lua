-- SPDX-License-Identifier: MIT
-- Texts of specs and of NAME.layers, which are made of names that stand in files of attngen, of numbers and of words.
--
--   (Lines, number_text) -> fill_layer(model, section), spec_text(model, spec), layers_text(model)

local Lines, number_text = ...

-- The shape of the tensor that a spec's tensor of `shape` is taken from. The axis that a fused one is longer in is that
-- of outputs.
local function stored_shape(entry, shape, out_in)
    local stored = {table.unpack(shape)}
    if entry.of then stored[#shape == 2 and not out_in and 2 or 1] = entry.of * (entry.groups or 1) end
    return stored
end

-- The lines of a layer's tensors, in the order of the contract.
local function fill_layer(model, section)
    local spec, weights = section.spec, section.weights
    local left = {}
    for key in pairs(weights) do
        left[key] = true
    end
    for _, tensor in ipairs(spec.tensors) do
        local entry = weights[tensor.name]
        left[tensor.name] = nil
        assert(entry, spec.name .. " has no source of " .. tensor.name)
        if entry == model.zeros or entry == model.ones then
            section:add(tensor.name, entry == model.zeros and "zeros" or "ones")
        else
            entry = type(entry) == "string" and {name = entry} or entry
            local words = {}
            if #tensor == 2 and tensor.matrix then words[1] = spec.out_in and "out_in" or "in_out" end
            words[#words + 1] = entry.of and ("columns %d..%d"):format(entry.from, entry.to)
            words[#words + 1] = entry.groups and "of " .. entry.of or nil
            words[#words + 1] = entry.times and "times " .. number_text(entry.times) or nil
            words[#words + 1] = entry.plus_one and "plus_one"
            words[#words + 1] = entry.tied and "tied" or nil
            words[#words + 1] = entry.file and "in " .. entry.file or nil
            section:weight(tensor.name, entry.name, entry.shape or stored_shape(entry, tensor, spec.out_in),
                           #words > 0 and table.concat(words, " "))
            if entry.by then
                section:weight(tensor.name .. "_by", entry.by, {tensor[spec.out_in and 1 or #tensor]})
            end
            if entry.norm then
                section:weight(tensor.name .. "_norm_g", entry.norm .. ".weight", {entry.shape[2]})
                section:weight(tensor.name .. "_norm_b", entry.norm .. ".bias", {entry.shape[2]})
                section:add(tensor.name .. "_norm_eps", entry.eps)
            end
            if entry.product then
                section:weight(tensor.name .. "_w", entry.product .. ".weight", {entry.shape[2], entry.shape[2]})
                section:weight(tensor.name .. "_b", entry.product .. ".bias", {entry.shape[2]})
            end
            for i, piece in ipairs(entry.pieces or {}) do
                section:weight(("%s_%d"):format(tensor.name, i + 1), piece.name, piece.shape,
                               ("columns %d..%d"):format(piece.from, piece.to))
            end
        end
    end
    if section.behind then section:behind() end
    assert(next(left) == nil, spec.name .. " has no tensor " .. tostring(next(left)))
end

-- "layers 0 to 5 of the encoder", "layers 0, 2, 4 of the decoder"
local function users_text(users)
    local numbers, run = {}, true
    for i, user in ipairs(users) do
        numbers[i] = user[2]
        run = run and user[2] == users[1][2] + i - 1
    end
    local text = #users > 2 and run and numbers[1] .. " to " .. numbers[#numbers] or table.concat(numbers, ", ")
    if #text > 60 then text = text:sub(1, 60):match("^.*,") .. " …" end
    return (#users > 1 and "layers " or "layer ") .. text .. " of the " .. users[1][1]
end

local function spec_text(model, spec)
    return ("# %s%s.\n# Made by attngen import from the config.json of a %s model; "):format(spec.about,
        spec.users and ": " .. users_text(spec.users) or "", model.family) .. "behind # the keys of that file.\n" ..
        spec:text()
end

local function layers_text(model)
    local top = setmetatable({}, Lines)
    top:add("format", 2):add("name", model.name):add("family", model.family):add("d_model", model.width)
    local out = {("# A %s model: how its layers follow, and where their numbers lie. Made by attngen import.\n")
        :format(model.family), top:text(), "\n[weights]\n"}
    for _, file in ipairs(model.files) do
        out[#out + 1] = ('file = "%s"\n'):format(file)
    end
    for _, section in ipairs(model.sections) do
        out[#out + 1] = "\n[" .. section.title .. "]\n" .. section:text()
    end
    return table.concat(out)
end

return fill_layer, spec_text, layers_text
