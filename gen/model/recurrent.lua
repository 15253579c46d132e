-- SPDX-License-Identifier: MIT
-- Gated DeltaNet, the recurrent layers of a family whose other layers are attention: for decoder.lua's `recurrent`. The
-- function that this file returns reads what Qwen3-Next, Qwen 3.5, OLMo Hybrid and Kimi Linear have in common. `how`:
--
--   default    function(i) → "linear_attention" or "full_attention" of layer i from 0 on, without layer_types
--   sizes      of heads and widths that config.json may leave out, by their keys
--   of, taps, named   in place of sizes: h_k, h_v, d_k, d_v; of the convolution; the keys of h and d
--   module     of recurrent layers; more: function(spec), keys of a spec that others do not have
--   products   function(m, w, at, of): w_q, w_k, w_v, w_a, w_b, w_z of the module `at`; of: h_k, h_v, d_k, d_v, width
--   norm, out  names of the modules of the norm of outputs, and of the product W_O
--   out_eps    of that norm, if it is not the model's
--   beta       factor of beta
--   block, norms   where recurrent layers have others than attention

return function(m, how)
    local c = m.config
    local function size(key)
        return c:size(key, how.sizes[key])
    end
    local of = how.of or {h_k = size("linear_num_key_heads"), h_v = size("linear_num_value_heads"),
                d_k = size("linear_key_head_dim"), d_v = size("linear_value_head_dim")}
    local taps = how.taps or c:size("linear_conv_kernel_dim", 4)
    local named = how.named or {h = "linear_num_key_heads", h_v = "linear_num_value_heads", d_k = "linear_key_head_dim",
                                d_v = "linear_value_head_dim", taps = "linear_conv_kernel_dim"}
    if of.h_v % of.h_k ~= 0 then
        c:wrong("linear_num_value_heads", "is %d, no multiple of the %d heads of keys", of.h_v, of.h_k)
    end
    c:word("hidden_act", {silu = "silu", swish = "silu"}, "silu") -- of the convolution too
    local recurrent = {block = how.block, norms = how.norms}

    -- Which of `count` layers have states: a list of booleans
    function recurrent.layers(count)
        local kinds, states = m:layer_types(count, "linear_attention full_attention"), {}
        for i = 1, count do
            states[i] = (kinds and kinds[i] or how.default(i - 1)) == "linear_attention"
        end
        return states
    end

    function recurrent.describe(spec, seq, layout)
        spec:add("layer", "recurrent"):add("h", of.h_k, named.h):add("h_v", of.h_v, named.h_v)
        spec:add("d_k", of.d_k, named.d_k):add("d_v", of.d_v, named.d_v):add("conv_taps", taps, named.taps)
        spec:add("qk_norm", "l2_sum"):add("qk_norm_eps", 1e-6, "of the family")
        if how.more then
            how.more(spec)
        else
            spec:add("out_gate", "silu")
        end
        spec:add("out_norm_eps", how.out_eps, "of the family")
        spec:add("beta_scale", how.beta ~= 1 and how.beta or nil, "linear_allow_neg_eigval")
        spec:add("seq_len", seq, "maximum of tokens in a call"):padding():weights_lie(layout)
    end

    -- Rows `from` to `to` - 1 of the convolution's `all` rows [taps], which lie in one tensor or three
    local function rows_of(at, from, to, all)
        local parts, first, entry = {}, 0, nil
        for i, letter in ipairs{"q", "k", "v"} do
            local name = at .. letter .. "_conv1d.weight"
            local shape = m.tensors[name]
            parts[i] = shape and {name = name, rows = shape[1]}
        end
        for _, part in ipairs(#parts == 3 and parts or {{name = at .. "conv1d.weight", rows = all}}) do
            local begin, ending = math.max(from - first, 0), math.min(to - first, part.rows)
            if begin < ending then
                local piece = {name = part.name, from = begin * taps, to = ending * taps, of = part.rows * taps,
                               shape = {part.rows, 1, taps}}
                if entry then
                    table.insert(entry.pieces, piece)
                else
                    entry, piece.pieces = piece, {}
                end
            end
            first = first + part.rows
        end
        return entry or {name = at .. "conv1d.weight", shape = {all, 1, taps}}
    end

    function recurrent.weights(w, at)
        at = at .. (how.module or "linear_attn") .. "."
        local keys, values = of.h_k * of.d_k, of.h_v * of.d_v
        local all, from = 2 * keys + values, 0
        for _, part in ipairs{{"q", keys}, {"k", keys}, {"v", values}} do
            w["conv_" .. part[1]] = rows_of(at, from, from + part[2], all)
            from = from + part[2]
        end
        w.a_log, w.dt_b, w.g_o = at .. "A_log", at .. "dt_bias", at .. how.norm .. ".weight"
        w.w_o = at .. how.out .. ".weight"
        how.products(m, w, at, of)
    end
    return recurrent
end
