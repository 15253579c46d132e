-- SPDX-License-Identifier: MIT
-- Gemma 3's text: Gemma 2 with queries and keys normed, a window in five layers of six, and there another rope_theta.
-- A gemma3 has its keys within text_config, and tensors of images, which are left out. EmbeddingGemma sees both ways.

return function(m)
    if m.kind == "gemma3" then
        m.config:ignore("vision_config mm_tokens_per_image boi_token_index eoi_token_index image_token_index " ..
                        "boi_token_id eoi_token_id image_token_id")
        m:within("text_config")
        m:buffers(".*vision_tower%..*", ".*multi_modal_projector%..*")
    end
    local c = m.config
    local size, every = c:size("sliding_window", 4096), c:size("sliding_window_pattern", 6)
    c:ignore("_sliding_window_pattern")
    local both = c:flag("use_bidirectional_attention", false)
    c:only("attn_logit_softcapping", nil, "no Gemma 3 has it")
    m:base("gemma2")(m, {
        keys = {act = "hidden_activation"}, heads_kv = 4, block = "sandwich",
        norms = {n1 = "input_layernorm", n2 = "post_attention_layernorm", n3 = "pre_feedforward_layernorm",
                 n4 = "post_feedforward_layernorm"},
        prefixes = {"model.", "language_model.model.", "model.language_model.", ""},
        head = m:has("language_model.lm_head.weight") and "language_model.lm_head" or nil,
        classes = {ForCausalLM = "words", TextModel = "", ForConditionalGeneration = "words", Model = "",
                   TextForSequenceClassification = m.kind ~= "gemma3" and "score" or nil},
        labels = "score",
        qk_norm = {q = "self_attn.q_norm", k = "self_attn.k_norm"},
        defaults = {hidden_size = 2304, num_hidden_layers = 26, num_attention_heads = 8, intermediate_size = 9216,
                    vocab_size = 262208, max_position_embeddings = 131072},
        windows = function(_, layers)
            local left, list = m:windows(layers, size, function(i) return (i + 1) % every > 0 end)
            return both and size // 2 or left, list
        end,
        both = both, window_key = both and "half of sliding_window" or nil,
        rope = m:ropes({"rope_local_base_freq", 10000}, {"rope_theta", 1000000}),
        more = function(_, spec)
            spec:add("scale", 1 / math.sqrt(c:number("query_pre_attn_scalar", 256)),
                     "1 over the root of query_pre_attn_scalar")
        end,
        logits = {softcap = c:number("final_logit_softcapping", false)},
    })
end
