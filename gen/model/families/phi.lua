-- SPDX-License-Identifier: MIT
-- Phi 1, 1.5 and 2: attention and feed-forward side by side after one layer norm, some columns of a head rotated,
-- biases everywhere, of the logits too.

return function(m)
    local normed = m.config:flag("qk_layernorm", false)
    m:decoder{
        labels = "score tokens",
        keys = {eps = "layer_norm_eps"}, eps = 1e-5, norm = "layer", block = "parallel", norm_shared = true,
        attention = {q = "self_attn.q_proj", k = "self_attn.k_proj", v = "self_attn.v_proj", o = "self_attn.dense"},
        ffn_modules = {["1"] = "mlp.fc1", ["2"] = "mlp.fc2"}, norms = {n1 = "input_layernorm"}, gated = false,
        act = "gelu_new", last = "final_layernorm", biases = function() return "qkvo1" end,
        rope = function(_, spec, of, layer) m:rope(spec, of, layer, {partial = 0.5}) end,
        qk_norm = normed and {kind = "layer", shift = true, q = "self_attn.q_layernorm", k = "self_attn.k_layernorm"},
        logits = {bias = "lm_head.bias"},
    }
end
