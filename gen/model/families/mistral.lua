-- SPDX-License-Identifier: MIT
-- Mistral: Llama with a window in every layer, or in none.

return function(m, kind)
    kind = kind or {heads_kv = 8}
    function kind.windows(_, layers)
        return m:windows(layers, m:window_size(4096), function() return true end, true)
    end
    m:decoder(kind)
end
