-- SPDX-License-Identifier: MIT
-- ViT: patches of an image and a class token in front of them, norms before attention and feed-forward. DeiT has a
-- token of distillation after that of the class, and maybe a classifier of it. The files of CLIP and DINOv2 say what
-- is different there:
--   flat                      class and position have one axis less; all products of layers have biases, patches none
--   class, position, patch    tensors, the last where `flat`; class: false: there is none. patches: the module of a
--                             product with biases, in place of patch
--   first, last               modules of norms before and after the layers
--   prefixes, layer, modules  names; weights(at, w): other tensors of a layer
--   classes, heads(does, width)    in place of ViT's
--   activation, eps, patch_size    where config.json does not say
--   feed(spec, width)         lines of the feed-forward; registers: how many

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

return function(m, other)
    local c, deit, kind = m.config, m.kind == "deit", other or {}
    local does = m:class(kind.classes or {Model = "base", ForImageClassification = "classes",
                                          ForImageClassificationWithTeacher = deit and "teacher" or nil},
                         {".*pooler%.dense%..*", ".*classifier%..*"}, not kind.heads and "Model" or nil)
    local width, layers = c:size("hidden_size", kind.flat and 768), c:layers("num_hidden_layers", kind.flat and 12)
    local eps = c:number("layer_norm_eps", kind.eps or 1e-12, 1)
    local image, patch = square(c, "image_size", 224), square(c, "patch_size", kind.patch_size or 16)
    local channels, biased = c:size("num_channels", 3), kind.flat or c:flag("qkv_bias", true)
    c:ignore("tie_word_embeddings" .. (kind.heads and "" or " encoder_stride"))
    if patch > image or image % patch ~= 0 then
        c:wrong("image_size", "is %d, which is not a whole number of patches of %d", image, patch)
        patch = image
    end
    local side = image // patch
    local tokens = kind.class == false and 0 or deit and 2 or 1
    local seq = side * side + tokens + (kind.registers or 0)
    m:lengths(seq, true)
    m.seq_len = seq
    if m.options.seq_len then
        m:wrong("", "--seq-len is not for images; they have %d tokens", seq)
    end

    local spec = m:spec("layer", "A layer with norms before attention and feed-forward")
    spec:add("d_model", width, "hidden_size")
    spec:add("h", c:size("num_attention_heads", kind.flat and 12), "num_attention_heads")
    spec:add("seq_len", seq, "the patches of image_size and patch_size" .. (tokens > 0 and ", and the class" or "") ..
             (deit and " and distillation" or kind.registers and " and registers" or ""))
    spec:add("bias", "true", not biased and "zeros of q, k and v without qkv_bias" or nil):weights_lie("out_in")
    spec:block("pre", "layer", eps, "layer_norm_eps")
    if kind.feed then
        kind.feed(spec, width)
    else
        spec:add("ffn", c:word("hidden_act", m.activations, kind.activation or "gelu"), "hidden_act")
        spec:add("d_ff", c:size("intermediate_size", kind.flat and 3072), "intermediate_size")
    end

    local p = m:prefix(kind.prefixes or {deit and "deit." or "vit.", ""}, kind.class or kind.position or
                       "embeddings.cls_token")
    m:input("encoder", "patches", "pixels", width):add("image_size", image):add("patch_size", patch)
        :add("channels", channels):add("seq_len", seq)
    m:product("encoder patches", "patches", "A patch of an image as a row", {
        d_in = channels * patch * patch, d_out = width, rows = math.max(side * side, 1),
        module = not kind.patch and p .. (kind.patches or "embeddings.patch_embeddings.projection") or nil,
        w = kind.patch and p .. kind.patch,
        shape = {width, channels, patch, patch}})
    local embedding = m:section("encoder embedding")
    if tokens > 0 then
        embedding:weight("class", p .. (kind.class or "embeddings.cls_token"), kind.flat and {width} or {1, 1, width})
    end
    if deit then embedding:weight("distillation", p .. "embeddings.distillation_token", {1, 1, width}) end
    if kind.registers then
        embedding:weight("registers", p .. "embeddings.register_tokens", {1, kind.registers, width})
    end
    local places = seq - (kind.registers or 0)
    embedding:weight("position", p .. (kind.position or "embeddings.position_embeddings"),
                     kind.flat and {places, width} or {1, places, width})
    if kind.first then embedding:norm("layer", eps, p .. kind.first, width) end
    m:layers("encoder", layers, p .. (kind.layer or "encoder.layer.%d."), function(at)
        local w = m:modules(at, kind.modules or modules)
        if not biased then w.b_q, w.b_k, w.b_v = m.zeros, m.zeros, m.zeros end
        if kind.weights then kind.weights(at, w) end
        return spec, w
    end)
    m:section("encoder norm"):norm("layer", eps, p .. (kind.last or "layernorm"), width)
    m:buffers(".*embeddings%.mask_token", kind.flat and ".*embeddings%.position_ids" or nil)
    if kind.heads then return kind.heads(does, width, p, seq) end
    m:pooler(does, p, width, c:size("pooler_output_size", false) or width,
             c:word("pooler_act", m.activations, "tanh"))
    m:classes(does, width)
    local both = {{"cls_classifier", "first"}, {"distillation_classifier", "second"}}
    for _, head in ipairs(does.teacher and both or {}) do
        m:head(head[1], "encoder", head[2], {d_in = width, d_out = m:labels(), module = head[1]})
    end
end
