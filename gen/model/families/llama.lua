-- SPDX-License-Identifier: MIT
-- Llama, and what is built like it: rotation, grouped heads, rms norms, a gated feed-forward. The files of Mistral,
-- Qwen 2 and 3 and Gemma 2 say what is different there:
--   act        the key of the activation, and its default
--   heads_kv   how many heads of keys where config.json does not say; nil: as many as of queries
--   width      d_k where config.json does not say; nil: d_model / h
--   bias       "all" and "qkv": biases of q, k, v and of o; "qkv": never of o. A function of the config
--   ffn_bias   the same of the feed-forward, true or false
--   windows    function(m, layers) → how far a window reaches, which layers have one; nil: none
--   sandwich, plus_one, qk_norm, tied   as their names say
--   more       function(m, spec): keys of a spec that others do not have
--   scale      function(width) → a factor of the embedding
--   softcap    of the logits

local function weights(m, kind, at, bias, ffn_bias)
    local w = m:modules(at .. "self_attn.", {q = "q_proj", k = "k_proj", v = "v_proj", o = "o_proj"}, not bias)
    w.b_o = bias == "qkv" and m.zeros or w.b_o
    m:modules(at .. "mlp.", {g = "gate_proj", ["1"] = "up_proj", ["2"] = "down_proj"}, not ffn_bias, w)
    for norm, name in pairs(kind.sandwich and
                            {n1 = "input_layernorm", n2 = "post_attention_layernorm", n3 = "pre_feedforward_layernorm",
                             n4 = "post_feedforward_layernorm"} or
                            {n1 = "input_layernorm", n2 = "post_attention_layernorm"}) do
        w[norm .. "_g"] = kind.plus_one and m:plus_one(at .. name .. ".weight") or at .. name .. ".weight"
    end
    if kind.qk_norm then
        w.g_q, w.g_k = at .. "self_attn.q_norm.weight", at .. "self_attn.k_norm.weight"
    end
    return w
end

local function llama_bias(c)
    return c:flag("attention_bias", false) and "all"
end

return function(m, kind)
    kind = kind or {act = {"hidden_act", "silu"}, bias = llama_bias, ffn_bias = m.config:flag("mlp_bias", false)}
    local c = m.config
    local does = m:class({Model = "", ForCausalLM = "words"}, {"lm_head%..*"})
    local width, layers, vocab = c:size("hidden_size"), c:layers("num_hidden_layers"), c:size("vocab_size")
    local h, eps = c:size("num_attention_heads"), c:number("rms_norm_eps", 1e-6, 1)
    local positions = c:size("max_position_embeddings")
    local h_kv, d_k = c:size("num_key_value_heads", false), c:size("head_dim", kind.width or false)
    h_kv = h_kv or c.object.num_key_value_heads == nil and kind.heads_kv or h
    local inner, activation = c:size("intermediate_size"), c:word(kind.act[1], m.gated, kind.act[2])
    local bias = kind.bias and kind.bias(c)
    local tied = c:flag("tie_word_embeddings", kind.tied or false)
    local left, windowed
    if kind.windows then
        left, windowed = kind.windows(m, layers)
    end
    c:ignore("pretraining_tp")
    local seq, all, cache = m:lengths(positions, false, true)
    if not d_k and width % h ~= 0 then
        c:wrong("hidden_size", "is %d, no multiple of num_attention_heads, and there is no head_dim", width)
    end
    local d_head = d_k or width // h

    local function make_spec(name, about, reach)
        local spec = m:spec(name, about)
        spec:add("d_model", width, "hidden_size"):add("h", h, "num_attention_heads")
        spec:add("h_kv", h_kv, "num_key_value_heads")
        if d_k then
            spec:add("d_k", d_k, "head_dim"):add("d_v", d_k, "head_dim")
        end
        m:cache(spec, seq, all, cache, reach)
        if reach then
            m:causal(spec, "+window"):add("window_left", reach, "sliding_window less the query's own position")
        else
            m:causal(spec)
        end
        spec:add("bias", bias and "true" or "false", bias == "qkv" and "b_o is zeros: the model has none" or nil)
        spec:weights_lie("out_in")
        m:rope(spec, positions)
        spec:add("qk_norm", kind.qk_norm and "rms" or nil)
        if kind.more then
            kind.more(m, spec)
        end
        spec:block(kind.sandwich and "sandwich" or "pre", "rms", eps, "rms_norm_eps")
        spec:add("ffn", activation, kind.act[1]):add("d_ff", inner, "intermediate_size")
        if bias or kind.ffn_bias then
            spec:add("ffn_bias", kind.ffn_bias and "true" or "false")
        end
        return spec
    end
    local any, full = false, false
    for i = 1, layers do
        any, full = any or left and windowed[i], full or not (left and windowed[i])
    end
    local about = kind.sandwich and "A layer with norms around attention and feed-forward"
               or "A layer with norms before attention and feed-forward"
    local plain = full and make_spec(any and "full" or "layer", about)
    local window = any and make_spec(full and "window" or "layer", about .. ", and a window", left)

    local p = m:prefix({"model.", ""}, "embed_tokens.weight")
    local word = p .. "embed_tokens.weight"
    m:input("decoder", "tokens", m:needs(cache), width):add("vocab", vocab):add("seq_len", seq)
        :add("positions", positions)
    m:section("decoder embedding"):weight("word", word, {vocab, width}):add("scale", kind.scale and kind.scale(width))
    m:layers("decoder", layers, p .. "layers.%d.", function(at, i)
        return left and windowed[i + 1] and window or plain, weights(m, kind, at, bias, kind.ffn_bias)
    end)
    m:section("decoder norm"):norm("rms", eps, p .. "norm", width, kind.plus_one and "plus_one")
    if does.words then
        m:logits("lm_head.weight", word, vocab, width, tied, {softcap = kind.softcap})
    end
    m:buffers(".*layers%.%d+%.self_attn%.rotary_emb%.inv_freq", ".*rotary_emb%.inv_freq")
end
