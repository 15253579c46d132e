-- SPDX-License-Identifier: MIT
-- Llama: what gen/model/decoder.lua is without a word.

return function(m)
    m.config:ignore("activation parallel_attn") -- Falcon 3's
    m:decoder{biases = m.flagged_biases}
end
