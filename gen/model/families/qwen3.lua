-- SPDX-License-Identifier: MIT
-- Qwen 3: Qwen 2 with queries and keys normed head by head, heads of a width of their own, and no biases unless
-- attention_bias says so.

return function(m)
    local function bias(c)
        return c:flag("attention_bias", false) and "all"
    end
    m:base("qwen2")(m, {width = 128, qk_norm = true, bias = bias})
end
