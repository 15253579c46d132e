-- SPDX-License-Identifier: MIT
-- Qwen 2 and 2.5: Llama with biases of queries, keys and values; a window in the upper layers if one is used. Qwen 3
-- has its windows from here.

return function(m, kind)
    kind = kind or {biases = function() return "qkv" end}
    kind.heads_kv = 32
    function kind.windows(_, layers)
        local c = m.config
        local used, first = c:flag("use_sliding_window", false), c:size("max_window_layers", kind.full_layers or 28, 0)
        c:ignore("sliding_window")
        return m:windows(layers, used and m:window_size(4096) or nil, function(i) return i >= first end)
    end
    m:decoder(kind)
end
