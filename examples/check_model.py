#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Whether tokens are those that transformers generates, greedily, from the same model and prompts.

    python3 check_model.py DIR COUNT PROMPTS OURS      needs torch and transformers

PROMPTS: the ids of a prompt's tokens, a line each. OURS: the ids of the tokens behind each, one after the other. Where two
tokens are as likely as each other within 1e-4 of a logit, either is right, and the rest of that line is passed over.
"""
import pathlib
import sys

import torch
import transformers as t

folder, count, prompts, ours = sys.argv[1], int(sys.argv[2]), *map(pathlib.Path, sys.argv[3:])
t.logging.set_verbosity_error()
model = t.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
model.eval()
mine, same, at = [int(word) for word in ours.read_text().split()], 0, 0
for line in prompts.read_text().splitlines():
    ids = [int(word) for word in line.split()]
    for i in range(count):
        with torch.no_grad():
            logits = model(torch.tensor([ids + mine[at:at + i]])).logits[0, -1]
        if logits.max() - logits[mine[at + i]] > 1e-4:
            sys.exit(f"token {i} of '{line[:40]}' is {mine[at + i]}; transformers says {int(logits.argmax())}")
        same += int(logits.argmax()) == mine[at + i]
    at += count
if at != len(mine):
    sys.exit(f"{len(mine)} tokens instead of {at}")
print(f"{same} of {at} tokens are those of transformers, the others as likely")
