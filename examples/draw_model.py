#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A model of a published shape with drawn weights, for examples where no real one is at hand.

    python3 draw_model.py gpt2|llama|qwen3_5|vit|whisper|bge|bge_reranker|modernbert DIR      needs torch and transformers

gpt2: 124 M numbers, the smallest one of Radford et al. llama: 110 M, the shape of stories110M. qwen3_5: 752 M,
the text of Qwen3.5-0.8B. vit: 87 M,
ViT-Base of 224 x 224 with 1,000 classes. whisper: 38 M, Whisper tiny. bge: 33 M, bge-small-en-v1.5, with the modules of
sentence-transformers. bge_reranker: 34 M, the classes of bge-reranker-base in layers of that width. modernbert: 149 M, ModernBERT-base. The seed
is fixed.
"""
import json
import pathlib
import sys

import torch
import transformers as t

SHAPES = {
    "gpt2": (t.GPT2LMHeadModel, t.GPT2Config()),
    "llama": (t.LlamaForCausalLM, t.LlamaConfig(
        vocab_size=32000, hidden_size=768, intermediate_size=2048, num_hidden_layers=12, num_attention_heads=12,
        max_position_embeddings=1024, tie_word_embeddings=True)),
    "qwen3_5": (t.Qwen3_5ForCausalLM, t.Qwen3_5TextConfig(
        vocab_size=248320, hidden_size=1024, intermediate_size=3584, num_hidden_layers=24, num_attention_heads=8,
        num_key_value_heads=2, linear_num_value_heads=16, max_position_embeddings=262144, tie_word_embeddings=True,
        rope_parameters=dict(rope_type="default", rope_theta=10000000.0, partial_rotary_factor=0.25))),
    "whisper": (t.WhisperForConditionalGeneration, t.WhisperConfig(
        d_model=384, encoder_layers=4, decoder_layers=4, encoder_attention_heads=6, decoder_attention_heads=6,
        encoder_ffn_dim=1536, decoder_ffn_dim=1536)),
    "bge": (t.BertModel, t.BertConfig(
        hidden_size=384, intermediate_size=1536, num_hidden_layers=12, num_attention_heads=12)),
    "bge_reranker": (t.XLMRobertaForSequenceClassification, t.XLMRobertaConfig(
        vocab_size=32000, hidden_size=384, intermediate_size=1536, num_hidden_layers=12, num_attention_heads=12,
        max_position_embeddings=514, type_vocab_size=1, num_labels=1)),
    "modernbert": (t.ModernBertModel, t.ModernBertConfig(pad_token_id=0)),
    "vit": (t.ViTForImageClassification, t.ViTConfig(num_labels=1000)),
}
if len(sys.argv) != 3 or sys.argv[1] not in SHAPES:
    sys.exit(__doc__)
kind, config = SHAPES[sys.argv[1]]
torch.manual_seed(1)
model = kind(config)
with torch.no_grad():  # larger than what training begins with, so that tokens differ in what follows them
    for name, tensor in model.named_parameters():
        tensor.mul_(3 if tensor.dim() == 2 else 1)
model.save_pretrained(sys.argv[2])
if sys.argv[1] == "bge":
    folder = pathlib.Path(sys.argv[2])
    (folder / "1_Pooling").mkdir(exist_ok=True)
    (folder / "1_Pooling" / "config.json").write_text('{"word_embedding_dimension": 384, "pooling_mode_cls_token": true}')
    modules = ("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")
    (folder / "modules.json").write_text(json.dumps(
        [{"path": path, "type": f"sentence_transformers.models.{kind}"} for path, kind in modules]))
print(f"{sys.argv[2]}: {sum(tensor.numel() for tensor in model.parameters()) / 1e6:.0f} M numbers")
