-- SPDX-License-Identifier: MIT
-- StableLM: Llama with layer norms and some columns of a head rotated; attention and feed-forward may stand side by
-- side after one norm. Heads' queries and keys may be normed, with gains of each head's own.

return function(m)
    local c = m.config
    local side = c:flag("use_parallel_residual", false)
    c:ignore("norm_eps rope_pct")
    local normed = c:flag("qk_layernorm", false)
    m:decoder{
        labels = "score tokens",
        keys = {eps = "layer_norm_eps"}, eps = 1e-5, norm = "layer", heads_kv = 32,
        block = side and "parallel" or "pre", norm_shared = side,
        norms = {n1 = "input_layernorm", n2 = not side and "post_attention_layernorm" or nil},
        biases = function() return c:flag("use_qkv_bias", false) and "qkv" or "" end,
        qk_norm = normed and {kind = "layer", q = "self_attn.q_layernorm", k = "self_attn.k_layernorm",
                              each = "norms.%d.weight"},
        more = function(_, spec)
            if normed then spec:add("qk_norm_gains", "heads"):add("qk_norm_bias", "false") end
        end,
        rope = function(_, spec, of, layer) m:rope(spec, of, layer, {partial = 0.25}) end,
    }
end
