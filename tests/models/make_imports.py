#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes imports/: a folder for each model that test_import.sh imports, as save_pretrained() of the transformers package
writes it: config.json and model.safetensors, of a few KiB and with drawn weights. Some are then changed into what older
versions or other authors write. README.md says which.

    python3 make_imports.py [NAME…]      needs the packages of requirements.txt

The same versions write the same bytes. check_import.py compares what attngen makes of them with the package's answers.
"""
import json
import pathlib
import shutil
import sys

import torch
import transformers as t
from safetensors.torch import load_file, save_file

HERE = pathlib.Path(__file__).parent / "imports"
SMALL = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=20, vocab_size=19)
ROPE = dict(SMALL, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=40)
T5 = dict(d_model=16, d_kv=6, d_ff=20, num_layers=2, num_heads=2, vocab_size=19, decoder_start_token_id=0,
          relative_attention_num_buckets=8, relative_attention_max_distance=12)
BERT = dict(SMALL, max_position_embeddings=12)
LLAMA3 = dict(rope_type="llama3", rope_theta=5000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=20)
YARN = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=10)

# name → class, config, type of the numbers
MODELS = {
    "bert": (t.BertModel, t.BertConfig(**BERT), "float32"),
    "bert_words": (t.BertForPreTraining, t.BertConfig(**BERT, hidden_act="gelu_new"), "float16"),
    "bert_classes": (t.BertForSequenceClassification, t.BertConfig(**BERT, num_labels=3), "float32"),
    "bert_tokens": (t.BertForTokenClassification, t.BertConfig(**BERT, num_labels=3), "float32"),
    "roberta": (t.RobertaForMaskedLM, t.RobertaConfig(**BERT), "float32"),
    "roberta_classes": (t.RobertaForSequenceClassification, t.RobertaConfig(**BERT, num_labels=3), "bfloat16"),
    "distilbert": (t.DistilBertForMaskedLM, t.DistilBertConfig(
        dim=16, n_layers=2, n_heads=2, hidden_dim=20, vocab_size=19, max_position_embeddings=12), "float32"),
    "vit": (t.ViTForImageClassification, t.ViTConfig(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=20, image_size=12, patch_size=4,
        num_labels=3), "float32"),
    "gpt2": (t.GPT2LMHeadModel, t.GPT2Config(n_embd=16, n_layer=2, n_head=2, vocab_size=19, n_positions=12), "float32"),
    "llama": (t.LlamaForCausalLM, t.LlamaConfig(**ROPE, rope_parameters=LLAMA3), "bfloat16"),
    "llama_bias": (t.LlamaForCausalLM, t.LlamaConfig(
        **ROPE, attention_bias=True, mlp_bias=True, tie_word_embeddings=True, rope_parameters=YARN), "float32"),
    "mistral": (t.MistralForCausalLM, t.MistralConfig(**ROPE, sliding_window=6, head_dim=6), "float32"),
    "qwen2": (t.Qwen2ForCausalLM, t.Qwen2Config(**ROPE), "float32"),
    "qwen2_window": (t.Qwen2ForCausalLM, t.Qwen2Config(
        **ROPE, use_sliding_window=True, sliding_window=5, max_window_layers=1), "float32"),
    "qwen3": (t.Qwen3ForCausalLM, t.Qwen3Config(**ROPE, head_dim=6), "float32"),
    "gemma2": (t.Gemma2ForCausalLM, t.Gemma2Config(
        **ROPE, head_dim=6, query_pre_attn_scalar=20, sliding_window=5, attn_logit_softcapping=2.0,
        final_logit_softcapping=3.0), "float32"),
    "t5": (t.T5ForConditionalGeneration, t.T5Config(**T5), "float32"),
    "t5_gated": (t.T5ForConditionalGeneration, t.T5Config(
        **T5, feed_forward_proj="gated-gelu", tie_word_embeddings=False, num_decoder_layers=1), "float32"),
    "t5_tables": (t.T5ForConditionalGeneration, t.T5Config(**T5), "float32"),
    "whisper": (t.WhisperForConditionalGeneration, t.WhisperConfig(
        d_model=16, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2, decoder_attention_heads=2,
        encoder_ffn_dim=20, decoder_ffn_dim=24, vocab_size=19, max_source_positions=10, max_target_positions=12,
        num_mel_bins=5, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1), "float32"),
}
# Families that came later, each with what is its own: seeds are their places, so new ones stand at the end.
ONE = dict(ROPE, num_hidden_layers=1)
FALCON = dict(hidden_size=16, num_hidden_layers=1, num_attention_heads=4, vocab_size=19, ffn_hidden_size=20,
              max_position_embeddings=40)
PART = dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5)
BART = dict(d_model=8, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2,
            encoder_ffn_dim=12, decoder_ffn_dim=12, vocab_size=19, max_position_embeddings=12, pad_token_id=1,
            decoder_start_token_id=2)
HYBRID = dict(dict(ROPE, num_hidden_layers=3), layer_types=["linear_attention", "full_attention", "linear_attention"],
              linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=5, linear_value_head_dim=6)
PICTURES = dict(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=12, patch_size=4)
LATENT = dict(hidden_size=16, intermediate_size=20, num_attention_heads=2, num_key_value_heads=2, vocab_size=19,
              max_position_embeddings=40, kv_lora_rank=9, qk_rope_head_dim=4, qk_nope_head_dim=6, v_head_dim=5,
              pad_token_id=0)
MORE = {
    "gemma": (t.GemmaForCausalLM, t.GemmaConfig(**ONE, head_dim=6), "bfloat16"),
    "gemma3_text": (t.Gemma3ForCausalLM, t.Gemma3TextConfig(
        **ROPE, head_dim=6, query_pre_attn_scalar=20, sliding_window=5, layer_types=["sliding_attention", "full_attention"]),
        "bfloat16"),
    "phi": (t.PhiForCausalLM, t.PhiConfig(**ONE, rope_parameters=PART), "bfloat16"),
    "phi3": (t.Phi3ForCausalLM, t.Phi3Config(**ONE, sliding_window=5, pad_token_id=0), "bfloat16"),
    "starcoder2": (t.Starcoder2ForCausalLM, t.Starcoder2Config(**ONE, sliding_window=5), "bfloat16"),
    "ministral": (t.MinistralForCausalLM, t.MinistralConfig(
        **ROPE, head_dim=6, sliding_window=5, layer_types=["sliding_attention", "full_attention"]), "bfloat16"),
    "smollm3": (t.SmolLM3ForCausalLM, t.SmolLM3Config(**ROPE, no_rope_layers=[1, 0], pad_token_id=0), "bfloat16"),
    "stablelm": (t.StableLmForCausalLM, t.StableLmConfig(**ONE, use_qkv_bias=True, rope_parameters=PART), "bfloat16"),
    "cohere": (t.CohereForCausalLM, t.CohereConfig(**ONE), "bfloat16"),
    "cohere2": (t.Cohere2ForCausalLM, t.Cohere2Config(
        **ROPE, sliding_window=5, layer_types=["sliding_attention", "full_attention"]), "bfloat16"),
    "granite": (t.GraniteForCausalLM, t.GraniteConfig(
        **ONE, attention_bias=True, embedding_multiplier=3.0, logits_scaling=4.0, residual_multiplier=0.22,
        attention_multiplier=0.3), "bfloat16"),
    "gptj": (t.GPTJForCausalLM, t.GPTJConfig(
        n_embd=16, n_layer=1, n_head=2, vocab_size=19, n_positions=12, rotary_dim=4, n_inner=20), "bfloat16"),
    "gpt_neo": (t.GPTNeoForCausalLM, t.GPTNeoConfig(
        hidden_size=16, num_layers=2, num_heads=2, vocab_size=19, max_position_embeddings=12, window_size=4,
        intermediate_size=20, attention_types=[[["global", "local"], 1]]), "bfloat16"),
    "gpt_neox": (t.GPTNeoXForCausalLM, t.GPTNeoXConfig(
        **BERT, rope_parameters=PART), "bfloat16"),
    "bloom": (t.BloomForCausalLM, t.BloomConfig(hidden_size=12, n_layer=1, n_head=3, vocab_size=19), "bfloat16"),
    "falcon": (t.FalconForCausalLM, t.FalconConfig(
        **FALCON, multi_query=True), "bfloat16"),
    "falcon_groups": (t.FalconForCausalLM, t.FalconConfig(
        **FALCON, new_decoder_architecture=True, num_kv_heads=2), "bfloat16"),
    "opt": (t.OPTForCausalLM, t.OPTConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, ffn_dim=20, vocab_size=19, max_position_embeddings=12,
        word_embed_proj_dim=6, do_layer_norm_before=False, layer_norm_elementwise_affine=False), "bfloat16"),
    "bart": (t.BartForConditionalGeneration, t.BartConfig(**BART, scale_embedding=True), "bfloat16"),
    "mbart": (t.MBartForConditionalGeneration, t.MBartConfig(**BART), "bfloat16"),
    "marian": (t.MarianMTModel, t.MarianConfig(**dict(BART, activation_function="swish")), "bfloat16"),
    "m2m_100": (t.M2M100ForConditionalGeneration, t.M2M100Config(**BART), "bfloat16"),
    "pegasus": (t.PegasusForConditionalGeneration, t.PegasusConfig(**dict(BART, pad_token_id=0)), "bfloat16"),
    "mt5": (t.MT5ForConditionalGeneration, t.MT5Config(**dict(T5, num_layers=1)), "bfloat16"),
    "mpnet": (t.MPNetModel, t.MPNetConfig(**dict(BERT, num_hidden_layers=1)), "bfloat16"),
    "xlm-roberta-xl": (t.XLMRobertaXLModel, t.XLMRobertaXLConfig(**dict(BERT, num_hidden_layers=1)), "bfloat16"),
    "electra": (t.ElectraForMaskedLM, t.ElectraConfig(**dict(BERT, num_hidden_layers=1), embedding_size=6), "bfloat16"),
    "deberta-v2": (t.DebertaV2ForSequenceClassification, t.DebertaV2Config(
        **dict(BERT, num_hidden_layers=2), type_vocab_size=0, relative_attention=True, position_buckets=4,
        norm_rel_ebd="layer_norm", share_att_key=True, pos_att_type=["p2c", "c2p"], position_biased_input=False),
        "bfloat16"),
    "albert": (t.AlbertForTokenClassification, t.AlbertConfig(
        **dict(BERT, num_hidden_layers=3), embedding_size=6, num_labels=3), "bfloat16"),
    "nomic_bert": (t.NomicBertModel, t.NomicBertConfig(**dict(BERT, num_hidden_layers=1)), "bfloat16"),
    "deit": (t.DeiTForImageClassification, t.DeiTConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=20, image_size=8, patch_size=4,
        num_labels=3), "bfloat16"),
    "embeddinggemma": (t.Gemma3TextModel, t.Gemma3TextConfig(
        **ROPE, head_dim=6, query_pre_attn_scalar=20, sliding_window=6, use_bidirectional_attention=True,
        layer_types=["sliding_attention", "full_attention"]), "bfloat16"),
    "olmo": (t.OlmoForCausalLM, t.OlmoConfig(**ONE), "bfloat16"),
    "olmo2": (t.Olmo2ForCausalLM, t.Olmo2Config(**ONE), "bfloat16"),
    "olmo3": (t.Olmo3ForCausalLM, t.Olmo3Config(
        **ROPE, sliding_window=5, layer_types=["sliding_attention", "full_attention"]), "bfloat16"),
    "nemotron": (t.NemotronForCausalLM, t.NemotronConfig(**ONE, head_dim=4, rope_parameters=PART), "bfloat16"),
    "modernbert": (t.ModernBertForTokenClassification, t.ModernBertConfig(
        **dict(BERT, num_hidden_layers=3), num_labels=3, local_attention=6, pad_token_id=0), "bfloat16"),
    "eurobert": (t.EuroBertForMaskedLM, t.EuroBertConfig(**ONE, pad_token_id=0), "bfloat16"),
    "qwen3_5_text": (t.Qwen3_5ForCausalLM, t.Qwen3_5TextConfig(
        **HYBRID, head_dim=8, rope_parameters=dict(PART, mrope_section=[1, 1, 0], mrope_interleaved=True)), "bfloat16"),
    "qwen3_next": (t.Qwen3NextForCausalLM, t.Qwen3NextConfig(
        **HYBRID, head_dim=8, num_experts=4, decoder_sparse_step=9, rope_parameters=PART), "bfloat16"),
    "olmo_hybrid": (t.OlmoHybridForCausalLM, t.OlmoHybridConfig(
        **HYBRID, rms_norm_eps=1e-4, pad_token_id=0, eos_token_id=1, rope_parameters=None), "bfloat16"),
    "minicpm3": (t.MiniCPM3ForCausalLM, t.MiniCPM3Config(
        **LATENT, num_hidden_layers=2, q_lora_rank=10, scale_emb=3, dim_model_base=8), "bfloat16"),
    "deepseek_v2": (t.DeepseekV2ForCausalLM, t.DeepseekV2Config(
        **LATENT, num_hidden_layers=1, q_lora_rank=None, first_k_dense_replace=1), "bfloat16"),
    "deepseek_v3": (t.DeepseekV3ForCausalLM, t.DeepseekV3Config(
        **LATENT, num_hidden_layers=1, q_lora_rank=10, first_k_dense_replace=1), "bfloat16"),
    "mamba2": (t.Mamba2ForCausalLM, t.Mamba2Config(
        num_heads=4, head_dim=6, hidden_size=12, n_groups=2, state_size=5, num_hidden_layers=2, vocab_size=23, use_bias=True,
        time_step_limit=(0.05, 3.0), bos_token_id=1, eos_token_id=2, pad_token_id=0), "bfloat16"),
    "stablelm_normed": (t.StableLmForCausalLM, t.StableLmConfig(**ROPE, qk_layernorm=True, rope_parameters=PART), "bfloat16"),
    "siglip_vision_model": (t.SiglipVisionModel, t.SiglipVisionConfig(**PICTURES, intermediate_size=20), "bfloat16"),
    "dinov2_with_registers": (t.Dinov2WithRegistersForImageClassification, t.Dinov2WithRegistersConfig(
        **PICTURES, mlp_ratio=2, num_register_tokens=3, num_labels=3), "bfloat16"),
    "kimi_linear": (t.KimiLinearForCausalLM, t.KimiLinearConfig(
        hidden_size=12, intermediate_size=20, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=2, kv_lora_rank=8,
        qk_rope_head_dim=4, qk_nope_head_dim=6, v_head_dim=5, linear_head_dim=6, linear_num_heads=2, vocab_size=19,
        max_position_embeddings=40, layer_types=["linear_attention", "full_attention"], mlp_layer_types=["dense"] * 2,
        pad_token_id=0, bos_token_id=1, eos_token_id=2), "bfloat16"),
    "eurobert_mean": (t.EuroBertForSequenceClassification, t.EuroBertConfig(
        **ONE, pad_token_id=0, classifier_pooling="mean", num_labels=3), "bfloat16"),
}
MODELS.update(MORE)


def rewrite(folder, change):
    """The tensors of a folder as `change` returns them."""
    path = folder / "model.safetensors"
    save_file(change(load_file(path)), path, metadata={"format": "pt"})


def configure(folder, change):
    path = folder / "config.json"
    config = json.loads(path.read_text())
    change(config)
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


def old_bert(folder):
    """Norms named as TensorFlow does, and buffers; bert-base-uncased is such a file."""
    def change(tensors):
        named = {k.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): v
                 for k, v in tensors.items()}
        named["bert.embeddings.position_ids"] = torch.arange(12)[None]
        named["cls.predictions.decoder.bias"] = named["cls.predictions.bias"].clone()
        return named
    rewrite(folder, change)


def old_gpt2(folder):
    """Without a prefix, and with the masks as buffers: the file of gpt2 itself."""
    def change(tensors):
        named = {k.removeprefix("transformer."): v for k, v in tensors.items()}
        for i in range(2):
            named[f"h.{i}.attn.bias"] = torch.ones(1, 1, 12, 12).tril()
            named[f"h.{i}.attn.masked_bias"] = torch.tensor(-1e4)
        return named
    rewrite(folder, change)


def old_llama(folder):
    """The config of Transformers 4, and three files."""
    def change(config):
        rope = config.pop("rope_parameters")
        config["rope_theta"] = rope.pop("rope_theta")
        config["rope_scaling"] = rope
        config["torch_dtype"] = config.pop("dtype")
    configure(folder, change)


def with_pooler(folder):
    """A pooler that the class does not read, as in published models."""
    rewrite(folder, lambda tensors: {**tensors, "bert.pooler.dense.weight": torch.ones(16, 16),
                                     "bert.pooler.dense.bias": torch.ones(16)})


def own_tables(folder):
    """An embedding of the decoder's own beside the shared one, and another activation than feed_forward_proj says."""
    rewrite(folder, lambda tensors: {**tensors, "decoder.embed_tokens.weight": tensors["shared.weight"].flip(0)})
    configure(folder, lambda config: config.update(dense_act_fn="gelu"))


def published_kimi(folder):
    """Keys and names of moonshotai/Kimi-Linear-48B-A3B-Instruct"""
    def change(config):
        kinds = config.pop("layer_types")
        config["linear_attn_config"] = {
            "num_heads": config.pop("linear_num_heads"), "head_dim": config.pop("linear_head_dim"),
            "short_conv_kernel_size": config.pop("linear_conv_kernel_dim"),
            **{key: [i + 1 for i, kind in enumerate(kinds) if kind == kind_of] for key, kind_of in (
                ("full_attn_layers", "full_attention"), ("kda_layers", "linear_attention"))}}
        config["first_k_dense_replace"] = len(config.pop("mlp_layer_types"))
    configure(folder, change)
    rewrite(folder, lambda tensors: {k.replace("block_sparse_moe", "mlp"): v for k, v in tensors.items()})


CHANGES = {"kimi_linear": published_kimi, "bert_tokens": with_pooler, "t5_tables": own_tables, "bert_words": old_bert, "gpt2": old_gpt2,
           "llama": old_llama}
LATER = {"bert_tokens": 18, "t5_tables": 19,  # seeds of those that came after the others
         **{name: 20 + i for i, name in enumerate(MORE)}}
SHARDS = {"llama": "4KB"}


def make(name):
    kind, config, dtype = MODELS[name]
    folder = HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    torch.manual_seed(LATER[name] if name in LATER else sorted(MODELS.keys() - LATER.keys()).index(name))
    model = kind(config)
    with torch.no_grad():
        for key, weight in model.named_parameters():  # norms and biases that are not all 1 and 0
            if "embed_positions" not in key or "decoder" in key:
                weight.add_(torch.randn_like(weight) * 0.2)
    model.to(getattr(torch, dtype)).save_pretrained(folder, max_shard_size=SHARDS.get(name, "5GB"))
    (folder / "generation_config.json").unlink(missing_ok=True)
    CHANGES.get(name, lambda folder: None)(folder)


for chosen in sys.argv[1:] or MODELS:
    make(chosen)
