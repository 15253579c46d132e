-- SPDX-License-Identifier: MIT
-- Mamba-2: layers of states alone, each behind a norm, without a feed-forward. Its C, B and x are queries, keys and
-- values here, its groups their heads.

return function(m)
    local c = m.config
    local does = m:class({Model = "", ForCausalLM = "words"}, {"lm_head%..*"})
    local width, layers = c:size("hidden_size", 4096), c:layers("num_hidden_layers", 64)
    local h, d_v, d_k = c:size("num_heads", 128), c:size("head_dim", 64), c:size("state_size", 128)
    local groups, taps, eps = c:size("n_groups", 8), c:size("conv_kernel", 4), c:number("layer_norm_epsilon", 1e-5, 1)
    local bias, conv_bias, expand = c:flag("use_bias", false), c:flag("use_conv_bias", true), c:number("expand", 2)
    local vocab, tied = c:size("vocab_size", 32768), c:flag("tie_word_embeddings", false)
    c:word("hidden_act", {silu = "silu", swish = "silu"}, "silu") -- of the convolution; the gate's is silu always
    c:ignore("chunk_size residual_in_fp32 time_step_rank time_step_min time_step_max time_step_floor " ..
             "intermediate_size norm_before_gate rms_norm time_step_init_scheme time_step_scale")
    c:only("rescale_prenorm_residual", false, "transformers divides out_proj once more when it reads such a model")
    if math.floor(expand * width) ~= h * d_v then
        c:wrong("expand", "is %g, times hidden_size %d not the %d columns of num_heads and head_dim", expand, width,
                h * d_v)
    elseif h % groups ~= 0 then
        c:wrong("n_groups", "is %d, which does not divide the %d heads", groups, h)
    end
    local limits, range = {}, c:get("time_step_limit") or {0, {__float__ = "Infinity"}}
    for i = 1, 2 do
        local limit = type(range) == "table" and range[i]
        local none = i == 2 and type(limit) == "table" and limit.__float__ == "Infinity"
        if not none and not (math.type(limit) and limit >= 0 and limit < math.huge) then
            c:wrong("time_step_limit", "is no list of two numbers, 0 or more; write for example [0.0, 1.0]")
            break
        end
        limits[i] = not none and limit > 0 and limit or nil
    end
    if type(range) == "table" and range[2] == 0 then
        c:wrong("time_step_limit", "lets no token change a state; write a limit above 0")
    end
    for _, key in ipairs{"cache", "cache_len"} do
        if m.options[key] then
            m:wrong("", "--%s is for models that keep keys; %s models keep states alone", key:gsub("_", "-"), m.family)
        end
    end
    local seq = m:lengths(math.max(m.CACHE_DEFAULT, m.options.seq_len or 1), false, true)

    local spec = m:spec("layer", "A layer with a state in place of keys, behind a norm")
    spec:add("layer", "recurrent"):add("rule", "gated"):add("d_model", width, "hidden_size")
    spec:add("h", groups, "n_groups"):add("h_v", h, "num_heads")
    spec:add("d_k", d_k, "state_size"):add("d_v", d_v, "head_dim")
    spec:add("scale", 1):add("conv_taps", taps, "conv_kernel"):add("conv_bias", conv_bias, "use_conv_bias")
    spec:add("bias", bias, "use_bias"):add("dt_values", "true"):add("skip", "true")
    spec:add("dt_min", limits[1], "time_step_limit"):add("dt_max", limits[2], "time_step_limit")
    spec:add("out_gate", "silu"):add("norm_before_gate", "false"):add("out_norm_groups", groups, "n_groups")
    spec:add("cache_type", m.options.cache_type, "--cache-type")
    spec:add("seq_len", seq, "maximum of tokens in a call"):padding():weights_lie("out_in")
    spec:block("pre", "rms", eps, "layer_norm_epsilon")

    local wide, keys = h * d_v, groups * d_k
    local all = wide + 2 * keys -- rows of the convolution: values, keys, queries
    local function weights(at)
        local w = m:modules(at, {n1 = "norm", o = "mixer.out_proj"}, not bias)
        w.n1_b = nil
        m:split(w, at .. "mixer.in_proj", {{"z", wide}, {"v", wide}, {"k", keys}, {"q", keys}, {"a", h}}, not bias)
        local from = 0
        for _, part in ipairs{{"v", wide}, {"k", keys}, {"q", keys}} do
            local to = from + part[2]
            local rows = m:columns(at .. "mixer.conv1d.weight", from * taps, to * taps, all * taps)
            rows.shape = {all, 1, taps}
            w["conv_" .. part[1]] = rows
            w["conv_" .. part[1] .. "_b"] = conv_bias and m:columns(at .. "mixer.conv1d.bias", from, to, all) or nil
            from = to
        end
        for ours, theirs in pairs{a_log = "A_log", dt_b = "dt_bias", skip = "D", g_o = "norm.weight"} do
            w[ours] = at .. "mixer." .. theirs
        end
        return spec, w
    end
    local old = m:has("backbone.embedding.weight") or m:has("embedding.weight")
    local embedding = old and "embedding.weight" or "embeddings.weight"
    local p = m:prefix({"backbone.", ""}, embedding)
    m:input("decoder", "tokens", m:needs("rows"), width):add("vocab", vocab):add("seq_len", seq)
    m:section("decoder embedding"):weight("word", p .. embedding, {vocab, width})
    m:layers("decoder", layers, p .. "layers.%d.", weights)
    m:section("decoder norm"):norm("rms", eps, p .. "norm_f", width)
    if does.words then m:logits("lm_head.weight", p .. embedding, vocab, width, tied) end
end
