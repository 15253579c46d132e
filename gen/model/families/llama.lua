-- SPDX-License-Identifier: MIT
-- Llama: what gen/model/decoder.lua is without a word.

return function(m)
    m:decoder{biases = function(c)
        return (c:flag("attention_bias", false) and "qkvo" or "") .. (c:flag("mlp_bias", false) and "1" or "")
    end}
end
