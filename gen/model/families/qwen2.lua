-- SPDX-License-Identifier: MIT
-- Qwen 2 and 2.5: Llama with biases of queries, keys and values; a window in the upper layers if one is used. Qwen 3
-- has its windows from here.

local function windows(m, layers)
    local c = m.config
    local used, first = c:flag("use_sliding_window", false), c:size("max_window_layers", 28, 0)
    c:ignore("sliding_window")
    local size = used and c.object.sliding_window ~= m.null and c:size("sliding_window", 4096) or nil
    return m:windows(layers, size, function(i) return i >= first end)
end

return function(m, kind)
    kind = kind or {bias = function() return "qkv" end}
    kind.act, kind.heads_kv, kind.windows = {"hidden_act", "silu"}, 32, windows
    m:base("llama")(m, kind)
end
