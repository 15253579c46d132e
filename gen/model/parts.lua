-- SPDX-License-Identifier: MIT
-- Lines of a NAME.layers, and what they say of tensors: numbers that all instruction sets share, blocks of pairs.
-- What is wrong with a line is an error that names it.
--
--   (sections of layers.lua, specs) -> the functions and tables that model.lua reads

local sections, of_layers = ...

local specs = {} -- copies, which get `entries`
for i, spec in ipairs(of_layers) do
    specs[i] = setmetatable({entries = {}}, {__index = spec})
end

local MOST = 0x7fffffff
local PIECES = 256 -- at most, of which one tensor of a pair consists in the checkpoint
local LONGEST = 500 -- a tensor name without a layer number: name_of() of templates/model/checkpoint.in has room for it

local wrong = sections.wrong

---- lines ----

local titles = {}
for _, section in ipairs(sections) do
    titles[section.title] = section
end

local function line_of(section, key)
    for _, line in ipairs(section and section.lines or {}) do
        if line.key == key then return line end
    end
end

local function value_of(section, key)
    local line = line_of(section, key)
    return line and line.value
end

local function check_keys(section, known)
    for _, line in ipairs(section.lines) do
        if not (" " .. known .. " "):find(" " .. line.key .. " ", 1, true) then
            wrong(line.number, "'%s' is not known here; known are: %s", line.key, known)
        end
    end
end

local function size_of(section, key, default)
    local line = line_of(section, key)
    if not line and default ~= nil then return default end
    local number = line and math.tointeger(tonumber(line.value))
    if not number or number < 1 or number > MOST then
        wrong(line and line.number or section.number, "%s is missing or no size; write %s = 1 to %d", key, key, MOST)
    end
    return number
end

-- A number above 0, as f32 has it
local function number_of(section, key)
    local line = line_of(section, key)
    local number = line and tonumber(line.value)
    if line and not (number and number >= 0x1p-126 and number <= 0x1.fffffep127) then
        wrong(line.number, "%s is no number above 0 that f32 has", key)
    end
    return number
end

local function choice(section, key, words)
    local line = line_of(section, key)
    if not line or not (" " .. words .. " "):find(" " .. line.value .. " ", 1, true) then
        wrong(line and line.number or section.number, "%s is one of: %s", key, words)
    end
    return line.value
end

local d_model = size_of(sections[1], "d_model")

local files = {}
for _, line in ipairs((titles.weights or {lines = {}}).lines) do
    local name = line.key == "file" and line.quoted and line.words == "" and line.value or ""
    if name == "" or name:gsub("^[%w_-]+/", ""):find("/", 1, true) then
        wrong(line.number, "[weights] has lines of file = \"NAME\", files of the model's folder or of one in it")
    end
    files[#files + 1] = name
end

---- tensors ----

-- What a line of a tensor says: its name (nil: zeros), words. `known`: which words it may have, beside its layout.
local function tensor(section, key, known, layout)
    local line = line_of(section, key)
    if not line then
        wrong(section.number, "no tensor %s; write %s = \"its name in the checkpoint\"", key, key)
    end
    if not line.quoted and line.value == "zeros" and line.words == "" and known.zeros then
        return {outer = 1, first = 0, times = 1, plus_one = false}
    elseif not line.quoted and line.value == "ones" and known.ones then
        return {outer = 1, first = 0, times = 1, plus_one = true}
    end
    if not line.quoted or line.value == "" then
        wrong(line.number, "no name of a tensor; write %s = \"its name in the checkpoint\"", key)
    end
    if #line.value > LONGEST then
        wrong(line.number, "a tensor's name has %d characters; NAME_model.c has room for %d", #line.value, LONGEST)
    end
    local of, words = {name = line.value, outer = 1, first = 0, exact = true, times = 1}, line.words
    if layout then
        local stands, rest = words:match("^(%S*)%s*(.*)$")
        if stands ~= layout then
            wrong(line.number, "%s lies there as '%s'; NAME_model.c reads it as the spec has it, %s", key, stands,
                  layout)
        end
        words = rest
    end
    local from, to, rest = words:match("^columns (%d+)%.%.(%d+)%s*(.*)$")
    if from and known.columns then
        of.from, of.to, words, of.exact = tonumber(from), tonumber(to), rest, false
        local each, behind = words:match("^of (%d+)%s*(.*)$")
        of.each, words = tonumber(each), behind or words
        if of.from >= of.to or of.to > (of.each or MOST) or of.to > MOST then
            wrong(line.number, "columns %s..%s are none", from, to)
        end
    end
    local times, behind = words:match("^times (%S+)%s*(.*)$")
    if times and known.times then
        of.times, words = tonumber(times), behind
        if not of.times or not (math.abs(of.times) >= 0x1p-126 and math.abs(of.times) <= 0x1.fffffep127) then
            wrong(line.number, "times %s is no factor that f32 has", times)
        end
    end
    for _, word in ipairs{"plus_one", "tied"} do
        local behind = words:match("^" .. word .. "%s*(.*)$")
        if behind and known[word] then of[word], words = true, behind end
    end
    local file = words:match("^in (%d+)$")
    if file and known.file then
        of.file, words = tonumber(file), ""
        if not files[of.file] then wrong(line.number, "[weights] has no file %s, counted from 1 on", file) end
    end
    local row = words:match("^from (%d+)$")
    if row and known.from then
        of.row, words = tonumber(row), ""
        if of.row > MOST then wrong(line.number, "no table has a row %s", row) end
    end
    if words ~= "" then
        wrong(line.number, "words after the name that NAME_model.c does not know: '%s'", words)
    end
    of.plus_one = of.plus_one or false
    return of
end

local common = {floats = 0}

-- Positions that are computed: `sinusoids over N from P`; nil where the line says another thing
local function sinusoids(section, rows)
    local line = line_of(section, "position")
    local over, first = line.value:match("^sinusoids over (%d+) from (%d+)$")
    if line.quoted or not over then return nil end
    if d_model % 2 == 1 or tonumber(over) < 1 or #over > 9 or #first > 9 then
        wrong(line.number, "sinusoids are of an even d_model, over 1 to 999999999, from 0 to 999999999")
    end
    return {outer = 1, first = 0, times = 1, over = tonumber(over), from = tonumber(first), rows = rows}
end

-- Where `count` numbers of a tensor are among those that all instruction sets share; `exact`: the tensor has no more.
local function share(of, count, exact, about, width)
    of.count, of.exact, of.width = count, exact, width or 0
    of.key = table.concat({of.name or "", of.first, count, of.plus_one and 1 or 0, of.over, of.from}, "\n")
    for _, other in ipairs(common) do
        if other.key == of.key then return other.at end
    end
    of.at, of.about = common.floats, about
    common[#common + 1] = of
    common.floats = common.floats + count
    return of.at
end

local NORM = "norm norm_eps norm_g norm_b"

-- A norm of these rows, nil where there is none.
local function norm_of(section, width, about)
    local kind = line_of(section, "norm")
    if not kind then
        for key in ("norm_eps norm_g norm_b"):gmatch("%S+") do
            local line = line_of(section, key)
            if line then wrong(line.number, "%s without norm; write norm = layer or norm = rms", key) end
        end
        return nil
    end
    local norm = {kind = choice(section, "norm", "layer rms"), eps = number_of(section, "norm_eps")}
    if not norm.eps then
        wrong(kind.number, "norm, norm_eps, norm_g, and norm_b of norm = layer, are there together")
    elseif norm.eps >= 1 then
        wrong(line_of(section, "norm_eps").number, "norm_eps is below 1")
    end
    norm.eps = value_of(section, "norm_eps") -- as it stands there: a number of C too
    if not norm.eps:find("^[%d.]+e?[+-]?%d*$") then
        wrong(line_of(section, "norm_eps").number, "norm_eps is no plain decimal number; write for example 1e-05")
    end
    norm.gain = share(tensor(section, "norm_g", {plus_one = true, ones = true}), width, true, about .. ", gain")
    if norm.kind == "layer" then
        norm.shift = share(tensor(section, "norm_b", {zeros = true}), width, true, about .. ", shift")
    elseif line_of(section, "norm_b") then
        wrong(line_of(section, "norm_b").number, "norm = rms has no norm_b")
    end
    return norm
end

---- parts: packed blocks of pairs ----

local parts = {}

local function spec_of(section)
    local file = value_of(section, "spec")
    for i, spec in ipairs(specs) do
        if spec.file == file then return spec, i end
    end
    wrong(section.number, "no spec; write spec = FILE.layer, of this folder")
end

-- The spec of a section that is a product of rows `width` wide, to d_out if that is given.
local function product_of(section, width, d_out)
    local spec, index = spec_of(section)
    if not spec.linear or spec.d_in ~= width or spec.d_out ~= (d_out or spec.d_out) then
        wrong(section.number, "%s is no product of %d numbers%s; write layer = linear, d_in = %d%s", spec.file, width,
              d_out and " to " .. d_out or "", width, d_out and ", d_out = " .. d_out or "")
    end
    for _, t in ipairs(spec.call) do
        if t.name ~= "x" and t.name ~= "y" then
            wrong(section.number, "a call of %s brings %s, which products do not need", spec.file, t.name)
        end
    end
    return spec, index
end

-- Numbers of a tensor that is no matrix, in the order of several tensors: KEY, KEY_2 and so on are columns of each.
local function add_pieces(section, t, first, entries)
    local numbers, pieces = 0, {first}
    for piece = 2, PIECES do
        local key = ("%s_%d"):format(t.field, piece)
        if not line_of(section, key) then break end
        pieces[piece] = tensor(section, key, {columns = true})
        pieces[piece].key, pieces[piece].continues = key, true
    end
    for _, entry in ipairs(pieces) do
        if not entry.from or entry.each then
            wrong(line_of(section, entry.key).number,
                  "%s is in several pieces; write columns FROM..TO, numbers of each", t.field)
        end
        entry.first, entry.count = entry.from, entry.to - entry.from
        numbers = numbers + entry.count
        entries[#entries + 1] = entry
    end
    if numbers ~= t.size then
        wrong(line_of(section, t.field).number, "%s has %d numbers, and its pieces %d", t.field, t.size, numbers)
    end
end

-- A factor for each output of a tensor, which stands in the line KEY_by: an entry behind that of the tensor.
local function add_factors(section, t, spec, entries)
    local key = t.field .. "_by"
    local entry = tensor(section, key, {})
    if t.matrix and not spec.out_in or t.axes > 2 then
        wrong(line_of(section, key).number, "factors are of matrices [out][in] and of biases")
    end
    entry.key, entry.continues, entry.count, entry.scales = key, true, t.first, t.size // t.first
    entries[#entries + 1] = entry
end

-- What the rows of a learned tensor are made of, in lines KEY_norm_g and KEY_norm_b, by which they are normed first,
-- and KEY_w, a matrix [out][in] that they are multiplied by, and KEY_b: entries behind that of the tensor. Returns the
-- keys. A spec whose own tensors have such names, as taps and their bias have, has no such lines.
local MAKES = {{"_norm_g", "n"}, {"_norm_b", "+"}, {"_w", "*"}, {"_b", "+"}}
local function add_making(section, spec, t, entries)
    local width = t.size // t.first
    for _, other in ipairs(spec.tensors) do
        for _, of in ipairs(MAKES) do
            if other.field == t.field .. of[1] then return "" end
        end
    end
    for _, of in ipairs(MAKES) do
        local key = t.field .. of[1]
        if line_of(section, key) then
            local entry = tensor(section, key, {})
            entry.key, entry.continues, entry.makes, entry.count = key, true, of[2], width
            if of[2] == "*" then entry.width, entry.count = width, width * width end
            if of[2] == "n" then
                local eps = number_of(section, t.field .. "_norm_eps")
                entry.eps = eps or wrong(line_of(section, key).number, "no %s_norm_eps", t.field)
            end
            entries[#entries + 1] = entry
        end
    end
    return ((" @_norm_g @_norm_b @_norm_eps @_w @_b"):gsub("@", t.field))
end

-- Where columns of a tensor lie, which it has of another one that is wider.
local function place_columns(section, t, spec, entry)
    local width, matrix = entry.to - entry.from, t.matrix and t.axes == 2
    if entry.each then
        if t.first % width ~= 0 or matrix and not spec.out_in then
            wrong(line_of(section, t.field).number, "columns %d..%d of %d are not those of %s, which has %d rows",
                  entry.from, entry.to, entry.each, t.field, t.first)
        end
        local inner = t.size // t.first -- numbers of a column
        entry.outer, entry.first, entry.count = t.first // width, entry.from * inner, width * inner
        return
    end
    local outer = matrix and t.size // width or 1 -- numbers of a column
    if outer * width ~= t.size then
        wrong(line_of(section, t.field).number, "columns %d..%d are not those of %s, which has %d numbers",
              entry.from, entry.to, t.field, t.size)
    elseif matrix and spec.out_in then
        entry.first = entry.from * outer
    else
        entry.first, entry.outer, entry.count = entry.from, outer, width
    end
end

-- The part of a section: its spec, and each tensor's place in the checkpoint. `known`: the section's other keys.
local function add_part(section, known)
    local spec, index = spec_of(section)
    local part = {spec = spec, index = index, at = #parts, section = section, tensors = {}}
    for _, t in ipairs(spec.tensors) do
        known = known .. " " .. t.field
        if t.table then
            wrong(section.number, "tables of expressions, as %s, are not among what NAME.layers says", t.field)
        end
        local layout = t.matrix and (spec.out_in and "out_in" or "in_out") or nil
        local entry = tensor(section, t.field, {zeros = true, columns = t.axes <= 2, plus_one = not t.matrix,
                                                times = true, ones = not t.matrix, tied = spec.linear,
                                                file = spec.linear}, layout)
        entry.count, entry.key = t.size, t.field
        entry.width = t.matrix and t.axes == 2 and (spec.out_in or not entry.from) and t.size // t.first or 0
        if not t.matrix and line_of(section, t.field .. "_2") then
            add_pieces(section, t, entry, part.tensors)
            for piece = 2, PIECES do known = ("%s %s_%d"):format(known, t.field, piece) end
        else
            if entry.from then place_columns(section, t, spec, entry) end
            part.tensors[#part.tensors + 1] = entry
        end
        if line_of(section, t.field .. "_by") then
            add_factors(section, t, spec, part.tensors)
            known = known .. " " .. t.field .. "_by"
        end
        if t.axes > 1 and not t.matrix then known = known .. add_making(section, spec, t, part.tensors) end
    end
    check_keys(section, known)
    parts[#parts + 1] = part
    return part
end

---- names that differ by a layer's number ----

-- Where names of a field in all parts of a spec differ in one number each: what stands before and behind, and the
-- numbers. All alike: the name alone.
local function pattern(of, field)
    local first, alike = of[1].name, true
    for _, entry in ipairs(of) do alike = alike and entry.name == first end
    if alike then return first end
    local from = 1
    while true do
        local a, b = first:find("%d+", from)
        if not a then
            wrong(0, "names of %s differ between layers in more than a number, as '%s' and '%s'", field, first,
                  of[2].name or "zeros")
        end
        local before, behind, numbers = first:sub(1, a - 1), first:sub(b + 1), {}
        for i, entry in ipairs(of) do
            local name = entry.name or ""
            local middle = name:sub(#before + 1, #name - #behind)
            if name:sub(1, #before) ~= before or not middle:find("^%d+$") or name:sub(-#behind - 1) ~= middle:sub(-1) ..
               behind or tostring(math.tointeger(tonumber(middle))) ~= middle then
                break
            end
            numbers[i] = tonumber(middle)
        end
        if #numbers == #of then return before, behind, numbers end
        from = b + 1
    end
end

-- Each spec's tensors as a table of C, and each part's number.
local function name_parts()
    for index, spec in ipairs(specs) do
        local users = {}
        for _, part in ipairs(parts) do
            if part.index == index then users[#users + 1] = part end
        end
        for i, e in ipairs(users[1] and users[1].tensors or {}) do
            local entries = {}
            for k, part in ipairs(users) do entries[k] = part.tensors[i] or {} end
            for k, other in ipairs(entries) do
                if #users[k].tensors ~= #users[1].tensors or (other.name == nil) ~= (e.name == nil) or
                   other.key ~= e.key or other.first ~= e.first or other.count ~= e.count or
                   other.plus_one ~= e.plus_one or other.times ~= e.times or other.file ~= e.file or
                   other.eps ~= e.eps then
                    wrong(line_of(users[k].section, other.key or e.key:gsub("_%d$", "")).number,
                          "%s has other words here than in [%s]; give layers that differ specs of their own", e.key,
                          users[1].section.title)
                end
            end
            local before, behind, numbers = nil, nil, nil
            if e.name then before, behind, numbers = pattern(entries, e.key) end
            for k, part in ipairs(users) do
                local number = numbers and numbers[k]
                if number and part.number and part.number ~= number then
                    wrong(line_of(part.section, e.key).number,
                          "the layer's number is %d in this name and %d in another one; NAME_model.c has one", number,
                          part.number)
                end
                if number and number > 0xffff then
                    wrong(line_of(part.section, e.key).number, "no layer has the number %d", number)
                end
                part.number = number or part.number
            end
            spec.entries[i] = {field = e.key, continues = e.continues or false, before = before, behind = behind,
                               outer = e.outer, first = e.first, count = e.count, exact = e.exact or false,
                               width = e.width or 0, file = e.file or 0,
                               plus_one = e.plus_one or false, times = e.times, scales = e.scales or 0,
                               makes = e.makes or "", eps = e.eps or 0}
        end
    end
end

return {titles = titles, line_of = line_of, value_of = value_of, check_keys = check_keys, size_of = size_of,
        number_of = number_of, choice = choice, tensor = tensor, sinusoids = sinusoids, share = share,
        norm_of = norm_of, spec_of = spec_of, product_of = product_of, add_part = add_part, name_parts = name_parts,
        NORM = NORM, MOST = MOST, d_model = d_model, files = files, common = common, specs = specs, parts = parts}
