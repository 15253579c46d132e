-- SPDX-License-Identifier: MIT
-- Gemma 1: Gemma 2's gains and embedding in a layer as Llama's.

return function(m)
    local gated = setmetatable({gelu = "geglu_tanh"}, {__index = m.gated}) -- the name of the first releases
    m.config:ignore("hidden_activation")
    m:base("gemma2")(m, {heads_kv = 16, ffn = m.config:word("hidden_act", gated, "gelu_pytorch_tanh"),
                         ffn_of = "hidden_act", windows = false, more = function() end, logits = {}})
end
