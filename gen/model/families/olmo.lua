-- SPDX-License-Identifier: MIT
-- OLMo: Llama with layer norms that have neither gain nor shift.

return function(m)
    local c = m.config
    c:only("clip_qkv", nil, "clamped queries, keys and values are not built")
    m:decoder{
        labels = "score",
        keys = {eps = false}, norm = "layer", eps = 1e-5, eps_of = "of every OLMo", gain = false,
        biases = function() return c:flag("attention_bias", false) and "qkvo" or "" end,
    }
end
