-- SPDX-License-Identifier: MIT
-- OLMo 2: Llama with norms of what attention and feed-forward put out, and of all heads of queries and keys. OLMo 3 has
-- windows in three layers of four, and its scaled rotation in the others. OLMo Hybrid has its attention from here.

return function(m, more)
    local c, new = m.config, m.kind == "olmo3"
    local kind = {
        labels = "score",
        eps = 1e-5, block = "outputs", norms = {n1 = "post_attention_layernorm", n2 = "post_feedforward_layernorm"},
        qk_norm = {kind = "rms_all", q = "self_attn.q_norm", k = "self_attn.k_norm"},
        biases = function() return c:flag("attention_bias", false) and "qkvo" or "" end,
        windows = new and function(_, layers)
            return m:windows(layers, m:window_size(4096), function(i) return (i + 1) % 4 ~= 0 end)
        end or nil,
        rope = new and m:ropes({nil, 500000}, {"rope_theta", 500000}) or nil,
    }
    m:decoder(kind, more)
end
