-- SPDX-License-Identifier: MIT
-- Keys of every config.json that do not change what the layers compute: what training did, what a tokenizer, a pipeline
-- or generate() read, and what a model returns besides.
return [[
    _name_or_path _model_name_or_path _commit_hash _num_labels _attn_implementation _attn_implementation_autoset
    _flash_attn_2_enabled attn_implementation model_type transformers_version torch_dtype dtype auto_map
    custom_pipelines
    dropout dropout_rate activation_dropout attention_dropout attention_probs_dropout_prob classifier_dropout
    hidden_dropout_prob hidden_dropout attn_pdrop embd_pdrop resid_pdrop qa_dropout seq_classif_dropout layerdrop
    residual_dropout embedding_dropout resid_dropout embed_dropout encoder_layerdrop decoder_layerdrop
    bos_token eos_token pad_token name pad_token_id bos_token_id eos_token_id eos_token_ids sep_token_id
    cls_token_id mask_token_id unk_token_id decoder_start_token_id
    forced_bos_token_id forced_eos_token_id forced_decoder_ids suppress_tokens begin_suppress_tokens bad_words_ids
    use_cache return_dict output_attentions output_hidden_states output_past torchscript xla_device use_bfloat16
    tf_legacy_loss gradient_checkpointing initializer_range initializer_factor init_std neftune_noise_alpha
    chunk_size_feed_forward num_labels id2label label2id problem_type finetuning_task task_specific_params
    tokenizer_class prefix predict_special_tokens n_special model_max_length max_sequence_length directionality
    temperature top_k top_p typical_p num_beams num_beam_groups diversity_penalty do_sample early_stopping max_length
    min_length max_new_tokens length_penalty repetition_penalty no_repeat_ngram_size encoder_no_repeat_ngram_size
    num_return_sequences output_scores return_dict_in_generate remove_invalid_values exponential_decay_length_penalty
    epsilon_cutoff eta_cutoff encoder_repetition_penalty num_assistant_tokens num_assistant_tokens_schedule
    assistant_confidence_threshold assistant_lookbehind target_lookbehind generation_config cache_implementation
    alignment_heads is_multilingual lang_to_id language no_timestamps_token_id prev_sot_token_id return_timestamps task
    task_to_id max_initial_timestamp_index
    sbert_ce_default_activation_function sentence_transformers unsloth_fixed unsloth_version is_llama_config
    transformers.js_config full_attn_mod interpolate_factor replacing_rate save_step
]]
