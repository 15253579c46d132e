-- SPDX-License-Identifier: MIT
-- MiniCPM 3, and DeepSeek V2 and V3 without experts: Llama with latent attention (docs/latent.md). MiniCPM 3 has
-- factors too. Kimi Linear has its attention from here, without rotation, and keys of decoder.lua, `more`.

return function(m, more)
    local c, mini = m.config, m.kind == "minicpm3"
    local v3 = m.kind == "deepseek_v3"
    local layers = c:layers("num_hidden_layers", mini and 62 or v3 and 61 or more and 27 or 32)
    local dense = mini or more or c:size("first_k_dense_replace", v3 and 3 or 0, 0) >= layers
    if not dense then
        c:wrong("first_k_dense_replace", "is less than the number of layers, %d: the layers after it have experts, " ..
                "which are not built", layers)
    end
    c:ignore("head_dim num_key_value_heads qk_head_dim moe_intermediate_size n_shared_experts n_routed_experts " ..
             "routed_scaling_factor n_group topk_group num_experts_per_tok norm_topk_prob output_router_logits " ..
             "topk_method aux_loss_alpha seq_aux moe_layer_freq scoring_func num_mtp_layers " ..
             "num_nextn_predict_layers " ..
             "ep_size router_aux_loss_coef mlp_layer_types qk_nope_head_dim first_k_dense_replace")
    local h = c:size("num_attention_heads", mini and 40 or v3 and 128 or 32)
    local rank = c:size("kv_lora_rank", mini and 256 or 512)
    local q_default = not more and c.object.q_lora_rank == nil and (mini and 768 or 1536) -- null: none
    local q_rank = c:size("q_lora_rank", q_default)
    local nope, dims = c:size("qk_nope_head_dim", mini and 64 or 128), c:size("qk_rope_head_dim", mini and 32 or 64)
    local value = c:size("v_head_dim", not mini and 128) or nope
    local apart = mini or v3 and not c:flag("rope_interleave", true)
    local kind = {
        labels = v3 and "score tokens" or "score",
        defaults = {hidden_size = mini and 2560 or v3 and 7168 or 4096, num_hidden_layers = layers,
                    num_attention_heads = h, intermediate_size = mini and 6400 or v3 and 18432 or 11008,
                    vocab_size = mini and 73448 or v3 and 129280 or 32000,
                    max_position_embeddings = mini and 32768 or v3 and 4096 or 2048},
        keys = {d_k = false, h_kv = false}, eps = mini and 1e-5 or 1e-6, tied = mini,
        attention = {q = q_rank and "self_attn.q_b_proj" or "self_attn.q_proj", dq = q_rank and "self_attn.q_a_proj",
                     dkv = "self_attn.kv_a_proj_with_mqa", o = "self_attn.o_proj"},
        biases = function() return m.flagged_biases(c, v3 or more) end,
        fused = function(_, w, at)
            m:split(w, at .. "self_attn.kv_b_proj", {{"uk", nope}, {"uv", value}}, true, h)
            w.b_q = nil -- of W_DQ and W_DKV alone
            w.g_dkv = at .. "self_attn.kv_a_layernorm.weight"
            w.g_dq = q_rank and at .. "self_attn.q_a_layernorm.weight" or nil
        end,
        rope = function(_, spec, of, layer)
            if more then
                spec:add("rope", "none"):add("rope_dims", dims, "qk_rope_head_dim")
                return
            end
            m:rope(spec, setmetatable({d_k = dims}, {__index = of}), layer,
                   {kind = not apart and "interleaved" or nil,
                    kinds = {default = "none", longrope = mini and "longrope" or nil,
                             yarn = not mini and "yarn" or nil}})
            spec:add("rope_dims", dims, "qk_rope_head_dim")
            local from = not mini and (c:inner("rope_parameters") or c:inner("rope_scaling"))
            local all = from and (from:get("rope_type") or from:get("type")) == "yarn" and
                        from:number("mscale_all_dim", false)
            if all then -- scores of longer contexts
                local factor = from:number("factor", of.positions / from:number("original_max_position_embeddings", 1))
                local more = factor <= 1 and 1 or 0.1 * all * math.log(factor) + 1
                spec:add("scale", more ^ 2 / (nope + dims) ^ 0.5, "1 over the root of d_k, for mscale_all_dim")
            end
        end,
        more = function(_, spec)
            spec:add("d_k", nope + dims, "qk_nope_head_dim + qk_rope_head_dim"):add("d_v", value, "v_head_dim")
            spec:add("kv_rank", rank, "kv_lora_rank"):add("q_rank", q_rank, "q_lora_rank")
            spec:add("qk_norm_eps", 1e-6, "of the family")
        end,
        scale = mini and function() return c:number("scale_emb", 12) end or nil,
        residual = mini and c:number("scale_depth", 1.4) / layers ^ 0.5 or nil,
        logits = mini and {scale = c:number("dim_model_base", 256) / c:size("hidden_size", 2560)} or nil,
    }
    m:decoder(kind, more)
end
