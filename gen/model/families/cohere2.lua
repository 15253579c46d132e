-- SPDX-License-Identifier: MIT
-- Cohere 2: Command R with a window in three layers of four, and rotation in those alone.

return function(m)
    local every = m.config:size("sliding_window_pattern", 4)
    m.config:ignore("head_dim layer_switch order_of_interleaved_layers rotary_pct position_embedding_type " ..
                    "use_embedding_sharing use_gated_activation use_parallel_block use_parallel_embedding")
    m:base("cohere")(m, {
        turned = function(_, window) return window end,
        windows = function(_, layers)
            return m:windows(layers, m:window_size(4096), function(i) return (i + 1) % every ~= 0 end)
        end,
    })
end
