-- SPDX-License-Identifier: MIT
-- ViT: patches of an image and a class token in front of them, norms before attention and feed-forward. DeiT has a
-- token of distillation behind that of the class, and maybe a classifier of it.

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
    local c, deit = m.config, m.kind == "deit"
    local does = m:class({Model = "base", ForImageClassification = "classes",
                          ForImageClassificationWithTeacher = deit and "teacher" or nil},
                         {".*pooler%.dense%..*", ".*classifier%..*"}, "Model")
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
    local seq = side * side + (deit and 2 or 1)
    m:lengths(seq, true)
    m.seq_len = seq
    if m.options.seq_len then
        m:wrong("", "--seq-len is not for images; they have %d tokens", seq)
    end

    local spec = m:spec("layer", "A layer with norms before attention and feed-forward")
    spec:add("d_model", width, "hidden_size"):add("h", c:size("num_attention_heads"), "num_attention_heads")
    spec:add("seq_len", seq, "the patches of image_size and patch_size, and the class" ..
             (deit and " and distillation" or ""))
    spec:add("bias", "true", not biased and "zeros of q, k and v without qkv_bias" or nil):weights_lie("out_in")
    spec:block("pre", "layer", eps, "layer_norm_eps")
    spec:add("ffn", c:word("hidden_act", m.activations, "gelu"), "hidden_act")
    spec:add("d_ff", c:size("intermediate_size"), "intermediate_size")

    local p = m:prefix({deit and "deit." or "vit.", ""}, "embeddings.cls_token")
    m:input("encoder", "patches", "pixels", width):add("image_size", image):add("patch_size", patch)
        :add("channels", channels):add("seq_len", seq)
    m:product("encoder patches", "patches", "A patch of an image as a row", {
        d_in = channels * patch * patch, d_out = width, rows = math.max(side * side, 1),
        module = p .. "embeddings.patch_embeddings.projection", shape = {width, channels, patch, patch}})
    local embedding = m:section("encoder embedding"):weight("class", p .. "embeddings.cls_token", {1, 1, width})
    if deit then
        embedding:weight("distillation", p .. "embeddings.distillation_token", {1, 1, width})
    end
    embedding:weight("position", p .. "embeddings.position_embeddings", {1, seq, width})
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
    local both = {{"cls_classifier", "first"}, {"distillation_classifier", "second"}}
    for _, head in ipairs(does.teacher and both or {}) do
        m:head(head[1], "encoder", head[2], {d_in = width, d_out = m:labels(), module = head[1]})
    end
    m:buffers(".*embeddings%.mask_token")
end
