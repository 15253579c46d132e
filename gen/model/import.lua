-- SPDX-License-Identifier: MIT
-- attngen import: which families of models there are, and the way from a folder to specs and NAME.layers. A family
-- (families/NAME.lua) says which config keys are which keys of a spec and what its tensors are called, in words of
-- builder.lua; this file sees to it that every key and every tensor is accounted for. docs/models.md says what
-- NAME.layers holds.
--
-- Left out on purpose: the folder (checkpoint.lua), and rules of specs: each spec is read by the rules of spec_rules.c
-- before anything is written. Texts are made of names that stand in these files, of numbers and of words; of a model's
-- text names of classes and prompts alone get into them, in harmless characters. What is wrong with a model is noted
-- and told together, never a Lua error.

local host, options = ... -- import.c; null: what JSON's null is

-- model_type, which names files unless --name says another → the family's file, what names of its classes begin with;
-- a new family is a row here and its file
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
    ["deberta-v2"] = {"deberta_v2", "DebertaV2"},
    electra = {"electra", "Electra"}, albert = {"albert", "Albert"}, nomic_bert = {"nomic_bert", "NomicBert"},
    deit = {"vit", "DeiT"}, olmo = {"olmo", "Olmo"}, olmo2 = {"olmo2", "Olmo2"}, olmo3 = {"olmo2", "Olmo3"},
    nemotron = {"nemotron", "Nemotron"}, modernbert = {"modernbert", "ModernBert"},
    eurobert = {"eurobert", "EuroBert"}, qwen2_vl = {"qwen_vl", "Qwen2VL"}, qwen2_vl_text = {"qwen_vl", "Qwen2VL"},
    qwen2_5_vl = {"qwen_vl", "Qwen2_5_VL"}, qwen2_5_vl_text = {"qwen_vl", "Qwen2_5_VL"},
    qwen3_vl = {"qwen_vl", "Qwen3VL"}, qwen3_vl_text = {"qwen_vl", "Qwen3VL"},
    dinov2 = {"dinov2", "Dinov2"}, dinov2_with_registers = {"dinov2", "Dinov2WithRegisters"},
    siglip = {"clip", "Siglip"}, siglip_text_model = {"clip", "Siglip"}, siglip_vision_model = {"clip", "Siglip"},
    clip = {"clip", "CLIP"}, clip_text_model = {"clip", "CLIP"}, clip_vision_model = {"clip", "CLIP"},
    qwen3_next = {"qwen3_5", "Qwen3Next"}, qwen3_5 = {"qwen3_5", "Qwen3_5"},
    minicpm3 = {"minicpm3", "MiniCPM3"}, deepseek_v2 = {"minicpm3", "DeepseekV2"},
    deepseek_v3 = {"minicpm3", "DeepseekV3"},
    qwen3_5_text = {"qwen3_5", "Qwen3_5"}, olmo_hybrid = {"olmo_hybrid", "OlmoHybrid"},
    mamba2 = {"mamba2", "Mamba2"}, kimi_linear = {"kimi_linear", "KimiLinear"},
}

local words = host.run("model/words.lua", host.null)
local show, show_value, sorted_keys, list = words.show, words.show_value, words.sorted_keys, words.list
local new_keys = host.run("model/keys.lua", host.null, words)
local Lines = host.run("model/lines.lua", words.number_text)
local idle = host.run("model/idle.lua") -- keys of every config.json that do not change what the layers compute
local Model = host.run("model/builder.lua", host, options, words, new_keys, Lines, idle)
host.run("model/heads.lua", Model, words)
host.run("model/rotation.lua", Model, words)
local add_pooling, add_prompts = host.run("model/sentences.lua", host, words, new_keys)
local size_note = host.run("model/sizes.lua", options)
local fill_layer, spec_text, layers_text = host.run("model/texts.lua", Lines, words.number_text)

-- Keys of every config.json that would change what is computed, and the one value that does not.
local settled = {
    {"is_decoder", false, "the model is read as it stands alone"},
    {"is_causal", true, "queries that see later keys too are read of families whose tokens are rotated"},
    {"is_encoder_decoder", false, "the family has one stack"}, {"tie_encoder_decoder", false, "stacks share no layers"},
    {"original_max_position_embeddings", nil, "it belongs into rope_parameters"},
    {"per_layer_config", nil, "layers of other shapes than the rest are not read"},
    {"rope_interleaved", false, "the family rotates halves of a head"},
    {"add_cross_attention", false, "there is no other model whose tokens it would read"},
    {"cross_attention_hidden_size", nil, "there is no other model whose tokens it would read"},
    {"attention_bias", false, "the family has no such biases"}, {"mlp_bias", false, "the family has no such biases"},
    {"use_sliding_window", false, "the family has no windows of this kind"},
    {"use_mrope", false, "positions of images and of time are not known"},
    {"lm_head_bias", false, "logits have no bias of this name"},
    {"use_bidirectional_attention", false, "queries see earlier keys alone"},
}

-- Objects that are not read at all, and what would be right.
local refused = {
    quantization_config = "quantised weights are not read; save the model as F32, F16 or BF16 (from_pretrained() " ..
        "with dequantize=True where the method knows it, then save_pretrained())",
    compression_config = "compressed weights are not read; save the model as F32, F16 or BF16",
    adapter_config = "adapters are not read; merge them into the model (merge_and_unload()) and save that",
}

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
        if not model.used[name] and not model:is_idle(name) then
            model:wrong("weights", 'tensor "%s" %s is not known of %s models; what it does would be left out',
                        show(name), words.shape_text(model.tensors[name]), model.family)
        end
    end
end

local function new_model(checkpoint, kind)
    local model = setmetatable({
        options = options, tensors = checkpoint.tensors, files = checkpoint.files, problems = {}, weight_problems = {},
        objects = {}, unknown = 0, ignored = {}, notes = {}, specs = {}, sections = {}, used = {}, idle_tensors = {},
        counts = {}, kind = kind,
        family = families[kind][1], start = families[kind][2], name = options.name or kind:gsub("-", "_"),
    }, Model)
    model.places = {config = checkpoint.config_path, weights = checkpoint.weights_path, [""] = "attngen import"}
    model.config = new_keys(model, checkpoint.config, "")
    model.config:ignore(idle)
    for key, right in pairs(refused) do
        if model.config:get(key) ~= nil then model.config:wrong(key, "is there; %s", right) end
    end
    return model
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

-- The keys in `settled`, but those that the family has read, of config.json or of an object within.
local function check_settled(config)
    for _, row in ipairs(settled) do
        if not config.known[row[1]] then config:only(row[1], row[2], row[3]) end
    end
    local pruned = config:get("pruned_heads")
    if pruned ~= nil and (type(pruned) ~= "table" or next(pruned) ~= nil) then
        config:wrong("pruned_heads", "is not empty; layers of other shapes than the rest are not read")
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

local lists = options.list and host.run("model/list.lua", host, show, sorted_keys)
if options.list and not options.folder then return "list", {{"", lists.all(families, classes_of)}} end

-- → name, {{ending, text}…}, a note; nothing where host.wrong() has told why
local checkpoint = host.run("model/checkpoint.lua", host, options.folder, sorted_keys, options.list)
if not checkpoint then return end
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
model:add_labels()
model:add_ends()
for _, config in ipairs{model.config, model.top} do check_settled(config) end
check_all(model)
if options.cache == "ring" and not model.ring then
    model:wrong("", "--cache ring is for layers with a window, and this model has none; give rows or paged")
end
if not options.list and tell(model, model.problems) then return end
local why = #model.files == 0 and "the folder has none" or
            #model.problems > (options.list and model.unknown or 0) and "keys come first"
if not why and #model.weight_problems == 0 then
    if read_specs(model) then
        for _, section in ipairs(model.sections) do
            if section.spec then fill_layer(model, section) end
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
