#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What transformers answers of the encoders in imports/: answers/NAME.f32, hidden states [2][9][16] of the tokens that
model_program.c draws, then what the pooler makes of them where there is one. float32, little-endian.

    python3 make_answers.py [NAME…]      needs the packages of requirements.txt
"""
import pathlib
import sys

import numpy as np
import torch
import transformers as t

HERE = pathlib.Path(__file__).parent
BASES = {"bert": t.BertModel, "bert_words": t.BertModel, "bert_classes": t.BertModel, "roberta": t.RobertaModel,
         "roberta_classes": t.RobertaModel, "distilbert": t.DistilBertModel}
BATCH, TOKENS, LENGTHS = 2, 9, (9, 6)


def main(names):
    (HERE / "answers").mkdir(exist_ok=True)
    ids = torch.tensor([[2 + (3 + 5 * i + 7 * s) % 17 for i in range(TOKENS)] for s in range(BATCH)])
    mask = torch.tensor([[int(i < length) for i in range(TOKENS)] for length in LENGTHS])
    for name in names or BASES:
        model = BASES[name].from_pretrained(HERE / "imports" / name, dtype=torch.float64, attn_implementation="eager")
        model.eval()
        more = {}
        if getattr(model.config, "type_vocab_size", 1) > 1:
            more["token_type_ids"] = torch.tensor([[i % 2 for i in range(TOKENS)]] * BATCH)
        with torch.no_grad():
            out = model(input_ids=ids, attention_mask=mask, **more)
        hidden = out.last_hidden_state * mask[..., None]
        pooled = getattr(out, "pooler_output", None)
        if pooled is None or not name.startswith("bert"):  # those checkpoints have no pooler: it would be drawn
            pooled = torch.zeros(0)
        with open(HERE / "answers" / f"{name}.f32", "wb") as file:
            file.write(hidden.numpy().astype("<f4").tobytes() + pooled.numpy().astype("<f4").tobytes())
        print(name, tuple(hidden.shape), tuple(pooled.shape), float(np.abs(hidden.numpy()).max()))


main(sys.argv[1:])
