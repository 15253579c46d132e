#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What transformers answers of the models in imports/: answers/NAME/OUTPUT.f32, float32, little-endian, of the inputs
that model_test.h draws. Outputs are called as in NAME_model.h; encoder_hidden is that of a model with a decoder.

    python3 make_answers.py [NAME…]      needs the packages of requirements.txt
"""
import json
import pathlib
import shutil
import sys

import torch
import transformers as t

import gated_delta

HERE = pathlib.Path(__file__).parent
BATCH, TOKENS, LENGTHS, VOCAB = 2, 9, (9, 6), 17


def draw_ids(count, step=5):
    return torch.tensor([[2 + (3 + step * i + 7 * s) % VOCAB for i in range(count)] for s in range(BATCH)])


def draw_numbers(*shape):
    count = torch.Size(shape).numel()
    return ((torch.arange(count) * 7919 % 2048) / 1024 - 1).double().reshape(shape)


MASK = torch.tensor([[int(i < length) for i in range(TOKENS)] for length in LENGTHS])


def encoder(model, config):
    """Of tokens: hidden states, and what stands behind them by the names of attngen's heads."""
    base = getattr(model, model.base_model_prefix, model)
    more = {}
    if getattr(config, "type_vocab_size", 1) > 1:
        more["token_type_ids"] = torch.tensor([[i % 2 for i in range(TOKENS)]] * BATCH)
    hidden = base(input_ids=draw_ids(TOKENS), attention_mask=MASK, **more).last_hidden_state
    rows = MASK[..., None]
    out = {"hidden": hidden * rows}
    if getattr(base, "pooler", None) is not None:
        out["pooler"] = base.pooler(hidden)
    elif getattr(model, "pooler", None) is not None:
        out["pooler"] = model.pooler(hidden)
    if hasattr(model, "cls"):
        words = model.cls.predictions
        out["transform"] = words.transform(hidden) * rows
        out["logits"] = words(hidden) * rows
        if hasattr(model.cls, "seq_relationship"):
            out["seq_relationship"] = model.cls.seq_relationship(out["pooler"])
    if hasattr(model, "lm_head"):
        head = model.lm_head
        out["transform"] = head.layer_norm(torch.nn.functional.gelu(head.dense(hidden))) * rows
        out["logits"] = head(hidden) * rows
    if hasattr(model, "vocab_transform"):
        words = model.vocab_layer_norm(model.activation(model.vocab_transform(hidden)))
        out["transform"], out["logits"] = words * rows, model.vocab_projector(words) * rows
    if hasattr(model, "pre_classifier"):
        out["dense"] = torch.relu(model.pre_classifier(hidden[:, 0]))
        out["classifier"] = model.classifier(out["dense"])
    elif hasattr(model, "classifier") and hasattr(model.classifier, "out_proj"):
        out["dense"] = torch.tanh(model.classifier.dense(hidden[:, 0]))
        out["classifier"] = model.classifier(hidden)
    elif getattr(config, "classifier_pooling", "") == "mean":
        out["dense"] = model.activation(model.dense((hidden * rows).sum(1) / rows.sum(1)))
        out["classifier"] = model.classifier(out["dense"])
    elif hasattr(model, "head"):
        out["transform"] = model.head(hidden) * rows
        out["classifier"] = model.classifier(model.head(hidden)) * rows
    elif hasattr(model, "classifier"):
        out["classifier"] = model.classifier(out["pooler"]) if "pooler" in out else model.classifier(hidden) * rows
    return out


def outputs(model, config):
    kind = config.model_type
    if hasattr(config, "patch_size"):
        pixels = draw_numbers(BATCH, config.num_channels, config.image_size, config.image_size)
        out = model(pixels, output_hidden_states=True)
        if "logits" not in out:
            return {"hidden": out.last_hidden_state, "embedding": out.pooler_output}
        base = getattr(model, model.base_model_prefix)
        return {"hidden": base.layernorm(out.hidden_states[-1]), "classifier": out.logits}
    if config.is_encoder_decoder:
        ids = draw_ids(TOKENS - 2, 3)
        if kind != "whisper":
            out = model(input_ids=draw_ids(TOKENS), attention_mask=MASK, decoder_input_ids=ids,
                        output_hidden_states=True)
            encoded = out.encoder_last_hidden_state * MASK[..., None]
        else:
            frames = draw_numbers(BATCH, config.num_mel_bins, 2 * config.max_source_positions)
            out = model(input_features=frames, decoder_input_ids=ids, output_hidden_states=True)
            encoded = out.encoder_last_hidden_state
        return {"encoder_hidden": encoded, "hidden": out.decoder_hidden_states[-1], "logits": out.logits}
    if hasattr(model, "generate") and model.can_generate():
        behind = []  # the last layer, where words are of another width
        if getattr(config, "word_embed_proj_dim", width := config.hidden_size) != width:
            model.model.decoder.project_out.register_forward_pre_hook(lambda _, rows: behind.append(rows[0]))
        out = model(input_ids=draw_ids(TOKENS), output_hidden_states=True)
        return {"hidden": (behind or out.hidden_states)[-1], "logits": out.logits}
    return encoder(model, config)


def main(names):
    for name in names or sorted(path.name for path in (HERE / "imports").iterdir() if path.is_dir()):
        folder = HERE / "imports" / name
        kind = getattr(t, json.loads((folder / "config.json").read_text())["architectures"][0])
        model = kind.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager")
        gated_delta.use(model).eval()
        with torch.no_grad():
            out = outputs(model, model.config)
        to = HERE / "answers" / name
        shutil.rmtree(to, ignore_errors=True)
        to.mkdir(parents=True)
        for key, values in out.items():
            (to / f"{key}.f32").write_bytes(values.numpy().astype("<f4").tobytes())
        print(name, {key: tuple(values.shape) for key, values in out.items()})


t.logging.set_verbosity_error()
t.logging.disable_progress_bar()
main(sys.argv[1:])
