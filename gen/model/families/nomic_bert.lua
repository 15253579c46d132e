-- SPDX-License-Identifier: MIT
-- Nomic's BERT: no biases, rotation in place of learned positions, a gated feed-forward; q, k and v out of one matrix.
-- Its published files have GPT-2's names of keys.

local nomic = {
    prefix = "nomic_bert.", learned = false, unbiased = true, layer = "encoder.layers.%d.", norm_in = "emb_ln",
    head_norm = "layer_norm",
    modules = {o = "attn.out_proj", g = "mlp.fc12", ["1"] = "mlp.fc11", ["2"] = "mlp.fc2"},
    classes = {Model = "base", ForMaskedLM = "words", ForSequenceClassification = "pooler classes",
               ForTokenClassification = "tokens"},
    idle = "fused_bias_fc fused_dropout_add_ln dense_seq_output max_trained_positions pad_vocab_size_multiple " ..
        "reorder_and_upcast_attn summary_activation summary_first_dropout summary_proj_to_labels summary_type " ..
        "summary_use_proj use_flash_attn use_xentropy scale_attn_by_inverse_layer_idx scale_attn_weights head_dim " ..
        "initializer_range",
}

function nomic.more(m, spec, d_k)
    m:rope(spec, {d_k = d_k, positions = m.seq_len}, nil, {theta = 1000, theta_key = m.config:called(
        "rotary_emb_base", "rope_theta")})
end

function nomic.weights(m, at, w, of)
    m:split(w, at .. "attn.Wqkv", {{"q", of.width}, {"k", of.width}, {"v", of.width}}, true)
    for i = 1, 2 do
        w[("n%d_g"):format(i)], w[("n%d_b"):format(i)] = m:norm_names(("%snorm%d"):format(at, i))
    end
end

return function(m)
    local c = m.config
    for key, right in pairs{qkv_proj_bias = false, mlp_fc1_bias = false, mlp_fc2_bias = false, prenorm = false,
                            parallel_block = false, causal = false, use_rms_norm = false, rotary_emb_fraction = 1,
                            rotary_emb_interleaved = false, parallel_block_tied_norm = false,
                            activation_function = "swiglu", layer_norm_epsilon = 1e-12} do
        c:only(key, right, "no published model of the family has another value")
    end
    c:only("rotary_scaling_factor", nil, "positions are not scaled")
    c:only("rotary_emb_scale_base", nil, "positions are not scaled")
    nomic.gates, nomic.gelu = m.gated, "silu"
    nomic.keys = {
        width = c:called("hidden_size", "n_embd"), h = c:called("num_attention_heads", "n_head"),
        layers = c:called("num_hidden_layers", "n_layer"), d_ff = c:called("intermediate_size", "n_inner"),
        activation = "hidden_act", eps = "layer_norm_eps",
        rows = c:called("max_position_embeddings", "n_positions")}
    m:base("bert")(m, nomic)
end
