-- SPDX-License-Identifier: MIT
-- CLIP's text, whose tokens see those before them, and its pictures. A file with both has the one that its class names.
-- A text's embedding is that of its last token, the end mark; the rows of a picture's stack are behind the last norm.

local modules = {q = "self_attn.q_proj", k = "self_attn.k_proj", v = "self_attn.v_proj", o = "self_attn.out_proj",
                 ["1"] = "mlp.fc1", ["2"] = "mlp.fc2", n1 = "layer_norm1", n2 = "layer_norm2"}

local function text(m)
    m:buffers("vision_model%..*", "visual_projection%..*", "logit_scale", "text_projection%..*")
    m:decoder{
        keys = {eps = "layer_norm_eps", h_kv = false, d_k = false}, eps = 1e-5, norm = "layer", gated = false,
        act = "quick_gelu", rope = false, prefixes = {"text_model.", ""}, word = "embeddings.token_embedding",
        positions = {"embeddings.position_embedding"}, layer = "encoder.layers.%d.", last = "final_layer_norm",
        norms = {n1 = modules.n1, n2 = modules.n2}, ffn_modules = {["1"] = modules["1"], ["2"] = modules["2"]},
        attention = {q = modules.q, k = modules.k, v = modules.v, o = modules.o},
        biases = function() return "qkvo1" end,
        classes = {TextModel = "", TextModelWithProjection = "project",
                   VisionModelWithProjection = m.kind == "clip" and "" or nil}, -- which is not read here
        defaults = {hidden_size = 512, intermediate_size = 2048, num_hidden_layers = 12, num_attention_heads = 8,
                    vocab_size = 49408, max_position_embeddings = 77},
        heads = function(_, does, of)
            if does.project then
                m:head("text_embeds", "decoder", "all", {d_in = of.width, w = "text_projection.weight",
                                                         d_out = m.config:size("projection_dim", 512)})
            end
        end,
    }
end

return function(m)
    local top = m.config
    local names = top:get("architectures")
    local pictures = m.kind == "clip_vision_model" or
                     type(names) == "table" and tostring(names[1]):find("Vision", 1, true) ~= nil
    local key = pictures and "vision_config" or "text_config"
    if m.kind == "clip" then
        local old = top:get(key .. "_dict") -- which would count in place of the object
        top:ignore("vision_config text_config vision_config_dict text_config_dict projection_dim " ..
                   "logit_scale_init_value")
        m:within(key)
        for name, value in pairs(type(old) == "table" and old or {}) do
            if value ~= m.null and m.config.object[name] ~= value and type(value) ~= "table" then
                m.config:wrong(name, "is %s, and %s_dict says otherwise", tostring(m.config.object[name]), key)
            end
        end
    end
    m.config:ignore("projection_dim vocab_size max_position_embeddings")
    if not pictures then
        return text(m)
    end
    m:buffers("text_model%..*", "text_projection%..*", "logit_scale")
    m:base("vit")(m, {
        flat = true, classes = {VisionModelWithProjection = "project"},
        prefixes = {"vision_model.", ""}, activation = "quick_gelu",
        eps = 1e-5, class = "embeddings.class_embedding", position = "embeddings.position_embedding.weight",
        patch = "embeddings.patch_embedding.weight", patch_size = 32, first = "pre_layrnorm", last = "post_layernorm",
        layer = "encoder.layers.%d.", modules = modules, heads = function(does, width)
            m:head("image_embeds", "encoder", "first", {d_in = width, w = "visual_projection.weight",
                                                        d_out = m.config:size("projection_dim", 512)})
        end,
    })
end
