#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What number types cost whole models: a table in Markdown.

    number_types.py layer SPEC TENSORS            --attngen A --attnrun R     y of a layer beside the file's
    number_types.py bert MODEL IDS --out DIR      --attngen A                 cosines of embeddings with those in f32
    number_types.py gpt2 MODEL IDS --out DIR      --attngen A                 how often the likeliest next token is that of f32

IDS: a text a line, as the ids of its tokens. MODEL: a folder with config.json and model.safetensors.
"""
import argparse
import json
import os
import struct
import subprocess

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
PLAIN = ("precision", "f32")
TYPES = [("precision", word) for word in ("i16", "bf16", "i8")] + [("weight_type", word) for word in ("f16", "bf16", "i8", "i4")]
CACHES = [("cache_type", word) for word in ("f16", "bf16", "i8")]


def tensor(path, name):
    """One f32 tensor of a safetensors file."""
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        start, end = header[name]["data_offsets"]
        file.seek(start, 1)
        return np.frombuffer(file.read(end - start), "<f4").reshape(header[name]["shape"]).astype(np.float64)


def layer(o):
    print("| type | rms | largest |\n| --- | --: | --: |")
    right = tensor(o.model, "y")
    for key, word in [PLAIN] + (o.types or TYPES):
        out = os.path.join(o.out, "y.safetensors")
        if os.path.exists(out):
            os.remove(out)
        subprocess.run([o.attnrun, "run", o.spec, "--in", o.model, "--out", out, "--isa", o.isa, "--set", f"{key}={word}"],
                       stdout=subprocess.DEVNULL, check=False)  # the file's y is that of f32: it says MISSED
        off = tensor(out, "y") - right
        rms = np.sqrt(np.square(right).mean())
        print(f"| {key} {word} | {np.sqrt(np.square(off).mean()) / rms:.2g} | {np.abs(off).max() / rms:.2g} |", flush=True)


def build(o, name, source, key, word):
    """The program around the C of the model in these types."""
    folder = os.path.join(o.out, f"{name}_{key}_{word}")
    options = [f"--{key.replace('_', '-')}", word]
    subprocess.run([o.attngen, "import", o.model, "-o", folder, "--name", name, "--isa", o.isa, *options], check=True,
                   stdout=subprocess.DEVNULL)
    sources = [os.path.join(folder, file) for file in sorted(os.listdir(folder)) if file.endswith(".c")]
    program = os.path.join(folder, "program")
    subprocess.run(["gcc", "-std=c11", "-O1", "-I" + folder, "-o", program, source, *sources, "-lm"], check=True)
    return program


def lines(o, program, text, *words):
    return subprocess.run([program, os.path.join(o.model, "model.safetensors"), *words], input=text, capture_output=True, text=True,
                          check=True).stdout.splitlines()


def bert(o):
    with open(o.ids, encoding="utf-8") as file:
        text = file.read()
    print("| type | least cosine | mean cosine |\n| --- | --: | --: |")
    plain = None
    for key, word in [PLAIN] + (o.types or TYPES):
        program = build(o, "minilm", os.path.join(HERE, "..", "..", "examples", "minilm", "embed.c"), key, word)
        found = np.array([[float(number) for number in line.split()] for line in lines(o, program, text, "vectors")])
        plain = found if plain is None else plain
        cosines = (found * plain).sum(-1) / np.sqrt((found * found).sum(-1) * (plain * plain).sum(-1))
        print(f"| {key} {word} | {cosines.min():.5f} | {cosines.mean():.5f} |", flush=True)


def gpt2(o):
    with open(o.ids, encoding="utf-8") as file:
        texts = file.read().splitlines()
    print("| type | tokens that agree |\n| --- | --: |")
    plain = None
    for key, word in [PLAIN] + (o.types or TYPES + CACHES):
        program = build(o, "typed", os.path.join(HERE, "agree.c"), key, word)
        found = [token for text in texts for token in lines(o, program, text)]
        plain = found if plain is None else plain
        same = sum(a == b for a, b in zip(found, plain, strict=True))
        print(f"| {key} {word} | {same} of {len(plain)} |", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("what", choices=("layer", "bert", "gpt2"))
    p.add_argument("spec_or_model")
    p.add_argument("ids")
    p.add_argument("--attngen", default="build/attngen")
    p.add_argument("--attnrun", default="build/attnrun")
    p.add_argument("--isa", default="avx512")
    p.add_argument("--types", type=lambda text: [tuple(word.split("=")) for word in text.split(",")], default=[],
                   help="precision=i8,weight_type=i4 and so on; default: all")
    p.add_argument("--out", default="build/types")
    o = p.parse_args()
    os.makedirs(o.out, exist_ok=True)
    o.spec, o.model = (o.spec_or_model, o.ids) if o.what == "layer" else (None, o.spec_or_model)
    {"layer": layer, "bert": bert, "gpt2": gpt2}[o.what](o)


if __name__ == "__main__":
    main()
