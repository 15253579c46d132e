-- SPDX-License-Identifier: MIT
-- StarCoder 2: Llama with layer norms, biases, a feed-forward without a gate, and a window in every layer, or in none.

return function(m)
    m.config:ignore("activation_function layer_norm_epsilon norm_type attention_softmax_in_fp32 " ..
                    "scale_attention_softmax_in_fp32 scale_attn_weights mlp_type")
    m:decoder{
        labels = "score tokens",
        keys = {eps = "norm_epsilon"}, eps = 1e-5, norm = "layer", heads_kv = 2, gated = false, tied = true,
        act = "gelu_pytorch_tanh", ffn_modules = {["1"] = "mlp.c_fc", ["2"] = "mlp.c_proj"},
        biases = function(c) return c:flag("use_bias", true) and "qkvo1" or "" end,
        windows = function(_, layers) return m:every_window(layers, false) end,
    }
end
