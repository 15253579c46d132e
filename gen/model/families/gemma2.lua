-- SPDX-License-Identifier: MIT
-- Gemma 2: norms around attention and feed-forward whose weights are stored less 1, softcaps of scores and logits, a
-- scale of its own, a window in every other layer, and an embedding that is scaled.

local function windows(m, layers)
    return m:windows(layers, m.config:size("sliding_window", 4096), function(i) return i % 2 == 0 end)
end

local function more(m, spec)
    local c = m.config
    spec:add("scale", 1 / math.sqrt(c:number("query_pre_attn_scalar", 256)), "1 over the root of query_pre_attn_scalar")
    if c.object.attn_logit_softcapping ~= m.null then
        spec:add("softcap", c:number("attn_logit_softcapping", 50), "attn_logit_softcapping")
    end
end

return function(m)
    local c = m.config
    c:ignore("hidden_act attn_logit_softcapping final_logit_softcapping")
    c:only("sliding_window_size", c:get("sliding_window"), "it is another name of sliding_window")
    m:base("llama")(m, {
        act = {"hidden_activation", "gelu_pytorch_tanh"}, heads_kv = 4, width = 256, sandwich = true, plus_one = true,
        tied = true, windows = windows, more = more, scale = math.sqrt,
        bias = function() return c:flag("attention_bias", false) and "all" end,
        softcap = c.object.final_logit_softcapping ~= m.null and c:number("final_logit_softcapping", 30) or nil,
    })
end
