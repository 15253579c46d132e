-- SPDX-License-Identifier: MIT
-- Qwen 2 and 2.5: Llama with biases of queries, keys and values; a window in the upper layers if one is used. Qwen 3
-- has its windows from here.

local function windows(m, layers)
    local c = m.config
    local used, first = c:flag("use_sliding_window", false), c:size("max_window_layers", 28, 0)
    if not used then
        c:ignore("sliding_window")
        for i, windowed in ipairs(m:windows(layers, function() return false end)) do
            if windowed then
                c:wrong("layer_types", "has sliding_attention in layer %d, and use_sliding_window is false", i - 1)
                break
            end
        end
        return nil
    end
    return c:size("sliding_window", 4096) - 1, m:windows(layers, function(i) return i >= first end)
end

return function(m, kind)
    kind = kind or {bias = function() return "qkv" end}
    kind.act, kind.heads_kv, kind.windows = {"hidden_act", "silu"}, 32, windows
    m:base("llama")(m, kind)
end
