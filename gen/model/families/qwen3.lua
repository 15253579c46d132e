-- SPDX-License-Identifier: MIT
-- Qwen 3: Qwen 2 with queries and keys normed head by head, heads of a width of their own, and no biases unless
-- attention_bias says so.

return function(m, kind)
    kind = kind or {}
    kind.width, kind.qk_norm = 128, {q = "self_attn.q_norm", k = "self_attn.k_norm"}
    function kind.biases(c) return c:flag("attention_bias", false) and "qkvo" or "" end
    m:base("qwen2")(m, kind)
end
