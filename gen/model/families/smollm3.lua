-- SPDX-License-Identifier: MIT
-- SmolLM 3: Llama without rotation in every fourth layer, which may have a window.

return function(m)
    local c = m.config
    c:ignore("max_window_layers")
    local used, every = c:flag("use_sliding_window", false), c:size("no_rope_layer_interval", 4)
    local list = c:get("no_rope_layers")
    local function turned(i)
        local says = type(list) == "table" and list[i + 1]
        return list == nil and (i + 1) % every ~= 0 or says == 1 or says == true
    end
    m:decoder{
        heads_kv = 4, tied = true, turned = turned,
        rope = function(_, spec, of, layer) m:rope(spec, of, layer, {theta = 2000000}) end,
        windows = function(_, layers)
            if list ~= nil and (type(list) ~= "table" or #list ~= layers) then
                c:wrong("no_rope_layers", "is no list of %d numbers, one for each layer", layers)
            end
            return m:windows(layers, m:window_size(false), function(i) return used and not turned(i) end)
        end,
        biases = m.flagged_biases,
    }
end
