-- SPDX-License-Identifier: MIT
-- Gemma 2: norms around attention and feed-forward whose weights are stored less 1, softcaps of scores and logits, a
-- scale of its own, a window in every other layer, and an embedding that is scaled. Gemma 1 and 3 have from here what
-- they share.

return function(m, kind)
    local c = m.config
    kind = kind or {keys = {act = "hidden_activation"}, heads_kv = 4, block = "sandwich", norms = {
        n1 = "input_layernorm", n2 = "post_attention_layernorm", n3 = "pre_feedforward_layernorm",
        n4 = "post_feedforward_layernorm"}}
    local function softcap(key, default)
        return c.object[key] ~= m.null and c:number(key, default) or nil
    end
    kind.windows = kind.windows or function(_, layers)
        return m:windows(layers, c:size("sliding_window", 4096), function(i) return i % 2 == 0 end)
    end
    kind.more = kind.more or function(_, spec)
        spec:add("scale", 1 / math.sqrt(c:number("query_pre_attn_scalar", 256)),
                 "1 over the root of query_pre_attn_scalar")
        spec:add("softcap", softcap("attn_logit_softcapping", 50), "attn_logit_softcapping")
    end
    function kind.biases() return c:flag("attention_bias", false) and "qkvo" or "" end
    kind.logits = kind.logits or {softcap = softcap("final_logit_softcapping", 30)}
    kind.labels = kind.labels or "score tokens"
    kind.act, kind.width, kind.plus_one, kind.tied, kind.scale = "gelu_pytorch_tanh", 256, true, true, math.sqrt
    c:ignore("hidden_act attn_logit_softcapping final_logit_softcapping")
    c:only("sliding_window_size", c:get("sliding_window"), "it is another name of sliding_window")
    m:decoder(kind)
end
