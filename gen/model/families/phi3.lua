-- SPDX-License-Identifier: MIT
-- Phi 3 and 4: Llama with q, k and v out of one matrix, gate and values of the feed-forward out of another.

return function(m)
    m.config:ignore("original_max_position_embeddings")
    m:decoder{
        labels = "score tokens",
        eps = 1e-5, attention = {o = "self_attn.o_proj"}, ffn_modules = {["2"] = "mlp.down_proj"},
        windows = function(_, layers) return m:every_window(layers, false) end,
        rope = function(_, spec, of, layer)
            m:rope(spec, of, layer, {partial = 1.0, original = 4096, kinds = { -- and the names of first releases
                default = "none", longrope = "longrope", su = "longrope", yarn = "longrope"}})
        end,
        fused = function(_, w, at, of)
            m:split(w, at .. "self_attn.qkv_proj", {{"q", of.h * of.d_k}, {"k", of.h_kv * of.d_k},
                                                    {"v", of.h_kv * of.d_k}}, true)
            m:split(w, at .. "mlp.gate_up_proj", {{"g", of.d_ff}, {"1", of.d_ff}}, true)
        end,
    }
end
