#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every key of config.json off its default: `attngen import` agrees with transformers, or refuses.

    python3 check_keys.py ATTNGEN [FAMILY…]      needs the packages of requirements.txt; make test-keys

For each family and class a small model is drawn. Then each key of the family's config class and of the base class, and
keys of older releases, get each of their VALUES (with a family's other classes the first alone, unless a head reads the
key, or with -a), and with a family's first class keys of other families too.
transformers draws a model for it and writes its numbers, and import reads config.json as it stands. check_import.py
computes the model in float64 and compares with transformers. FILES are changes of the file: heads of other classes in
it, tables of a stack's own, tensors taken away.

A line for each case that is wrong: import reads a model otherwise than transformers does. Counts at the end, also of
configs of which transformers makes no model (none); a wrong case makes the exit code 1. -v prints every case.
"""
import collections
import dataclasses
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import warnings

import torch
import transformers as t
from safetensors.torch import load_file, save_file
from transformers.configuration_utils import PreTrainedConfig

import check_import
import gated_delta

LLAMA = dict(hidden_size=48, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, intermediate_size=20,
             vocab_size=23, max_position_embeddings=40)
BERT = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=20, vocab_size=23,
            max_position_embeddings=14)
BART = dict(d_model=16, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2, decoder_attention_heads=2,
            encoder_ffn_dim=20, decoder_ffn_dim=24, vocab_size=23, max_position_embeddings=14, pad_token_id=1,
            decoder_start_token_id=2)
HYBRID = dict(LLAMA, layer_types=["linear_attention", "full_attention", "linear_attention"],
              linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=5, linear_value_head_dim=6)

LATENT = dict(LLAMA, num_key_value_heads=4, q_lora_rank=10, kv_lora_rank=9, qk_rope_head_dim=4, qk_nope_head_dim=6,
              v_head_dim=5, pad_token_id=0)
PICTURES = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=20, image_size=12,
                patch_size=4)
DINO = {key: value for key, value in PICTURES.items() if key != "intermediate_size"}  # mlp_ratio says it
SECTIONS = dict(rope_type="default", mrope_section=[2, 2, 2], rope_theta=10000.0)
TEXTS = dict(BERT, bos_token_id=1, eos_token_id=2, pad_token_id=0)

# model_type → names of classes begin with, a small config
FAMILIES = {
    "bert": ("Bert", BERT),
    "roberta": ("Roberta", BERT),
    "xlm-roberta": ("XLMRoberta", BERT),
    "camembert": ("Camembert", BERT),
    "distilbert": ("DistilBert", dict(dim=16, n_layers=2, n_heads=2, hidden_dim=20, vocab_size=23,
                                      max_position_embeddings=14)),
    "vit": ("ViT", dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=20, image_size=12,
                        patch_size=4)),
    "gpt2": ("GPT2", dict(n_embd=16, n_layer=2, n_head=2, vocab_size=23, n_positions=14, bos_token_id=1,
                          eos_token_id=2)),
    "llama": ("Llama", LLAMA),
    "mistral": ("Mistral", dict(LLAMA, sliding_window=5)),
    "qwen2": ("Qwen2", LLAMA),
    "qwen3": ("Qwen3", dict(LLAMA, head_dim=14)),
    "gemma2": ("Gemma2", dict(LLAMA, head_dim=14, query_pre_attn_scalar=20, sliding_window=5)),
    "t5": ("T5", dict(d_model=16, d_kv=6, d_ff=20, num_layers=2, num_heads=2, vocab_size=23, decoder_start_token_id=0,
                      relative_attention_num_buckets=8, relative_attention_max_distance=12)),
    "whisper": ("Whisper", dict(
        d_model=16, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2, decoder_attention_heads=2,
        encoder_ffn_dim=20, decoder_ffn_dim=24, vocab_size=23, max_source_positions=10, max_target_positions=12,
        num_mel_bins=5, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, suppress_tokens=None,
        begin_suppress_tokens=None)),
    "gemma": ("Gemma", dict(LLAMA, head_dim=14)),
    "gemma3_text": ("Gemma3", dict(LLAMA, head_dim=14, query_pre_attn_scalar=20, sliding_window=5)),
    "phi": ("Phi", LLAMA),
    "phi3": ("Phi3", dict(LLAMA, pad_token_id=0)),
    "starcoder2": ("Starcoder2", LLAMA),
    "ministral": ("Ministral", dict(LLAMA, head_dim=14, sliding_window=5)),
    "smollm3": ("SmolLM3", dict(LLAMA, pad_token_id=0)),
    "stablelm": ("StableLm", dict(LLAMA, num_attention_heads=2)),
    "cohere": ("Cohere", dict(LLAMA, eos_token_id=1)),
    "cohere2": ("Cohere2", dict(LLAMA, eos_token_id=1, sliding_window=5)),
    "granite": ("Granite", LLAMA),
    "olmo": ("Olmo", LLAMA),
    "olmo2": ("Olmo2", LLAMA),
    "olmo3": ("Olmo3", dict(LLAMA, sliding_window=5)),
    "nemotron": ("Nemotron", LLAMA),
    "gptj": ("GPTJ", dict(n_embd=16, n_layer=2, n_head=2, vocab_size=23, n_positions=14, rotary_dim=4, bos_token_id=1,
                          eos_token_id=2)),
    "gpt_neo": ("GPTNeo", dict(hidden_size=16, num_layers=2, num_heads=2, vocab_size=23, max_position_embeddings=14,
                               window_size=4, attention_types=[[["global", "local"], 1]], bos_token_id=1,
                               eos_token_id=2)),
    "gpt_neox": ("GPTNeoX", {key: value for key, value in dict(LLAMA, num_attention_heads=2).items()
                             if key != "num_key_value_heads"}),
    "bloom": ("Bloom", dict(hidden_size=16, n_layer=2, n_head=2, vocab_size=23)),
    "falcon": ("Falcon", dict(hidden_size=48, num_hidden_layers=2, num_attention_heads=4, vocab_size=23,
                              ffn_hidden_size=20, max_position_embeddings=40, bos_token_id=1, eos_token_id=2)),
    "opt": ("OPT", dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, ffn_dim=20, vocab_size=23,
                        max_position_embeddings=14)),
    "bart": ("Bart", BART), "mbart": ("MBart", BART), "m2m_100": ("M2M100", BART), "pegasus": ("Pegasus", BART),
    "marian": ("Marian", dict(BART, pad_token_id=3, eos_token_id=0)),
    "mpnet": ("MPNet", BERT), "xlm-roberta-xl": ("XLMRobertaXL", BERT),
    "electra": ("Electra", dict(BERT, embedding_size=8)),
    "deberta-v2": ("DebertaV2", dict(BERT, relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=8)),
    "albert": ("Albert", dict(BERT, embedding_size=8)), "nomic_bert": ("NomicBert", BERT),
    "deit": ("DeiT", dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=20,
                          image_size=12, patch_size=4)),
    "modernbert": ("ModernBert", dict(BERT, num_hidden_layers=3, local_attention=8, pad_token_id=0, eos_token_id=1,
                                      bos_token_id=2, cls_token_id=2, sep_token_id=1)),
    "eurobert": ("EuroBert", dict(LLAMA, classifier_pooling="bos", pad_token_id=0, bos_token_id=2, eos_token_id=1, mask_token_id=3)),
    "qwen3_5_text": ("Qwen3_5", dict(HYBRID, head_dim=16)),
    "qwen3_next": ("Qwen3Next", dict(HYBRID, head_dim=16, num_experts=0)),
    "mamba2": ("Mamba2", dict(num_heads=4, head_dim=6, hidden_size=12, n_groups=2, state_size=5, num_hidden_layers=2,
                              vocab_size=23, bos_token_id=1, eos_token_id=2)),
    "olmo_hybrid": ("OlmoHybrid", dict(HYBRID, pad_token_id=0, eos_token_id=1)),
    "kimi_linear": ("KimiLinear", dict(LATENT, layer_types=HYBRID["layer_types"], mlp_layer_types=["dense"] * 3,
                                       linear_num_heads=2, linear_head_dim=5, bos_token_id=1, eos_token_id=2)),
    "minicpm3": ("MiniCPM3", dict(LATENT, scale_emb=3, dim_model_base=16)),
    "deepseek_v2": ("DeepseekV2", dict(LATENT, first_k_dense_replace=3, q_lora_rank=None)),
    "deepseek_v3": ("DeepseekV3", dict(LATENT, first_k_dense_replace=3)),
    "dinov2": ("Dinov2", DINO), "dinov2_with_registers": ("Dinov2WithRegisters", DINO),
    "clip_text_model": ("CLIPText", TEXTS), "clip_vision_model": ("CLIPVision", PICTURES),
    "siglip_text_model": ("SiglipText", dict(TEXTS, pad_token_id=1)), "siglip_vision_model": ("SiglipVision", PICTURES),
    "qwen2_vl_text": ("Qwen2VLText", dict(LLAMA, rope_parameters=SECTIONS)),
    "qwen2_5_vl_text": ("Qwen2_5_VLText", dict(LLAMA, rope_parameters=SECTIONS)),
    "qwen3_vl_text": ("Qwen3VLText", dict(LLAMA, head_dim=14)),
    "mt5": ("MT5", dict(d_model=16, d_kv=6, d_ff=20, num_layers=2, num_heads=2, vocab_size=23, decoder_start_token_id=0,
                        relative_attention_num_buckets=8, relative_attention_max_distance=12)),
}
ACTIVATIONS = ["relu", "gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh", "gelu_python", "gelu_python_tanh",
               "gelu_accurate", "silu", "swish", "quick_gelu", "tanh", "relu2", "mish", "sigmoid", "linear", None]
YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=200)
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=20)
ROPES = [None, {}, {"rope_type": "default"}, {"rope_theta": 500.0}, {"rope_type": "default", "rope_theta": 500.0},
         {"type": "linear", "factor": 2.0}, {"rope_type": "linear", "factor": 2.0, "rope_theta": 500.0},
         {"rope_type": "linear", "type": "yarn", "factor": 3}, {"rope_type": "linear"},
         {"rope_type": "linear", "factor": 0.5}, {"rope_type": "linear", "factor": 2.0, "attention_factor": 0.5},
         {"rope_type": "dynamic", "factor": 2.0}, {"rope_type": "proportional"}, {"rope_type": "longrope"},
         {"rope_type": "default", "factor": 2.0}, {"rope_type": "default", "mrope_section": [1, 1]},
         LLAMA3, dict(LLAMA3, factor=2), dict(LLAMA3, low_freq_factor=0.5, high_freq_factor=9.0),
         dict(LLAMA3, original_max_position_embeddings=None), {**LLAMA3, "beta_fast": 3.0},
         {k: v for k, v in LLAMA3.items() if k != "original_max_position_embeddings"},
         {k: v for k, v in YARN.items() if k != "original_max_position_embeddings"},
         YARN, dict(YARN, rope_theta=50.0), dict(YARN, attention_factor=0.7), dict(YARN, attention_factor=None),
         dict(YARN, beta_fast=3.0), dict(YARN, beta_slow=0.1), dict(YARN, beta_fast=4, beta_slow=4),
         dict(YARN, factor=1.0), dict(YARN, factor=0.5), dict(YARN, truncate=False), dict(YARN, truncate=None),
         dict(YARN, beta_fast=None),
         dict(YARN, mscale=0.7), dict(YARN, mscale=0.7, mscale_all_dim=1.3), dict(YARN, mscale_all_dim=1.3),
         dict(YARN, attn_factor=0.5), dict(YARN, finetuned=True),
         *({**rope, "partial_rotary_factor": part} for rope in ({"rope_type": "default"}, YARN) for part in (0.5, 1.0)),
         {"full_attention": {"rope_type": "default", "rope_theta": 50.0}}, {"rope_type": None}, {"rope_theta": None}]
LAYERS = ["full_attention", "sliding_attention"]
# Values of keys; of others see values_of().
VALUES = {
    **dict.fromkeys(("hidden_act", "activation", "activation_function", "hidden_activation", "dense_act_fn",
                     "pooler_act"), ACTIVATIONS),
    "feed_forward_proj": [*ACTIVATIONS[:9], "gated-gelu", "gated-gelu_new", "gated-silu", "gated-relu", "gated-a-b",
                          None],
    "rope_parameters": ROPES, "rope_scaling": ROPES,
    "layer_types": [[LAYERS[0]] * 3, [LAYERS[1]] * 3, [*LAYERS, LAYERS[0]], LAYERS, ["chunked_attention"] * 3, None],
    "sliding_window": [None, 0, 1, 3, 4], "max_window_layers": [0, 1, 2, 3, None], "head_dim": [4, 6, 8, None],
    "num_key_value_heads": [1, 2, 3, 4, None], "pooler_output_size": [7, 16, 0, None],
    "image_size": [16, [12, 12], [12, 16], None], "patch_size": [2, 5, [4, 4], [4, 6], None],
    "num_labels": [1, 3, None], "_num_labels": [3], "id2label": [{"0": "a", "1": "b", "2": "c"}, {"0": "a"}, {}, None],
    "pad_token_id": [0, 2, 5, -1, 40, None], "layer_norm_eps": [0.1, 1e-5, 0, None], "rms_norm_eps": [0.1, None],
    "layer_norm_epsilon": [0.1, None], "n_positions": [20, None], "max_position_embeddings": [30, None],
    "attn_logit_softcapping": [1.0, 0.0, None], "final_logit_softcapping": [1.0, 0.0, None],
    "query_pre_attn_scalar": [3, None], "partial_rotary_factor": [0.5, 1.0, 1, None], "rope_theta": [50.0, 50, None],
    "pruned_heads": [{"0": [1]}, {}], "dtype": ["float32", "float16", None], "torch_dtype": ["float32"],
    "per_layer_config": [{"0": {"hidden_size": 8}}, None], "label2id": [{"a": 0}], "problem_type": ["regression", None],
    "use_sliding_window": [True, None], "num_decoder_layers": [1, 3, None], "n_inner": [24, None],
    "original_max_position_embeddings": [7], "is_causal": [False, True],
    "classifier_pooling": ["cls", "mean", "bos", "late"],
    "position_embedding_type": ["absolute", "relative_key", "relative_key_query"],
    "embedding_size": [8, 16], "hidden_size": [24, 16], "num_hidden_layers": [1, 2, 3], "encoder_layers": [1],
    "decoder_layers": [1], "type_vocab_size": [1, 3, None], "num_channels": [1, None],
    "scale_decoder_outputs": [False, None],
    "tie_word_embeddings": [True, False, None], "is_gated_act": [True, None], "architectures": [None, [], "x", 3],
    "transformers_version": ["4.0.0"], "use_cache": [False, None], "output_hidden_states": [True],
    "return_dict": [True],
    "num_heads": [1], "num_layers": [1], "d_kv": [8], "relative_attention_num_buckets": [4, 16],
    "relative_attention_max_distance": [6, 40],
}
# Keys that no config class has as a field, of older releases and of other programs.
OLDER = """rope_scaling rope_theta partial_rotary_factor num_labels _num_labels pruned_heads torch_dtype dense_act_fn
    is_gated_act scale_decoder_outputs per_layer_config original_max_position_embeddings
    position_embedding_type embedding_size is_causal
    architectures""".split()
# The key without which one of these is foreign to a family: it gets one value there.
RELATED = {"rope_scaling": {"rope_parameters"}, "rope_theta": {"rope_parameters"},
           "dense_act_fn": {"feed_forward_proj"}, "partial_rotary_factor": {"rope_parameters"},
           "is_gated_act": {"feed_forward_proj"},
           "original_max_position_embeddings": {"rope_parameters"}}
# Keys that a head reads: with each class all values; others get all of theirs with a family's first class alone.
OF_HEADS = re.compile(r"label|tie_word|pool|class|logit|pad_token|is_decoder|architectures|problem|summary|_act|activation")
# Two keys and more at a time.
PAIRS = [
    {"use_sliding_window": True, "sliding_window": w, "max_window_layers": m} for w in (None, 3) for m in (0, 1)
] + [
    {"use_sliding_window": used, "sliding_window": 3, "layer_types": [*LAYERS, LAYERS[0]]} for used in (True, False)
] + [
    {"use_sliding_window": True, "sliding_window": None, "layer_types": [LAYERS[0]] * 3},
    {"sliding_window": None, "use_sliding_window": True}, {"sliding_window": None, "layer_types": [LAYERS[1]] * 3},
    {"rope_scaling": YARN, "rope_parameters": YARN}, {"rope_scaling": YARN, "rope_parameters": LLAMA3},
    {"rope_scaling": {}, "rope_parameters": LLAMA3}, {"rope_scaling": YARN, "rope_theta": 60.0},
    {"rope_parameters": dict(YARN, rope_theta=70.0), "rope_theta": 60.0}, {"rope_scaling": YARN, "rope_parameters": {}},
    {"rope_scaling": YARN, "original_max_position_embeddings": 7},
    {"feed_forward_proj": "gated-gelu", "dense_act_fn": "silu"},
    {"feed_forward_proj": "gated-gelu", "is_gated_act": False}, {"feed_forward_proj": "silu", "is_gated_act": True},
    {"feed_forward_proj": "relu", "dense_act_fn": "gelu"},
    {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
    {"tie_word_embeddings": False, "scale_decoder_outputs": True}, {"num_labels": 3, "id2label": {"0": "a", "1": "b"}},
    {"is_decoder": True, "add_cross_attention": True}, {"scale_attn_weights": False, "reorder_and_upcast_attn": True},
]


def values_of(key, value):
    """What a key is tried with, whose value is otherwise this one."""
    if key in VALUES:
        return VALUES[key]
    if isinstance(value, bool):
        return [not value, None]
    if isinstance(value, int):
        return [value + 1, 0, None] if value < 4 else [7, None] if value > 60 else [value - 2, value + 4, None]
    if isinstance(value, float):
        return [0.5, None]
    if isinstance(value, str):
        return ["x", None]
    return [True, 3, "x", [1], None]


def fields(config):
    """A config class's keys and their defaults."""
    return {f.name: None if f.default is dataclasses.MISSING else f.default for f in dataclasses.fields(config)}


def config_class(family):
    return t.AutoConfig.for_model(family).__class__


# ---- changes of a file ----

def prefixed(tensors, ending):
    return next((name for name in tensors if name.endswith(ending)), None)


def own_tables(family, tensors):
    if family != "t5" or "shared.weight" not in tensors:
        return False
    for stack in "encoder", "decoder":
        if any(name.startswith(stack) for name in tensors):
            tensors[stack + ".embed_tokens.weight"] = torch.randn_like(tensors["shared.weight"])
    return True


def one_own_table(family, tensors):
    if family != "t5" or "shared.weight" not in tensors or not any(name.startswith("decoder") for name in tensors):
        return False
    tensors["decoder.embed_tokens.weight"] = torch.randn_like(tensors["shared.weight"])
    return True


def table_without_shared(family, tensors):
    if family != "t5" or "shared.weight" not in tensors:
        return False
    tensors["encoder.embed_tokens.weight"] = tensors.pop("shared.weight")
    return True


def own_logits(family, tensors):
    """A matrix of logits beside a word embedding to which config.json ties it."""
    heads = {"bert": "cls.predictions.decoder", "distilbert": "vocab_projector", "whisper": "proj_out"}
    word = next((name for name in tensors if "embed" in name and "position" not in name and "type" not in name or
                 name.endswith(("wte.weight", "shared.weight"))), None)
    if word is None or family == "vit":
        return False
    name = heads.get(family, "lm_head.decoder" if "roberta" in family or family == "camembert" else "lm_head")
    tensors[name + ".weight"] = torch.randn_like(tensors[word])
    return True


def own_bias(family, tensors):
    for bias in "cls.predictions", "lm_head":
        if bias + ".bias" in tensors:
            tensors[bias + ".decoder.bias"] = torch.randn_like(tensors[bias + ".bias"])
            return True
    return False


def other_heads(family, tensors):
    """Heads of the other classes."""
    word = prefixed(tensors, "word_embeddings.weight")
    if word is None:
        return False
    width, start = tensors[word].shape[1], word[:-len("embeddings.word_embeddings.weight")]
    more = {start + "pooler.dense": width, "classifier": 2, "qa_outputs": 2}
    if family == "bert":
        more.update({"cls.seq_relationship": 2, "cls.predictions.transform.dense": width})
    if family == "distilbert":
        more = {"pre_classifier": width, "classifier": 2, "vocab_transform": width}
    for name, count in more.items():
        tensors.setdefault(name + ".weight", torch.randn(count, width))
        tensors.setdefault(name + ".bias", torch.randn(count))
    return True


def no_pooler(family, tensors):
    gone = [name for name in tensors if "pooler." in name]
    for name in gone:
        del tensors[name]
    return bool(gone)


def without_prefix(family, tensors):
    first = next(iter(tensors)).split(".")[0]
    named = {name.removeprefix(first + "."): rows for name, rows in tensors.items()}
    if first not in ("bert", "roberta", "distilbert", "vit", "transformer", "model") or family == "whisper":
        return False
    tensors.clear()
    tensors.update(named)
    return True


FILES = [own_tables, one_own_table, table_without_shared, own_logits, own_bias, other_heads, no_pooler, without_prefix]


def texts(folder):
    """What import writes, without comments and ends that config.json says, numbers written alike"""
    return {path.name: re.sub(r"(?<=[= ])[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?\b", lambda number: str(float(number[0])), re.sub(
        r" *#.*|\[ends\]\nids.*", "", path.read_text()).strip()) for path in folder.iterdir()}


COUNTED = "agreed", "moved", "refused", "wrong", "none"  # moved: of the agreed ones, those whose key has an effect


# ---- one case ----

class Ladder:
    def __init__(self, attngen, verbose, all_values=False):
        self.attngen, self.verbose, self.all_values = attngen, verbose, all_values
        self.counts, self.usual = collections.Counter(), {}
        self.folder = tempfile.TemporaryDirectory()
        self.listed = subprocess.run([attngen, "import", "--list"], capture_output=True, text=True).stdout.split()

    def drawn(self, family, kind, config, change):
        """The model's folder, and the model as transformers reads it from there; None where it refuses."""
        folder = pathlib.Path(self.folder.name) / "model"
        folder.mkdir(exist_ok=True)
        for path in folder.iterdir():
            path.unlink()
        try:
            torch.manual_seed(7)
            (folder / "config.json").write_text(json.dumps(config))
            drawn = kind._from_config(config_class(family).from_pretrained(folder), attn_implementation="eager")
            with torch.no_grad():
                for name, weight in drawn.named_parameters():
                    weight.add_(torch.randn_like(weight) * 0.3)
            drawn.save_pretrained(folder)
        except Exception:  # whatever it says: there is no such model
            return folder, None
        path = folder / "model.safetensors"
        (folder / "config.json").write_text(json.dumps(config))
        # as it would be read again, in half the time; of a narrow model constants are narrow too, and read anew they are not
        if change is None and not drawn._keys_to_ignore_on_save and drawn.dtype == torch.float32:
            return folder, gated_delta.use(drawn.double()).eval()
        tensors = load_file(path)
        if change is not None and not change(family, tensors):
            return folder, False
        save_file(tensors, path, metadata={"format": "pt"})
        try:
            return folder, gated_delta.use(
                kind.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager")).eval()
        except Exception:
            return folder, None

    def case(self, family, kind, keys, change=None):
        padded = {"pad_token_id": 0} if kind.__name__.endswith("ForSequenceClassification") else {}  # its batches need one
        config = {"model_type": family, "architectures": [kind.__name__], **padded, **FAMILIES[family][1], **keys}
        folder, model = self.drawn(family, kind, config, change)
        if model is False:
            return
        what, why = "none", "transformers makes no model of it"
        if model is not None:
            with tempfile.TemporaryDirectory() as out:
                run = subprocess.run([self.attngen, "import", "--specs", folder, "-o", out], capture_output=True,
                                     text=True)
                if run.returncode == 0:
                    what, why = self.compared(folder, pathlib.Path(out), model)
                else:
                    what = "refused" if run.returncode == 2 else "wrong"
                    why = run.stderr.split("\n")[0].split("error: ")[-1]
        self.counts[what] += 1
        self.counts["moved"] += why.endswith("without")
        if self.verbose or what == "wrong":
            about = " ".join(f"{key}={json.dumps(value)}" for key, value in keys.items())
            print(f"{what}: {kind.__name__} {change.__name__ if change else about or 'as drawn'}: {why}", flush=True)

    def defaults(self, family, kind):
        """Each key of the config class with its default, and without: the same, or a refusal of what is without."""
        small = {"model_type": family, "architectures": [kind.__name__], **FAMILIES[family][1]}
        folder, model = self.drawn(family, kind, small, None)
        said = json.loads(model.config.to_json_string(use_diff=False)) if model is not None else {}
        made = []
        for key in [None, *fields(config_class(family))]:
            if key in small or key not in said and key is not None or key == "head_dim":
                continue
            (folder / "config.json").write_text(json.dumps({**small, **({key: said[key]} if key else {})}))
            with tempfile.TemporaryDirectory() as out:
                run = subprocess.run([self.attngen, "import", "--specs", folder, "-o", out], capture_output=True)
                made.append(texts(pathlib.Path(out)))
            what = "refused" if run.returncode else "agreed" if made[-1] == made[0] else "wrong"
            self.counts[what] += 1
            if what == "wrong":
                print(f"wrong: {kind.__name__} {key}={json.dumps(said[key])}, its default, is not what it is without", flush=True)

    def compared(self, folder, out, model):
        try:
            theirs, worst = check_import.compare(folder, out, model)
        except check_import.NoAnswer as error:
            return "none", str(error)
        except Exception as error:  # outputs that are not alike
            return "wrong", f"{type(error).__name__}: {error}"
        if not worst < check_import.CLOSE:
            return "wrong", f"off by {worst:.1e}"
        usual = self.usual.setdefault(type(model).__name__, theirs)  # of the first case, whose keys are as drawn
        moved = any(rows.shape != usual[name].shape or (rows - usual[name]).abs().max() > 1e-4 * rows.abs().max()
                    for name, rows in theirs.items() if name in usual)
        return "agreed", f"off by {worst:.1e}" + ", with other numbers than without" * moved

    def family(self, family):
        start = FAMILIES[family][0]
        ends = re.compile(start + r"(Model(With\w+)?|[A-Z]\w+Model|For[A-Z]\w+)")
        names = [name for name in sorted(dir(t)) if ends.fullmatch(name)]
        kinds = [getattr(t, name) for name in names if not name.endswith("PreTrainedModel")]
        kinds = [kind for kind in kinds if getattr(kind, "config_class", None) is config_class(family)]
        own = fields(config_class(family))
        keys = {**own, **dict.fromkeys(OLDER), **FAMILIES[family][1]}
        others = {}
        for other in FAMILIES:
            others.update({key: default for key, default in fields(config_class(other)).items() if key not in keys})
        for kind in kinds:
            before = self.counts["agreed"]
            self.case(family, kind, {})
            if self.counts["agreed"] == before:
                if kind.__name__ in self.listed:
                    print(f"wrong: {kind.__name__} is listed, and does not agree as drawn", flush=True)
                    self.counts["wrong"] += 1
                continue  # a class that is refused whatever its keys
            self.defaults(family, kind)
            for change in FILES:
                self.case(family, kind, {}, change)
            for key, value in {**keys, **others}.items():
                few = 1 if key in others or not RELATED.get(key, set(keys)) & set(own) else None
                few = 1 if kind != kinds[0] and not self.all_values and not OF_HEADS.search(key) else few
                for other in values_of(key, value)[:few]:
                    self.case(family, kind, {key: other})
            for pair in PAIRS:
                if any(key in keys for key in pair) and (others or self.all_values or OF_HEADS.search(" ".join(pair))):
                    self.case(family, kind, pair)
            others = {}


def main(words):
    ladder = Ladder(words[1], "-v" in words, "-a" in words)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # of keys that transformers deprecates
    families = [word for word in words[2:] if word not in ("-a", "-v")]
    for family in families or FAMILIES:
        before = ladder.counts.copy()
        ladder.family(family)
        print(f"{family}: " + ", ".join(f"{ladder.counts[what] - before[what]} {what}" for what in
                                        COUNTED), flush=True)
    print(", ".join(f"{ladder.counts[what]} {what}" for what in COUNTED))
    return ladder.counts["wrong"] > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
