-- SPDX-License-Identifier: MIT
-- A model's folder as Hugging Face's libraries write it: config.json, and model.safetensors or the shards that
-- model.safetensors.index.json names. Of the weights only the headers are read.
--
--   (host, folder, sorted_keys, bare) -> {config, config_path, tensors, weights_path, files}; nil where host has told
--   why. bare: a folder may be without weights, and then has no tensors and no files
--
-- A folder may come from anywhere: nothing in it is believed, and names of files lead nowhere else. Links are followed,
-- as the caches of Hugging Face's libraries are made of them.
--
-- Left out on purpose: what keys and tensors mean (import.lua); other formats, which are named.

local host, folder, sorted_keys, bare = ...

local TORCH = "torch.load() it with weights_only=True and write the tensors with safetensors.torch.save_file()"
-- Endings of other formats, and what makes safetensors of them; the first that a file has is named.
local formats = {
    {".bin", "weights of PyTorch", "load the model with from_pretrained() and save it with save_pretrained(), which " ..
        "writes model.safetensors"},
    {".pt", "weights of PyTorch", TORCH}, {".pth", "weights of PyTorch", TORCH},
    {".ckpt", "weights of PyTorch or TensorFlow", "load the model with the library that wrote it and save it with " ..
        "save_pretrained()"},
    {".gguf", "a model of llama.cpp", "load it with from_pretrained(DIR, gguf_file=FILE, dtype=torch.float32), set " ..
        "its hf_quantizer to None, delete its config.quantization_config, and save it with save_pretrained()"},
    {".onnx", "a graph of ONNX", "give the folder of the model that it was exported from"},
    {".h5", "weights of TensorFlow", "load the model with from_pretrained(DIR, from_tf=True) of Transformers 4 and " ..
        "save it with save_pretrained()"},
    {".msgpack", "weights of Flax", "load the model with from_pretrained(DIR, from_flax=True) of Transformers 4 and " ..
        "save it with save_pretrained()"},
    {".safetensors", "safetensors of another name", "rename it model.safetensors if it holds the whole model"},
}

local function no_weights()
    local names = host.names()
    table.sort(names)
    for _, format in ipairs(formats) do
        for _, name in ipairs(names) do
            if #name > #format[1] and name:sub(-#format[1]) == format[1] then
                return host.wrong(folder, ("has no model.safetensors; %s is %s, which is not read: %s")
                    :format(name, format[2], format[3]))
            end
        end
    end
    host.wrong(folder, "has neither model.safetensors nor model.safetensors.index.json; give the folder that " ..
        "save_pretrained() wrote")
end

-- Tensor → file, by the index; nil where that is none.
local function read_index(place)
    local index, first = host.json("model.safetensors.index.json")
    if not first then return nil end
    local map = first == "{" and index.weight_map
    if type(map) ~= "table" or next(map) == nil then
        return host.wrong(place, "weight_map is missing, or empty; an object is needed, of the file of each tensor")
    end
    for name, file in pairs(map) do
        if type(name) ~= "string" or type(file) ~= "string" or not file:find("^[%w_+=-][%w_+=.-]*$") or
           #file > 255 then
            return host.wrong(place, "a shard's name is a file of this folder, of letters, digits and _-+=.")
        end
    end
    return map
end

-- The tensors of all shards; each must be in the shard that the index names.
local function read_shards(map, place)
    local wrong, tensors, files, read = false, {}, {}, {}
    for _, file in pairs(map) do read[file] = true end
    for _, file in ipairs(sorted_keys(read)) do
        local shard = host.tensors(file)
        if not shard then return nil end
        files[#files + 1] = file
        for _, name in ipairs(sorted_keys(shard)) do
            if map[name] ~= file then
                wrong = true
                host.wrong(host.path(file), ('tensor "%s" is %s by the index; the index and its files belong together')
                    :format(name, map[name] and "in " .. map[name] or "nowhere"))
            end
            tensors[name] = shard[name]
        end
    end
    for _, name in ipairs(sorted_keys(map)) do
        if not tensors[name] then
            wrong = true
            host.wrong(place, ('tensor "%s" is not in %s; the index and its files belong together')
                :format(name, map[name]))
        end
    end
    if not wrong then return tensors, files end
end

local config_path, there = host.path("config.json")
if not there then
    return host.wrong(folder, "has no config.json; give the folder that save_pretrained() wrote, or that was " ..
        "downloaded")
end
local adapter_path, adapted = host.path("adapter_config.json")
if adapted then
    return host.wrong(adapter_path, "is there: transformers adds an adapter to the model; merge it " ..
        "(merge_and_unload()) and save that, or import a copy without this file")
end
local config, first = host.json("config.json")
if not first then
    return nil
elseif first ~= "{" then
    return host.wrong(config_path, "is no JSON object; the config.json of a model is needed")
end
local place, whole = host.path("model.safetensors")
local tensors, files
if whole then
    tensors, files = host.tensors("model.safetensors"), {"model.safetensors"}
else
    place, there = host.path("model.safetensors.index.json")
    if bare and not there then tensors, files = {}, {} end
    if not bare and not there then return no_weights() end
    local map = there and read_index(place)
    if map then tensors, files = read_shards(map, place) end
end
return tensors and {config = config, config_path = config_path, tensors = tensors, weights_path = place,
                    files = files}
