-- SPDX-License-Identifier: MIT
-- Whisper: two convolutions over a mel spectrogram, an encoder, a decoder whose layer is two of ours: self-attention
-- without a feed-forward, then cross-attention with one. Keys have no bias.

local EPS = 1e-5 -- of every norm; config.json does not say it
local CONV_ROWS = 128 -- of a call

-- Tensors of an attention `name` and its norm; `more`: other modules of the layer.
local function attention(m, at, name, more)
    local w = m:modules(at, {q = name .. ".q_proj", k = name .. ".k_proj", v = name .. ".v_proj",
                             o = name .. ".out_proj", n1 = name .. "_layer_norm"})
    w.b_k = m.zeros
    return m:modules(at, more or {}, false, w)
end

local feed_forward = {["1"] = "fc1", ["2"] = "fc2", n2 = "final_layer_norm"}

return function(m)
    local c = m.config
    local does = m:class({Model = "", ForConditionalGeneration = "words"}, {"proj_out%..*"})
    local width, vocab, mel = c:size("d_model"), c:size("vocab_size"), c:size("num_mel_bins")
    local layers, deep = c:layers("encoder_layers"), c:layers("decoder_layers")
    local far, positions = c:size("max_source_positions"), c:size("max_target_positions")
    local h, h_deep = c:size("encoder_attention_heads"), c:size("decoder_attention_heads")
    local inner, inner_deep = c:size("encoder_ffn_dim"), c:size("decoder_ffn_dim")
    local activation, tied = c:word("activation_function", m.activations, "gelu"), c:flag("tie_word_embeddings", true)
    c:only("scale_embedding", false, "transformers' decoder does not scale its embedding either")
    c:only("num_hidden_layers", layers, "it is another name of encoder_layers")
    c:ignore("is_encoder_decoder encoder_layerdrop decoder_layerdrop apply_spec_augment mask_time_prob " ..
             "mask_time_length mask_time_min_masks mask_feature_prob mask_feature_length mask_feature_min_masks " ..
             "median_filter_width use_weighted_layer_sum classifier_proj_size")
    local seq, all, cache = m:lengths(positions, true, true)

    local function start(kind, about, heads, key)
        return m:spec(kind, about):add("d_model", width, "d_model"):add("h", heads, key)
    end
    local function norms(spec)
        spec:add("bias", "true", "b_k is zeros: the model has none"):weights_lie("out_in")
        spec:block("pre", "layer", EPS, "of every Whisper")
    end
    local function feed(spec, d_ff, key)
        spec:add("ffn", activation, "activation_function"):add("d_ff", d_ff, key)
    end
    local first = start("encoder", "A layer with norms before attention and feed-forward", h, "encoder_attention_heads")
    first:add("seq_len", far, "max_source_positions")
    norms(first)
    feed(first, inner, "encoder_ffn_dim")
    local self = start("decoder_self", "Self-attention with a norm before it", h_deep, "decoder_attention_heads")
    m:cache(self, seq, all, cache)
    m:causal(self)
    norms(self)
    local cross = start("decoder_cross", "Attention to the encoder's rows and a feed-forward, with norms before both",
                        h_deep, "decoder_attention_heads")
    cross:add("attention", "cross"):add("seq_len", seq, "maximum of tokens in a call")
    cross:add("source_len", far, "max_source_positions")
    cross:add("source_kept", "true", "keys and values of a source serve all later calls")
    norms(cross)
    feed(cross, inner_deep, "decoder_ffn_dim")

    local p = m:prefix({"model.", ""}, "decoder.embed_tokens.weight")
    local word = p .. "decoder.embed_tokens.weight"
    m:input("encoder", "frames", "frames", width):add("mel", mel):add("frames", 2 * far):add("seq_len", far)
    for i, channels in ipairs{mel, width} do
        local name = ("conv_%d"):format(i)
        m:product("encoder " .. name, name, ("Convolution %d, of three neighbours"):format(i), {
            d_in = 3 * channels, d_out = width, rows = math.min(far, CONV_ROWS), activation = "gelu",
            module = ("%sencoder.conv%d"):format(p, i), shape = {width, channels, 3}}):add("stride", i)
    end
    m:section("encoder embedding"):weight("position", p .. "encoder.embed_positions.weight", {far, width})
    m:layers("encoder", layers, p .. "encoder.layers.%d.", function(at)
        return first, attention(m, at, "self_attn", feed_forward)
    end)
    m:section("encoder norm"):norm("layer", EPS, p .. "encoder.layer_norm", width)
    m:input("decoder", "tokens", m:needs(cache, true), width):add("vocab", vocab):add("seq_len", seq)
        :add("positions", positions)
    m:section("decoder embedding"):weight("word", word, {vocab, width})
        :weight("position", p .. "decoder.embed_positions.weight", {positions, width})
    m:layers("decoder", deep, p .. "decoder.layers.%d.", function(at)
        m:layer("decoder", self, attention(m, at, "self_attn"))
        return cross, attention(m, at, "encoder_attn", feed_forward), {{"source", "encoder"}}
    end)
    m:section("decoder norm"):norm("layer", EPS, p .. "decoder.layer_norm", width)
    if does.words then m:logits("proj_out.weight", word, vocab, width, tied) end
end
