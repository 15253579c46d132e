-- SPDX-License-Identifier: MIT
-- What a NAME.layers says of a model, checked against its specs, as the templates of NAME_model.c and NAME_model.h read
-- it. docs/models.md says what the sections hold. Nothing is left out: a section, a key or a word that is not known is
-- an error.
--
--   (sections of layers.lua, specs) -> model
--
-- A model's packed file has numbers that all instruction sets share (`common`) and packed blocks of pairs (`parts`):
-- layers of the encoder, of the decoder, products of the embedding, heads.

local sections, of_layers = ...

local specs = {} -- copies, which get `entries`
for i, spec in ipairs(of_layers) do
    specs[i] = setmetatable({entries = {}}, {__index = spec})
end

local MOST = 0x7fffffff
local PIECES = 9 -- at most, of which one tensor of a pair consists in the checkpoint
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

local common, common_floats = {}, 0

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
local function share(of, count, exact, about)
    of.count, of.exact = count, exact
    of.key = table.concat({of.name or "", of.first, count, of.plus_one and 1 or 0, of.over, of.from}, "\n")
    for _, other in ipairs(common) do
        if other.key == of.key then return other.at end
    end
    of.at, of.about = common_floats, about
    common[#common + 1] = of
    common_floats = common_floats + count
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
                                                times = true, ones = not t.matrix, tied = spec.linear}, layout)
        entry.count, entry.key = t.size, t.field
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
                   other.plus_one ~= e.plus_one or other.times ~= e.times then
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
                               plus_one = e.plus_one or false, times = e.times, scales = e.scales or 0}
        end
    end
end

---- stacks ----

local KINDS = {encoder = "tokens patches frames", decoder = "tokens"}

local function has_call(spec, name)
    for _, t in ipairs(spec.call) do
        if t.name == name then return true end
    end
    return false
end

-- What NAME_model.c can give a layer's call
local GIVEN = " x source lengths past page_table y k_cache v_cache k_pages v_pages k_scale v_scale state conv_state "

local function check_layer(stack, section, spec)
    local place = section.number
    if spec.linear then
        wrong(place, "%s is a product of rows; a layer of a stack is attention or a feed-forward", spec.file)
    elseif spec.d_in ~= d_model or spec.d_out ~= d_model then
        wrong(place, "%s is %d wide and puts out %d; the model is %d wide", spec.file, spec.d_in, spec.d_out, d_model)
    elseif spec.seq_len < stack.seq_len then
        wrong(place, "%s is for %d tokens, [%s input] says %d", spec.file, spec.seq_len, stack.name, stack.seq_len)
    end
    for _, t in ipairs(spec.call) do
        if not GIVEN:find(" " .. t.name .. " ", 1, true) then
            wrong(place, "a call of %s brings %s, which NAME_model.c does not give it", spec.file, t.name)
        end
    end
    local source = value_of(section, "source")
    if spec.cross ~= (source ~= nil) or (source and (source ~= "encoder" or stack.name ~= "decoder")) then
        wrong(place, "%s", spec.cross and "cross-attention needs source = encoder, in the decoder" or
              "source is for cross-attention, and this is none")
    elseif spec.cross and spec.d_source ~= d_model then
        wrong(place, "%s has a source %d wide; the encoder's rows are %d wide", spec.file, spec.d_source, d_model)
    end
    if not spec.cross and has_call(spec, "lengths") then
        if not spec.pad_skipped then
            wrong(place, "%s has padding; write pad_rows = skipped in it, so that rows after a sequence are zeros",
                  spec.file)
        end
        stack.lengths = true
    end
    if not spec.cross and not spec.ffn then -- attention of the stack's own rows: all of it sees the same ones
        if stack.padded ~= nil and stack.padded ~= has_call(spec, "lengths") then
            wrong(place, "%s has padding, or none, unlike the layers before; give all of them mask = padding",
                  spec.file)
        end
        stack.padded = has_call(spec, "lengths")
    end
    if (spec.cached or spec.state_bytes > 0) and stack.name ~= "decoder" then
        wrong(place, "%s has %s; only a decoder's layers have", spec.file, spec.cached and "a cache" or "states")
    end
end

-- Where the parts of a layer's cache lie in bytes, of one sequence or page: scales, keys, values, and the end. Scales
-- come first.
local function place_cache(spec)
    spec.v_scale_at = 4 * spec.scale_floats
    spec.k_at = (spec.shares and 1 or 2) * spec.v_scale_at
    spec.v_at = spec.k_at + spec.cache_size * spec.k_floats
end

-- What a layer's lines say: layers that say the same are one part
local function same_layer(section)
    local all = {}
    for i, line in ipairs(section.lines) do all[i] = line.key .. "\n" .. line.value .. "\n" .. line.words end
    return table.concat(all, "\n")
end

local function read_layers(stack)
    local i, of_part = 0, {}
    while titles[("%s layer %d"):format(stack.name, i)] do
        local section = titles[("%s layer %d"):format(stack.name, i)]
        local spec, index = spec_of(section)
        check_layer(stack, section, spec)
        local part = of_part[same_layer(section)] or add_part(section, "spec source")
        of_part[same_layer(section)] = part
        stack.shared = stack.shared or part.at ~= (stack.first or part.at) + i
        stack.layers[#stack.layers + 1] = {spec = spec, index = index, part = part.at}
        stack.first = stack.first or part.at
        if not stack.users[spec.name] then
            stack.users[spec.name] = true
            stack.specs[#stack.specs + 1] = spec
        end
        stack.cross, stack.cached = stack.cross or spec.cross, stack.cached or spec.cached
        if spec.cross then
            if stack.kept ~= nil and stack.kept ~= spec.kept then
                wrong(section.number, "%s keeps its source, or does not, unlike the layers before; give all of them " ..
                      "source_kept = true", spec.file)
            end
            stack.kept = spec.kept
            stack.source_len = math.min(stack.source_len or MOST, spec.source_len)
            stack.source_lengths = stack.source_lengths or has_call(spec, "lengths")
        elseif spec.cached then
            stack.stored = stack.stored or spec.stored
            place_cache(spec)
            if stack.paged ~= nil and (stack.paged ~= spec.paged or (spec.paged and
               (stack.page_len ~= spec.page_len or stack.cache_len ~= spec.cache_len))) then
                wrong(section.number, "%s has other pages than the layers before; one page table is for all", spec.file)
            end
            stack.paged, stack.page_len = spec.paged, spec.page_len
            stack.cache_len = math.min(stack.cache_len or MOST, spec.ring and MOST or spec.cache_len)
        elseif spec.state_bytes > 0 then
            stack.states = true
            stack.states_bytes = stack.states_bytes + spec.state_bytes
        elseif stack.name == "decoder" then
            stack.plain = true
        end
        i = i + 1
    end
    if i == 0 then
        wrong(titles[stack.name .. " input"].number, "the stack has no [%s layer 0]", stack.name)
    end
    stack.goes_on = stack.cached or stack.states -- a call goes on where an earlier one ended
    if stack.plain and stack.goes_on then
        wrong(titles[stack.name .. " layer 0"].number,
              "some layers have a cache or states and others have neither; give all of them a cache")
    end
    stack.plain = nil
    local begin = specs[1].states_begin
    stack.states_bytes = (begin + stack.states_bytes + begin - 1) // begin * begin
    local last = #stack.layers > 0 and stack.layers[#stack.layers].spec
    stack.rows_computed = stack.lengths and (stack.cross or last.ffn) -- rows behind lengths are no zeros
end

-- The numbers of layers' sections are counted from 0 on, and every section is one that is known.
local function check_titles(stacks)
    for _, section in ipairs(sections) do
        local name, number = section.title:match("^(%l+) layer (%d+)$")
        local of = name and stacks[name]
        if name and (not of or tonumber(number) >= #of.layers or tostring(tonumber(number)) ~= number) then
            wrong(section.number, "[%s] stands alone: [%s layer %d] is missing; number layers from 0 on", section.title,
                  name, of and #of.layers or 0)
        end
    end
end

local function read_product(stack, name, d_in)
    local section = titles[stack.name .. " " .. name]
    if not section then
        wrong(titles[stack.name .. " input"].number, "no section [%s %s]", stack.name, name)
    end
    local spec = product_of(section, d_in, d_model)
    local part = add_part(section, "spec stride")
    return {spec = spec, part = part.at, d_in = d_in, stride = size_of(section, "stride", 1)}
end

-- Positions, which `section` names, rows of `width`
local function read_positions(stack, section, input, width)
    if stack.limit == MOST then
        wrong(input.number, "positions that are learned have an end, unlike %s", stack.cached and
              "a ring; give --cache rows or paged" or "states; leave out position, or give a layer a cache")
    end
    local of = width == d_model and sinusoids(section, stack.limit) or tensor(section, "position", {from = true})
    of.first = (of.row or 0) * width
    return share(of, stack.limit * width, false, "positions")
end

local function read_tokens(stack, input, embedding)
    local projection = titles[stack.name .. " projection"]
    stack.vocab, stack.types, stack.width, stack.extra = size_of(input, "vocab"), 0, d_model, 0
    stack.limit = stack.cached and stack.cache_len or stack.states and MOST or
                  stack.seq_len -- positions that a token can have, and one more
    stack.scale = number_of(embedding, "scale")
    if projection then -- words and what is added to them are narrower than the model
        local spec = spec_of(projection)
        stack.width = spec.d_in
        product_of(projection, spec.d_in, d_model)
        stack.projection = {spec = spec, part = add_part(projection, "spec position").at}
        stack.extra = math.min(spec.seq_len, stack.seq_len) * spec.d_in
        stack.position_behind = line_of(projection, "position") and read_positions(stack, projection, input, d_model)
    end
    if line_of(embedding, "type") then
        stack.types = size_of(input, "types")
        stack.type = share(tensor(embedding, "type", {}), stack.types * stack.width, true, "types of tokens")
    end
    stack.position = line_of(embedding, "position") and read_positions(stack, embedding, input, stack.width)
    stack.norm_in = norm_of(embedding, stack.width, "embedding's norm")
end

local function read_patches(stack, input, embedding)
    local size, patch, channels = size_of(input, "image_size"), size_of(input, "patch_size"), size_of(input, "channels")
    stack.leading = line_of(embedding, "distillation") and 2 or 1
    stack.registers = line_of(embedding, "registers") and stack.seq_len - (size // patch) * (size // patch) -
                      stack.leading or 0
    stack.leading = stack.leading + stack.registers
    if stack.registers < 0 or size % patch ~= 0 or (size // patch) ^ 2 + stack.leading ~= stack.seq_len then
        wrong(input.number, "seq_len is not that of (image_size / patch_size)^2 patches and a class%s",
              stack.leading > 1 and " and a token of distillation" or "")
    end
    stack.patches = read_product(stack, "patches", channels * patch * patch)
    stack.size, stack.patch, stack.channels, stack.side = size, patch, channels, size // patch
    stack.class = share(tensor(embedding, "class", {}), d_model, true, "the class token")
    if line_of(embedding, "distillation") then -- it stands behind the class
        share(tensor(embedding, "distillation", {}), d_model, true, "the token of distillation")
    end
    if stack.registers > 0 then
        share(tensor(embedding, "registers", {}), stack.registers * d_model, true, "registers, which have no positions")
    end
    stack.position = share(tensor(embedding, "position", {}), (stack.seq_len - stack.registers) * d_model, true,
                           "positions")
    stack.norm_in = norm_of(embedding, d_model, "embedding's norm")
    stack.extra = math.min(stack.patches.spec.seq_len, stack.side * stack.side) * stack.patches.d_in
end

local function read_frames(stack, input, embedding)
    stack.mel, stack.frames = size_of(input, "mel"), size_of(input, "frames")
    stack.conv = {read_product(stack, "conv_1", 3 * stack.mel), read_product(stack, "conv_2", 3 * d_model)}
    local rows = stack.frames
    for _, conv in ipairs(stack.conv) do
        conv.rows_in, conv.rows = rows, (rows - 1) // conv.stride + 1
        rows = conv.rows
    end
    if rows ~= stack.seq_len then
        wrong(input.number, "seq_len is not the %d rows that the convolutions make of %d frames", rows, stack.frames)
    end
    stack.position = share(tensor(embedding, "position", {}), stack.seq_len * d_model, true, "positions")
    local most = 0
    for _, conv in ipairs(stack.conv) do
        most = math.max(most, math.min(conv.spec.seq_len, conv.rows) * conv.d_in)
    end
    stack.extra = stack.conv[1].rows * d_model + most
end

local EMBEDDING = {
    tokens = "word scale position type " .. NORM, patches = "class distillation registers position " .. NORM,
    frames = "position"}

local function read_stack(name)
    local input = titles[name .. " input"]
    if not input then return nil end
    check_keys(input, "kind needs vocab types seq_len positions image_size patch_size channels mel frames")
    local stack = {name = name, kind = choice(input, "kind", KINDS[name]), seq_len = size_of(input, "seq_len"),
                   layers = {}, specs = {}, users = {}, heads = {}, lengths = false, cross = false, cached = false,
                   states = false, states_bytes = 0, source_lengths = false, types = 0, vocab = 0}
    local embedding = titles[name .. " embedding"]
    if not embedding then wrong(input.number, "no section [%s embedding]", name) end
    check_keys(embedding, EMBEDDING[stack.kind])
    read_layers(stack)
    stack.paged, stack.kept = stack.paged or false, stack.kept or false
    if titles[name .. " norm"] then check_keys(titles[name .. " norm"], NORM) end
    stack.norm = norm_of(titles[name .. " norm"], d_model, name .. "'s last norm")
    local pooling = titles[name .. " pooling"]
    if pooling then
        check_keys(pooling, "kind normalize")
        if stack.kind ~= "tokens" or stack.cross then
            wrong(pooling.number, "rows of tokens alone are pooled, and no others")
        end
        stack.pooling = {kind = choice(pooling, "kind", "cls mean max mean_sqrt_len last"), width = d_model,
                         normalize = choice(pooling, "normalize", "true false") == "true"}
        if stack.cached and stack.pooling.kind ~= "last" then
            wrong(pooling.number, "a decoder with a cache has the rows of a call alone; write kind = last, or give " ..
                  "--cache none")
        end
    end
    stack.input, stack.embedding = input, embedding
    return stack
end

-- Products stand behind the layers of both stacks.
local function read_embedding(stack)
    local read = {tokens = read_tokens, patches = read_patches, frames = read_frames}
    read[stack.kind](stack, stack.input, stack.embedding)
end

---- heads ----

local function read_head(section, heads, stacks)
    local name = section.title:match("^head ([%a_][%w_]*)$")
    if not name then
        wrong(section.number, "a head's name is letters, digits and _; write for example [head logits]")
    end
    local from = value_of(section, "from") or ""
    local head = {name = name, rows = choice(section, "rows", "all first second"),
                  parent = heads[from:match("^head (.*)$")]}
    local pooled = from:match("^(%l+) pooling$")
    head.pooled = pooled ~= nil or head.parent ~= nil and head.parent.pooled
    head.stack = head.parent and head.parent.stack or stacks[pooled or from]
    if head.pooled and not (head.stack and head.stack.pooling and head.rows == "first") then
        wrong(section.number, "rows that are pooled are of a [STACK pooling], and rows = first")
    end
    head.second = head.rows == "second"
    if head.second and (not head.stack or head.parent or head.stack.kind ~= "patches") then
        wrong(section.number, "rows = second is of an encoder of images, whose second row is a token of distillation")
    end
    if not head.stack then
        wrong(section.number, "from is one of: encoder, decoder, encoder pooling, head NAME of a head above")
    end
    head.all = head.rows == "all" and (not head.parent or head.parent.all)
    if head.parent and not head.all ~= not head.parent.all then
        wrong(section.number, "rows is not that of [head %s], which it is from", head.parent.name)
    end
    local width = head.parent and head.parent.width or d_model
    local spec = product_of(section, width)
    local part = add_part(section, "spec from rows scale " .. NORM)
    head.spec, head.width, head.part = spec, spec.d_out, part.at
    head.scale = number_of(section, "scale")
    head.norm = norm_of(section, spec.d_out, "norm of head " .. name)
    head.at_once = math.min(spec.seq_len, head.parent and head.parent.at_once or MOST)
    head.floats = width + (head.parent and head.parent.floats or 0) -- of a row, between
    head.tied = part.tensors[1].tied
    head.word = part.tensors[1].name
    return head
end

-- The word table is looked up in the matrix of logits where it is that one.
local function read_words(stack, heads)
    local of = tensor(stack.embedding, "word", {})
    for _, head in ipairs(heads) do
        if head.word == of.name and head.tied and head.spec.out_in and head.width == stack.vocab and
           head.spec.d_in == stack.width then
            stack.word_of = head
            return
        end
    end
    stack.word = share(of, stack.vocab * stack.width, true, "words")
end

---- the model ----

check_keys(sections[1], "format name family d_model")
if titles["encoder pooling"] and titles["decoder pooling"] then
    wrong(titles["decoder pooling"].number, "one stack's rows are pooled")
end
local stacks = {encoder = read_stack("encoder"), decoder = read_stack("decoder")}
if not stacks.encoder and not stacks.decoder then
    wrong(0, "has neither [encoder input] nor [decoder input]; attngen import writes them")
end
check_titles(stacks)
if stacks.decoder and stacks.decoder.cross ~= (stacks.encoder ~= nil) then
    wrong(0, "has an encoder that no layer of the decoder reads, or a decoder that reads none")
end
local model = {name = sections.name, family = sections.family, d_model = d_model,
               specs = specs, parts = parts, common = common, stacks = {}, heads = {}, files = files}
for _, name in ipairs{"encoder", "decoder"} do
    if stacks[name] then
        model.stacks[#model.stacks + 1] = stacks[name]
        read_embedding(stacks[name])
    end
end
for _, section in ipairs(sections) do
    if section.title:find("^head ") then
        local head = read_head(section, model.heads, stacks)
        if not head.all and head.stack.name == "decoder" and not head.pooled then
            wrong(section.number, "rows = first is for encoders; a decoder gives all rows, or the last one")
        end
        model.heads[#model.heads + 1], model.heads[head.name] = head, head
        if head.pooled then -- of rows that are pooled: they become `embedding`
            local pooling = head.stack.pooling
            pooling.head, pooling.width = head, head.width
            model.extra = math.max(model.extra or 1, head.floats)
        else
            table.insert(head.stack.heads, head)
        end
    end
end
local known = {[""] = true, weights = true, labels = true, prompts = true}
for _, part in ipairs(parts) do known[part.section.title] = true end
for _, stack in ipairs(model.stacks) do
    for i = 1, #stack.layers do known[("%s layer %d"):format(stack.name, i - 1)] = true end
end
for _, stack in ipairs(model.stacks) do
    for what in ("input embedding norm pooling projection"):gmatch("%S+") do known[stack.name .. " " .. what] = true end
    if stack.kind == "tokens" then read_words(stack, model.heads) end
end
for _, section in ipairs(sections) do
    if not known[section.title] then
        wrong(section.number, "[%s] is no section that NAME_model.c knows", section.title)
    end
end
name_parts()

-- Texts of a header's comments, numbered from 0 on
local function read_texts(title, most)
    local texts = {}
    for i, line in ipairs((titles[title] or {lines = {}}).lines) do
        if line.key ~= tostring(i - 1) or not line.quoted or line.words ~= "" or line.value:find("%*/") or
           line.value:find("/%*") or #line.value > most then
            wrong(line.number, "[%s] has a line for each, from 0 on: NUMBER = \"TEXT\", of at most %d characters",
                  title, most)
        end
        texts[i] = line.value
    end
    return texts
end
model.labels, model.prompts = read_texts("labels", 80), read_texts("prompts", 500)

---- sums for both templates ----

-- Heads are fields of a call beside these, and their widths are macros. Pairs have functions beside those of
-- NAME_model.c.
local FIELDS = " ids types lengths pixels frames past cache page_table pages source source_lengths hidden mean " ..
    "embedding kept kept_of kept_blocks batch n m parallel context states "
local FUNCTIONS = " all head pack encoder_embed decoder_embed encoder_norm decoder_norm "

local function check_names()
    local capitals, fields = {}, {}
    for _, head in ipairs(model.heads) do
        local place, last = titles["head " .. head.name].number, "last_" .. head.name
        local other = FIELDS:find(" " .. head.name .. " ", 1, true) and "a call" or fields[head.name] or fields[last] or
                      capitals[head.name:upper()]
        if other then
            wrong(place, "%s has a field or a macro of the name '%s'; give the head another one", other, head.name)
        end
        capitals[head.name:upper()], fields[head.name] = "[head " .. head.name .. "]", "[head " .. head.name .. "]"
        if head.stack.name == "decoder" then fields[last] = "[head " .. head.name .. "]" end
    end
    for _, spec in ipairs(specs) do
        if FUNCTIONS:find(" " .. spec.name .. " ", 1, true) then
            wrong(0, "%s is called '%s', as functions of NAME_model.c begin; write another name in it", spec.file,
                  spec.name)
        end
    end
end
check_names()

-- Pointers of a stack's call: those that must be there, and all.
local function pointers_of(stack)
    local required = {"ids"}
    if stack.kind ~= "tokens" then required = {stack.kind == "patches" and "pixels" or "frames"} end
    local function need(of, ...)
        for _, name in ipairs(of and {...} or {}) do required[#required + 1] = name end
    end
    need(stack.goes_on, "past")
    need(stack.cached, "cache")
    need(stack.states, "states")
    need(stack.paged, "page_table")
    need(stack.cross and not stack.kept, "source")
    local all = {table.unpack(required)}
    local function add(of, name)
        if of then all[#all + 1] = name end
    end
    add(stack.types > 0, "types")
    add(stack.lengths, "lengths")
    add(stack.source_lengths, "source_lengths")
    add(stack.kept, "source")
    add(stack.kept, "kept_of")
    add(stack.kept, "kept")
    add(true, "hidden")
    add(stack.mean, "mean")
    add(stack.pooling, "embedding")
    for _, head in ipairs(stack.heads) do
        add(head.all, head.name)
        add(head.single, head.single)
    end
    return required, all
end

-- Of a stack with a cache or states: what else a call brings, with its bytes
local function sizes_of(stack)
    local word, row = "%s * sizeof(int32_t)", "%s * %d * sizeof(float)"
    local bytes = {ids = word:format("tokens"), types = word:format("tokens"),
                   page_table = word:format("args->batch * " .. stack.pages),
                   source = row:format("args->batch * args->m", d_model), hidden = row:format("tokens", d_model),
                   embedding = stack.pooling and row:format("args->batch", stack.pooling.width),
                   kept = "args->kept_blocks * " .. model.name:upper() .. "_MODEL_KEPT_BYTES(1)"}
    for _, head in ipairs(stack.heads) do
        if head.all then bytes[head.name] = row:format("tokens", head.width) end
        if head.single then bytes[head.single] = row:format("args->batch", head.width) end
    end
    local sizes = {}
    for _, name in ipairs(stack.pointers) do
        if name ~= "cache" and name ~= "states" then
            sizes[#sizes + 1] = {name = name, bytes = bytes[name] or word:format("args->batch")}
        end
    end
    return sizes
end

model.common_floats, model.work, model.longest, model.largest = common_floats, 1, 1, d_model
model.extra = model.extra or 1
model.norms, model.layers = {}, 0
model.any = {cached = false, states = false, goes_on = false, paged = false, cross = false, kept = false,
             source_lengths = false, mean = false, lengths = false, rows = false, row = false, times = false,
             ones = false, second = false, pieces = false, scales = false}
local any = model.any
local function note(norm)
    if norm then model.norms[norm.kind] = true end
end
for _, stack in ipairs(model.stacks) do
    note(stack.norm)
    note(stack.norm_in)
    model.pooling = model.pooling or stack.pooling
    stack.mean = stack.kind == "tokens" and stack.name == "encoder"
    stack.pages = stack.paged and (stack.cache_len + stack.page_len - 1) // stack.page_len or 0
    for what in pairs(any) do any[what] = any[what] or stack[what] or false end
    model.longest, model.extra = math.max(model.longest, stack.seq_len), math.max(model.extra, stack.extra)
    model.layers = model.layers + #stack.layers
    for _, head in ipairs(stack.heads) do
        -- The field for one row of each sequence: a decoder's last one, or the first
        head.single = stack.name == "decoder" and "last_" .. head.name or not head.all and head.name or nil
        note(head.norm)
        model.extra = math.max(model.extra, head.at_once * head.floats)
        model.largest = math.max(model.largest, head.width)
        any.second = any.second or head.second
        any.rows, any.row = any.rows or head.all, any.row or head.single ~= nil
        any.vocab = stack.goes_on and head.name == "logits" and head.width or any.vocab
    end
    stack.required, stack.pointers = pointers_of(stack)
    stack.sizes = stack.goes_on and sizes_of(stack)
end
for _, of in ipairs(common) do any.ones = any.ones or not of.name and of.plus_one end
for _, spec in ipairs(specs) do
    local numbers = 0
    spec.users = 0
    for _, t in ipairs(spec.tensors) do numbers = numbers + t.size end
    for _, t in ipairs(spec.entries) do
        any.times, any.ones = any.times or t.times ~= 1, any.ones or not t.before and t.plus_one
        any.pieces, any.scales = any.pieces or t.continues, any.scales or t.scales > 0
        numbers = numbers + (t.scales > 0 and t.count or 0)
    end
    for _, part in ipairs(parts) do spec.users = spec.users + (part.spec == spec and 1 or 0) end
    model.work = math.max(model.work, numbers)
end
return model
