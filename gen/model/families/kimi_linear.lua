-- SPDX-License-Identifier: MIT
-- Kimi Linear without experts: Kimi Delta Attention in most layers, latent attention as DeepSeek V3's in the others,
-- whose shared part of keys is not rotated.

return function(m)
    local c = m.config
    local layers, inner = c:layers("num_hidden_layers", 27), c:inner("linear_attn_config")
    local function size(key, within, default) -- of transformers 5, or as published
        return inner and inner:size(within, false) or c:size(key, default)
    end
    local h, d = size("linear_num_heads", "num_heads", 32), size("linear_head_dim", "head_dim", 128)
    local taps = size("linear_conv_kernel_dim", "short_conv_kernel_size", 4)
    local full, given = {}, inner and inner:get("kda_layers") and inner:get("full_attn_layers")
    for _, i in ipairs(type(given) == "table" and given or {}) do full[i] = true end
    local kinds, dense = c:get("mlp_layer_types"), c:size("first_k_dense_replace", 1, 0)
    for i = 1, layers do
        if kinds ~= nil and (type(kinds) ~= "table" or kinds[i] ~= "dense") or kinds == nil and i > dense then
            c:wrong(kinds and "mlp_layer_types" or "first_k_dense_replace",
                    "gives layer %d of %d experts, which are not built", i, layers)
            break
        end
    end
    c:ignore("num_experts num_experts_per_token num_shared_experts num_expert_group moe_renormalize " ..
             "moe_router_activation_func moe_layer_freq use_grouped_topk")
    c:only("mla_use_nope", true, "latent attention is not rotated")
    local positions = c:get("model_max_length") and "model_max_length" or "max_position_embeddings"
    local moe = "layers.0.block_sparse_moe.gate_proj.weight" -- as transformers 5 saves it
    local ffn = (m:has("model." .. moe) or m:has(moe)) and "block_sparse_moe." or "mlp."
    m:base("minicpm3")(m, {
        labels = "", eps = 1e-5, keys = {d_k = false, h_kv = false, positions = positions},
        ffn_modules = {g = ffn .. "gate_proj", ["1"] = ffn .. "up_proj", ["2"] = ffn .. "down_proj"},
        defaults = {hidden_size = 2304, num_hidden_layers = 27, num_attention_heads = 32, intermediate_size = 9216,
                    vocab_size = 163840, [positions] = 1048576},
        recurrent = {
            of = {h_k = h, h_v = h, d_k = d, d_v = d}, taps = taps, module = "self_attn", norm = "o_norm",
            out = "o_proj",
            named = {h = "linear_num_heads", h_v = "linear_num_heads", d_k = "linear_head_dim", d_v = "linear_head_dim",
                     taps = "linear_conv_kernel_dim"},
            default = function(i)
                local is_full = given and full[i + 1] or not given and i > 0 and i % 4 == 0
                return is_full and "full_attention" or "linear_attention"
            end,
            more = function(spec)
                spec:add("decay", "column"):add("decay_rank", d):add("gate_rank", d):add("out_gate", "sigmoid")
            end,
            products = function(_, w, at)
                local names = {q = "q", k = "k", v = "v", b = "b", da = "f_a", a = "f_b", dz = "g_a", z = "g_b"}
                for ours, theirs in pairs(names) do
                    w["w_" .. ours] = at .. theirs .. "_proj.weight"
                end
                w.a_log = m:columns(at .. "A_log", 0, h, h)
                w.a_log.shape = {1, 1, h, 1}
            end,
        },
    })
end
