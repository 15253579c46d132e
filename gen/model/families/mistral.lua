-- SPDX-License-Identifier: MIT
-- Mistral: Llama with a window in every layer, or in none.

return function(m, kind)
    kind = kind or {heads_kv = 8}
    function kind.windows(_, layers) return m:every_window(layers, 4096) end
    m:decoder(kind)
end
