-- SPDX-License-Identifier: MIT
-- A folder of sentence-transformers: modules.json, folders of Pooling and Dense, prompts.
--
--   (host, words, new_keys) -> add_pooling(model), add_prompts(model)

local host, words, new_keys = ...
local show, show_value, list, sorted_keys = words.show, words.show_value, words.list, words.sorted_keys
local harmless = words.harmless

-- How sentence-transformers makes one row of a text's rows, by its name of the way, as NAME.layers says it
local poolings = {cls = "cls", cls_token = "cls", mean = "mean", mean_tokens = "mean", max = "max", max_tokens = "max",
                  mean_sqrt_len_tokens = "mean_sqrt_len", lasttoken = "last"}

local function pooling_kind(model, folder)
    local name = folder .. "/config.json"
    local _, there = host.path(name)
    local config, kind, faults, modes = model:json_of(name), nil, {}, {}
    if not there then
        model:wrong("", "%s is not there, which modules.json names; download the whole folder", name)
    end
    if type(config) ~= "table" then -- what is no JSON has been said
        return nil
    end
    for _, key in ipairs(sorted_keys(config)) do
        local value = config[key]
        value = key == "pooling_mode" and type(value) == "table" and #value == 1 and value[1] or value
        local mode = key == "pooling_mode" and value or value == true and tostring(key):match("^pooling_mode_(.*)$")
        if mode then
            modes[#modes + 1], kind = type(mode) == "string" and mode or show_value(mode), poolings[mode] or kind
        elseif tostring(key):find("embedding_dimension$") then
            faults[#faults + 1] = value ~= model.width and ("%s = %s beside rows of %d"):format(
                key, show_value(value), model.width) or nil
        elseif value ~= false and key ~= "include_prompt" or key == "include_prompt" and value == false then
            faults[#faults + 1] = tostring(key)
        end
    end
    if #modes ~= 1 or not kind then
        model:wrong("", "%s asks for %s; one of cls_token, mean_tokens, max_tokens, mean_sqrt_len_tokens and " ..
                    "lasttoken is built", name, #modes == 0 and "no mode" or table.concat(modes, " and "))
    elseif #faults > 0 then
        model:wrong("", "%s has %s, which is not built", name, table.concat(faults, " and "))
    end
    return kind
end

-- A module of the sentence's row alone, as modules are that do not say otherwise
local function of_sentences(keys)
    for _, key in ipairs{"module_input_name", "module_output_name"} do
        keys:only(key, "sentence_embedding", "modules of other rows are not built")
    end
end

-- A Dense module behind the pooling: `embedding` is a product of the row of `from`, `width` wide, with weights of
-- another file. → its name, the product's width
local activation_classes = {Tanh = "tanh", Identity = false, ReLU = "relu", GELU = "gelu", Sigmoid = "sigmoid",
                            SiLU = "silu"}
local function add_dense(model, folder, from, width)
    local name, file = folder .. "/config.json", folder .. "/model.safetensors"
    local config, tensors = model:json_of(name), nil
    local _, there = host.path(file)
    if type(config) ~= "table" or not there then
        return model:wrong("", "the Dense module %s lacks %s", folder, type(config) == "table" and
                           "model.safetensors; save the model with sentence-transformers again" or "config.json")
    end
    tensors = host.tensors(file) or {}
    local keys = new_keys(model, config, name .. ": ")
    local d_in, d_out = keys:size("in_features"), keys:size("out_features")
    local biased, class = keys:flag("bias", true), keys:get("activation_function")
    local activation = class == nil and "tanh" or activation_classes[tostring(class):match("^torch%.nn%..*%.(%w+)$")]
    of_sentences(keys)
    keys:only("use_residual", false, "nothing is added to what the product gives")
    if activation == nil then
        keys:wrong("activation_function", "is %s; %s of torch are known", show_value(class),
                   list(sorted_keys(activation_classes)))
    elseif d_in ~= width then
        keys:wrong("in_features", "is %d; its rows are %d wide", d_in, width)
    end
    for _, tensor in ipairs(sorted_keys(tensors)) do
        model.tensors[folder .. "/" .. tensor] = tensors[tensor]
    end
    model.files[#model.files + 1] = file
    local head = from:find("pooling$") and "dense" or "dense_2"
    local section = model:product("head " .. head, head, "What an embedding is multiplied by", {
        d_in = d_in, d_out = d_out, rows = model.HEAD_SEQUENCES, activation = activation or nil,
        w = folder .. "/linear.weight", b = biased and folder .. "/linear.bias" or nil, file = #model.files})
    section:add("from", from):add("rows", "first")
    return "head " .. head, d_out
end

-- config_sentence_transformers.json: texts that a program puts before a query or a document
local function add_prompts(model)
    local config, texts = model:json_of("config_sentence_transformers.json"), {}
    local prompts = type(config) == "table" and type(config.prompts) == "table" and config.prompts or {}
    for _, name in ipairs(sorted_keys(prompts)) do
        if type(prompts[name]) == "string" and type(name) == "string" and prompts[name] ~= "" then
            texts[#texts + 1] = harmless(name .. ": ", 80) .. harmless(prompts[name], 400)
        end
    end
    model:add_texts("prompts", texts)
end

-- modules.json of sentence-transformers: what is made of the last layer's rows. What is not built is refused.
local function add_pooling(model)
    local modules, kind, normalized, dense = model:json_of("modules.json"), nil, nil, {}
    if modules ~= nil and (type(modules) ~= "table" or #modules == 0) then
        model:wrong("", "modules.json is no list of modules")
    end
    for i, module in ipairs(type(modules) == "table" and modules or {}) do
        local class = type(module) == "table" and type(module.type) == "string" and module.type or ""
        class = class:match("^sentence_transformers%.[%w_.]-([%w_]+)$") or class -- others are the model's own code
        local path = type(module) == "table" and module.path
        local folder = type(path) == "string" and path:find("^[%w_-]+/?$") and path:gsub("/$", "")
        if class == "Pooling" and i > 1 and not kind and folder then
            kind = pooling_kind(model, folder)
            if not kind then return end
        elseif class == "Dense" and kind and not normalized and #dense < 2 and folder then
            dense[#dense + 1] = folder
        elseif class == "Normalize" and kind and not normalized then
            normalized = true
            local name = tostring(folder) .. "/config.json"
            local config = model:json_of(name)
            of_sentences(new_keys(model, type(config) == "table" and config or {}, name .. ": "))
        elseif class ~= "Transformer" or i > 1 or path ~= "" then
            model:wrong("", "modules.json has a module %s in place %d, which is not built: Transformer, Pooling, " ..
                        "up to two Dense and Normalize are, in this order; import a copy without modules.json for " ..
                        "the model alone", show(class), i)
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
    elseif kind and model.narrowed then
        model:wrong("", "modules.json pools rows of %s, which is not built: they are those of the head project_out; " ..
                    "import a copy without modules.json", model.family)
    elseif kind and stack == "decoder" and kind ~= "last" and model.kept then
        model:wrong("", "modules.json pools all rows of a text by %s, and a decoder with a cache may bring a text " ..
                    "in pieces; give --cache none", kind)
    elseif kind then
        model:section(stack .. " pooling"):add("kind", kind):add("normalize", normalized and "true" or "false")
        local from, width = stack .. " pooling", model.width
        for _, folder in ipairs(dense) do
            from, width = add_dense(model, folder, from, width)
            if not from then return end
        end
    end
end

return add_pooling, add_prompts
