#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Drawn checkpoints: models of drawn configurations and weights are saved by transformers, imported, compiled and run, and
agree with transformers in float64.

    python3 check_drawn.py ATTNGEN COUNT [FAMILY…]      needs the packages of requirements.txt; make test-drawn

For each family COUNT configurations: sizes, biases, tied or not, rotation, windows, groups of heads, classes; files of f32,
f16 or bf16, whole or in shards. A decoder runs its tokens in one call, and token by token behind a cache. A line for each
family: the largest error, relative to the largest output. Recurrent layers that amplify roundings may be off by 8 times what
transformers is in float32; the printed error is then divided by that over 2e-5. FAMILY=SEED draws one, and says what.
"""
import ctypes
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

import torch
import transformers as t
from safetensors.torch import save_file

import gated_delta

CLOSE = 2e-5
TOKENS, LENGTHS = 9, (9, 6)


# ---- configurations: r is a random.Random ----

def some(r, **choices):
    """Each key with one of its values, or without it where that is ..."""
    drawn = {key: r.choice(values) for key, values in choices.items()}
    return {key: value for key, value in drawn.items() if value is not ...}


def sizes(r, width="hidden_size", h="num_attention_heads", layers="num_hidden_layers", even=True):
    heads, d = r.choice([1, 2, 3, 4, 6]), r.choice([4, 6, 8, 10, 16] if even else [4, 5, 7, 8])
    return {width: heads * d, h: heads, layers: r.randint(1, 3), "vocab_size": r.randint(20, 40)}


def grouped(r, h, key="num_key_value_heads"):
    return {key: r.choice([kv for kv in range(1, h + 1) if h % kv == 0])}


def rope(r, d, part=None):
    kinds = [dict(rope_type="default"), dict(rope_type="linear", factor=2.5), dict(
        rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=20),
        dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=20), dict(
            rope_type="yarn", factor=3.0, beta_fast=4.0, attention_factor=0.8, original_max_position_embeddings=20),
        dict(rope_type="yarn", factor=4.0, mscale=0.7, mscale_all_dim=1.3, original_max_position_embeddings=20),
        dict(rope_type="dynamic", factor=4.0)]
    rows = {**r.choice(kinds[:1] + kinds), "rope_theta": r.choice([100.0, 10000.0, 500000.0])}
    if rows["rope_type"] == "dynamic" and (d <= 2 or part):
        rows = {"rope_type": "default", "rope_theta": rows["rope_theta"]}
    if part:
        rows["partial_rotary_factor"] = r.choice([f for f in (0.25, 0.4, 0.5, 0.75, 1.0) if int(d * f) % 2 == 0
                                                  and int(d * f) >= 2])
    return {"rope_parameters": rows}


def longrope(r, d, positions):
    """All calls of a test are above the original length, or all sequences of the cache are below it."""
    length = r.choice([4, positions])
    return {"rope_type": "longrope", "short_factor": [r.uniform(1, 3) for _ in range(d // 2)], "long_factor": [
        r.uniform(1, 9) for _ in range(d // 2)], "rope_theta": 10000.0, **some(
            r, factor=[..., 4.0], attention_factor=[..., 1.2]), "original_max_position_embeddings": length}


def llama_like(r, part=None, d_k=False, kv=True, inner=True, width=True):
    of = {**sizes(r), "max_position_embeddings": r.choice([16, 40])}
    h = of["num_attention_heads"]
    d = of["hidden_size"] // h
    if d_k and r.random() < 0.7:
        of["head_dim"] = d = r.choice([4, 6, 12])
    if kv:
        of.update(grouped(r, h))
    if inner:
        of["intermediate_size"] = r.choice([12, 20, 32])
    return {**of, **rope(r, d, part), "tie_word_embeddings": r.choice([True, False])}


def layer_types(r, layers):
    return {"layer_types": [r.choice(["full_attention", "sliding_attention"]) for _ in range(layers)]}


ACTS = ["gelu", "gelu_new", "relu", "silu", "gelu_pytorch_tanh"]
GATED = ["silu", "gelu", "gelu_pytorch_tanh"]
FAMILIES = {}


def labels(name, words):
    """Classes of decoders with labels: of sequences, tokens, questions."""
    endings = dict(s="ForSequenceClassification", t="ForTokenClassification", q="ForQuestionAnswering")
    return [name + endings[word] for word in words]


def family(name, *classes, config=None, **more):
    def note(draw):
        FAMILIES[name] = (draw, classes, config, more)
        return draw
    return note


@family("llama", "LlamaForCausalLM", "LlamaModel", *labels("Llama", "stq"))
def _(r):
    return {**llama_like(r, d_k=True), **some(r, attention_bias=[True, False], mlp_bias=[True, False], hidden_act=GATED)}


@family("gemma", "GemmaForCausalLM", "GemmaModel", *labels("Gemma", "st"))
def _(r):
    return {**llama_like(r, d_k=True), "head_dim": r.choice([4, 8, 12]), **some(
        r, attention_bias=[True, False], hidden_act=["gelu", "gelu_pytorch_tanh"])}


@family("gemma3_text", "Gemma3ForCausalLM", "Gemma3TextModel", "Gemma3TextForSequenceClassification")
def _(r):
    of = {**llama_like(r), "head_dim": r.choice([4, 8, 12]), **some(
        r, attention_bias=[True, False], query_pre_attn_scalar=[8, 20], sliding_window=[3, 5],
        final_logit_softcapping=[None, 2.0], hidden_activation=["gelu_pytorch_tanh"])}
    of["rope_parameters"] = {"full_attention": rope(r, of["head_dim"])["rope_parameters"],
                             "sliding_attention": {"rope_type": "default", "rope_theta": r.choice([100.0, 10000.0])}}
    return {**of, **(layer_types(r, of["num_hidden_layers"]) if r.random() < 0.7 else {})}


@family("phi", "PhiForCausalLM", "PhiModel", *labels("Phi", "st"))
def _(r):
    return {**llama_like(r, part=True), **some(r, hidden_act=ACTS, qk_layernorm=[True, False])}


@family("phi3", "Phi3ForCausalLM", "Phi3Model", *labels("Phi3", "st"))
def _(r):
    of = llama_like(r)
    theta = of["rope_parameters"]["rope_theta"]
    rows = {"rope_type": "default", "rope_theta": theta}
    if r.random() < 0.5:
        rows = longrope(r, of["hidden_size"] // of["num_attention_heads"], of["max_position_embeddings"])
        of["original_max_position_embeddings"] = rows["original_max_position_embeddings"]
    return {**of, "rope_parameters": rows, **some(
        r, sliding_window=[None, 4], hidden_act=GATED), "pad_token_id": 0, "eos_token_id": 1}


@family("starcoder2", "Starcoder2ForCausalLM", "Starcoder2Model", *labels("Starcoder2", "st"))
def _(r):
    return {**llama_like(r), **some(r, sliding_window=[None, 4], hidden_act=ACTS, use_bias=[True, False])}


@family("ministral", "MinistralForCausalLM", "MinistralModel", *labels("Ministral", "stq"))
def _(r):
    of = {**llama_like(r, d_k=True), **some(r, sliding_window=[3, 5], hidden_act=GATED)}
    return {**of, **(layer_types(r, of["num_hidden_layers"]) if r.random() < 0.7 else {})}


@family("smollm3", "SmolLM3ForCausalLM", "SmolLM3Model", *labels("SmolLM3", "stq"))
def _(r):
    of = {**llama_like(r), **some(r, sliding_window=[3, 5], use_sliding_window=[True, False], attention_bias=[True, False],
                                  mlp_bias=[True, False]), "pad_token_id": 0}
    if r.random() < 0.6:
        of["no_rope_layers"] = [r.randint(0, 1) for _ in range(of["num_hidden_layers"])]
    return {**of, **(layer_types(r, of["num_hidden_layers"]) if r.random() < 0.5 else {})}


@family("stablelm", "StableLmForCausalLM", "StableLmModel", *labels("StableLm", "st"))
def _(r):
    return {**llama_like(r, part=True), **some(r, use_qkv_bias=[True, False], use_parallel_residual=[True, False], qk_layernorm=[True, False],
                                               hidden_act=GATED)}


@family("cohere", "CohereForCausalLM", "CohereModel")
def _(r):
    return {**llama_like(r), **some(r, logit_scale=[0.0625, 0.5], attention_bias=[True, False], hidden_act=GATED,
                                    use_qk_norm=[True, False]), "eos_token_id": 1}


@family("cohere2", "Cohere2ForCausalLM", "Cohere2Model")
def _(r):
    of = {**llama_like(r), **some(r, logit_scale=[0.0625, 0.5], attention_bias=[True, False], sliding_window=[3, 5]),
          "eos_token_id": 1}
    return {**of, **(layer_types(r, of["num_hidden_layers"]) if r.random() < 0.6 else {})}


@family("granite", "GraniteForCausalLM", "GraniteModel")
def _(r):
    return {**llama_like(r), **some(r, attention_bias=[True, False], mlp_bias=[True, False], embedding_multiplier=[1.0, 3],
                                    logits_scaling=[1.0, 8], residual_multiplier=[1.0, 0.22],
                                    attention_multiplier=[1.0, 0.125])}


@family("gptj", "GPTJForCausalLM", "GPTJModel", *labels("GPTJ", "sq"))
def _(r):
    of = sizes(r, "n_embd", "n_head", "n_layer")
    d = of["n_embd"] // of["n_head"]
    return {**of, **some(r, n_positions=[16, 40], n_inner=[None, 24], rotary_dim=[2, 4, d], activation_function=ACTS,
                         tie_word_embeddings=[True, False]), "bos_token_id": 1, "eos_token_id": 2}


@family("gpt_neo", "GPTNeoForCausalLM", "GPTNeoModel", *labels("GPTNeo", "stq"))
def _(r):
    of = sizes(r, h="num_heads", layers="num_layers", even=False)
    kinds = [[[r.choice(["global", "local"])], 1] for _ in range(of["num_layers"])]
    return {**of, "attention_types": kinds, **some(
        r, window_size=[3, 5], intermediate_size=[None, 24], max_position_embeddings=[16, 30], activation_function=ACTS,
        tie_word_embeddings=[True, False]), "bos_token_id": 1, "eos_token_id": 2}


@family("gpt_neox", "GPTNeoXForCausalLM", "GPTNeoXModel", *labels("GPTNeoX", "stq"))
def _(r):
    of = llama_like(r, part=True, kv=False)
    return {**of, **some(r, hidden_act=ACTS, use_parallel_residual=[True, False], attention_bias=[True, True, False])}


@family("opt", "OPTForCausalLM", "OPTModel", *labels("OPT", "sq"))
def _(r):
    return {**sizes(r, even=False), **some(
        r, max_position_embeddings=[12, 30], ffn_dim=[12, 24], do_layer_norm_before=[True, False],
        _remove_final_layer_norm=[True, False, False], word_embed_proj_dim=[None, None, 6], activation_function=ACTS,
        enable_bias=[True, True, False], layer_norm_elementwise_affine=[True, True, False],
        tie_word_embeddings=[True, False]), "pad_token_id": 1}


@family("bloom", "BloomForCausalLM", "BloomModel", *labels("Bloom", "stq"))
def _(r):
    return {**sizes(r, h="n_head", layers="n_layer", even=False), **some(r, tie_word_embeddings=[True, False])}


@family("falcon", "FalconForCausalLM", "FalconModel", *labels("Falcon", "stq"))
def _(r):
    of = {**sizes(r), **some(r, new_decoder_architecture=[True, False], multi_query=[True, False], parallel_attn=[True, False],
                             bias=[True, False], ffn_hidden_size=[None, 24], tie_word_embeddings=[True, False],
                             max_position_embeddings=[16, 40], activation=["gelu", "relu"]),
          "bos_token_id": 1, "eos_token_id": 2}
    of.update(rope(r, of["hidden_size"] // of["num_attention_heads"]))
    if of["new_decoder_architecture"]:
        of.update(grouped(r, of["num_attention_heads"], "num_kv_heads"))
        of["parallel_attn"] = True
    if of["parallel_attn"] and r.random() < 0.5:
        of["num_ln_in_parallel_attn"] = r.choice([1, 2])
    return of


def bart(r, pad=1, act=ACTS):
    of = {**sizes(r, "d_model", "encoder_attention_heads", "encoder_layers", even=True)}
    d = of["d_model"]
    return {**of, "decoder_attention_heads": r.choice([h for h in (1, 2, 3, 4) if d % h == 0]), **some(
        r, decoder_layers=[1, 2], encoder_ffn_dim=[12, 20], decoder_ffn_dim=[12, 24], max_position_embeddings=[12, 20],
        scale_embedding=[True, False], activation_function=act, tie_word_embeddings=[True, True, False]),
        "pad_token_id": pad, "decoder_start_token_id": 2, "bos_token_id": 0, "eos_token_id": 2, "forced_eos_token_id": 2}


@family("bart", "BartForConditionalGeneration", "BartModel", *labels("Bart", "sq"))
def _(r):
    return bart(r)


@family("mbart", "MBartForConditionalGeneration", "MBartModel", *labels("MBart", "sq"))
def _(r):
    return bart(r)


@family("marian", "MarianMTModel", "MarianModel")
def _(r):
    of = {**bart(r, pad=19), "max_position_embeddings": 20}
    if r.random() < 0.3:
        of.update(share_encoder_decoder_embeddings=False, decoder_vocab_size=30)
    return of


@family("m2m_100", "M2M100ForConditionalGeneration", "M2M100Model")
def _(r):
    return bart(r, pad=r.choice([0, 1]))


def t5(r):
    return {**sizes(r, "d_model", "num_heads", "num_layers"), **some(
        r, d_kv=[4, 6], d_ff=[12, 20], num_decoder_layers=[None, 1, 2], relative_attention_num_buckets=[8, 32],
        relative_attention_max_distance=[17, 40], feed_forward_proj=["relu", "gated-gelu", "gated-silu", "gelu"],
        tie_word_embeddings=[True, False]), "decoder_start_token_id": 0}


@family("t5", "T5ForConditionalGeneration", "T5Model", *labels("T5", "stq"))
def _(r):
    return t5(r)


@family("mt5", "MT5ForConditionalGeneration", "MT5Model", *labels("MT5", "stq"))
def _(r):
    return t5(r)


@family("pegasus", "PegasusForConditionalGeneration", "PegasusModel")
def _(r):
    return bart(r, pad=0)


def bert(r, act=ACTS, types=True):
    of = {**sizes(r, even=False), **some(r, intermediate_size=[12, 20], max_position_embeddings=[14, 30], hidden_act=act,
                                         layer_norm_eps=[1e-5, 1e-12], num_labels=[3])}
    return {**of, **(some(r, type_vocab_size=[1, 2]) if types else {})}


def heads(name, *endings):
    return [name + ending for ending in ("Model", "ForMaskedLM", "ForSequenceClassification", "ForTokenClassification",
                                         "ForQuestionAnswering", *endings)]


def latent(r):
    """DeepSeek's of dense layers, with yarn's factor of scores or without"""
    dims, layers = r.choice([4, 6, 8]), r.randint(1, 2)
    kinds = [dict(rope_type="default"), dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=10),
             dict(rope_type="yarn", factor=4.0, mscale=0.7, mscale_all_dim=1.3, original_max_position_embeddings=10),
             dict(rope_type="yarn", factor=8.0, mscale=1.0, mscale_all_dim=1.0, original_max_position_embeddings=5)]
    return {"hidden_size": 24, "num_attention_heads": 3, "num_key_value_heads": 3, "num_hidden_layers": layers,
            "vocab_size": r.randint(20, 40), "intermediate_size": 20, "first_k_dense_replace": layers,
            "q_lora_rank": r.choice([None, 10]), "kv_lora_rank": r.choice([8, 13]), "qk_nope_head_dim": r.choice([6, 9]),
            "qk_rope_head_dim": dims, "v_head_dim": r.choice([5, 8]), "attention_bias": r.choice([True, False]),
            "max_position_embeddings": 40,
            "rope_parameters": {**r.choice(kinds), "rope_theta": 10000.0}}


@family("deepseek_v2", "DeepseekV2ForCausalLM")
def _(r):
    return {**latent(r), "mlp_bias": r.choice([True, False])}


@family("deepseek_v3", "DeepseekV3ForCausalLM")
def _(r):
    return latent(r)


@family("minicpm3", "MiniCPM3ForCausalLM")
def _(r):
    of = latent(r)
    of.pop("first_k_dense_replace")
    return {**of, "q_lora_rank": of["q_lora_rank"] or 7, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}, **some(
        r, scale_emb=[1, 3.5], scale_depth=[0.7, 1.4], dim_model_base=[24, 8], tie_word_embeddings=[True, False])}


@family("mistral", "MistralForCausalLM", "MistralModel", *labels("Mistral", "stq"))
def _(r):
    return {**llama_like(r, d_k=True), **some(r, sliding_window=[None, 4], hidden_act=GATED)}


@family("qwen2", "Qwen2ForCausalLM", "Qwen2Model", *labels("Qwen2", "stq"))
def _(r):
    return {**llama_like(r), **some(r, use_sliding_window=[True, False], sliding_window=[3, 5], max_window_layers=[0, 1],
                                    is_causal=[..., ..., False])}


@family("qwen3", "Qwen3ForCausalLM", "Qwen3Model", *labels("Qwen3", "stq"))
def _(r):
    return {**llama_like(r, d_k=True), **some(r, head_dim=[4, 6, 12], attention_bias=[True, False])}


@family("gemma2", "Gemma2ForCausalLM", "Gemma2Model", *labels("Gemma2", "st"))
def _(r):
    return {**llama_like(r), **some(
        r, head_dim=[4, 8, 12], query_pre_attn_scalar=[8, 20], sliding_window=[3, 5], attn_logit_softcapping=[None, 2.0],
        final_logit_softcapping=[None, 2.0], attention_bias=[True, False])}


@family("gpt2", "GPT2LMHeadModel", "GPT2Model", *labels("GPT2", "stq"))
def _(r):
    return {**sizes(r, "n_embd", "n_head", "n_layer", even=False), **some(
        r, n_positions=[16, 40], n_inner=[None, 24], activation_function=ACTS, tie_word_embeddings=[True, False],
        layer_norm_epsilon=[1e-5, 1e-3]),
        "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}


@family("roberta", *heads("Roberta", "ForMultipleChoice"))
def _(r):
    return {**bert(r), "pad_token_id": r.choice([0, 1])}


@family("distilbert", *heads("DistilBert", "ForMultipleChoice"))
def _(r):
    return {**sizes(r, "dim", "n_heads", "n_layers", even=False), **some(
        r, hidden_dim=[12, 20], max_position_embeddings=[14, 30], activation=["gelu", "relu"], num_labels=[3])}


@family("bert", *heads("Bert", "ForMultipleChoice", "ForPreTraining"))
def _(r):
    return bert(r)


@family("camembert", *heads("Camembert", "ForMultipleChoice"))
def _(r):
    return {**bert(r), "pad_token_id": 1}


@family("mpnet", *heads("MPNet", "ForMultipleChoice"))
def _(r):
    return bert(r, types=False)


@family("xlm-roberta-xl", *heads("XLMRobertaXL", "ForMultipleChoice"))
def _(r):
    return {**bert(r), "pad_token_id": r.choice([0, 1])}


@family("electra", *heads("Electra", "ForPreTraining", "ForMultipleChoice", "ForCausalLM"))
def _(r):
    of = bert(r)
    return {**of, "embedding_size": r.choice([of["hidden_size"], 6, 10])}


@family("deberta-v2", *heads("DebertaV2", "ForMultipleChoice"))
def _(r):
    of = {**bert(r, types=False), "type_vocab_size": r.choice([0, 0, 2]), "relative_attention": r.random() < 0.9,
          "max_relative_positions": r.choice([-1, -1, 5, 12]), "position_buckets": r.choice([-1, 4, 5, 8]),
          "norm_rel_ebd": r.choice(["layer_norm", "layer_norm", "none"]), "share_att_key": r.random() < 0.6,
          "pos_att_type": r.choice([["p2c", "c2p"], "c2p|p2c", ["c2p"], ["p2c"]]),
          "position_biased_input": r.random() < 0.3, **some(r, pooler_hidden_act=[..., "gelu", "tanh"])}
    reach = of["max_relative_positions"] if of["max_relative_positions"] > 0 else of["max_position_embeddings"]
    return {**of, "position_buckets": -1} if reach < of["position_buckets"] // 2 + 2 else of


@family("albert", *heads("Albert", "ForMultipleChoice", "ForPreTraining"))
def _(r):
    of = bert(r)
    return {**of, "embedding_size": r.choice([of["hidden_size"], 6, 10]), "num_hidden_groups": r.choice(
        [1, 1, of["num_hidden_layers"]])}


@family("nomic_bert", *heads("NomicBert")[:4])
def _(r):
    of = {**bert(r, act=GATED), **sizes(r)}
    return {**of, **rope(r, of["hidden_size"] // of["num_attention_heads"])}


@family("deit", "DeiTModel", "DeiTForImageClassification", "DeiTForImageClassificationWithTeacher")
def _(r):
    of = sizes(r, even=False)
    of.pop("vocab_size")
    return {**of, **some(r, image_size=[8, 12], patch_size=[4], num_channels=[1, 3], qkv_bias=[True, False],
                                           intermediate_size=[12, 20], hidden_act=ACTS, num_labels=[3])}


@family("vit", "ViTModel", "ViTForImageClassification")
def _(r):
    of = sizes(r, even=False)
    of.pop("vocab_size")
    return {**of, **some(r, image_size=[8, 12], patch_size=[4], num_channels=[1, 3], qkv_bias=[True, False],
                                           intermediate_size=[12, 20], hidden_act=ACTS, num_labels=[3])}


@family("embeddinggemma", "Gemma3TextModel")
def _(r):
    of = FAMILIES["gemma3_text"][0](r)
    return {**of, "use_bidirectional_attention": True, "sliding_window": r.choice([6, 7, 8])}


@family("olmo", "OlmoForCausalLM", "OlmoModel", *labels("Olmo", "s"))
def _(r):
    return {**llama_like(r), **some(r, attention_bias=[True, False], hidden_act=GATED)}


@family("olmo2", "Olmo2ForCausalLM", "Olmo2Model", *labels("Olmo2", "s"))
def _(r):
    return {**llama_like(r), **some(r, attention_bias=[True, False], hidden_act=GATED)}


@family("olmo3", "Olmo3ForCausalLM", "Olmo3Model", *labels("Olmo3", "s"))
def _(r):
    of = {**llama_like(r), **some(r, attention_bias=[True, False], sliding_window=[3, 5])}
    of["rope_parameters"] = {"full_attention": of["rope_parameters"],
                             "sliding_attention": {"rope_type": "default", "rope_theta": r.choice([100.0, 10000.0])}}
    return {**of, **(layer_types(r, of["num_hidden_layers"]) if r.random() < 0.7 else {})}


@family("nemotron", "NemotronForCausalLM", "NemotronModel", *labels("Nemotron", "stq"))
def _(r):
    return {**llama_like(r, part=True), **some(r, attention_bias=[True, False], mlp_bias=[True, False],
                                               hidden_act=["relu2", "gelu", "silu"])}


@family("modernbert", *heads("ModernBert", "ForMultipleChoice"))
def _(r):
    of = {**sizes(r), **some(
        r, intermediate_size=[12, 20], max_position_embeddings=[16, 40], norm_bias=[True, False], local_attention=[6, 8],
        attention_bias=[True, False], mlp_bias=[True, False], decoder_bias=[True, False], classifier_bias=[True, False],
        tie_word_embeddings=[True, False], hidden_activation=GATED, num_labels=[3], classifier_pooling=["cls", "mean"]), "pad_token_id": 0}
    if r.random() < 0.6:
        of["rope_parameters"] = {kind: {"rope_type": "default", "rope_theta": r.choice([100.0, 10000.0])}
                                 for kind in ("full_attention", "sliding_attention")}
    return {**of, **(layer_types(r, of["num_hidden_layers"]) if r.random() < 0.5 else {}), "eos_token_id": 1, "bos_token_id": 2}


@family("eurobert", "EuroBertModel", "EuroBertForMaskedLM", "EuroBertForTokenClassification",
        "EuroBertForSequenceClassification")
def _(r):
    return {**llama_like(r, d_k=True), **some(r, attention_bias=[True, False], mlp_bias=[True, False], num_labels=[3]),
            "classifier_pooling": r.choice(["bos", "mean"]), "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 1, "mask_token_id": 3}


def qwen_vl(r, three=False):
    of = {**llama_like(r, d_k=three), **some(r, hidden_act=GATED)}
    h = of.get("head_dim", of["hidden_size"] // of["num_attention_heads"])
    of.pop("tie_word_embeddings")
    of["rope_parameters"] = {"rope_type": "default", "rope_theta": r.choice([100.0, 1e6]), "mrope_section": [
        h // 2 - 2 * (h // 6), h // 6, h // 6], **({"mrope_interleaved": True} if three else {})}
    if three:
        of["head_dim"] = h
    else:
        of.update(some(r, use_sliding_window=[True, False], sliding_window=[3, 5], max_window_layers=[0, 1]))
    vision = dict(depth=1, num_heads=2, hidden_size=of["hidden_size"] if not three else 16)
    vision.update(dict(embed_dim=16) if not three else dict(out_hidden_size=of["hidden_size"], deepstack_visual_indexes=[0]))
    return {"text_config": of, "vision_config": vision, "tie_word_embeddings": r.choice([True, False])}


@family("qwen2_vl", "Qwen2VLForConditionalGeneration", "Qwen2VLModel")
def _(r):
    return qwen_vl(r)


@family("qwen2_5_vl", "Qwen2_5_VLForConditionalGeneration", "Qwen2_5_VLModel")
def _(r):
    of = qwen_vl(r)
    of["vision_config"] = dict(depth=1, num_heads=2, hidden_size=16, out_hidden_size=of["text_config"]["hidden_size"],
                               intermediate_size=8, fullatt_block_indexes=[0])
    return of


@family("qwen3_vl", "Qwen3VLForConditionalGeneration", "Qwen3VLModel")
def _(r):
    return qwen_vl(r, three=True)


def hybrid(r, d=None):
    """Recurrent layers and attention, one of each at least. d: width of a head of attention, partly rotated."""
    of, layers = llama_like(r), r.randint(2, 5)
    keys, kinds = r.choice([1, 2, 3]), ["linear_attention", "full_attention"]
    of.update(num_hidden_layers=layers, rms_norm_eps=r.choice([1e-6, 1e-3]), linear_num_key_heads=keys,
              linear_num_value_heads=keys * r.choice([1, 2, 3]), linear_key_head_dim=r.choice([4, 7, 16]),
              linear_value_head_dim=r.choice([4, 9, 12]))
    if d:
        of.update(head_dim=d, **rope(r, d, True))
    if layers < 4 or r.random() < 0.8: # transformers has no cache without a layer of attention
        of["layer_types"] = r.sample(kinds + r.choices(kinds, k=layers - 2), layers)
    return {**of, **some(r, linear_conv_kernel_dim=[1, 2, 4, ...])}


@family("qwen3_5_text", "Qwen3_5ForCausalLM", "Qwen3_5TextModel")
def _(r):
    of = hybrid(r, r.choice([8, 16, 40]))
    if r.random() < 0.5:
        of["rope_parameters"] = {"rope_type": "default", "rope_theta": 1000.0, "partial_rotary_factor": 0.5,
                                 "mrope_section": [1, 1, 0], "mrope_interleaved": True}
    return {**of, **some(r, attention_bias=[True, False])}


@family("qwen3_5", "Qwen3_5ForConditionalGeneration", "Qwen3_5Model")
def _(r):
    text = hybrid(r, r.choice([8, 16, 40]))
    tied = text.pop("tie_word_embeddings")
    images = dict(depth=1, hidden_size=16, intermediate_size=20, num_heads=2, out_hidden_size=text["hidden_size"],
                  num_position_embeddings=16)
    return {"text_config": text, "vision_config": images, "tie_word_embeddings": tied, "image_token_id": 1,
            "video_token_id": 1, "vision_start_token_id": 1, "vision_end_token_id": 1}


@family("qwen3_next", "Qwen3NextForCausalLM", "Qwen3NextModel")
def _(r):
    of = hybrid(r, r.choice([8, 16, 40]))
    dense = r.choice([{"num_experts": 0}, {"num_experts": 4, "decoder_sparse_step": 9}, {
        "num_experts": 4, "mlp_only_layers": list(range(of["num_hidden_layers"]))}])
    return {**of, **dense, **some(r, attention_bias=[True, False])}


@family("olmo_hybrid", "OlmoHybridForCausalLM", "OlmoHybridModel")
def _(r):
    of = hybrid(r)
    if r.random() < 0.5:
        of["rope_parameters"] = r.choice([None, {"rope_type": "default", "rope_theta": None}])
    return {**of, **some(
        r, attention_bias=[True, False], linear_allow_neg_eigval=[True, False, ...]), "pad_token_id": 0, "eos_token_id": 1}


@family("kimi_linear", "KimiLinearForCausalLM", "KimiLinearModel")
def _(r):
    layers, kinds, h = r.randint(2, 5), ["linear_attention", "full_attention"], r.choice([1, 2, 3])
    return {"num_hidden_layers": layers, "mlp_layer_types": ["dense"] * layers, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
            "num_attention_heads": h, "num_key_value_heads": h,
            "layer_types": r.sample(kinds + r.choices(kinds, k=layers - 2), layers), **some(
                r, hidden_size=[12, 24], intermediate_size=[12, 20], kv_lora_rank=[5, 8], qk_rope_head_dim=[2, 4],
                qk_nope_head_dim=[4, 6], v_head_dim=[5, 8], q_lora_rank=[None, 7], linear_head_dim=[4, 7, 16],
                linear_num_heads=[1, 2, 3], vocab_size=[25, 33], linear_conv_kernel_dim=[1, 2, 4, ...],
                rms_norm_eps=[1e-5, 1e-3], max_position_embeddings=[16, 40])}


@family("mamba2", "Mamba2ForCausalLM", "Mamba2Model")
def _(r):
    groups, expand, d = r.choice([1, 1, 2, 3]), r.choice([1, 2, 3]), r.choice([3, 4, 8])
    heads = groups * r.choice([1, 2, 3]) * expand
    return {"num_heads": heads, "head_dim": d, "hidden_size": heads * d // expand, "expand": expand, "n_groups": groups,
            **some(r, state_size=[4, 7, 16], num_hidden_layers=[1, 2, 3], vocab_size=[25, 33], conv_kernel=[1, 2, 4, ...],
                   use_bias=[True, False], use_conv_bias=[True, False, ...], layer_norm_epsilon=[1e-5, 1e-3],
                   time_step_limit=[..., (0.0, 0.5), (0.3, 2.0), (0.1, float("inf"))], chunk_size=[4, 256],
                   tie_word_embeddings=[True, False], residual_in_fp32=[True, False])}


def clip(r, text):
    of = sizes(r, even=False)
    if not text:
        of.pop("vocab_size")
    return {**of, **some(r, intermediate_size=[12, 20], hidden_act=ACTS + ["quick_gelu"], projection_dim=[5, 12], layer_norm_eps=[
        1e-5, 1e-3]), **(some(r, max_position_embeddings=[12, 30]) if text else some(
            r, image_size=[8, 12], patch_size=[4], num_channels=[1, 3]))}


@family("clip_text_model", "CLIPTextModelWithProjection", "CLIPTextModel")
def _(r):
    return {**clip(r, True), "eos_token_id": 2, "bos_token_id": 1, "pad_token_id": 0}


@family("siglip_text_model", "SiglipTextModel")
def _(r):
    of = clip(r, True)
    of.pop("projection_dim")
    return {**of, **some(r, projection_size=[None, 5]), "pad_token_id": 1}


@family("siglip_vision_model", "SiglipVisionModel")
def _(r):
    of = clip(r, False)
    of.pop("projection_dim")
    return {**of, **some(r, vision_use_head=[True, True, False])}


@family("siglip", "SiglipForImageClassification")
def _(r):
    of = clip(r, False)
    of.pop("projection_dim")
    return {"vision_config": of, "text_config": {**clip(r, True), "pad_token_id": 1}}


@family("clip_vision_model", "CLIPVisionModelWithProjection")
def _(r):
    return clip(r, False)


def dinov2(r):
    of = sizes(r, even=False)
    of.pop("vocab_size")
    return {**of, **some(r, image_size=[8, 12], patch_size=[4], num_channels=[1, 3], qkv_bias=[True, False], mlp_ratio=[2, 4],
                         hidden_act=ACTS, use_swiglu_ffn=[True, False], layerscale_value=[0.5, 1.0])}


@family("dinov2", "Dinov2Model", "Dinov2ForImageClassification")
def _(r):
    return dinov2(r)


@family("dinov2_with_registers", "Dinov2WithRegistersModel", "Dinov2WithRegistersForImageClassification")
def _(r):
    return {**dinov2(r), **some(r, num_register_tokens=[1, 4])}


# ---- a model as C ----

FIELD = re.compile(r"^\s+(?:const )?\w+ \*?(\w+)(?:, (\w+))?(?:, (\w+))?;", re.M)


class Compiled:
    def __init__(self, folder, name):
        header, upper = (folder / f"{name}_model.h").read_text(), name.upper()
        lines = [f'#include "{name}_model.h"', "#include <stddef.h>"]
        self.fields, self.call = {}, {}
        for args in re.findall(rf"typedef struct {name}_model_(\w*args) {{", header):
            body = header.split(f"typedef struct {name}_model_{args} {{")[1].split(f"}} {name}_model_{args}")[0]
            for names in FIELD.findall(body):
                for field in filter(None, names):
                    lines.append(f"size_t at_{args}_{field}(void) {{ return offsetof({name}_model_{args}, {field}); }}")
                    self.fields.setdefault(args, []).append(field)
            lines.append(f"size_t size_{args}(void) {{ return sizeof({name}_model_{args}); }}")
        lines.append(f"size_t size_model(void) {{ return sizeof({name}_model); }}")
        for key, macro in dict(bytes="BYTES(1)", arena="ARENA_BYTES(1)", work="WORK_BYTES", cache="CACHE_BYTES(2)",
                               states="STATES_BYTES(2)").items():
            if re.search(rf"define {upper}_MODEL_{macro.split('(')[0]}\b", header):
                lines.append(f"size_t of_{key}(void) {{ return {upper}_MODEL_{macro}; }}")
        (folder / "wrapper.c").write_text("\n".join(lines) + "\n")
        subprocess.run([os.environ.get("CC", "gcc"), "-std=c11", "-O1", "-w", "-shared", "-fPIC", "-o", folder / "model.so",
                        folder / "wrapper.c", *folder.glob(f"{name}_*.c"), "-lm"], check=True)
        self.c = ctypes.CDLL(str(folder / "model.so"))
        self.name, self.keep = name, []
        self.header = header

    def size(self, what):
        return getattr(self.c, what)() if hasattr(self.c, what) else 0

    def memory(self, count):
        block = ctypes.create_string_buffer(count + 128)
        self.keep.append(block)
        return (ctypes.addressof(block) + 63) // 64 * 64

    def open(self, files):
        shards = [path.read_bytes() for path in files]
        rows = (ctypes.c_void_p * (2 * len(shards)))()
        for i, text in enumerate(shards):
            rows[2 * i], rows[2 * i + 1] = ctypes.cast(ctypes.c_char_p(text), ctypes.c_void_p).value, len(text)
        self.keep.append(shards)
        file, self.model = self.memory(self.size("of_bytes")), self.memory(self.size("size_model"))
        self.arena = self.memory(self.size("of_arena"))
        pack, run = getattr(self.c, self.name + "_model_pack"), getattr(self.c, self.name + "_model_open")
        work = self.memory(self.size("of_work"))
        p = ctypes.c_void_p
        error = pack(p(file), rows, ctypes.c_size_t(len(shards)), None, ctypes.c_size_t(1), p(work))
        error = error or run(p(self.model), p(file), ctypes.c_size_t(self.size("of_bytes")))
        if error:
            raise ValueError(f"packing or opening is error {error}")

    def run(self, args, call, **given):
        """Outputs are float32 tensors, inputs int32 or float32 ones, sizes whole numbers."""
        block = self.memory(self.size("size_" + args))
        ctypes.memset(block, 0, self.size("size_" + args))
        for key, value in given.items():
            place = block + getattr(self.c, f"at_{args}_{key}")()
            ctypes.c_void_p.from_address(place).value = value if isinstance(value, int) else value.data_ptr()
        p = ctypes.c_void_p
        error = getattr(self.c, f"{self.name}_model_{call}")(p(self.model), p(block), p(self.arena))
        if error:
            raise ValueError(f"{call} is error {error}")


# ---- modules of sentence-transformers ----

def add_modules(r, model, folder):
    """→ (hidden, lengths) → the embedding that the modules make; None: the folder has none"""
    config = model.config.get_text_config()
    if r.random() < 0.5 or config.is_encoder_decoder or not hasattr(config, "vocab_size"):
        return None
    if config.model_type.startswith(("siglip", "clip")):
        return None
    decodes = not hasattr(config, "type_vocab_size") and type(model).__name__[:4] not in ("Mode", "Euro", "Dist", "MPNe")
    mode = "lasttoken" if decodes else r.choice(["cls_token", "mean_tokens", "max_tokens", "lasttoken"])
    width, modules = config.hidden_size, ["Transformer", "Pooling"]
    dense, biased = [], r.choice([True, False])
    name = r.choice(["Tanh", "Sigmoid", "GELU"])
    for i in range(r.choice([0, 0, 1, 1, 2, 2])):
        modules.append("Dense")
        dense.append(torch.nn.Linear(width, r.choice([5, 12, width]), bias=biased, dtype=torch.float64))
        at = folder / f"{i + 2}_Dense"
        at.mkdir()
        save_file({"linear." + key: value.detach().float() for key, value in dense[i].named_parameters()},
                  at / "model.safetensors")
        (at / "config.json").write_text(json.dumps(dict(
            in_features=width, out_features=dense[i].out_features, bias=biased,
            activation_function="torch.nn.modules.activation." + name)))
        width = dense[i].out_features
    normalizes = r.random() < 0.5
    modules += ["Normalize"] * normalizes
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling/config.json").write_text(json.dumps({"pooling_mode_" + mode: True}))
    (folder / "modules.json").write_text(json.dumps([
        dict(idx=i, name=str(i), path=f"{i}_{kind}" if i else "", type="sentence_transformers.models." + kind)
        for i, kind in enumerate(modules)]))

    def embedding(hidden, lengths):
        rows = []
        for row, n in zip(hidden, lengths):
            row = dict(cls_token=row[0], mean_tokens=row[:n].mean(0), max_tokens=row[:n].max(0).values,
                       lasttoken=row[n - 1])[mode]
            for product in dense:
                row = getattr(torch.nn, name)()(product(row))
            rows.append(row / row.norm() if normalizes else row)
        return torch.stack(rows).detach()
    return embedding


# ---- one checkpoint ----

def draw(name, seed, folder):
    drawer, classes, config, more = FAMILIES[name]
    r = random.Random(f"{name} {seed}")
    torch.manual_seed(seed)
    given, kind = drawer(r), getattr(t, r.choice(classes))
    if kind.__name__.endswith("QuestionAnswering"):
        given.pop("num_labels", None)
    elif kind.__name__.endswith("Classification"):
        given["num_labels"] = r.choice([1, 2, 3, 5]) if name != "bart" else 3  # which a file of it need not say
    model = kind((getattr(t, config) if config else kind.config_class)(**given))
    with torch.no_grad():
        for key, weight in model.named_parameters():
            if weight.requires_grad and "embed_positions" not in key or more.get("all"):
                weight.add_(torch.randn_like(weight) * 0.2)
    dtype = r.choice(["float32", "float32", "float16", "bfloat16"])
    model.to(getattr(torch, dtype)).save_pretrained(folder, max_shard_size=r.choice(["5GB", "5GB", "6KB"]))
    path = folder / "config.json"
    written = json.loads(path.read_text())
    for key in r.sample(["architectures"], 0):
        written.pop(key, None)
    model = kind.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager").eval()
    rows = kind.__name__.endswith("Model") and not kind.__name__.endswith(("HeadModel", "MTModel"))
    model.pooled = add_modules(r, model, folder) if rows else None
    return gated_delta.use(model), f"{kind.__name__} {dtype} {given}"


def worse(mine, theirs, rows=None):
    if rows is not None:
        mine, theirs = mine[rows], theirs[rows]
    return ((mine.double() - theirs).abs().max() / theirs.abs().max()).nan_to_num(9.0).item()


def heads_of(model, out):
    names = {"pooler_output": "pooler", "last_hidden_state": "hidden", "prediction_logits": "logits",
             "seq_relationship_logits": "seq_relationship",
             "image_embeds": "image_embeds", "text_embeds": "last_text_embeds",
             "logits": "logits" if type(model).__name__.endswith(("LM", "LMHeadModel", "Generation", "MTModel")) else "classifier"}
    return {ours: out[theirs].contiguous() for theirs, ours in names.items() if out.get(theirs) is not None}


def labelled(c, model, out):
    """Answers of a decoder's class with labels, by our names; nothing of another class."""
    name = "score" if "score" in c.fields["args"] else "classifier"
    if "start_logits" in out:
        return {"qa_outputs": torch.stack([out.start_logits, out.end_logits], -1)}
    if type(model).__name__.endswith("TokenClassification"):
        return {name: out.logits.contiguous()}
    return {"last_" + name: out.logits} if type(model).__name__.endswith("SequenceClassification") else {}


def check_decoder(c, model, vocab, r):
    ids = torch.randint(2, vocab, (2, TOKENS))
    text = model.config.get_text_config()
    text.pad_token_id = text.pad_token_id if text.pad_token_id is not None else 0
    if model.config.model_type == "clip_text_model":  # the embedding is that of the end mark, the largest id
        ids[:, :-1] = ids[:, :-1].clamp(max=vocab - 2)
        ids[:, -1] = vocab - 1
    out = model(input_ids=ids + (ids == text.pad_token_id))
    ids = ids + (ids == text.pad_token_id)
    theirs = labelled(c, model, out) or heads_of(model, out)
    if "pooler" not in c.fields["args"]:
        theirs.pop("pooler", None)
    if model.pooled:
        theirs["embedding"] = model.pooled(out.last_hidden_state, [TOKENS] * 2)
    if "project_out" in c.fields["args"] and "hidden" in theirs:
        theirs["project_out"] = theirs.pop("hidden")
    past = torch.zeros(2, dtype=torch.int32)
    kept = {key: c.memory(c.size("of_" + key)) for key in ("cache", "states") if c.size("of_" + key)}
    worst = 0
    for cuts in ([TOKENS], [3] + [1] * (TOKENS - 3)):
        at, mine = 0, {key: torch.zeros(rows.shape, dtype=torch.float32) for key, rows in theirs.items()}
        for n in cuts:
            part = ids[:, at:at + n].to(torch.int32).contiguous()
            outs = {key: torch.full((2, n, rows.shape[-1]) if rows.dim() == 3 else rows.shape, 7.0)
                    for key, rows in theirs.items()}
            past[:] = at
            c.run("args", "run", ids=part, past=past, batch=2, n=n, **kept, **outs)
            for key, rows in outs.items():
                (mine[key][:, at:at + n] if rows.dim() == 3 else mine[key])[:] = rows
            at += n
        worst = max([worst] + [worse(mine[key], rows) for key, rows in theirs.items()])
    if "states" in kept and worst > CLOSE: # norms of a head's outputs near 0 carry any rounding far
        f32 = heads_of(model, model.float()(input_ids=ids))
        return worst / max(1, 8 * max(worse(f32[key], rows) for key, rows in theirs.items()) / CLOSE)
    return worst


def check_encoder(c, model, vocab, r):
    given = LENGTHS if model.config.model_type != "siglip_text_model" else (TOKENS, TOKENS)  # it sees padding
    mask = torch.tensor([[int(i < length) for i in range(TOKENS)] for length in given])
    pad = getattr(model.config, "pad_token_id", 0) or 0
    ids = torch.randint(2, vocab, (2, TOKENS))
    ids = (ids + (ids == pad)) * mask + (1 - mask) * pad
    more, extra = {}, {}
    if "types" in c.fields["args"]:
        more["token_type_ids"] = torch.randint(0, model.config.type_vocab_size, (2, TOKENS))
        extra["types"] = more["token_type_ids"].to(torch.int32)
    if type(model).__name__.endswith("MultipleChoice"):
        out = model(input_ids=ids[None], attention_mask=mask[None], **{k: v[None] for k, v in more.items()})
        theirs = {"classifier": out.logits.reshape(2, 1)}
    else:
        out = model(input_ids=ids, attention_mask=mask, **more)
        theirs = heads_of(model, out)
        if "start_logits" in out:
            theirs = {"qa_outputs": torch.stack([out.start_logits, out.end_logits], -1)}
    if model.pooled:
        theirs["embedding"] = model.pooled(out.last_hidden_state, LENGTHS)
    elif given != LENGTHS:
        theirs["embedding"] = out.pooler_output.contiguous()
    if "pooler" not in c.fields["args"]:
        theirs.pop("pooler", None)
    if "replaced" in c.fields["args"]:
        theirs["replaced"] = theirs.pop("classifier")[..., None]
    if "sop_logits" in (out if "out" in locals() else {}):
        theirs["order"] = out.sop_logits
    mine = {key: torch.full(rows.shape, 7.0, dtype=torch.float32) for key, rows in theirs.items()}
    lengths = torch.tensor(given, dtype=torch.int32)
    c.run("args", "run", ids=ids.to(torch.int32), lengths=lengths, batch=2, n=TOKENS, **extra, **mine)
    return max(worse(mine[key], rows, mask.bool() if rows.dim() == 3 else None) for key, rows in theirs.items())


def check_both(c, model, vocab, r):
    """An encoder and a decoder of tokens."""
    mask = torch.tensor([[int(i < length) for i in range(TOKENS)] for length in LENGTHS])
    pad = getattr(model.config, "pad_token_id", 0) or 0
    ids = torch.randint(2, vocab, (2, TOKENS))
    ids = (ids + (ids == pad)) * mask + (1 - mask) * pad
    far = torch.randint(2, vocab, (2, TOKENS - 2))
    far = far + (far == pad)
    ends = torch.tensor(LENGTHS) - 1  # where a sequence's mark of the end stands
    classed = type(model).__name__.endswith("SequenceClassification")
    if classed:
        ids = ids + (ids == model.config.eos_token_id)
        ids[range(2), ends] = model.config.eos_token_id
        far = torch.cat([far, far[:, :2]], 1)
    out = model(input_ids=ids, attention_mask=mask, decoder_input_ids=far)
    theirs = labelled(c, model, out) or heads_of(model, out)
    if classed:
        theirs = {"classifier": out.logits[:, None].expand(-1, TOKENS, -1).contiguous()}
    source = torch.full(out.encoder_last_hidden_state.shape, 7.0, dtype=torch.float32)
    lengths = torch.tensor(LENGTHS, dtype=torch.int32)
    c.run("encode_args", "encode", ids=ids.to(torch.int32), lengths=lengths, hidden=source, batch=2, n=TOKENS)
    worst = worse(source, out.encoder_last_hidden_state, mask.bool())
    past, cache = torch.zeros(2, dtype=torch.int32), c.memory(c.size("of_cache"))
    for cuts in ([far.shape[1]], [3] + [1] * (far.shape[1] - 3)):
        at, mine = 0, {key: torch.zeros(rows.shape, dtype=torch.float32) for key, rows in theirs.items()}
        for n in cuts:
            part = far[:, at:at + n].to(torch.int32).contiguous()
            outs = {key: torch.full((2, n, rows.shape[-1]), 7.0) for key, rows in theirs.items()}
            past[:] = at
            c.run("args", "run", ids=part, past=past, cache=cache, batch=2, n=n, source=source, m=TOKENS,
                  source_lengths=lengths, **outs)
            for key, rows in outs.items():
                mine[key][:, at:at + n] = rows
            at += n
        worst = max([worst] + [worse(mine[key][range(2), ends], rows[:, 0]) if classed else worse(mine[key], rows)
                               for key, rows in theirs.items()])
    return worst


def check_images(c, model, vocab, r):
    config = getattr(model.config, "vision_config", model.config)
    pixels = torch.randn(2, config.num_channels, config.image_size, config.image_size)
    theirs = heads_of(model, out := model(pixel_values=pixels.double()))
    if "image_embeds" in theirs:
        theirs.pop("hidden", None)  # ours is behind the last norm
    if "cls_logits" in out:
        theirs = {"cls_classifier": out.cls_logits, "distillation_classifier": out.distillation_logits}
    if "embedding" in c.fields["args"]:
        theirs["embedding"] = theirs.pop("pooler")
    if "pooler" not in c.fields["args"]:
        theirs.pop("pooler", None)
    mine = {key: torch.full(rows.shape, 7.0, dtype=torch.float32) for key, rows in theirs.items()}
    c.run("args", "run", pixels=pixels, batch=2, **mine)
    return max(worse(mine[key], rows) for key, rows in theirs.items())


def one(name, seed, attngen):
    """(what it is, "agreed" or "refused" or why it is wrong, the error)"""
    with tempfile.TemporaryDirectory() as work:
        folder, out = pathlib.Path(work) / "in", pathlib.Path(work) / "out"
        try:
            model, about = draw(name, seed, folder)
        except Exception as error:  # whatever transformers says
            return "", f"no model: {type(error).__name__}: {str(error)[:200]}", 0
        run = subprocess.run([attngen, "import", folder, "-o", out, "--isa", "scalar", "--name", "drawn"],
                             capture_output=True, text=True)
        if run.returncode:
            return about, ("refused: " if run.returncode == 2 else "wrong: ") + run.stderr.split("error: ")[-1].strip(), 0
        try:
            c = Compiled(out, "drawn")
            texts = (out / "drawn.layers").read_text()
            c.open([folder / file for file in re.findall(r'^file = "(.*)"', texts, re.M)])
            vocab = min(map(int, re.findall(r"^vocab +(?:\w+ )?= (\d+)", texts, re.M) or [0]))
            kind = check_images if "kind" in texts and "patches" in re.findall(r"^kind +.*", texts, re.M)[0] else \
                check_both if "[encoder input]" in texts and "[decoder input]" in texts else \
                check_decoder if "[decoder input]" in texts else check_encoder
            with torch.no_grad():
                worst = kind(c, model, vocab, random.Random(seed))
        except Exception as error:
            return about, f"wrong: {type(error).__name__}: {error}", 0
        return about, "agreed" if worst <= CLOSE else f"wrong: off by {worst:.1e}", worst


def strangers(attngen):
    """Classes that attngen import --list names and transformers does not have"""
    text = subprocess.run([attngen, "import", "--list"], capture_output=True, text=True).stdout
    return [name for line in text.splitlines() for name in line.replace(" (published name)", "()").split()[1:]
            if not name.endswith("()") and not hasattr(t, name)]


def main(words):
    torch.set_num_threads(1)
    attngen, count, bad = words[1], int(words[2]), 0
    for name in strangers(attngen):
        print(f"  {name} is listed, and transformers does not have it")
        bad += 1
    for word in words[3:] or FAMILIES:
        name, _, seed = word.partition("=")
        found, worst = {}, 0
        for at in [int(seed)] if seed else range(count):
            about, what, error = one(name, at, attngen)
            kind = what.split(":")[0]
            found[kind] = found.get(kind, 0) + 1
            worst = max(worst, error)
            bad += kind == "wrong"
            if kind != "agreed" or seed:
                print(f"  {name}={at}: {what}\n    {about}", flush=True)
        print(f"{name}: " + ", ".join(f"{n} {kind}" for kind, n in found.items()) + f", off by {worst:.1e} at most", flush=True)
    return bad > 0


t.logging.set_verbosity_error()
t.logging.disable_progress_bar()
if __name__ == "__main__":
    sys.exit(main(sys.argv))
