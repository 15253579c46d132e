# SPDX-License-Identifier: MIT
"""The cases of `make bench-models`: which model, how many tokens, what it costs, what goes in."""
import dataclasses
import json
import mmap
import os

import numpy as np


@dataclasses.dataclass(frozen=True)
class Case:
    model: str           # folder of a checkpoint
    name: str
    batch: int
    n: int = 0           # new tokens of each sequence; 0: images
    past: int = 0        # tokens that the cache holds
    shortest: int = 0    # 0: all sequences have n tokens; else they are padded, and have from this to n
    every: bool = False  # logits of each token, for the error alone: not timed

    @property
    def label(self):
        return f"{self.model}: {self.name}"


CASES = (
    Case("minilm", "1 x 16", 1, 16),
    Case("minilm", "1 x 128", 1, 128),
    Case("minilm", "8 x 32", 8, 32),
    Case("minilm", "32 x 8 to 64", 32, 64, shortest=8),
    *(Case(model, "32 x 8 to 512", 32, 512, shortest=8) for model in ("minilm", "bge", "modernbert")),
    Case("vit", "1 image", 1),
    Case("vit", "8 images", 8),
    *(case for model in ("gpt2", "llama") for case in (
        Case(model, "prefill 128", 1, 128), Case(model, "prefill 512", 1, 512),
        Case(model, "step at 64", 1, 1, past=64), Case(model, "step at 512", 1, 1, past=512),
        Case(model, "each of 512", 1, 512, every=True))),
)


class Checkpoint:
    """config.json and model.safetensors of a folder, the latter mapped."""

    def __init__(self, folder):
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
            self.config = json.load(file)
        self.path = os.path.join(folder, "model.safetensors")
        self.bytes = np.memmap(self.path, np.uint8, "r")
        end = 8 + int.from_bytes(self.bytes[:8].tobytes(), "little")
        header = json.loads(self.bytes[8:end].tobytes())
        self.spans = {name: (of["shape"], [end + at for at in of["data_offsets"]])
                      for name, of in header.items() if name != "__metadata__" and of["dtype"] == "F32"}
        self.prefix = next((p for p in ("transformer.", "model.") if any(name.startswith(p) for name in self.spans)), "")

    def __getitem__(self, name):
        shape, (first, last) = self.spans[name if name in self.spans else self.prefix + name]
        return self.bytes[first:last].view(np.float32).reshape(shape)

    def forget(self):
        """The file's pages count as no memory of the process until they are read again."""
        self.bytes._mmap.madvise(mmap.MADV_DONTNEED)

    @property
    def family(self):
        return self.config["model_type"]

    @property
    def decodes(self):
        return self.family in ("gpt2", "llama")

    def size(self, *names):
        """The first of these keys that config.json has."""
        return next(self.config[name] for name in names if self.config.get(name) is not None)

    @property
    def sizes(self):
        """(d_model, layers, heads, width of the feed-forward)"""
        d = self.size("hidden_size", "n_embd")
        ff = self.config.get("intermediate_size") or self.config.get("n_inner") or 4 * d
        return d, self.size("num_hidden_layers", "n_layer"), self.size("num_attention_heads", "n_head"), ff


def inputs(case, checkpoint):
    """ids int32 [batch][past + n], lengths int32 [batch]; of images pixels f32 [batch][3][side][side]."""
    rng, c = np.random.default_rng(1), checkpoint.config
    if checkpoint.family == "vit":
        return {"pixels": rng.standard_normal((case.batch, 3, c["image_size"], c["image_size"])).astype(np.float32)}
    lengths = rng.integers(case.shortest or case.n, case.n + 1, case.batch).astype(np.int32)
    lengths[0] = case.n
    return {"ids": rng.integers(1000, c["vocab_size"], (case.batch, case.past + case.n)).astype(np.int32), "lengths": lengths}


def multiply_adds(case, checkpoint):
    """What the model's products need: tokens that exist, pairs that are seen, logits of the last token alone."""
    d, layers, _, ff = checkpoint.sizes
    c = checkpoint.config
    rows = 4 * d * d + (3 if checkpoint.family == "llama" else 2) * d * ff
    if checkpoint.family == "vit":
        tokens = (c["image_size"] // c["patch_size"]) ** 2 + 1
        return case.batch * (layers * (tokens * rows + 2 * d * tokens ** 2) + (tokens - 1) * 3 * c["patch_size"] ** 2 * d
                             + d * checkpoint["classifier.bias"].size)
    if checkpoint.family == "bert":
        return sum(layers * (n * rows + 2 * d * n * n) for n in inputs(case, checkpoint)["lengths"].tolist())
    if checkpoint.family == "modernbert":
        rows, near = rows + d * ff, c["local_attention"] // 2
        seen = lambda n, kind: n * n if kind == "full_attention" else sum(
            min(t + near, n - 1) - max(t - near, 0) + 1 for t in range(n))
        return sum(n * rows + 2 * d * seen(n, kind) for n in inputs(case, checkpoint)["lengths"].tolist()
                   for kind in c["layer_types"])
    pairs = sum(case.past + t + 1 for t in range(case.n))
    return case.batch * (layers * (case.n * rows + 2 * d * pairs) + d * c["vocab_size"])
