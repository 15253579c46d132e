-- SPDX-License-Identifier: MIT
-- Cohere's Command R: attention and feed-forward side by side after one layer norm without a shift, rotation of
-- neighbours, logits that are scaled. Cohere 2 says what is different there.

return function(m, more)
    local c = m.config
    local normed = c:flag("use_qk_norm", false)
    c:only("layer_norm_bias", false, "norms have no shift")
    local kind = {
        keys = {eps = "layer_norm_eps"}, eps = 1e-5, norm = "layer", shift = false, block = "parallel",
        labels = "", norm_shared = true, norms = {n1 = "input_layernorm"}, tied = true,
        biases = function() return c:flag("attention_bias", false) and "qkvo" or "" end,
        rope = function(_, spec, of, layer)
            m:rope(spec, of, layer, {kind = "interleaved", theta = more and 10000 or 500000})
        end,
        qk_norm = normed and {kind = "layer", q = "self_attn.q_norm", k = "self_attn.k_norm"},
        more = function(_, spec)
            if normed then spec:add("qk_norm_gains", "heads"):add("qk_norm_bias", "false") end
        end,
        logits = {scale = c:number("logit_scale", 0.0625)},
    }
    m:decoder(kind, more)
end
