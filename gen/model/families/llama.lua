-- SPDX-License-Identifier: MIT
-- Llama: what gen/model/decoder.lua is without a word.

return function(m)
    m:decoder{biases = m.flagged_biases}
end
