-- SPDX-License-Identifier: MIT
-- Mistral: Llama with a window in every layer, or in none.

local function windows(m, layers)
    local c = m.config
    if c.object.sliding_window == m.null then -- absent means 4096, null that there is none
        c:ignore("sliding_window")
        return nil
    end
    local windowed = m:windows(layers, function() return true end)
    return c:size("sliding_window", 4096) - 1, windowed
end

return function(m)
    m:base("llama")(m, {act = {"hidden_act", "silu"}, heads_kv = 8, windows = windows})
end
