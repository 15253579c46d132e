-- SPDX-License-Identifier: MIT
-- A model while a family describes it: its specs, sections, tensors and notes, and what families share of layers.
--
--   (host, options, words, new_keys, Lines, idle) -> Model

local host, options, words, new_keys, Lines, idle = ...
local show_value, shape_text = words.show_value, words.shape_text
-- Rows that a head takes at a time, so that the arena holds few of them: panels are at their speed from some dozens on.
local HEAD_ROWS, HEAD_SEQUENCES = 128, 16
local CACHE_DEFAULT = 4096 -- tokens of a cache, of a model with more positions, where --cache-len does not say

-- An activation by the names of transformers, and in a gated feed-forward.
local activations = {
    relu = "relu", gelu = "gelu", gelu_python = "gelu", gelu_new = "gelu_tanh", gelu_fast = "gelu_tanh",
    gelu_pytorch_tanh = "gelu_tanh", gelu_python_tanh = "gelu_tanh", gelu_accurate = "gelu_tanh", silu = "silu",
    swish = "silu", quick_gelu = "quick_gelu", relu2 = "relu2", sigmoid = "sigmoid", tanh = "tanh",
}
local gates = {relu = "reglu", gelu = "geglu", gelu_tanh = "geglu_tanh", quick_gelu = "quick_geglu", silu = "swiglu",
    sigmoid = "glu"}
local gated, plain = {}, {}
for name, activation in pairs(activations) do
    gated[name] = gates[activation]
end
for activation, gate in pairs(gates) do
    plain[gate] = activation
end

local ELEMENTS = {F32 = true, F16 = true, BF16 = true}

local Model = {}
Model.__index = Model

Model.activations, Model.gated, Model.plain, Model.null = activations, gated, plain, host.null
Model.zeros, Model.ones = {}, {}
Model.HEAD_SEQUENCES, Model.CACHE_DEFAULT = HEAD_SEQUENCES, CACHE_DEFAULT

function Model:wrong(where, text, ...)
    local problems = where == "weights" and self.weight_problems or self.problems
    text = text:format(...)
    if not problems[text] then -- two specs may read one key
        problems[#problems + 1] = {where, text}
        problems[text] = true
    end
end

-- From now on keys are those of the object `key`, but for those of a model's class. Whether logits are tied is said
-- outside, if it is said there.
function Model:within(key)
    self.top = self.config
    self.config = self.config:inner(key) or new_keys(self, {}, key .. ".")
    local tied = self.top:get("tie_word_embeddings")
    if tied ~= nil then self.config.object.tie_word_embeddings = tied end
    self.config:ignore(idle)
end

-- What another family's file returns.
function Model:base(file)
    return host.run("model/families/" .. file .. ".lua")
end

-- Which products have biases, as decoder.lua calls them, where two keys say it, or one: `plain` feed-forwards have none
function Model.flagged_biases(c, plain)
    return (c:flag("attention_bias", false) and "qkvo" or "") .. (not plain and c:flag("mlp_bias", false) and "1" or "")
end

-- A stack of tokens, as decoder.lua says. more: in place of what `kind` says, for families that have most from there.
function Model:decoder(kind, more)
    for key, value in pairs(more or {}) do
        kind[key] = value
    end
    kind.keys = kind.keys or {}
    host.run("model/decoder.lua")(self, kind)
end

-- The recurrent layers of a family, as recurrent.lua says.
function Model:recurrent(how)
    return host.run("model/recurrent.lua")(self, how)
end

-- How many tokens a call brings and a cache holds, for `positions` of the model; `last`: there are no more, as they are
-- learned. cache: of a stack that decodes.
function Model:lengths(positions, last, cache)
    local seq, all = options.seq_len, options.cache_len
    if not cache then
        for _, key in ipairs{"cache", "cache_len", "cache_type"} do
            if options[key] and options[key] ~= "none" then
                self:wrong("", "--%s is for models that decode; %s models have nothing to keep", key:gsub("_", "-"),
                           self.family)
            end
        end
    end
    cache = cache and (options.cache or "rows") or "none"
    if cache == "none" then
        if all and options.cache == "none" then
            self:wrong("", "--cache-len is for a cache; with --cache none there is none")
        end
        if options.cache_type and options.cache == "none" then
            self:wrong("", "--cache-type is for a cache; with --cache none there is none")
        end
        local texts = not seq and self.kind ~= "vit" and self:json_of("sentence_bert_config.json")
        local most = type(texts) == "table" and math.type(texts.max_seq_length) == "integer" and texts.max_seq_length
        if most and most >= 1 and most < positions then -- sentence-transformers cuts texts there
            seq, self.seq_of = most, "max_seq_length of sentence_bert_config.json"
        end
        seq, all = seq or positions, nil
    else
        self.bounded = not all and positions > CACHE_DEFAULT and positions or nil
        all = all or math.min(positions, math.max(CACHE_DEFAULT, seq or 1))
        seq = seq or math.min(512, all)
    end
    if last and math.max(seq, all or 0) > positions then
        self:wrong("", "--%s %d is more than the %d positions that the model has learned",
                   all and all > positions and "cache-len" or "seq-len", math.max(seq, all or 0), positions)
    end
    if all and seq > all then
        self:wrong("", "--seq-len %d is more than the %d tokens of the cache; give a --cache-len of as many", seq, all)
    end
    self.seq_len, self.longest, self.kept = seq, all or seq, all ~= nil
    return seq, all, cache
end

-- A spec, to be filled with add(): NAME_kind.layer.
function Model:spec(kind, about)
    local spec = setmetatable({name = self.name .. "_" .. kind, about = about, first = nil}, Lines)
    spec:add("name", spec.name):add("weight_type", options.weight_type, "--weight-type")
    spec:add("precision", options.precision, "--precision"):add("exact", options.exact, "--exact")
    self.specs[#self.specs + 1] = spec
    return spec
end

function Model:section(title)
    local section = setmetatable({title = title, model = self}, Lines)
    self.sections[#self.sections + 1] = section
    return section
end

-- What a user should know of a model that is imported
function Model:note(text, ...)
    text = text:format(...)
    if not self.notes[text] then self.notes[#self.notes + 1], self.notes[text] = text, true end
end

function Model:has(name)
    return self.tensors[name] ~= nil
end

-- The first of the prefixes behind which the tensor `anchor` is.
function Model:prefix(prefixes, anchor)
    for _, prefix in ipairs(prefixes) do
        if self:has(prefix .. anchor) then return prefix end
    end
    self:wrong("weights", "no tensor \"%s%s\"; is this a model of the family %s?", prefixes[1], anchor, self.family)
    self.lost = true -- all others would be missing as well
    return prefixes[1]
end

-- Tensors by a pattern that hold nothing that is learned, or nothing that is computed here.
function Model:buffers(...)
    for _, pattern in ipairs{...} do
        self.idle_tensors[#self.idle_tensors + 1] = "^" .. pattern .. "$"
    end
end

-- Notes that a tensor is read; its shape must be this one.
function Model:take(name, shape)
    local tensor = self.tensors[name]
    self.used[name] = true
    if tensor == nil then
        if not self.lost then
            self:wrong("weights", "no tensor \"%s\"; %s of %s is needed", name, shape_text(shape), self.family)
        end
        return
    end
    local same = #tensor == #shape
    for i = 1, #shape do
        same = same and tensor[i] == shape[i]
    end
    if not same then
        self:wrong("weights", "tensor \"%s\" is %s; %s is needed", name, shape_text(tensor), shape_text(shape))
    elseif not ELEMENTS[tensor.name] then
        self:wrong("weights", "tensor \"%s\" is of %s; F32, F16 or BF16 is needed", name, tensor.name)
    end
end

-- Gain and shift of a norm, which old checkpoints call as TensorFlow does.
function Model:norm_names(module)
    local old = self:has(module .. ".gamma")
    return module .. (old and ".gamma" or ".weight"), module .. (old and ".beta" or ".bias")
end

-- Tensors of a layer by the names of its modules behind `at`: w_q and b_q of a product q (k, v, o, 1, 2, g), n1_g and
-- n1_b of a norm n1 (to n4). `unbiased`: without any bias. `w`: where they are added.
function Model:modules(at, names, unbiased, w)
    w = w or {}
    for key, name in pairs(names) do
        local weight, bias = self:norm_names(at .. name)
        local norm = key:find("^n%d$")
        w[norm and key .. "_g" or "w_" .. key] = weight
        w[norm and key .. "_b" or "b_" .. key] = not unbiased and bias or nil
    end
    return w
end

-- Columns from `from` to `to` - 1 of the `of` columns of a fused matrix or bias; `groups`: number of such groups, one
-- after the other.
function Model:columns(name, from, to, of, groups)
    return {name = name, from = from, to = to, of = of, groups = groups}
end

-- A fused product's columns as w_q, b_q and so on: `parts` are {{"q", columns}…}, of each of `groups`.
function Model:split(w, module, parts, unbiased, groups)
    local all, from = 0, 0
    for _, part in ipairs(parts) do all = all + part[2] end
    for _, part in ipairs(parts) do
        w["w_" .. part[1]] = self:columns(module .. ".weight", from, from + part[2], all, groups)
        w["b_" .. part[1]] = not unbiased and self:columns(module .. ".bias", from, from + part[2], all, groups) or nil
        from = from + part[2]
    end
    return w
end

-- Numbers of `count` tensors [size], one after the other; `pattern`: their names, by numbers from 0 on.
function Model:pieces(pattern, count, size)
    local entry = self:columns(pattern:format(0), 0, size, size)
    entry.shape, entry.pieces = {size}, {}
    for i = 1, count - 1 do
        entry.pieces[i] = {name = pattern:format(i), shape = {size}, from = 0, to = size}
    end
    return entry
end

-- A tensor's numbers times a factor.
function Model:times(entry, factor)
    entry = type(entry) == "string" and {name = entry} or entry
    entry.times = entry ~= Model.zeros and factor ~= 1 and factor or nil
    return entry
end

-- A tensor's numbers times a factor for each output, which the tensor `by` holds.
function Model:scaled(entry, by)
    entry = type(entry) == "string" and {name = entry} or entry
    entry.by = by
    return entry
end

-- A norm's weights that are stored less 1.
function Model:plus_one(name)
    return {name = name, plus_one = true}
end

-- What a stack is given, and what for; the model's rows are `width` wide.
function Model:input(stack, kind, needs, width)
    self.width = width
    return self:section(stack .. " input"):add("kind", kind):add("needs", needs)
end

-- Layers of a stack: layer(at, i) gives what Model:layer() takes, for layer i, whose names begin with `at`.
function Model:layers(stack, count, pattern, layer)
    for i = 0, count - 1 do
        self:layer(stack, layer(pattern:format(i), i))
    end
end

-- The next layer of a stack: a spec, and for each of its tensors a name, zeros, columns() or plus_one(). `more`: lines
-- in front, {key, value}.
function Model:layer(stack, spec, weights, more)
    local index = self.counts[stack] or 0
    self.counts[stack] = index + 1
    local section = self:section(("%s layer %d"):format(stack, index))
    section:add("spec", spec.name .. ".layer")
    for _, line in ipairs(more or {}) do
        section:add(line[1], line[2])
    end
    section.spec, section.weights = spec, weights
    spec.users = spec.users or {}
    table.insert(spec.users, {stack, index})
end

-- A product of rows as a layer of its own, NAME_kind.layer, and its section. `of`: d_in, d_out, rows of a call,
-- activation, softcap; `module`, or the names `w` and `b` of its tensors (b nil: none), with `shape` where w's is not
-- [out][in], and `tied` where it is the word embedding too. `behind`: a function that adds lines after the tensors'.
function Model:product(title, kind, about, of, behind)
    local spec = self:spec(kind, about)
    if of.module then of.w, of.b = of.module .. ".weight", of.module .. ".bias" end
    spec:add("layer", "linear"):add("d_in", of.d_in):add("d_out", of.d_out)
    spec:add("seq_len", of.rows, "most rows of a call"):add("bias", of.b and "true" or nil)
    spec:add("activation", of.activation):add("softcap", of.softcap):weights_lie("out_in")
    local section = self:section(title):add("spec", spec.name .. ".layer")
    section.spec, section.behind = spec, behind
    section.weights = {w = {name = of.w, shape = of.shape, tied = of.tied, file = of.file},
                       b = of.b and of.file and {name = of.b, file = of.file} or of.b}
    return section
end

-- What words of another width are multiplied by: a section behind a stack's embedding. `of` as of product().
function Model:projection(stack, of)
    of.rows = math.min(self.seq_len, HEAD_ROWS)
    return self:product(stack .. " projection", stack == "encoder" and "projection" or stack .. "_projection",
                        "Words of another width than the model's", of)
end

-- A head of this name: of rows `rows` of `from`: "all", the "first" or "second" of a sequence, the "mean" of a
-- picture's patches, or "first_and_mean", side by side. `of` as above, with scale of these rows.
function Model:head(name, from, rows, of, behind)
    of.rows = rows == "all" and math.min(self.seq_len, HEAD_ROWS) or HEAD_SEQUENCES
    local section = self:product("head " .. name, name, "Head " .. name, of, behind)
    return section:add("from", from):add("rows", rows):add("scale", of.scale)
end

function Model:is_idle(name)
    for _, pattern in ipairs(self.idle_tensors) do
        if name:find(pattern) then return true end
    end
    return false
end

-- A section of texts, numbered from 0 on
function Model:add_texts(title, texts)
    local lines = #texts > 0 and self:section(title)
    for i, text in ipairs(texts) do
        lines:add(tostring(i - 1), '"' .. text .. '"')
    end
end

-- What a file of the folder holds; nil where there is none.
function Model:json_of(name)
    local _, there = host.path(name)
    if there and next(self.config.object) then -- not for a family that only says what it reads
        return (host.json(name))
    end
end

-- The list layer_types, nil where it is missing: of `count` layers, each one of `words`
function Model:layer_types(count, words)
    local kinds = self.config:get("layer_types")
    if kinds ~= nil and (type(kinds) ~= "table" or #kinds ~= count) then
        self.config:wrong("layer_types", "is %s; a list of %d kinds is needed, one for each layer", show_value(kinds),
                          count)
        return nil
    end
    for _, kind in ipairs(kinds or {}) do
        if type(kind) ~= "string" or not (" " .. words .. " "):find(" " .. kind .. " ", 1, true) then
            self.config:wrong("layer_types", "has %s; %s are known", show_value(kind), (words:gsub(" ", " and ")))
            return nil
        end
    end
    return kinds
end

-- How far back a window reaches besides the query's own position, nil for no window, and which layers have one: a list
-- of booleans, as layer_types says or, without it, `by_default(i)` of layers from 0 on. `fixed`: transformers does not
-- ask layer_types, which may say nothing else.
function Model:windows(count, size, by_default, fixed)
    local kinds, windows = self:layer_types(count, "full_attention sliding_attention"), {}
    for i = 1, count do
        local kind, default = kinds and kinds[i], size ~= nil and by_default(i - 1)
        windows[i] = default
        if kind == "full_attention" or kind == "sliding_attention" then
            windows[i] = kind == "sliding_attention"
            if windows[i] ~= default and (fixed or not size) then
                self.config:wrong("layer_types", "has %s in layer %d, and the keys of windows say otherwise", kind,
                                  i - 1)
                break
            end
        end
    end
    return size and size - 1, windows
end

-- sliding_window; nil where it is null.
function Model:window_size(default)
    if self.config:get("sliding_window") ~= nil or self.config.object.sliding_window == nil then
        return self.config:size("sliding_window", default) or nil
    end
end

-- The same of a family whose layers all have the window sliding_window, or none.
function Model:every_window(count, default)
    return self:windows(count, self:window_size(default), function() return true end, true)
end

-- The cache of a decoder's spec; `left`: how far back its window reaches.
function Model:cache(spec, seq, all, cache, left)
    spec:add("seq_len", seq, "maximum of tokens in a call")
    if cache == "none" then return end
    if cache == "ring" and left then
        self.ring = true
        spec:add("cache", "ring"):add("cache_len", seq + left, "seq_len and the window")
    else
        spec:add("cache", cache == "ring" and "rows" or cache):add("cache_len", all, "maximum of tokens of a sequence")
        if cache == "paged" then spec:add("page_len", 16, "attngen's choice") end
    end
    spec:add("cache_type", options.cache_type, "--cache-type")
end

-- The mask of a decoder's self-attention: causal, what `more` adds to it, and padding, so that new tokens of sequences
-- may be of different number.
function Model:causal(spec, more)
    return spec:padding("causal+", more)
end

-- What a call of such a decoder brings; `source`: the encoder's rows too.
function Model:needs(cache, source)
    return "ids lengths" .. (cache == "none" and "" or " past") .. (source and " source" or "")
end

return Model
