-- SPDX-License-Identifier: MIT
-- Qwen 3.5's text and Qwen3-Next without experts: three recurrent layers of four, attention with gates in the others. A
-- qwen3_5 has its keys within text_config, and tensors of images, which are left out.

return function(m)
    local next_ = m.kind == "qwen3_next"
    if m.kind == "qwen3_5" then
        m.config:ignore("vision_config image_token_id video_token_id vision_start_token_id vision_end_token_id")
        m:within("text_config")
        m:buffers(".*visual%..*")
    end
    local c = m.config
    m:buffers("mtp%..*") -- tokens ahead, for speculation
    c:ignore("mtp_num_hidden_layers mtp_use_dedicated_embeddings attn_output_gate mamba_ssm_dtype " ..
             "output_router_logits router_aux_loss_coef norm_topk_prob moe_intermediate_size num_experts_per_tok " ..
             "shared_expert_intermediate_size mlp_only_layers")
    if next_ then
        local count, step = c:size("num_experts", 512, 0), c:size("decoder_sparse_step", 1)
        local dense, given = {}, c:get("mlp_only_layers")
        for _, i in ipairs(type(given) == "table" and given or {}) do dense[i] = true end
        for i = 0, c:layers("num_hidden_layers", 48) - 1 do
            if count > 0 and not dense[i] and (i + 1) % step == 0 then
                c:wrong("num_experts", "is %d, and layer %d has that many experts; they are not built", count, i)
                break
            end
        end
    end
    local every = c:size("full_attention_interval", 4)
    local function products(_, w, at, of)
        local r = of.h_v // of.h_k
        if next_ then -- of each head of keys in turn
            m:split(w, at .. "in_proj_qkvz", {{"q", of.d_k}, {"k", of.d_k}, {"v", r * of.d_v}, {"z", r * of.d_v}}, true,
                    of.h_k)
            m:split(w, at .. "in_proj_ba", {{"b", r}, {"a", r}}, true, of.h_k)
        else
            local keys = of.h_k * of.d_k
            m:split(w, at .. "in_proj_qkv", {{"q", keys}, {"k", keys}, {"v", of.h_v * of.d_v}}, true)
            for _, part in ipairs{"z", "b", "a"} do
                w["w_" .. part] = at .. "in_proj_" .. part .. ".weight"
            end
        end
    end
    m:decoder{
        plus_one = true, width = 256, heads_kv = next_ and 2 or 4,
        prefixes = {"model.language_model.", "language_model.model.", "model.", "language_model.", "",
                    "transformer."},
        head = m:has("language_model.lm_head.weight") and "language_model.lm_head" or nil,
        classes = next_ and {ForCausalLM = "words", Model = ""} or m.kind == "qwen3_5" and
                  {ForConditionalGeneration = "words", Model = "", ForCausalLM = "words"} or
                  {ForCausalLM = "words", TextModel = "", TextForSequenceClassification = "score"},
        labels = next_ and "score tokens spans" or "score tokens",
        defaults = {hidden_size = next_ and 2048 or 4096, num_hidden_layers = next_ and 48 or 32,
                    num_attention_heads = 16, intermediate_size = next_ and 5632 or 12288,
                    vocab_size = next_ and 151936 or 248320, max_position_embeddings = 32768},
        attention = {k = "self_attn.k_proj", v = "self_attn.v_proj", o = "self_attn.o_proj"},
        qk_norm = {q = "self_attn.q_norm", k = "self_attn.k_norm"},
        biases = function() return c:flag("attention_bias", false) and "qkvo" or "" end,
        fused = function(_, w, at, of)
            m:split(w, at .. "self_attn.q_proj", {{"q", of.d_k}, {"gate", of.d_k}}, not of.bias, of.h)
        end,
        rope = function(_, spec, of, layer)
            local keys = c:inner("rope_parameters")
            if keys then keys:ignore("mrope_section mrope_interleaved") end -- all axes of a text's position are alike
            m:rope(spec, of, layer, {partial = 0.25})
        end,
        more = function(_, spec) spec:add("gate", "features", "of the family") end,
        recurrent = {
            sizes = {linear_num_key_heads = 16, linear_num_value_heads = 32, linear_key_head_dim = 128,
                     linear_value_head_dim = 128},
            default = function(i) return (i + 1) % every ~= 0 and "linear_attention" or "full_attention" end,
            products = products, norm = "norm", out = "out_proj", beta = 1,
        },
    }
end
