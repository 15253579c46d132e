-- SPDX-License-Identifier: MIT
-- Ministral: Mistral whose layers may each have a window or none.

return function(m)
    m:decoder{heads_kv = 8, windows = function(_, layers)
        return m:windows(layers, m:window_size(4096), function() return true end)
    end}
end
