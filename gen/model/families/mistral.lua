-- SPDX-License-Identifier: MIT
-- Mistral: Llama with a window in every layer, or in none.

local function windows(m, layers)
    local size = m.config.object.sliding_window ~= m.null and m.config:size("sliding_window", 4096) or nil
    return m:windows(layers, size, function() return true end, true)
end

return function(m)
    m:base("llama")(m, {act = {"hidden_act", "silu"}, heads_kv = 8, windows = windows})
end
