-- SPDX-License-Identifier: MIT
-- Whisper: two convolutions over a mel spectrogram, an encoder, a decoder whose layer is two of ours: self-attention
-- without a feed-forward, then cross-attention with one. Keys have no bias.

local EPS = 1e-5 -- of every norm; config.json does not say it
local CONV_ROWS = 128 -- of a call

local function attention(m, w, at, norm)
    for ours, name in pairs{q = "q_proj", v = "v_proj", o = "out_proj"} do
        w["w_" .. ours], w["b_" .. ours] = at .. name .. ".weight", at .. name .. ".bias"
    end
    w.w_k, w.b_k = at .. "k_proj.weight", m.zeros
    w.n1_g, w.n1_b = norm .. ".weight", norm .. ".bias"
    return w
end

local function feed_forward(w, at)
    w.w_1, w.b_1, w.w_2, w.b_2 = at .. "fc1.weight", at .. "fc1.bias", at .. "fc2.weight", at .. "fc2.bias"
    w.n2_g, w.n2_b = at .. "final_layer_norm.weight", at .. "final_layer_norm.bias"
    return w
end

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
        local spec = m:spec(kind, about)
        spec.out_in = true
        return spec:add("d_model", width, "d_model"):add("h", heads, key)
    end
    local function norms(spec)
        spec:add("bias", "true", "b_k is zeros: the model has none"):add("weight_layout", "out_in")
        spec:add("block", "pre"):add("norm", "layer"):add("norm_eps", EPS, "of every Whisper")
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
    m:say("d_model", width)
    m:section("encoder input"):add("kind", "frames"):add("needs", "frames"):add("mel", mel):add("frames", 2 * far)
        :add("seq_len", far)
    for i, channels in ipairs{mel, width} do
        local name = ("conv_%d"):format(i)
        m:product("encoder " .. name, name, ("Convolution %d, of three neighbours"):format(i), {
            d_in = 3 * channels, d_out = width, rows = math.min(far, CONV_ROWS), activation = "gelu",
            w = ("%sencoder.conv%d.weight"):format(p, i), b = ("%sencoder.conv%d.bias"):format(p, i),
            shape = {width, channels, 3}}):add("stride", i)
    end
    m:section("encoder embedding"):weight("position", p .. "encoder.embed_positions.weight", {far, width})
    local function last_norm(stack)
        local norm = p .. stack .. ".layer_norm."
        m:section(stack .. " norm"):norm("layer", EPS, norm .. "weight", norm .. "bias", width)
    end
    for i = 0, layers - 1 do
        local at = ("%sencoder.layers.%d."):format(p, i)
        m:layer("encoder", i, first,
                feed_forward(attention(m, {}, at .. "self_attn.", at .. "self_attn_layer_norm"), at))
    end
    last_norm("encoder")
    m:section("decoder input"):add("kind", "tokens"):add("needs", m:needs(cache, true))
        :add("vocab", vocab):add("seq_len", seq):add("positions", positions)
    m:section("decoder embedding"):weight("word", word, {vocab, width})
        :weight("position", p .. "decoder.embed_positions.weight", {positions, width})
    for i = 0, deep - 1 do
        local at = ("%sdecoder.layers.%d."):format(p, i)
        m:layer("decoder", 2 * i, self, attention(m, {}, at .. "self_attn.", at .. "self_attn_layer_norm"))
        local w = attention(m, {}, at .. "encoder_attn.", at .. "encoder_attn_layer_norm")
        m:layer("decoder", 2 * i + 1, cross, feed_forward(w, at), {{"source", "encoder"}})
    end
    last_norm("decoder")
    if does.words then
        m:logits("proj_out.weight", word, vocab, width, tied)
    end
end
