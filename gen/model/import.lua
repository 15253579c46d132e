-- SPDX-License-Identifier: MIT
-- attngen import: what all families of models share. A family (families/NAME.lua) says which config keys are which keys
-- of a spec and what its tensors are called; this file reads keys, writes specs and NAME.layers, and sees to it that
-- every key and every tensor is accounted for. docs/models.md says what NAME.layers holds.
--
-- Left out on purpose: the folder (checkpoint.lua), and rules of specs: each spec is read by the rules of spec_rules.c
-- before anything is written. Texts are made of names that stand in these files, of numbers and of words; of a model's
-- text the names of classes alone get into them, in harmless characters (add_labels). What is wrong with a model is
-- noted and told together, never a Lua error.

local host, options = ... -- import.c; null: what JSON's null is

local LAYERS_LIMIT = 1000 -- of a stack; a config that says more is no model's
local LABELS_LIMIT = 2000 -- names of classes that a header lists; it has their number in any case
-- Rows that a head takes at a time, so that the arena holds few of them: panels are at their speed from some dozens on.
local HEAD_ROWS, HEAD_SEQUENCES = 128, 16
local CACHE_DEFAULT = 4096 -- tokens of a cache, of a model with more positions, where --cache-len does not say

-- model_type, which names files unless --name says another → the family's file, what names of its classes begin with
local families = {
    bert = {"bert", "Bert"}, roberta = {"roberta", "Roberta"}, ["xlm-roberta"] = {"roberta", "XLMRoberta"},
    camembert = {"roberta", "Camembert"}, distilbert = {"distilbert", "DistilBert"}, vit = {"vit", "ViT"},
    gpt2 = {"gpt2", "GPT2"}, llama = {"llama", "Llama"}, mistral = {"mistral", "Mistral"}, qwen2 = {"qwen2", "Qwen2"},
    qwen3 = {"qwen3", "Qwen3"}, gemma2 = {"gemma2", "Gemma2"}, t5 = {"t5", "T5"}, whisper = {"whisper", "Whisper"},
    gemma = {"gemma", "Gemma"}, gemma3 = {"gemma3", "Gemma3"}, gemma3_text = {"gemma3", "Gemma3"},
    phi = {"phi", "Phi"}, phi3 = {"phi3", "Phi3"}, starcoder2 = {"starcoder2", "Starcoder2"},
    ministral = {"ministral", "Ministral"}, smollm3 = {"smollm3", "SmolLM3"}, stablelm = {"stablelm", "StableLm"},
    cohere = {"cohere", "Cohere"}, cohere2 = {"cohere2", "Cohere2"}, granite = {"granite", "Granite"},
    gptj = {"gptj", "GPTJ"}, gpt_neo = {"gpt_neo", "GPTNeo"}, gpt_neox = {"gpt_neox", "GPTNeoX"},
    bloom = {"bloom", "Bloom"}, falcon = {"falcon", "Falcon"}, opt = {"opt", "OPT"},
    bart = {"bart", "Bart"}, mbart = {"mbart", "MBart"}, marian = {"marian", "Marian"}, mt5 = {"t5", "MT5"},
    m2m_100 = {"m2m_100", "M2M100"}, pegasus = {"pegasus", "Pegasus"},
    mpnet = {"mpnet", "MPNet"}, ["xlm-roberta-xl"] = {"xlm_roberta_xl", "XLMRobertaXL"},
    electra = {"electra", "Electra"}, albert = {"albert", "Albert"}, nomic_bert = {"nomic_bert", "NomicBert"},
    deit = {"vit", "DeiT"}, olmo = {"olmo", "Olmo"}, olmo2 = {"olmo2", "Olmo2"}, olmo3 = {"olmo2", "Olmo3"},
    nemotron = {"nemotron", "Nemotron"}, modernbert = {"modernbert", "ModernBert"},
    eurobert = {"eurobert", "EuroBert"}, qwen2_vl = {"qwen_vl", "Qwen2VL"}, qwen2_vl_text = {"qwen_vl", "Qwen2VL"},
    qwen2_5_vl = {"qwen_vl", "Qwen2_5_VL"}, qwen2_5_vl_text = {"qwen_vl", "Qwen2_5_VL"},
    qwen3_vl = {"qwen_vl", "Qwen3VL"}, qwen3_vl_text = {"qwen_vl", "Qwen3VL"},
    dinov2 = {"dinov2", "Dinov2"}, dinov2_with_registers = {"dinov2", "Dinov2WithRegisters"},
    siglip = {"clip", "Siglip"}, siglip_text_model = {"clip", "Siglip"},
    clip = {"clip", "CLIP"}, clip_text_model = {"clip", "CLIP"}, clip_vision_model = {"clip", "CLIP"},
    qwen3_next = {"qwen3_5", "Qwen3Next"}, qwen3_5 = {"qwen3_5", "Qwen3_5"},
    minicpm3 = {"minicpm3", "MiniCPM3"}, deepseek_v2 = {"minicpm3", "DeepseekV2"},
    deepseek_v3 = {"minicpm3", "DeepseekV3"},
    qwen3_5_text = {"qwen3_5", "Qwen3_5"}, olmo_hybrid = {"olmo_hybrid", "OlmoHybrid"},
}

local idle = host.run("model/idle.lua") -- keys of every config.json that do not change what the layers compute

-- Keys of every config.json that would change what is computed, and the one value that does not.
local settled = {
    {"is_decoder", false, "the model is read as it stands alone"},
    {"is_encoder_decoder", false, "the family has one stack"}, {"tie_encoder_decoder", false, "stacks share no layers"},
    {"original_max_position_embeddings", nil, "it belongs into rope_parameters"},
    {"per_layer_config", nil, "layers of other shapes than the rest are not read"},
    {"rope_interleaved", false, "the family rotates halves of a head"},
    {"add_cross_attention", false, "there is no other model whose tokens it would read"},
    {"cross_attention_hidden_size", nil, "there is no other model whose tokens it would read"},
    {"attention_bias", false, "the family has no such biases"}, {"mlp_bias", false, "the family has no such biases"},
    {"use_sliding_window", false, "the family has no windows of this kind"},
    {"use_mrope", false, "positions of images and of time are not known"},
    {"use_bidirectional_attention", false, "queries see earlier keys alone"},
}

-- Objects that are not read at all, and what would be right.
local refused = {
    quantization_config = "quantised weights are not read; save the model as F32, F16 or BF16 (from_pretrained() " ..
        "with dequantize=True where the method knows it, then save_pretrained())",
    compression_config = "compressed weights are not read; save the model as F32, F16 or BF16",
    adapter_config = "adapters are not read; merge them into the model (merge_and_unload()) and save that",
}

-- An activation by the names of transformers, and in a gated feed-forward.
local activations = {
    relu = "relu", gelu = "gelu", gelu_python = "gelu", gelu_new = "gelu_tanh", gelu_fast = "gelu_tanh",
    gelu_pytorch_tanh = "gelu_tanh", gelu_python_tanh = "gelu_tanh", gelu_accurate = "gelu_tanh", silu = "silu",
    swish = "silu", quick_gelu = "quick_gelu", relu2 = "relu2", sigmoid = "sigmoid", tanh = "tanh",
}
local gates = {relu = "reglu", gelu = "geglu", gelu_tanh = "geglu_tanh", quick_gelu = "quick_geglu", silu = "swiglu",
    sigmoid = "glu"}
local gated = {}
for name, activation in pairs(activations) do
    gated[name] = gates[activation]
end

local ELEMENTS = {F32 = true, F16 = true, BF16 = true}

---- texts ----

-- A key or a name of the model's as a message repeats it: short, and every byte visible.
local function show(text)
    text = tostring(text)
    local cut = #text > 80 and text:sub(1, 77) .. "..." or text
    return (cut:gsub("[^\x20-\x7e]", function(byte) return ("\\x%02x"):format(byte:byte()) end))
end

-- A value of config.json in a message.
local function show_value(value)
    if value == host.null then
        return "null"
    elseif type(value) == "table" then
        return #value > 0 and "a list" or "an object"
    elseif type(value) == "string" then
        return '"' .. show(value) .. '"'
    end
    return tostring(value)
end

-- The shortest decimal that is this number.
local function number_text(value)
    if math.type(value) == "integer" then
        return tostring(value)
    end
    for digits = 6, 17 do
        local text = ("%." .. digits .. "g"):format(value)
        if tonumber(text) == value then
            return text
        end
    end
end

local function sorted_keys(of)
    local keys = {}
    for key in pairs(of) do
        keys[#keys + 1] = key
    end
    table.sort(keys)
    return keys
end

-- "a, b or c"
local function list(words)
    local last = table.remove(words)
    return #words > 0 and table.concat(words, ", ") .. " or " .. last or last
end

local function shape_text(shape)
    local text = ""
    for _, extent in ipairs(shape) do
        text = text .. "[" .. extent .. "]"
    end
    return text == "" and "a single number" or text
end

-- What a file of the folder holds; nil where there is none.
local function json_of(name)
    local _, there = host.path(name)
    if there then
        return (host.json(name))
    end
end

---- config.json: an object whose keys are read one by one ----

local Keys = {}
Keys.__index = Keys

local function new_keys(model, object, prefix)
    local keys = setmetatable({model = model, object = object, prefix = prefix, known = {}, inners = {}}, Keys)
    model.objects[#model.objects + 1] = keys
    return keys
end

function Keys:wrong(key, text, ...)
    self.bad = true
    self.model:wrong("config", "%s%s " .. text, self.prefix, show(key), ...)
end

-- nil where it is absent, or null
function Keys:get(key)
    local value = self.object[key]
    self.known[key] = true
    if value ~= host.null then
        return value
    end
end

-- The same, of a key that has `default` (nil, false: none) where it is absent. Null is no way to say so.
function Keys:read(key, default)
    local value = self:get(key)
    if self.object[key] == host.null and default then
        self:wrong(key, "is null; write a value, or remove it for %s", show_value(default))
    end
    return value
end

-- Keys that change nothing here.
function Keys:ignore(names)
    for name in names:gmatch("%S+") do
        self.known[name] = true
    end
end

-- A whole number from `least` (1) to 2^31-1. A default of nil: it must be there; false: without it, nil.
function Keys:size(key, default, least)
    local value = self:read(key, default)
    if value == nil and default == false then
        return nil
    elseif value == nil and default ~= nil then
        return default
    elseif value == nil then
        self:wrong(key, "is missing; a whole number is needed")
        return 1
    end
    local size = math.type(value) and math.tointeger(value)
    if not size or size < (least or 1) or size > 0x7fffffff then
        self:wrong(key, "is %s; a whole number from %d to 2147483647 is needed", show_value(value), least or 1)
        return 1
    end
    return size
end

-- How many layers.
function Keys:layers(key, default)
    local count = self:size(key, default)
    if count and count > LAYERS_LIMIT then
        self:wrong(key, "is %d; at most %d layers are read", count, LAYERS_LIMIT)
        return 1
    end
    return count
end

-- A number above 0, with a default as of size(); `below`: a limit that no model reaches, nil is none.
function Keys:number(key, default, below)
    local value = self:read(key, default)
    if value == nil and default == false then
        return nil
    elseif value == nil and default ~= nil then
        return default
    elseif not math.type(value) or not (value > 0 and value < (below or math.huge)) then
        self:wrong(key, "is %s; a number above 0%s is needed", value == nil and "missing" or show_value(value),
                   below and " and below " .. below or "")
        return 1.0
    end
    return value
end

function Keys:flag(key, default)
    local value = self:read(key, default)
    if value == nil then
        return default
    elseif type(value) ~= "boolean" then
        self:wrong(key, "is %s; true or false is needed", show_value(value))
        return default
    end
    return value
end

-- What `map` makes of a word.
function Keys:word(key, map, default)
    local value = self:read(key, default)
    if value == nil then
        value = default
    end
    local ours = type(value) == "string" and map[value]
    if not ours then
        self:wrong(key, "is %s, which attngen does not know; %s are known",
                   value == nil and "missing" or show_value(value), list(sorted_keys(map)))
        return map[default]
    end
    return ours
end

-- A key that may only be absent, null or `value`.
function Keys:only(key, value, why)
    local is = self:get(key)
    if is ~= nil and is ~= value then
        local right = value == nil and "null" or show_value(value)
        self:wrong(key, "is %s, which attngen does not know; it must be %s: %s", show_value(is), right, why)
    end
end

-- The one of two names of a key that is there; the first without either.
function Keys:called(name, other)
    if self:get(name) ~= nil and self:get(other) ~= nil and self:get(name) ~= self:get(other) then
        self:wrong(other, "is %s, and %s is %s; leave one of the two", show_value(self:get(other)), name,
                   show_value(self:get(name)))
    end
    return self:get(name) == nil and self:get(other) ~= nil and other or name
end

-- An object within, the same for each who asks; nil where it is absent, or null.
function Keys:inner(key)
    local value = self:get(key)
    if value == nil or self.inners[key] then
        return self.inners[key]
    elseif type(value) ~= "table" then
        self:wrong(key, "is %s; an object is needed", show_value(value))
        return nil
    end
    self.inners[key] = new_keys(self.model, value, self.prefix .. key .. ".")
    return self.inners[key]
end

-- Notes each key that nothing has read; not within an object that is wrong already, of which the rest was not read.
function Keys:check_known()
    if self.bad and self.prefix ~= "" then
        return
    end
    for _, key in ipairs(sorted_keys(self.object)) do
        if type(key) ~= "string" then
            self:wrong(key, "is an item of a list; an object is needed")
        elseif not self.known[key] and self.object[key] ~= host.null then
            if not self.model.ignored[self.prefix .. key] then
                self.model.unknown = self.model.unknown + 1
                local readers = self.prefix == "" and self.model:readers(key) or ""
                self:wrong(key, "is not known of %s models%s; add --ignore %s%s if it changes nothing of what the " ..
                           "model computes", self.model.family, readers, self.prefix, show(key))
            end
            self.model.ignored[self.prefix .. key] = "met"
        end
    end
end

---- a text of "key = value" lines with comments behind them ----

local Lines = {}
Lines.__index = Lines

function Lines:add(key, value, comment)
    if value == nil then
        return self
    end
    if math.type(value) then
        value = number_text(value)
    end
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
        if line[3] then
            text = text .. (" "):rep(wide + 3 + far - #text) .. "    # " .. line[3]
        end
        out[#out + 1] = text
    end
    return table.concat(out, "\n") .. "\n"
end

---- the model ----

local Model = {}
Model.__index = Model

Model.activations, Model.gated, Model.null = activations, gated, host.null
Model.zeros, Model.ones = {}, {}

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
    if tied ~= nil then
        self.config.object.tie_word_embeddings = tied
    end
    self.config:ignore(idle)
end

-- What another family's file returns.
function Model:base(file)
    return host.run("model/families/" .. file .. ".lua")
end

-- Which products have biases, as decoder.lua calls them, where two keys say it
function Model.flagged_biases(c)
    return (c:flag("attention_bias", false) and "qkvo" or "") .. (c:flag("mlp_bias", false) and "1" or "")
end

-- A stack of tokens, as decoder.lua says.
function Model:decoder(kind)
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
        local texts = not seq and self.kind ~= "vit" and json_of("sentence_bert_config.json")
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
    spec:add("precision", options.precision, "--precision")
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
    if not self.notes[text] then
        self.notes[#self.notes + 1], self.notes[text] = text, true
    end
end

function Model:has(name)
    return self.tensors[name] ~= nil
end

-- The first of the prefixes behind which the tensor `anchor` is.
function Model:prefix(prefixes, anchor)
    for _, prefix in ipairs(prefixes) do
        if self:has(prefix .. anchor) then
            return prefix
        end
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

-- A line of a tensor of this shape: KEY = "NAME" WORDS.
function Lines:weight(key, name, shape, words)
    self.model:take(name, shape)
    return self:add(key, '"' .. name .. '"' .. (words and " " .. words or ""))
end

-- A norm's lines: kind, eps and the numbers of its module; false: it has none. `unshifted`: a layer norm without shift.
function Lines:norm(kind, eps, module, width, words, unshifted)
    self:add("norm", kind):add("norm_eps", eps)
    if not module then
        return self:add("norm_g", "ones"):add("norm_b", kind == "layer" and "zeros" or nil)
    end
    local gain, shift = self.model:norm_names(module)
    self:weight("norm_g", gain, {width}, words)
    if kind == "layer" and unshifted then
        return self:add("norm_b", "zeros")
    end
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
    if of.module then
        of.w, of.b = of.module .. ".weight", of.module .. ".bias"
    end
    spec:add("layer", "linear"):add("d_in", of.d_in):add("d_out", of.d_out)
    spec:add("seq_len", of.rows, "most rows of a call"):add("bias", of.b and "true" or nil)
    spec:add("activation", of.activation):add("softcap", of.softcap):weights_lie("out_in")
    local section = self:section(title):add("spec", spec.name .. ".layer")
    section.spec, section.behind = spec, behind
    section.weights = {w = {name = of.w, shape = of.shape, tied = of.tied}, b = of.b}
    return section
end

-- What words of another width are multiplied by: a section behind a stack's embedding. `of` as of product().
function Model:projection(stack, of)
    of.rows = math.min(self.seq_len, HEAD_ROWS)
    return self:product(stack .. " projection", stack == "encoder" and "projection" or stack .. "_projection",
                        "Words of another width than the model's", of)
end

-- A head of this name: of rows `rows` ("all", or the "first" or "second" of a sequence) of `from`. `of` as above, with
-- scale of these rows.
function Model:head(name, from, rows, of, behind)
    of.rows = rows == "all" and math.min(self.seq_len, HEAD_ROWS) or HEAD_SEQUENCES
    local section = self:product("head " .. name, name, "Head " .. name, of, behind)
    return section:add("from", from):add("rows", rows):add("scale", of.scale)
end

local function is_idle(model, name)
    for _, pattern in ipairs(model.idle_tensors) do
        if name:find(pattern) then
            return true
        end
    end
    return false
end

-- What the class that config.json names computes: a set of the words that `classes` has for it. A class is called as
-- its family, and then as a key of `classes`. Tensors by the patterns of `heads` are those of other classes where this
-- one does not read them. `alone`: the class of a file without such tensors if config.json names none.
function Model:class(classes, heads, alone)
    local c, known, does = self.top or self.config, {}, {}
    local names, start = c:get("architectures"), families[self.kind][2]
    for i, ending in ipairs(sorted_keys(classes)) do
        known[i] = start .. ending
    end
    self:buffers(table.unpack(heads))
    local words
    if names == nil or type(names) == "table" and next(names) == nil then
        local head
        for _, name in ipairs(sorted_keys(self.tensors)) do
            head = head or is_idle(self, name) and not name:find("pooler.dense", 1, true) and name
        end
        words = alone and not head and classes[alone]
        if not words then
            c:wrong("architectures", "is missing%s; write the model's class, which is one of %s",
                    head and (', and tensor "%s" is that of a head'):format(show(head)) or "", list(known))
        end
    elseif type(names) ~= "table" or type(names[1]) ~= "string" then
        c:wrong("architectures", "is %s; a list of one class is needed", show_value(names))
    else
        for _, name in ipairs(names) do
            if name ~= names[1] then
                c:wrong("architectures", "has %s and %s; write the one that the model is", show_value(names[1]),
                        show_value(name))
                return does
            end
        end
        words = names[1]:sub(1, #start) == start and classes[names[1]:sub(#start + 1)]
        if not words then
            c:wrong("architectures", "has %s, which attngen does not know; %s are known", show_value(names[1]),
                    list(known))
        end
    end
    self.called = words and (names and names[1] or start .. alone)
    for word in (words or ""):gmatch("%S+") do
        does[word] = true
    end
    does.published = nil -- for a list alone
    return does
end

-- The pooler, which a `base` class may do without: what it gives is then not asked for.
function Model:pooler(does, prefix, width, pooled, activation)
    local name = prefix .. "pooler.dense"
    if does.pooler or does.base and self:has(name .. ".weight") then
        self:head("pooler", "encoder", "first", {d_in = width, d_out = pooled, activation = activation or "tanh",
                                                 module = name})
    end
end

-- How many classes a classifier has.
function Model:labels()
    local c = self.top or self.config
    local names, count = c:get("id2label"), c:size("num_labels", false)
    local listed = 0
    for _ in pairs(type(names) == "table" and names or {}) do
        listed = listed + 1
    end
    if names and (listed == 0 or count and count ~= listed) then
        c:wrong("id2label", "has %d classes%s", listed, count and ", and num_labels is " .. count or "")
    end
    self.labelled = names and listed <= LABELS_LIMIT and names or nil
    return count or names and listed or self.labels_default or 2
end

-- A text of the model's in characters that are harmless in a string and in a comment of C, others as %XX; cut where it
-- is longer than `most`
local function harmless(text, most)
    text = text:gsub("[^A-Za-z0-9 _.,:;<=>@()&'!$+/-]", function(byte) return ("%%%02X"):format(byte:byte()) end)
    return #text > most and text:sub(1, most - 3):gsub("%%%x?$", "") .. "..." or text
end

-- A section of texts, numbered from 0 on
local function add_texts(model, title, texts)
    local lines = #texts > 0 and model:section(title)
    for i, text in ipairs(texts) do
        lines:add(tostring(i - 1), '"' .. text .. '"')
    end
end

-- The names of classes, which are LABEL_0 and on where transformers made them
local function add_labels(model)
    local texts, named = {}, false
    for i = 0, #sorted_keys(model.labelled or {}) - 1 do
        local name = model.labelled[tostring(i)]
        if type(name) ~= "string" then return end
        named = named or name ~= "LABEL_" .. i
        texts[i + 1] = harmless(name, 80)
    end
    add_texts(model, "labels", named and texts or {})
end

-- A head of classes, `module`.weight [classes][width]. `of`: module, width, from, rows; count of classes, nil: that of
-- config.json; unbiased; name, where it is not the module's.
function Model:classifier(of)
    local weight = of.module .. ".weight"
    local tensor, count, c = self.tensors[weight], of.count or self:labels(), self.top or self.config
    if not of.count and tensor and tensor[1] ~= count then
        c:wrong("num_labels", 'is %d, by itself, by id2label or by default, and tensor "%s" is %s', count, weight,
                shape_text(tensor))
    end
    local name = of.name or of.module:match("^cls%.(.*)") or of.module:match("^[^.]+")
    self:head(name, of.from, of.rows,
              {d_in = of.width, d_out = count, w = weight, b = not of.unbiased and of.module .. ".bias" or nil})
end

-- The classifier of an encoder's class. `pooled`: the head that one of a sequence is computed from, nil where that is
-- its first row. name: of the module
function Model:classes(does, width, pooled, name)
    for word, row in pairs{classes = {name or "classifier", true}, choice = {name or "classifier", true, 1},
                           tokens = {"classifier"}, spans = {"qa_outputs", false, 2},
                           next = {"cls.seq_relationship", true, 2}} do
        if does[word] then
            self:classifier{module = row[1], width = width, from = row[2] and pooled or "encoder",
                            rows = row[2] and "first" or "all", count = row[3]}
        end
    end
end

-- Endings of a decoder's classes with labels, by the word that `does` has then
local labelled = {score = "ForSequenceClassification", tokens = "ForTokenClassification",
                  spans = "ForQuestionAnswering"}

-- `classes` and those of `words`
function Model:with_labels(classes, words)
    for word in words:gmatch("%S+") do
        classes[labelled[word]] = word
    end
    return classes
end

-- Heads of these classes of a decoder's rows `from`: each has a row of every token, and so of a sequence's last one,
-- which is the one that counts in ForSequenceClassification.
function Model:decoder_classes(does, from, width)
    if does.score then
        self:classifier{module = "score", width = width, from = from, rows = "all", unbiased = true}
    elseif does.tokens then
        self:classifier{module = self:has("score.weight") and "score" or "classifier", width = width, from = from,
                        rows = "all", unbiased = not self.config:flag("token_classification_bias", true)}
    elseif does.spans then
        self:classifier{module = "qa_outputs", width = width, from = from, rows = "all", count = 2}
    end
end

-- Heads of the classes of a model with both stacks: `score` of two products, `spans`
function Model:both_classes(does, width)
    if does.score then
        self:head("dense", "decoder", "all", {d_in = width, d_out = width, activation = "tanh",
                                              module = "classification_head.dense"})
        self:classifier{module = "classification_head.out_proj", name = "classifier", width = width,
                        from = "head dense", rows = "all"}
    end
    self:decoder_classes({spans = does.spans}, "decoder", width)
end

-- Words masked out: a layer `dense`, a norm, and logits by the word embedding or `head`, names of modules. `bias`: of
-- the logits; the one that the head has besides is the one that counts.
function Model:masked_words(of, names)
    local own = names.head .. ".bias"
    local bias = (self:has(own) or not of.tied) and own or names.bias
    local width = of.narrow or of.width
    self:head("transform", "encoder", "all", {d_in = of.width, d_out = width, activation = of.activation,
                                              module = names.dense}, function(section)
        section:norm("layer", of.eps, names.norm, width)
    end)
    self:logits(names.head .. ".weight", of.word, of.vocab, width, of.tied,
                {from = "head transform", bias = bias})
end

-- The shape of the tensor that a spec's tensor of `shape` is taken from. The axis that a fused one is longer in is that
-- of outputs.
local function stored_shape(entry, shape, out_in)
    local stored = {table.unpack(shape)}
    if entry.of then
        stored[#shape == 2 and not out_in and 2 or 1] = entry.of * (entry.groups or 1)
    end
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
        if entry == Model.zeros or entry == Model.ones then
            section:add(tensor.name, entry == Model.zeros and "zeros" or "ones")
        else
            entry = type(entry) == "string" and {name = entry} or entry
            local words = {}
            if #tensor == 2 and tensor.matrix then
                words[1] = spec.out_in and "out_in" or "in_out"
            end
            words[#words + 1] = entry.of and ("columns %d..%d"):format(entry.from, entry.to)
            words[#words + 1] = entry.groups and "of " .. entry.of or nil
            words[#words + 1] = entry.times and "times " .. number_text(entry.times) or nil
            words[#words + 1] = entry.plus_one and "plus_one"
            words[#words + 1] = entry.tied and "tied" or nil
            section:weight(tensor.name, entry.name, entry.shape or stored_shape(entry, tensor, spec.out_in),
                           #words > 0 and table.concat(words, " "))
            if entry.by then
                section:weight(tensor.name .. "_by", entry.by, {tensor[spec.out_in and 1 or #tensor]})
            end
            for i, piece in ipairs(entry.pieces or {}) do
                section:weight(("%s_%d"):format(tensor.name, i + 1), piece.name, piece.shape,
                               ("columns %d..%d"):format(piece.from, piece.to))
            end
        end
    end
    if section.behind then
        section:behind()
    end
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
    if #text > 60 then
        text = text:sub(1, 60):match("^.*,") .. " …"
    end
    return (#users > 1 and "layers " or "layer ") .. text .. " of the " .. users[1][1]
end

local function spec_text(model, spec)
    return ("# %s%s.\n# Made by attngen import from the config.json of a %s model; "):format(spec.about,
        spec.users and ": " .. users_text(spec.users) or "", model.family) .. "behind # the keys of that file.\n" ..
        spec:text()
end

---- parts that families share ----

-- How many columns of a head `d` wide are rotated, by the factor `key` in `from` or in config.json; `default`: without.
function Model:partial(spec, from, name, d, key, default)
    local at = from and from:get("partial_rotary_factor") ~= nil and "partial_rotary_factor"
    local keys = at and from or self.config
    local part = keys:number(at or key, default)
    local columns = d * part // 1 | 0
    if part > 1 or columns < 2 or columns % 2 == 1 then
        keys:wrong(at or key, "is %s: %d columns of a head of %d are rotated; their number must be even",
                   number_text(part), columns, d)
    end
    spec:add("rope_dims", columns < d and columns or nil,
             keys:get(at or key) ~= nil and (at and name or "") .. (at or key) or "default")
    return columns
end

-- rope of a spec, from rope_theta and rope_scaling (Transformers 4) or rope_parameters (5). `of`: positions, d_k.
-- `how`: kind, theta where config.json does not say; theta_key and partial_key, which older files have; partial: the
-- default of a family that rotates some columns of a head; `keys`: the object, where a family has several; kinds: what
-- names of scalings are; original: original_max_position_embeddings where config.json does not say; mixed: whether
-- sections of columns turn by several positions, which are all the same.
function Model:rope(spec, of, _, how)
    how = how or {}
    local config = self.config
    local new, old = how.keys or config:inner("rope_parameters"), not how.keys and config:inner("rope_scaling")
    if new and old and next(old.object) then
        for _, both in ipairs{{new, old}, {old, new}} do
            for _, key in ipairs(sorted_keys(both[1].object)) do
                local value, other = both[1].object[key], both[2].object[key]
                if value ~= other and not old.bad then
                    both[1]:wrong(key, "is %s, and %s%s is %s; leave one of the two objects", show_value(value),
                                  both[2].prefix, key, other == nil and "missing" or show_value(other))
                end
                old.bad = old.bad or value ~= other
            end
        end
        old.bad = true -- as it is not read
    end
    local from = new or old or nil
    local name = from and from.prefix
    local theta_key = how.theta_key or "rope_theta"
    local theta = not how.keys and config:number(theta_key, false) or nil
    if from and from.object.rope_theta ~= nil then
        local outer, outer_key = theta, theta_key
        theta, theta_key = from:number("rope_theta"), name .. "rope_theta"
        if outer and theta and outer ~= theta then
            config:wrong(outer_key, "is %s, and %s is %s; leave one of the two", show_value(outer), theta_key,
                         show_value(theta))
        end
    end
    spec:add("rope", how.kind or "half")
    if how.partial then
        of.rope_dims = self:partial(spec, from, name, of.d_k, how.partial_key or "partial_rotary_factor", how.partial)
    end
    spec:add("rope_theta", theta or how.theta or 10000, theta and theta_key or "no " .. theta_key)
    if not how.partial then
        for _, keys in ipairs{config, from} do
            keys:only("partial_rotary_factor", 1, "the family rotates all columns of a head")
        end
    end
    if not from then
        return
    end
    local kinds = how.kinds or {default = "none", linear = "linear", llama3 = "llama3", yarn = "yarn",
                                dynamic = "dynamic", longrope = "longrope", mrope = how.mixed and "none" or nil}
    local kind = from:word(from:get("rope_type") == nil and from:get("type") ~= nil and "type" or "rope_type", kinds,
                           "default")
    from:ignore("type rope_type original_max_position_embeddings" .. (
        how.mixed and " mrope_section mrope_interleaved" or ""))
    if kind ~= "none" then
        self:scaled_rope(spec, of, kind, from, how)
    end
end

-- The numbers of a list, in the spec's words
local function factors(from, key, count)
    local list, words = from:get(key), {}
    for i, value in ipairs(type(list) == "table" and list or {}) do
        words[i] = math.type(value) and value > 0 and value < math.huge and number_text(value) or nil
    end
    if #words ~= count or #words ~= #list then
        from:wrong(key, "is no list of %d numbers above 0, one for each pair of columns", count)
    end
    return table.concat(words, ", ")
end

-- rope_scaling and what belongs to it, from the object `from`
function Model:scaled_rope(spec, of, kind, from, how)
    local name = from.prefix
    local function number(ours, key, default)
        local value = from:number(key, default)
        spec:add(ours, value or nil, from:get(key) ~= nil and name .. key or "default")
        return value
    end
    -- A key beside the object counts in place of that within.
    local outer = not how.keys and self.config:size("original_max_position_embeddings", how.original or false)
    local inner = from:get("original_max_position_embeddings")
    if outer and inner ~= nil and inner ~= outer then
        from:wrong("original_max_position_embeddings", "is %s, and beside the object it is %d", show_value(inner),
                   outer)
    end
    local original = outer or kind ~= "linear" and kind ~= "dynamic" and
                     from:number("original_max_position_embeddings", of.positions) or of.positions
    spec:add("rope_scaling", kind, name .. "rope_type")
    if kind ~= "longrope" then
        number("rope_factor", "factor", kind == "yarn" and of.positions / original or nil)
    end
    if kind == "dynamic" then
        spec:add("rope_original_len", of.positions, "max_position_embeddings")
    elseif kind ~= "linear" then
        spec:add("rope_original_len", original, outer and "original_max_position_embeddings" or
                 inner and name .. "original_max_position_embeddings" or "default")
    end
    if kind == "llama3" then
        number("rope_low", "low_freq_factor")
        number("rope_high", "high_freq_factor")
    elseif kind == "yarn" then
        number("rope_beta_fast", "beta_fast", 32)
        number("rope_beta_slow", "beta_slow", 1)
        spec:add("rope_truncate", from:flag("truncate", true), name .. "truncate")
        local scale, all = from:number("mscale", false), from:number("mscale_all_dim", false)
        local factor = from:number("factor", of.positions / original)
        local function mscale(by) return factor <= 1 and 1 or 0.1 * by * math.log(factor) + 1 end
        if scale and all and from:get("attention_factor") == nil then
            spec:add("rope_attention_factor", mscale(scale) / mscale(all), "mscale over mscale_all_dim")
        else
            number("rope_attention_factor", "attention_factor", false)
        end
        from:only("attn_factor", nil, "write attention_factor, which is a spec's rope_attention_factor")
    elseif kind == "longrope" then
        local pairs_of = (of.rope_dims or of.d_k) // 2
        local factor = from:number("factor", of.positions / original)
        spec:add("rope_factors", factors(from, "short_factor", pairs_of), name .. "short_factor")
        spec:add("rope_long_factors", factors(from, "long_factor", pairs_of), name .. "long_factor")
        if not number("rope_attention_factor", "attention_factor", false) and factor > 1 and original > 1 then
            spec:add("rope_attention_factor", math.sqrt(1 + math.log(factor) / math.log(original)),
                     "1 + ln(factor) / ln(rope_original_len), its root")
        end
    end
    if kind == "dynamic" or kind == "longrope" then
        spec:add("rope_len", self.longest, "tokens of the longest sequence")
        if self.longest > original then
            self:note("rotation is that of sequences of %d tokens, and transformers has another one for those of " ..
                      "up to %d; --%s %d has that one", self.longest, original,
                      self.kept and "cache-len" or "seq-len", original)
        end
    end
end

-- Rotation of a family whose layers with a window have numbers of their own: → function(m, spec, of, layer), from
-- rope_parameters of each kind, or by `window` and `full`, {key or nil, theta} where that is missing.
function Model:ropes(window, full)
    local c = self.config
    local nested = c:inner("rope_parameters")
    local thetas = {[true] = window[1] and c:number(window[1], window[2]) or window[2],
                    [false] = full[1] and c:number(full[1], full[2]) or full[2]}
    if nested then
        nested:ignore("full_attention sliding_attention")
        c:only("rope_scaling", nil, "rope_parameters are there")
    end
    return function(_, spec, of, layer)
        local keys = nested and nested:inner(layer.window and "sliding_attention" or "full_attention")
        if keys or not nested and not layer.window then
            self:rope(spec, of, layer, {keys = keys, theta = thetas[layer.window], theta_key = not keys and full[1]})
        else
            spec:add("rope", "half"):add("rope_theta", thetas[layer.window], layer.window and window[1] or full[1])
            c:ignore("rope_scaling rope_theta")
        end
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
    if cache == "none" then
        return
    end
    if cache == "ring" and left then
        self.ring = true
        spec:add("cache", "ring"):add("cache_len", seq + left, "seq_len and the window")
    else
        spec:add("cache", cache == "ring" and "rows" or cache):add("cache_len", all, "maximum of tokens of a sequence")
        if cache == "paged" then
            spec:add("page_len", 16, "attngen's choice")
        end
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

-- The head that gives a logit for each word: a matrix of its own where the file has one, else the word embedding.
-- `more`: {scale = …, softcap = …, bias = name, from = …}.
function Model:logits(head, word, vocab, width, tied, more)
    more = more or {}
    local own = self:has(head) or not tied
    if own and not self:has(head) and not self.lost then
        self:wrong("weights", 'no tensor "%s"; %s of %s is needed, or tie_word_embeddings = true, by which it is "%s"',
                   head, shape_text{vocab, width}, self.family, word)
    end
    self:head("logits", more.from or "decoder", "all",
              {d_in = width, d_out = vocab, w = own and head or word, tied = not own, b = more.bias,
               scale = more.scale, softcap = more.softcap})
end

---- from the model to texts ----

local function check_all(model)
    for _, key in ipairs(options.ignore) do
        model.ignored[key] = "asked"
    end
    for _, object in ipairs(model.objects) do
        object:check_known()
    end
    for _, key in ipairs(options.ignore) do
        if model.ignored[key] ~= "met" then
            model:wrong("", "--ignore %s: config.json has no such key that attngen does not know", show(key))
        end
    end
end

-- Reads each spec by attngen's own rules; false where one is refused, which C has noted.
local function read_specs(model)
    local good = true
    for _, spec in ipairs(model.specs) do
        spec.written = spec_text(model, spec)
        spec.tensors, spec.cache = host.spec(spec.name .. ".layer", spec.written)
        if not spec.tensors then
            good = host.wrong(model.places.config, ("gives the spec %s.layer, which has the faults above")
                :format(spec.name))
        end
    end
    return good
end

local function check_left(model)
    for _, name in ipairs(sorted_keys(model.tensors)) do
        if not model.used[name] and not is_idle(model, name) then
            model:wrong("weights", 'tensor "%s" %s is not known of %s models; what it does would be left out',
                        show(name), shape_text(model.tensors[name]), model.family)
        end
    end
end

local function elements(shape)
    local count = 1
    for _, extent in ipairs(shape) do count = count * extent end
    return count
end

-- Bytes of a model: of its packed weights by the bytes of one, of a sequence's cache, and of what packing needs besides
local function sizes(model)
    local rest, packed, cache, work = 0, 0, 0, 0
    for name in pairs(model.used) do
        rest = rest + (model.tensors[name] and elements(model.tensors[name]) or 0)
    end
    for _, section in ipairs(model.sections) do
        local numbers = 0
        for _, tensor in ipairs(section.spec and section.spec.tensors or {}) do
            numbers = numbers + elements(tensor)
        end
        packed, work = packed + numbers, math.max(work, numbers)
        cache = cache + (section.spec and section.spec.cache or 0)
    end
    rest = math.max(0, rest - packed) -- stays in f32: embeddings
    return function(bytes) return (packed * bytes + rest * 4) / 1e9 end, cache / 1e9, work * 4 / 1e9
end

-- What is worth knowing before a model is written and compiled: how large one of more than a gigabyte is and what makes
-- it smaller, and a bound of the cache that is no bound of the model's. Else nil
local function size_note(model)
    local words, packed, cache, work = {}, sizes(model)
    local bytes = ({bf16 = 2, f16 = 2, i8 = 1, i4 = 0.625})[options.weight_type] or
                  ({bf16 = 2, i16 = 2, i8 = 1})[options.precision] or 4
    if packed(bytes) + cache >= 1 then
        words[1] = ("about %.1f GB of packed weights%s"):format(packed(bytes), bytes == 4 and
            (" (--weight-type bf16: %.1f, i8: %.1f, i4: %.1f)"):format(packed(2), packed(1), packed(0.625)) or "")
        words[2] = ("%.1f GB of memory to pack them"):format(work)
        words[3] = cache > 0 and ("%.1f GB of cache for each sequence (--cache-len and --cache-type make that less)")
            :format(cache) or nil
    end
    if model.bounded then
        words[#words + 1] = ("a cache of %d tokens, though the model has %d positions; --cache-len says another number")
            :format(CACHE_DEFAULT, model.bounded)
    end
    for _, text in ipairs(model.notes) do
        words[#words + 1] = text
    end
    return #words > 0 and table.concat(words, "; ") or nil
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

local function new_model(checkpoint, kind)
    local model = setmetatable({
        options = options, tensors = checkpoint.tensors, files = checkpoint.files, problems = {}, weight_problems = {},
        objects = {}, unknown = 0, ignored = {}, notes = {}, specs = {}, sections = {}, used = {}, idle_tensors = {},
        counts = {}, kind = kind,
        family = families[kind][1], name = options.name or kind:gsub("-", "_"),
    }, Model)
    model.places = {config = checkpoint.config_path, weights = checkpoint.weights_path, [""] = "attngen import"}
    model.config = new_keys(model, checkpoint.config, "")
    model.config:ignore(idle)
    for key, right in pairs(refused) do
        if model.config:get(key) ~= nil then
            model.config:wrong(key, "is there; %s", right)
        end
    end
    return model
end

-- How sentence-transformers makes one row of a text's rows, by its name of the way, as NAME.layers says it
local poolings = {cls = "cls", cls_token = "cls", mean = "mean", mean_tokens = "mean", max = "max", max_tokens = "max",
                  mean_sqrt_len_tokens = "mean_sqrt_len", lasttoken = "last"}

local function pooling_kind(model, folder)
    local name = folder .. "/config.json"
    local config, kind, faults = json_of(name), nil, {}
    for _, key in ipairs(sorted_keys(type(config) == "table" and config or {})) do
        local value = config[key]
        local mode = key == "pooling_mode" and value or value == true and tostring(key):match("^pooling_mode_(.*)$")
        if mode then
            faults[#faults + 1] = (kind or not poolings[mode]) and key or nil
            kind = poolings[mode] or kind
        elseif value ~= false and key ~= "word_embedding_dimension" and key ~= "include_prompt" or
               key == "include_prompt" and value == false then
            faults[#faults + 1] = tostring(key)
        end
    end
    if not kind or #faults > 0 then
        model:wrong("", "%s %s; one of the modes cls_token, mean_tokens, max_tokens, mean_sqrt_len_tokens and " ..
                    "lasttoken is built, alone", name, #faults > 0 and "has " .. show(list(faults)) or "names no mode")
    end
    return kind
end

-- A Dense module behind the pooling: `embedding` is a product of the pooled row, of another file of weights.
local activation_classes = {Tanh = "tanh", Identity = false, ReLU = "relu", GELU = "gelu", Sigmoid = "sigmoid",
                            SiLU = "silu"}
local function add_dense(model, folder, stack)
    local name, file = folder .. "/config.json", folder .. "/model.safetensors"
    local config, tensors = json_of(name), nil
    local place, there = host.path(file)
    if type(config) ~= "table" or not there then
        return model:wrong("", "the Dense module %s lacks %s", folder, type(config) == "table" and
                           "model.safetensors; save the model with sentence-transformers again" or "config.json")
    end
    tensors = host.tensors(file) or {}
    local keys = new_keys(model, config, name .. ": ")
    local d_in, d_out = keys:size("in_features"), keys:size("out_features")
    local biased, class = keys:flag("bias", true), keys:get("activation_function")
    local activation = class == nil and "tanh" or activation_classes[tostring(class):match("^torch%.nn%..*%.(%w+)$")]
    keys:ignore("module_input_name module_output_name")
    if activation == nil then
        keys:wrong("activation_function", "is %s; %s of torch are known", show_value(class),
                   list(sorted_keys(activation_classes)))
    elseif d_in ~= model.width then
        keys:wrong("in_features", "is %d; the model's rows are %d wide", d_in, model.width)
    end
    for _, tensor in ipairs(sorted_keys(tensors)) do
        if model.tensors[tensor] then
            return model:wrong("", "%s: the model has a tensor \"%s\" too", place, show(tensor))
        end
        model.tensors[tensor] = tensors[tensor]
    end
    model.files[#model.files + 1] = file
    local section = model:product("head dense", "dense", "What an embedding is multiplied by", {
        d_in = d_in, d_out = d_out, rows = HEAD_SEQUENCES, activation = activation or nil, w = "linear.weight",
        b = biased and "linear.bias" or nil})
    section:add("from", stack .. " pooling"):add("rows", "first")
end

-- config_sentence_transformers.json: texts that a program puts before a query or a document
local function add_prompts(model)
    local config, texts = json_of("config_sentence_transformers.json"), {}
    local prompts = type(config) == "table" and type(config.prompts) == "table" and config.prompts or {}
    for _, name in ipairs(sorted_keys(prompts)) do
        if type(prompts[name]) == "string" and type(name) == "string" and prompts[name] ~= "" then
            texts[#texts + 1] = harmless(name .. ": ", 80) .. harmless(prompts[name], 400)
        end
    end
    add_texts(model, "prompts", texts)
end

-- modules.json of sentence-transformers: what is made of the last layer's rows. What is not built is refused.
local function add_pooling(model)
    local modules, kind, normalized, dense = json_of("modules.json"), nil, nil, nil
    if modules ~= nil and (type(modules) ~= "table" or #modules == 0) then
        model:wrong("", "modules.json is no list of modules")
    end
    for i, module in ipairs(type(modules) == "table" and modules or {}) do
        local class = type(module) == "table" and type(module.type) == "string" and module.type:match("[%w_]+$") or ""
        local path = type(module) == "table" and module.path
        local folder = type(path) == "string" and path:find("^[%w_-]+/?$") and path:gsub("/$", "")
        if class == "Pooling" and i > 1 and not kind and folder then
            kind = pooling_kind(model, folder)
            if not kind then return end
        elseif class == "Dense" and kind and not normalized and not dense and folder then
            dense = folder
        elseif class == "Normalize" and kind and not normalized then
            normalized = true
        elseif class ~= "Transformer" or i > 1 or path ~= "" then
            model:wrong("", "modules.json has a module %s in place %d, which is not built: Transformer, Pooling, " ..
                        "one Dense and Normalize are, in this order; import a copy without modules.json for the " ..
                        "model alone", show(class), i)
            return
        end
    end
    local stack
    for _, section in ipairs(model.sections) do
        local name = section.title:match("^(%l+) input$")
        if name and section[1][2] == "tokens" and stack ~= false then
            stack = stack == nil and name or false -- both stacks: neither is pooled
        end
    end
    if kind and not stack then
        model:wrong("", "modules.json pools rows, which is built for one stack of tokens; import a copy without " ..
                    "modules.json, and pool `hidden` in the program: by %s%s", kind,
                    normalized and ", normalized" or "")
    elseif kind and stack == "decoder" and kind ~= "last" and model.kept then
        model:wrong("", "modules.json pools all rows of a text by %s, and a decoder with a cache may bring a text " ..
                    "in pieces; give --cache none", kind)
    elseif kind then
        model:section(stack .. " pooling"):add("kind", kind):add("normalize", normalized and "true" or "false")
        if dense then
            add_dense(model, dense, stack)
        end
    end
end

-- A model_type with neither config.json nor tensors, whose family has said what it reads; `class`: what it does in
-- place of Model:class().
local function empty_model(kind, class)
    local model = new_model({config = {}, tensors = {}, files = {}}, kind)
    model.class = class
    pcall(model:base(model.family), model) -- a family may stop where it finds nothing
    return model
end

-- Which other families read this key of config.json, as a message says it
function Model:readers(key)
    local names, seen = {}, {[self.family] = true}
    for _, kind in ipairs(sorted_keys(families)) do
        local family = families[kind][1]
        if not seen[family] and empty_model(kind).objects[1].known[key] then
            names[#names + 1] = #names < 3 and family or "others"
        end
        seen[family] = true
    end
    return #names > 0 and (" (known of %s)"):format(list{table.unpack(names, 1, 4)}) or ""
end

-- The keys in `settled`, but those that the family has read.
local function check_settled(model)
    for _, row in ipairs(settled) do
        if not model.config.known[row[1]] then
            model.config:only(row[1], row[2], row[3])
        end
    end
    local pruned = model.config:get("pruned_heads")
    if pruned ~= nil and (type(pruned) ~= "table" or next(pruned) ~= nil) then
        model.config:wrong("pruned_heads", "is not empty; layers of other shapes than the rest are not read")
    end
end

-- Tells all faults; whether there are any.
local function tell(model, problems)
    for _, problem in ipairs(problems) do
        host.wrong(model.places[problem[1]], problem[2])
    end
    return #problems > 0
end

-- What names of this model_type's classes begin with, and their endings. A family says these first, and is then left.
local function classes_of(kind)
    local classes = {}
    empty_model(kind, function(_, known)
        classes = known
        error(classes)
    end)
    return families[kind][2], classes
end

local lists = options.list and host.run("model/list.lua")(host, show, sorted_keys)
if options.list and not options.folder then
    return "list", {{"", lists.all(families, classes_of)}}
end

-- → name, {{ending, text}…}, a note; nothing where host.wrong() has told why
local checkpoint = host.run("model/checkpoint.lua")(host, options.folder, sorted_keys, options.list)
if not checkpoint then
    return
end
local kind = checkpoint.config.model_type
if options.list and type(kind) == "string" and not families[kind] then
    return "list", {{"", lists.stranger(kind, checkpoint.config.architectures)}}
elseif type(kind) ~= "string" or not families[kind] then
    return host.wrong(checkpoint.config_path, ("model_type is %s; attngen knows %s"):format(
        kind == nil and "missing" or show_value(kind), list(sorted_keys(families))))
end
local model = new_model(checkpoint, kind)
model:base(model.family)(model)
add_pooling(model)
add_prompts(model)
add_labels(model)
check_settled(model)
check_all(model)
if options.cache == "ring" and not model.ring then
    model:wrong("", "--cache ring is for layers with a window, and this model has none; give rows or paged")
end
if not options.list and tell(model, model.problems) then
    return
end
local why = #model.files == 0 and "the folder has none" or
            #model.problems > (options.list and model.unknown or 0) and "keys come first"
if not why and #model.weight_problems == 0 then
    if read_specs(model) then
        for _, section in ipairs(model.sections) do
            if section.spec then
                fill_layer(model, section)
            end
        end
        check_left(model)
    else
        why = "specs of these keys are refused"
    end
end
if options.list then
    return "list", {{"", lists.folder(model, not why or why)}}
elseif why or tell(model, model.weight_problems) then
    return
end
local files = {}
for _, spec in ipairs(model.specs) do
    files[#files + 1] = {spec.name:sub(#model.name + 1) .. ".layer", spec.written}
end
files[#files + 1] = {".layers", layers_text(model)}
return model.name, files, size_note(model)
