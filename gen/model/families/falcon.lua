-- SPDX-License-Identifier: MIT
-- Falcon of 7B, 40B and 180B: q, k and v out of one matrix, by groups of heads; attention and feed-forward side by side
-- after one norm or two.

return function(m)
    local c = m.config
    local new, single = c:flag("new_decoder_architecture", false), c:flag("multi_query", true)
    local side = c:flag("parallel_attn", true)
    local norms = c:size("num_ln_in_parallel_attn", false) or new and 2 or 1
    local two = side and norms == 2
    c:only("alibi", false, "transformers rounds its slopes to bf16, which is not built")
    c:only("apply_residual_connection_post_layernorm", false, "norms behind residuals are not built for this family")
    if new and not side or two and not new then
        c:wrong("new_decoder_architecture", "is %s, and parallel_attn and num_ln_in_parallel_attn say otherwise",
                tostring(new))
    end
    c:ignore("num_kv_heads ff_factor")
    m:decoder{
        keys = {h_kv = new and "num_kv_heads" or false, width = c:called("hidden_size", "n_embed"), d_k = false,
                d_ff = "ffn_hidden_size", act = "activation", eps = "layer_norm_epsilon"},
        heads_all = not new and single and 1 or nil, most = 2048, prefixes = {"transformer.", ""},
        word = "word_embeddings", layer = "h.%d.", last = "ln_f", inner = 4, norm = "layer", eps = 1e-5, gated = false,
        act = "gelu", tied = true, block = side and "parallel" or "pre", norm_shared = side and not two,
        norms = two and {n1 = "ln_attn", n2 = "ln_mlp"} or
                {n1 = "input_layernorm", n2 = not side and "post_attention_layernorm" or nil},
        attention = {o = "self_attention.dense"},
        ffn_modules = {["1"] = "mlp.dense_h_to_4h", ["2"] = "mlp.dense_4h_to_h"},
        biases = function() return c:flag("bias", false) and "qkvo1" or "" end,
        fused = function(_, w, at, of)
            m:split(w, at .. "self_attention.query_key_value",
                    {{"q", of.h // of.h_kv * of.d_k}, {"k", of.d_k}, {"v", of.d_k}}, not of.bias, of.h_kv)
        end,
    }
end
