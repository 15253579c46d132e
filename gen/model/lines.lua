-- SPDX-License-Identifier: MIT
-- A text of "key = value" lines with comments after them: a spec, or a section of NAME.layers (which has `model`).
--
--   (number_text) -> Lines

local number_text = ...

local Lines = {}
Lines.__index = Lines

function Lines:add(key, value, comment)
    if value == nil then return self end
    if math.type(value) then value = number_text(value) end
    self[#self + 1] = {key, tostring(value), comment}
    return self
end

function Lines:text()
    local wide, far, out = 0, 0, {}
    for _, line in ipairs(self) do
        wide = math.max(wide, #line[1])
        far = line[3] and #line[2] <= 40 and math.max(far, #line[2]) or far
    end
    for _, line in ipairs(self) do
        local text = ("%-" .. wide .. "s = %s"):format(line[1], line[2])
        if line[3] then text = text .. (" "):rep(wide + 3 + far - #text) .. "    # " .. line[3] end
        out[#out + 1] = text
    end
    return table.concat(out, "\n") .. "\n"
end

-- A line of a tensor of this shape: KEY = "NAME" WORDS; one that is `in` a file of a folder stands there without that
function Lines:weight(key, name, shape, words)
    self.model:take(name, shape)
    name = words and words:find("in %d+$") and name:match("/(.*)") or name
    return self:add(key, '"' .. name .. '"' .. (words and " " .. words or ""))
end

-- A norm's lines: kind, eps and the numbers of its module; false: it has none. `unshifted`: a layer norm without shift.
function Lines:norm(kind, eps, module, width, words, unshifted)
    self:add("norm", kind):add("norm_eps", eps)
    if not module then return self:add("norm_g", "ones"):add("norm_b", kind == "layer" and "zeros" or nil) end
    local gain, shift = self.model:norm_names(module)
    self:weight("norm_g", gain, {width}, words)
    if kind == "layer" and unshifted then return self:add("norm_b", "zeros") end
    return kind == "layer" and self:weight("norm_b", shift, {width}) or self
end

-- Lines of a spec: norms around the parts of a layer
function Lines:block(kind, norm, eps, comment)
    return self:add("block", kind):add("norm", norm):add("norm_eps", eps, comment)
end

-- Sequences of different lengths
function Lines:padding(before, behind)
    self:add("mask", (before or "") .. "padding" .. (behind or ""))
    return self:add("pad_rows", "skipped", "rows from lengths[b] on are 0; computed: undefined")
end

-- Which way the checkpoint's matrices lie
function Lines:weights_lie(layout)
    self.out_in = layout == "out_in"
    return self:add("weight_layout", layout)
end

return Lines
