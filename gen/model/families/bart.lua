-- SPDX-License-Identifier: MIT
-- BART: an encoder and a decoder with norms after their parts. A decoder's layer is two of ours: self-attention
-- without a feed-forward, then cross-attention with one. The files of mBART, Marian, M2M-100 (NLLB) and Pegasus say
-- what is different there:
--   block      pre: norms before the parts, and one after the last layer
--   norm_in    whether one stands after the embedding
--   offset     rows of positions before the first. computed: positions are sinusoids where the file has none: what the
--              exponents are divided by, by half of d_model
--   scaled     whether scale_embedding is true where config.json does not say
--   act        the activation where it does not
--   class      how the name of the class with logits ends. labels: classes with labels, as of decoder.lua

local EPS = 1e-5 -- of every norm; config.json does not say it
local attention = {q = ".q_proj", k = ".k_proj", v = ".v_proj", o = ".out_proj", n1 = "_layer_norm"}
local feed_forward = {["1"] = "fc1", ["2"] = "fc2", n2 = "final_layer_norm"}

-- Tensors of an attention `name` and its norm; `more`: other modules of the layer.
local function weights(m, at, name, more)
    local names = {}
    for letter, ending in pairs(attention) do names[letter] = name .. ending end
    return m:modules(at, more or {}, false, m:modules(at, names))
end

return function(m, other)
    local c, kind = m.config, setmetatable(other or {labels = "score spans"}, {
        __index = {block = "post", norm_in = true, offset = 2, act = "gelu", labels = ""}})
    local does = m:class(m:with_labels({Model = "", [kind.class or "ForConditionalGeneration"] = "words"}, kind.labels),
                         {"lm_head%..*", "final_logits_bias", "classification_head%..*", "qa_outputs%..*"})
    m.labels_default = not other and 3 or nil -- BartConfig's
    local width, vocab, positions = c:size("d_model"), c:size("vocab_size"), c:size("max_position_embeddings")
    local layers, deep = c:layers("encoder_layers"), c:layers("decoder_layers")
    local activation, tied = c:word("activation_function", m.activations, kind.act), c:flag("tie_word_embeddings", true)
    local scale = c:flag("scale_embedding", kind.scaled or false) and math.sqrt(width) or nil
    c:only("is_encoder_decoder", true, "the family has both stacks")
    c:only("num_hidden_layers", layers, "it is another name of encoder_layers")
    c:ignore("classif_dropout add_bias_logits add_final_layer_norm normalize_before normalize_embedding " ..
             "static_position_embeddings extra_pos_embeddings force_bos_token_to_be_generated")
    local seq, all, cache = m:lengths(positions, true, true)
    local far = math.min(m.options.seq_len or positions, positions) -- tokens of the encoder

    local function make(name, about, side, cross, fed)
        local spec = m:spec(name, about):add("d_model", width, "d_model")
        spec:add("h", c:size(side .. "_attention_heads"), side .. "_attention_heads")
        if side == "encoder" then
            spec:add("seq_len", far, "max_position_embeddings, or --seq-len"):padding()
        elseif cross then
            spec:add("attention", "cross"):add("seq_len", seq, "maximum of tokens in a call")
            spec:add("source_len", far, "the encoder's")
            spec:add("source_kept", "true", "keys and values of a source serve all later calls")
            spec:add("mask", "padding", "lengths are those of the encoder's call")
        else
            m:cache(spec, seq, all, cache)
            m:causal(spec)
        end
        spec:add("bias", "true"):weights_lie("out_in"):block(kind.block, "layer", EPS, "of every model of the family")
        if fed then
            spec:add("ffn", activation, "activation_function")
            spec:add("d_ff", c:size(side .. "_ffn_dim"), side .. "_ffn_dim")
        end
        return spec
    end
    local where = kind.block == "pre" and "before" or "behind"
    local about = "A layer with norms " .. where .. " attention and feed-forward"
    local first = make("encoder", about, "encoder", false, true)
    local own = make("decoder_self", "Self-attention with a norm " .. where .. " it", "decoder")
    about = "Attention to the encoder's rows and a feed-forward, with norms " .. where .. " both"
    local cross = make("decoder_cross", about, "decoder", true, true)

    local p = m:prefix({"model.", ""}, "encoder.layers.0.fc1.weight")
    local function stack(name, vocabulary, length)
        local word = p .. name .. ".embed_tokens.weight"
        word = m:has(word) and word or m:has(p .. "shared.weight") and p .. "shared.weight" or
               p .. (name == "encoder" and "decoder" or "encoder") .. ".embed_tokens.weight"
        m:input(name, "tokens", name == "encoder" and "ids lengths" or m:needs(cache, true), width)
            :add("vocab", vocabulary):add("seq_len", length)
        local section = m:section(name .. " embedding"):weight("word", word, {vocabulary, width}):add("scale", scale)
        local learned = p .. name .. ".embed_positions.weight"
        if kind.computed and not m:has(learned) then
            section:add("position", ("sinusoids over %d from %d"):format(kind.computed(width // 2), kind.offset))
        else
            section:weight("position", learned, {positions + kind.offset, width},
                           kind.offset > 0 and "from " .. kind.offset)
        end
        if kind.norm_in then section:norm("layer", EPS, p .. name .. ".layernorm_embedding", width) end
        return word
    end
    local function last(name)
        if kind.block == "pre" then
            m:section(name .. " norm"):norm("layer", EPS, p .. name .. ".layer_norm", width)
        end
    end
    stack("encoder", vocab, far)
    m:layers("encoder", layers, p .. "encoder.layers.%d.", function(at)
        return first, weights(m, at, "self_attn", feed_forward)
    end)
    last("encoder")
    local vocabulary = kind.vocab or vocab
    local word = stack("decoder", vocabulary, seq)
    m:layers("decoder", deep, p .. "decoder.layers.%d.", function(at)
        m:layer("decoder", own, weights(m, at, "self_attn"))
        return cross, weights(m, at, "encoder_attn", feed_forward), {{"source", "encoder"}}
    end)
    last("decoder")
    if does.words then
        m:logits("lm_head.weight", word, vocabulary, width, tied, {
            bias = m:has("final_logits_bias") and {name = "final_logits_bias", shape = {1, vocabulary}} or nil})
    end
    m:both_classes(does, width)
    m:buffers(".*shared%.weight", ".*embed_positions%.weights?", ".*[en]coder%.version", ".*embed_tokens%.weight")
end
