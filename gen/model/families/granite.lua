-- SPDX-License-Identifier: MIT
-- Granite: Llama with a factor of the embedding, of scores, of what each part adds, and below the logits.

return function(m)
    local c = m.config
    m:decoder{
        labels = "",
        biases = m.flagged_biases,
        scale = function() return c:number("embedding_multiplier", 1.0) end,
        more = function(_, spec) spec:add("scale", c:number("attention_multiplier", 1.0), "attention_multiplier") end,
        residual = c:number("residual_multiplier", 1.0), logits = {scale = 1 / c:number("logits_scaling", 1.0)},
    }
end
