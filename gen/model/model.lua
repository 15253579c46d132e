-- SPDX-License-Identifier: MIT
-- What a NAME.layers says of a model, checked against its specs, as the templates of NAME_model.c and NAME_model.h read
-- it. docs/models.md says what the sections hold. Nothing is left out: a section, a key or a word that is not known is
-- an error.
--
--   (sections of layers.lua, specs, parts.lua) -> model
--
-- A model's packed file has numbers that all instruction sets share (`common`) and packed blocks of pairs (`parts`):
-- layers of the encoder, of the decoder, products of the embedding, heads.

local sections, of_layers, read_parts = ...

local said = read_parts(sections, of_layers)
local titles, line_of, value_of, check_keys = said.titles, said.line_of, said.value_of, said.check_keys
local size_of, number_of, choice, tensor = said.size_of, said.number_of, said.choice, said.tensor
local sinusoids, share, norm_of, spec_of = said.sinusoids, said.share, said.norm_of, said.spec_of
local product_of, add_part, NORM, MOST = said.product_of, said.add_part, said.NORM, said.MOST
local d_model, common, specs, parts = said.d_model, said.common, said.specs, said.parts
local wrong = sections.wrong

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
    stack.slotted = stack.cached and not stack.paged or stack.states -- a sequence has a place there
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
    return share(of, stack.limit * width, false, "positions", width)
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
        stack.type = share(tensor(embedding, "type", {}), stack.types * stack.width, true, "types of tokens",
                           stack.width)
    end
    stack.position = line_of(embedding, "position") and read_positions(stack, embedding, input, stack.width)
    stack.norm_in = norm_of(embedding, stack.width, "embedding's norm")
end

-- Sections of kind = probe: [encoder probe], cross-attention of a learned query to a picture's rows; [encoder pooled],
-- the feed-forward of its result
local function read_probe(stack, pooling)
    local query = tensor(titles[stack.name .. " pooling"], "probe", {})
    pooling.probe = share(query, d_model, true, "the query of pooling")
    for _, name in ipairs{"probe", "pooled"} do
        local section = titles[stack.name .. " " .. name]
        local spec = section and spec_of(section)
        if not spec or spec.d_in ~= d_model or spec.d_out ~= d_model or spec.cross ~= (name == "probe") or
           spec.cross and (spec.source_len < stack.seq_len or spec.kept) then
            wrong(section and section.number or titles[stack.name .. " pooling"].number,
                  "kind = probe needs [%s probe], cross-attention to %d rows, and [%s pooled], %d wide", stack.name,
                  stack.seq_len, stack.name, d_model)
        end
        pooling[name == "probe" and "attends" or "feeds"] = {spec = spec, part = add_part(section, "spec").at}
    end
end

local function read_patches(stack, input, embedding)
    local size, patch, channels = size_of(input, "image_size"), size_of(input, "patch_size"), size_of(input, "channels")
    stack.leading = line_of(embedding, "distillation") and 2 or line_of(embedding, "class") and 1 or 0
    stack.registers = line_of(embedding, "registers") and stack.seq_len - (size // patch) * (size // patch) -
                      stack.leading or 0
    stack.leading = stack.leading + stack.registers
    if stack.registers < 0 or size % patch ~= 0 or (size // patch) ^ 2 + stack.leading ~= stack.seq_len then
        wrong(input.number, "seq_len is not that of (image_size / patch_size)^2 patches%s%s", stack.leading > 0 and
              " and a class" or "", stack.leading > 1 and " and a token of distillation" or "")
    end
    stack.patches = read_product(stack, "patches", channels * patch * patch)
    stack.size, stack.patch, stack.channels, stack.side = size, patch, channels, size // patch
    if stack.leading > 0 then
        stack.class = share(tensor(embedding, "class", {}), d_model, true, "the class token")
    end
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
    if stack.pooling then read_probe(stack, stack.pooling) end
    stack.extra = math.max(stack.extra, d_model)
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
        check_keys(pooling, "kind normalize probe")
        stack.pooling = {kind = choice(pooling, "kind", "cls mean max mean_sqrt_len last probe"), width = d_model,
                         normalize = choice(pooling, "normalize", "true false") == "true"}
        if (stack.kind == "patches") ~= (stack.pooling.kind == "probe") or stack.cross then
            wrong(pooling.number, "rows of tokens are pooled, and those of pictures by kind = probe")
        end
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
    local head = {name = name, rows = choice(section, "rows", "all first second mean first_and_mean"),
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
    head.means = head.rows:find("mean$") ~= nil
    local kind = head.stack and not head.stack.cached and head.stack.kind
    if head.means and kind ~= "patches" and (kind ~= "tokens" or head.rows ~= "mean") then
        wrong(section.number, "rows = %s is of an encoder: the mean of tokens, or of patches", head.rows)
    elseif head.parent and (head.means or head.parent.means) and head.rows ~= head.parent.rows then
        wrong(section.number, "rows is not that of [head %s], which it is from", head.parent.name)
    end
    if not head.stack then
        wrong(section.number, "from is one of: encoder, decoder, encoder pooling, head NAME of a head above")
    end
    head.all = head.rows == "all" and (not head.parent or head.parent.all)
    if head.parent and not head.all ~= not head.parent.all then
        wrong(section.number, "rows is not that of [head %s], which it is from", head.parent.name)
    end
    local width = head.parent and head.parent.width or (head.rows == "first_and_mean" and 2 or 1) * d_model
    local spec = product_of(section, width)
    local part = add_part(section, "spec from rows scale " .. NORM)
    head.spec, head.width, head.part = spec, spec.d_out, part.at
    head.scale = number_of(section, "scale")
    head.norm = norm_of(section, spec.d_out, "norm of head " .. name)
    head.at_once = math.min(spec.seq_len, head.parent and head.parent.at_once or MOST)
    -- of a row: what is between
    head.floats = width + (head.parent and head.parent.floats or 0) + (head.means and d_model or 0)
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
    stack.word = share(of, stack.vocab * stack.width, true, "words", stack.width)
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
               specs = specs, parts = parts, common = common, stacks = {}, heads = {}, files = said.files}
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
local known = {[""] = true, weights = true, labels = true, prompts = true, ends = true}
for _, part in ipairs(parts) do known[part.section.title] = true end
for _, stack in ipairs(model.stacks) do
    for i = 1, #stack.layers do known[("%s layer %d"):format(stack.name, i - 1)] = true end
end
for _, stack in ipairs(model.stacks) do
    for what in ("input embedding norm pooling probe pooled projection"):gmatch("%S+") do
        known[stack.name .. " " .. what] = true
    end
    if stack.kind == "tokens" then read_words(stack, model.heads) end
end
for _, section in ipairs(sections) do
    if not known[section.title] then
        wrong(section.number, "[%s] is no section that NAME_model.c knows", section.title)
    end
end
said.name_parts()

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

-- Ids that end a text
model.ends = {}
check_keys(titles.ends or {lines = {}}, "ids")
for id in (titles.ends and value_of(titles.ends, "ids") or ""):gmatch("%S+") do
    local vocab = stacks.decoder and stacks.decoder.vocab or 0
    if not id:find("^%d+$") or #id > 10 or tonumber(id) >= vocab then
        wrong(line_of(titles.ends, "ids").number, "%s is no id of the decoder's vocabulary, which has %d", id, vocab)
    end
    model.ends[#model.ends + 1] = id
end

---- sums for both templates ----

-- Heads are fields of a call beside these, and their widths are macros. Pairs have functions beside those of
-- NAME_model.c.
local FIELDS = " ids types lengths pixels frames past cache page_table pages source source_lengths hidden mean " ..
    "embedding kept kept_of kept_blocks batch n m parallel context states slots slot_count "
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
    local function add(list, of, name)
        if of then list[#list + 1] = name end
    end
    for _, of in ipairs{{stack.goes_on, "past"}, {stack.cached, "cache"}, {stack.states, "states"},
                        {stack.paged, "page_table"}, {stack.cross and not stack.kept, "source"}} do
        add(required, of[1], of[2])
    end
    local all = {table.unpack(required)}
    for _, of in ipairs{{stack.types > 0, "types"}, {stack.lengths, "lengths"}, {stack.slotted, "slots"},
                        {stack.source_lengths, "source_lengths"}, {stack.kept, "source"}, {stack.kept, "kept_of"},
                        {stack.kept, "kept"}, {true, "hidden"}, {stack.mean, "mean"}, {stack.pooling, "embedding"}} do
        add(all, of[1], of[2])
    end
    for _, head in ipairs(stack.heads) do
        add(all, head.all, head.name)
        add(all, head.single, head.single)
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

model.common_floats, model.work, model.longest, model.largest = common.floats, 1, 1, d_model
model.extra = model.extra or 1
model.norms, model.layers = {}, 0
model.any = {cached = false, states = false, goes_on = false, paged = false, cross = false, kept = false,
             source_lengths = false, mean = false, lengths = false, slotted = false, rows = false, row = false,
             times = false, ones = false, second = false, means = false, pieces = false, scales = false, files = false,
             makes = false}
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
        any.rows, any.row = any.rows or head.all, any.row or head.single ~= nil and not head.means
        any.means = any.means or head.means
        any.vocab = stack.goes_on and head.name == "logits" and head.width or any.vocab
    end
    stack.required, stack.pointers = pointers_of(stack)
    stack.embeds = stack.pooling ~= nil and stack.kind == "tokens" and #stack.required == 1 -- ids
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
        any.files, any.makes = any.files or t.file > 0, any.makes or t.makes ~= ""
        numbers = numbers + ((t.scales > 0 or t.makes ~= "") and 2 * t.count or 0)
    end
    for _, part in ipairs(parts) do spec.users = spec.users + (part.spec == spec and 1 or 0) end
    model.work = math.max(model.work, numbers)
end
return model
