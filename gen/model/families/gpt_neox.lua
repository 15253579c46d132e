-- SPDX-License-Identifier: MIT
-- GPT-NeoX and Pythia: two norms before attention and feed-forward side by side, some columns of a head rotated; q, k
-- and v of each head out of one matrix, one after the other.

return function(m)
    local c = m.config
    m:decoder{
        keys = {eps = "layer_norm_eps", h_kv = false, d_k = false}, eps = 1e-5, norm = "layer",
        block = c:flag("use_parallel_residual", true) and "parallel" or "pre", prefixes = {"gpt_neox.", ""},
        word = "embed_in", last = "final_layer_norm", head = "embed_out", attention = {o = "attention.dense"},
        ffn_modules = {["1"] = "mlp.dense_h_to_4h", ["2"] = "mlp.dense_4h_to_h"}, gated = false, act = "gelu",
        biases = function() return (c:flag("attention_bias", true) and "qkvo" or "") .. "1" end,
        fused = function(_, w, at, of)
            m:split(w, at .. "attention.query_key_value", {{"q", of.d_k}, {"k", of.d_k}, {"v", of.d_k}}, not of.bias,
                    of.h)
        end,
        rope = function(_, spec, of, layer)
            m:rope(spec, of, layer, {partial = 0.25, partial_key = "rotary_pct", theta_key = "rotary_emb_base"})
        end,
        buffers = {".*attention%.bias", ".*attention%.masked_bias"},
    }
end
