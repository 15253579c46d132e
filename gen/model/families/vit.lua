-- SPDX-License-Identifier: MIT
-- ViT: patches of an image and a class token in front of them, norms before attention and feed-forward.

local modules = {q = "attention.attention.query", k = "attention.attention.key", v = "attention.attention.value",
                 o = "attention.output.dense", ["1"] = "intermediate.dense", ["2"] = "output.dense",
                 n1 = "layernorm_before", n2 = "layernorm_after"}

-- A size that may be a list of two, which must then be alike.
local function square(c, key, default)
    local value = c:get(key)
    if type(value) == "table" and #value == 2 and value[1] == value[2] and math.tointeger(value[1]) then
        return math.tointeger(value[1])
    end
    return c:size(key, default)
end

return function(m)
    local c = m.config
    local does = m:class({Model = "base", ForImageClassification = "classes"},
                         {".*pooler%.dense%..*", "classifier%..*"}, "Model")
    local width, layers = c:size("hidden_size"), c:layers("num_hidden_layers")
    local eps = c:number("layer_norm_eps", 1e-12, 1)
    local image, patch, channels = square(c, "image_size", 224), square(c, "patch_size", 16), c:size("num_channels", 3)
    local biased = c:flag("qkv_bias", true)
    local pooled = c:size("pooler_output_size", false) or width
    local pooler = c:word("pooler_act", m.activations, "tanh")
    c:ignore("encoder_stride tie_word_embeddings")
    if patch > image or image % patch ~= 0 then
        c:wrong("image_size", "is %d, which is not a whole number of patches of %d", image, patch)
        patch = image
    end
    local side = image // patch
    local seq = side * side + 1
    m:lengths(seq, true)
    m.seq_len = seq
    if m.options.seq_len then
        m:wrong("", "--seq-len is not for images; they have %d tokens", seq)
    end

    local spec = m:spec("layer", "A layer with norms before attention and feed-forward")
    spec:add("d_model", width, "hidden_size"):add("h", c:size("num_attention_heads"), "num_attention_heads")
    spec:add("seq_len", seq, "the patches of image_size and patch_size, and the class")
    spec:add("bias", "true", not biased and "zeros of q, k and v without qkv_bias" or nil):weights_lie("out_in")
    spec:block("pre", "layer", eps, "layer_norm_eps")
    spec:add("ffn", c:word("hidden_act", m.activations, "gelu"), "hidden_act")
    spec:add("d_ff", c:size("intermediate_size"), "intermediate_size")

    local p = m:prefix({"vit.", ""}, "embeddings.cls_token")
    m:input("encoder", "patches", "pixels", width):add("image_size", image):add("patch_size", patch)
        :add("channels", channels):add("seq_len", seq)
    m:product("encoder patches", "patches", "A patch of an image as a row", {
        d_in = channels * patch * patch, d_out = width, rows = math.max(seq - 1, 1),
        module = p .. "embeddings.patch_embeddings.projection", shape = {width, channels, patch, patch}})
    m:section("encoder embedding"):weight("class", p .. "embeddings.cls_token", {1, 1, width})
        :weight("position", p .. "embeddings.position_embeddings", {1, seq, width})
    m:layers("encoder", layers, p .. "encoder.layer.%d.", function(at)
        local w = m:modules(at, modules)
        if not biased then
            w.b_q, w.b_k, w.b_v = m.zeros, m.zeros, m.zeros
        end
        return spec, w
    end)
    m:section("encoder norm"):norm("layer", eps, p .. "layernorm", width)
    m:pooler(does, p, width, pooled, pooler)
    m:classes(does, width)
    m:buffers(".*embeddings%.mask_token")
end
