-- SPDX-License-Identifier: MIT
-- CLIP's text, whose tokens see those before them, and its pictures. A file with both has the one that its class names.
-- A text's embedding is that of its last token, the end mark; the rows of a picture's stack are after the last norm.
-- SigLIP's text, from here, sees both ways, padding too, and its embedding is that of the last row. Its pictures have
-- no class token; their embedding is what a learned query sees.

local modules = {q = "self_attn.q_proj", k = "self_attn.k_proj", v = "self_attn.v_proj", o = "self_attn.out_proj",
                 ["1"] = "mlp.fc1", ["2"] = "mlp.fc2", n1 = "layer_norm1", n2 = "layer_norm2"}

local function embeddings(m, does, of)
    if does.pooled then
        m:section("encoder pooling"):add("kind", "last"):add("normalize", "false")
        local head = of.word:gsub("embeddings.*", "") .. "head"
        m:product("head dense", "dense", "What a text's last row is multiplied by", {
            d_in = of.width, d_out = m.config:size("projection_size", false) or of.width, rows = 16, module = head})
            :add("from", "encoder pooling"):add("rows", "first")
    elseif does.project then
        m:head("text_embeds", "decoder", "all", {d_in = of.width, w = "text_projection.weight",
                                                 d_out = m.config:size("projection_dim", 512)})
    end
end

local function text(m, sig)
    m:buffers("vision_model%..*", "visual_projection%..*", "logit_scale", "logit_bias", "text_projection%..*",
              ".*embeddings%.position_ids")
    local size = sig and 768 or 512
    m:decoder{
        keys = {eps = "layer_norm_eps", h_kv = false, d_k = false}, eps = sig and 1e-6 or 1e-5, norm = "layer",
        both = sig, gated = false, act = sig and "gelu_pytorch_tanh" or "quick_gelu",
        rope = false, prefixes = {"text_model.", ""}, word = "embeddings.token_embedding",
        positions = {"embeddings.position_embedding"}, layer = "encoder.layers.%d.", last = "final_layer_norm",
        norms = {n1 = modules.n1, n2 = modules.n2}, ffn_modules = {["1"] = modules["1"], ["2"] = modules["2"]},
        attention = {q = modules.q, k = modules.k, v = modules.v, o = modules.o},
        biases = function() return "qkvo1" end,
        classes = sig and {TextModel = "pooled"} or {TextModel = "", TextModelWithProjection = "project",
                  VisionModelWithProjection = m.kind == "clip" and "" or nil}, -- which is not read here
        defaults = {hidden_size = size, intermediate_size = 4 * size, num_hidden_layers = 12,
                    num_attention_heads = size // 64, vocab_size = sig and 32000 or 49408,
                    max_position_embeddings = sig and 64 or 77},
        heads = embeddings,
    }
end

-- SigLIP's embedding of a picture: what a learned query sees of its rows, then a feed-forward
local function probe(m, kind, width, p, seq)
    local at, c = p .. "head.", m.config
    local rows = m:spec("probe", "Attention of one learned query to a picture's rows")
    rows:add("attention", "cross"):add("d_model", width):add("h", c:size("num_attention_heads", 12))
    rows:add("seq_len", 1):add("source_len", seq):add("bias", "true"):weights_lie("out_in")
    local spec = m:spec("pooled", "The feed-forward of what the query has seen")
    spec:add("layer", "ffn"):add("d_model", width):add("seq_len", 1):weights_lie("out_in")
    spec:block("pre", "layer", kind.eps, "layer_norm_eps")
    spec:add("ffn", kind.act):add("d_ff", kind.inner):add("ffn_bias", "true")
    m:section("encoder pooling"):add("kind", "probe"):add("normalize", "false")
        :weight("probe", at .. "probe", {1, 1, width})
    local w = m:modules(at .. "attention.", {o = "out_proj"})
    for i, letter in ipairs{"q", "k", "v"} do
        w["w_" .. letter] = m:columns(at .. "attention.in_proj_weight", (i - 1) * width, i * width, 3 * width)
        w["b_" .. letter] = m:columns(at .. "attention.in_proj_bias", (i - 1) * width, i * width, 3 * width)
    end
    local feed = m:modules(at, {n1 = "layernorm", ["1"] = "mlp.fc1", ["2"] = "mlp.fc2"})
    for _, of in ipairs{{"probe", rows, w}, {"pooled", spec, feed}} do
        local section = m:section("encoder " .. of[1]):add("spec", of[2].name .. ".layer")
        section.spec, section.weights = of[2], of[3]
    end
end

local function pictures(m, sig)
    local c, classes = m.config, {VisionModelWithProjection = "project"}
    c:ignore("projection_dim vocab_size max_position_embeddings")
    m:buffers("text_model%..*", "text_projection%..*", "logit_scale", "logit_bias")
    if sig then
        classes = {VisionModel = "pooled", ForImageClassification = m.kind == "siglip" and "classes" or nil}
    end
    local pools = sig and c:flag("vision_use_head", true)
    m:base("vit")(m, {
        flat = true, classes = classes, prefixes = {"vision_model.", ""},
        activation = sig and "gelu_pytorch_tanh" or "quick_gelu", eps = sig and 1e-6 or 1e-5,
        class = not sig and "embeddings.class_embedding", position = "embeddings.position_embedding.weight",
        patch = not sig and "embeddings.patch_embedding.weight", patches = "embeddings.patch_embedding",
        patch_size = sig and 16 or 32, first = not sig and "pre_layrnorm" or nil, last = "post_layernorm",
        layer = "encoder.layers.%d.", modules = modules,
        heads = function(does, width, p, seq)
            if not sig then
                m:head("image_embeds", "encoder", "first", {d_in = width, w = "visual_projection.weight",
                                                            d_out = c:size("projection_dim", 512)})
            elseif does.classes then
                m:buffers(".*vision_model%.head%..*")
                m:classifier{module = "classifier", width = width, from = "encoder", rows = "mean"}
            elseif pools then
                probe(m, {eps = c:number("layer_norm_eps", 1e-6), inner = c:size("intermediate_size", 3072),
                          act = c:word("hidden_act", m.activations, "gelu_pytorch_tanh")}, width, p, seq)
            end
        end,
    })
end

return function(m)
    local top, sig = m.config, m.kind:find("^siglip") ~= nil
    local names = top:get("architectures")
    local name = type(names) == "table" and tostring(names[1]) or ""
    local seen = m.kind:find("vision", 1, true) or name:find("Vision", 1, true) or name:find("Image", 1, true)
    local key = seen and "vision_config" or "text_config"
    if m.kind == "clip" or m.kind == "siglip" then
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
    if seen then return pictures(m, sig) end
    m.config:ignore("projection_dim")
    return text(m, sig)
end
