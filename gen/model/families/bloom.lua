-- SPDX-License-Identifier: MIT
-- BLOOM: alibi, a norm after the embedding; q, k and v of each head out of one matrix, one after the other.

return function(m)
    local c = m.config
    c:only("apply_residual_connection_post_layernorm", false, "norms behind residuals are not built for this family")
    c:ignore("slow_but_exact attention_softmax_in_fp32 bias_dropout_fusion masked_softmax_fusion offset_alibi " ..
             "skip_bias_add skip_bias_add_qkv n_inner")
    m:decoder{
        keys = {width = c:called("hidden_size", "n_embed"), layers = c:called("n_layer", "num_hidden_layers"),
                h = c:called("n_head", "num_attention_heads"), positions = "seq_length", eps = "layer_norm_epsilon",
                h_kv = false, d_k = false, d_ff = false},
        most = 2048, prefixes = {"transformer.", ""}, word = "word_embeddings", norm_in = "word_embeddings_layernorm",
        layer = "h.%d.", last = "ln_f", inner = 4, norm = "layer", eps = 1e-5, ffn = "gelu_tanh",
        ffn_of = "of every BLOOM", tied = true, attention = {o = "self_attention.dense"}, rope = false,
        ffn_modules = {["1"] = "mlp.dense_h_to_4h", ["2"] = "mlp.dense_4h_to_h"},
        biases = function() return "qkvo1" end,
        more = function(_, spec) spec:add("alibi", "true", "of every BLOOM") end,
        fused = function(_, w, at, of)
            m:split(w, at .. "self_attention.query_key_value", {{"q", of.d_k}, {"k", of.d_k}, {"v", of.d_k}}, false,
                    of.h)
        end,
    }
end
