#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Computes the models of imports/ from nothing but the specs and NAME.layers that `attngen import` writes and the files
of weights that NAME.layers names, in float64 by the equations of docs/spec.md, and compares with transformers.

    python3 check_import.py ATTNGEN [NAME…]      needs the packages of requirements.txt

A line each: the largest difference of any output, relative to the largest number. So NAME.layers says enough, and says
it right. Left out on purpose: kernels (test_models.sh has attention, attnrun check the blocks), caches, other lengths.
"""
import json
import math
import pathlib
import subprocess
import sys
import tempfile

import torch
import transformers as t
from safetensors.torch import load_file

HERE = pathlib.Path(__file__).parent / "imports"
F = torch.nn.functional
BATCH, TOKENS = 2, 9
LENGTHS = torch.tensor([TOKENS, 6])
ACT = {
    "relu": F.relu, "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "silu": F.silu,
    "tanh": torch.tanh, "swiglu": F.silu, "geglu": F.gelu, "geglu_tanh": lambda x: F.gelu(x, approximate="tanh")}


# ---- the two kinds of files ----

def lines(text):
    for line in text.splitlines():
        line = line.split("    #")[0].strip()
        if line and not line.startswith("#"):
            yield line


def read_spec(path):
    spec = dict(bias="false", norm="layer", ffn="none", mask="none", attention="self", rope="none", relative="none",
                softcap="none", qk_norm="none", weight_layout="in_out", norm_eps=1e-6)
    for line in lines(path.read_text()):
        key, _, value = line.partition("=")
        spec[key.strip()] = value.strip()
    return spec


def read_layers(path):
    sections = {"": {}}
    at = sections[""]
    for line in lines(path.read_text()):
        if line.startswith("["):
            at = sections[line[1:-1]] = {}
        else:
            key, value = (part.strip() for part in line.split("=", 1))
            at[key] = at.get(key, []) + [value] if key == "file" else value
    return sections


class Weights:
    def __init__(self, folder, files):
        self.tensors = {}
        for file in files:
            self.tensors.update(load_file(folder / json.loads(file)))

    def get(self, value, transpose=True):
        """A tensor as [in][out]; None for zeros."""
        if value == "zeros":
            return None
        name, _, words = value[1:].partition('"')
        words = words.split()
        tensor = self.tensors[name].double()
        if transpose and "out_in" in words:
            tensor = tensor.T
        if "columns" in words:
            begin, end = words[words.index("columns") + 1].split("..")
            tensor = tensor[..., int(begin):int(end)]
        return tensor + 1 if "plus_one" in words else tensor


# ---- the equations of docs/spec.md ----

def norm(x, kind, eps, gain, shift=None):
    if kind == "layer":
        x = x - x.mean(-1, keepdim=True)
    x = x / torch.sqrt((x * x).mean(-1, keepdim=True) + float(eps)) * gain
    return x if shift is None else x + shift


def linear(x, w, b):
    return x @ w if b is None else x @ w + b


def turn(x, spec):
    d, theta = x.shape[-1], float(spec["rope_theta"])
    f = theta ** (-torch.arange(0, d, 2).double() / d)
    factor, scaling = float(spec.get("rope_factor", 1)), spec.get("rope_scaling", "none")
    size = 1.0
    if scaling == "llama3":
        w, length = 2 * math.pi / f, float(spec["rope_original_len"])
        low, high = float(spec["rope_low"]), float(spec["rope_high"])
        r = (length / w - low) / (high - low)
        f = torch.where(w < length / high, f, torch.where(w > length / low, f / factor, (1 - r) * f / factor + r * f))
    elif scaling == "yarn":
        length = float(spec["rope_original_len"])
        dim = [d * math.log(length / (2 * math.pi * float(spec[b]))) / (2 * math.log(theta))
               for b in ("rope_beta_fast", "rope_beta_slow")]
        lo, hi = max(math.floor(dim[0]), 0), min(math.ceil(dim[1]), d - 1)
        ramp = ((torch.arange(d // 2) - lo) / max(hi - lo, 0.001)).clamp(0, 1)
        f, size = ramp * f / factor + (1 - ramp) * f, 0.1 * math.log(factor) + 1
    angle = torch.arange(x.shape[-2]).double()[:, None] * f
    cos, sin, (a, b) = size * angle.cos(), size * angle.sin(), x.split(d // 2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def buckets(spec, n, m):
    count, far = int(spec["rel_buckets"]), int(spec["rel_distance"])
    d = torch.arange(m) - torch.arange(n)[:, None]
    add = 0
    if "causal" in spec["mask"]:
        d = (-d).clamp(min=0)
    else:
        count //= 2
        add, d = (d > 0) * count, d.abs()
    half = count // 2
    log = half + (torch.log(d.clamp(min=1) / half) / math.log(far / half) * half + 1e-12).floor().long()
    return add + torch.where(d < half, d, log.clamp(max=count - 1))


def attention(spec, w, x, source, lengths):
    h, width = int(spec["h"]), int(spec["d_model"])
    kv, d = int(spec.get("h_kv", h)), int(spec.get("d_k", width // h))

    def heads(name, rows, count):
        return linear(rows, w["w_" + name], w.get("b_" + name)).unflatten(-1, (count, d)).transpose(1, 2)
    q, k, v = heads("q", x, h), heads("k", source, kv), heads("v", source, kv)
    if spec["qk_norm"] == "rms":
        q, k = norm(q, "rms", spec["norm_eps"], w["g_q"]), norm(k, "rms", spec["norm_eps"], w["g_k"])
    if spec["rope"] == "half":
        q, k = turn(q, spec), turn(k, spec)
    k, v = (rows.repeat_interleave(h // kv, 1) for rows in (k, v))
    s = q @ k.transpose(-1, -2) * float(spec.get("scale", d ** -0.5))
    if spec["softcap"] != "none":
        s = float(spec["softcap"]) * torch.tanh(s / float(spec["softcap"]))
    if spec["relative"] == "t5":
        s = s + w["rel_bias"][buckets(spec, *s.shape[-2:])].permute(2, 0, 1)
    p, j = torch.arange(s.shape[-2])[:, None], torch.arange(s.shape[-1])
    seen = torch.ones(1, 1, *s.shape[-2:], dtype=torch.bool)
    if "causal" in spec["mask"]:
        seen = seen & (j <= p)
    if "window" in spec["mask"]:
        seen = seen & (j >= p - int(spec["window_left"]))
    if "padding" in spec["mask"]:
        seen = seen & (j < lengths[:, None, None, None])
    a = torch.softmax(s.masked_fill(~seen, -math.inf), -1)
    return linear((a @ v).transpose(1, 2).flatten(2), w["w_o"], w.get("b_o"))


def block(spec, w, x, source, lengths):
    def n(i, rows):
        return norm(rows, spec["norm"], spec["norm_eps"], w[f"n{i}_g"], w.get(f"n{i}_b"))

    def att(rows):
        return attention(spec, w, rows, rows if source is None else source, lengths)

    def ffn(rows):
        act, up = ACT[spec["ffn"]], linear(rows, w["w_1"], w.get("b_1"))
        gated = spec["ffn"] in ("swiglu", "geglu", "geglu_tanh")
        return linear(act(linear(rows, w["w_g"], w.get("b_g"))) * up if gated else act(up), w["w_2"], w.get("b_2"))
    kind, fed = spec["block"], spec["ffn"] != "none"
    if kind == "post":
        u = n(1, x + att(x))
        return n(2, u + ffn(u)) if fed else u
    if kind == "pre":
        u = x + att(n(1, x))
        return u + ffn(n(2, u)) if fed else u
    assert kind == "sandwich"
    u = x + n(2, att(n(1, x)))
    return u + n(4, ffn(n(3, u))) if fed else u


# ---- the model, from NAME.layers ----

class Model:
    def __init__(self, folder, out):
        self.sections = read_layers(next(out.glob("*.layers")))
        self.weights = Weights(folder, self.sections["weights"]["file"])
        self.specs = {path.name: read_spec(path) for path in out.glob("*.layer")}

    def normed(self, section, x):
        if "norm" not in section:
            return x
        shift = section.get("norm_b")
        return norm(x, section["norm"], section["norm_eps"], self.weights.get(section["norm_g"]),
                    None if shift is None else self.weights.get(shift))

    def embed(self, stack, data):
        e, kind, get = self.sections[stack + " embedding"], self.sections[stack + " input"]["kind"], self.weights.get
        if kind == "patches":
            of = self.sections[stack + " patches"]
            w = get(of["w"], transpose=False)
            x = F.conv2d(data, w, get(of["b"]), stride=w.shape[-1]).flatten(2).transpose(1, 2)
            x = torch.cat([get(e["class"]).expand(len(x), 1, -1), x], 1)
        elif kind == "frames":
            x = data
            for i in "12":
                of = self.sections[f"{stack} conv_{i}"]
                x = F.conv1d(x, get(of["w"], transpose=False), get(of["b"]), int(of["stride"]), padding=1)
                x = ACT[self.specs[of["spec"]]["activation"]](x)
            x = x.transpose(1, 2)
        else:
            x = get(e["word"])[data]
        x = x * float(e.get("scale", 1))
        if "position" in e:
            first = int(e["position"].partition(" from ")[2] or 0)
            x = x + get(e["position"]).flatten(0, -2)[first:first + x.shape[1]]
        if "type" in e:
            x = x + get(e["type"])[0]
        return self.normed(e, x)

    def stack(self, stack, data, source, lengths):
        x, i = self.embed(stack, data), 0
        while (section := self.sections.get(f"{stack} layer {i}")) is not None:
            spec = self.specs[section["spec"]]
            w = {key: self.weights.get(value) for key, value in section.items() if key not in ("spec", "source")}
            x, i = block(spec, w, x, source if section.get("source") else None, lengths), i + 1
        return self.normed(self.sections.get(stack + " norm", {}), x)

    def head(self, name, stacks):
        section = self.sections["head " + name]
        source = section["from"]
        x = stacks[source] if source in stacks else self.head(source.removeprefix("head "), stacks)
        if section["rows"] == "first" and x.dim() == 3:
            x = x[:, 0]
        x = linear(x * float(section.get("scale", 1)), self.weights.get(section["w"]),
                   self.weights.get(section["b"]) if "b" in section else None)
        spec = self.specs[section["spec"]]
        x = ACT[spec["activation"]](x) if "activation" in spec else x
        cap = float(spec["softcap"]) if spec["softcap"] != "none" else None
        return self.normed(section, x if cap is None else cap * torch.tanh(x / cap))


def compare(name, attngen):
    folder = HERE / name
    with tempfile.TemporaryDirectory() as work:
        subprocess.run([attngen, "import", folder, "-o", work], check=True)
        ours = Model(folder, pathlib.Path(work))
    config = json.loads((folder / "config.json").read_text())
    kind = getattr(t, config["architectures"][0])
    theirs = kind.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager")
    theirs.eval()
    torch.manual_seed(1)
    ids, stacks, pairs = torch.randint(3, 19, (BATCH, TOKENS)), {}, []
    mask = (torch.arange(TOKENS) < LENGTHS[:, None]).long()
    sections = ours.sections
    kind = sections.get("encoder input", {}).get("kind")
    with torch.no_grad():
        if kind == "patches":
            data = torch.randn(BATCH, 3, 12, 12).double()
            answer = theirs(data)
        elif kind == "frames":
            data = torch.randn(BATCH, 5, 20).double()
            answer = theirs(input_features=data, decoder_input_ids=ids)
        elif kind == "tokens" and "decoder input" in sections:
            data, more = ids, torch.randint(3, 19, (BATCH, TOKENS - 2))
            answer = theirs(input_ids=ids, attention_mask=mask, decoder_input_ids=more)
            ids = more
        elif kind == "tokens":
            data = ids
            padded = ids * mask + (1 - mask) * (config.get("pad_token_id") or 0) # positions of RoBERTa depend on it
            answer = theirs(input_ids=padded, attention_mask=mask)
        else:
            answer = theirs(input_ids=ids)
        if kind:
            stacks["encoder"] = ours.stack("encoder", data, None, LENGTHS)
        if "decoder input" in sections:
            stacks["decoder"] = ours.stack("decoder", ids, stacks.get("encoder"), LENGTHS)
        if "head logits" in sections:
            pairs.append((ours.head("logits", stacks), getattr(answer, "prediction_logits", answer.get("logits"))))
        if "head classifier" in sections:
            pairs.append((ours.head("classifier", stacks), answer.logits))
        if "head seq_relationship" in sections:
            pairs.append((ours.head("seq_relationship", stacks), answer.seq_relationship_logits))
        if not pairs:
            pairs.append((stacks["encoder"], answer.last_hidden_state))
            pairs.append((ours.head("pooler", stacks), answer.pooler_output))
    worst = 0
    for mine, his in pairs:
        assert mine.shape == his.shape
        if mine.dim() == 3 and kind != "patches":  # rows of padding are nobody's
            seen = torch.arange(mine.shape[1]) < LENGTHS[:, None]
            mine, his = mine[seen], his[seen]
        worst = max(worst, ((mine - his).abs().max() / his.abs().max()).item())
    print(f"{name:16} {len(pairs)} outputs, off by {worst:.1e} at most")
    return worst


t.logging.set_verbosity_error()
t.logging.disable_progress_bar()
names = sys.argv[2:] or sorted(path.name for path in HERE.iterdir() if path.is_dir())
sys.exit(max([compare(name, sys.argv[1]) for name in names]) > 1e-5)
