#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Attention layers of models, as the `transformers` package computes them, turned into specs and tensors.

    python3 -m venv /tmp/models && /tmp/models/bin/pip install -r tests/models/requirements.txt
    /tmp/models/bin/python tests/models/make_models.py      writes data/ beside this file

A family is a whole model of one or two small blocks with drawn weights, saved by its save_pretrained:
data/FAMILY.safetensors has the names that this family's files have everywhere. data/LAYER.layer is a spec of one of its
attention modules, and data/CASE.safetensors a call of it: what went in, y, and of few scores attn. data/cases.txt says
what belongs together.

The model runs in float64 with eager attention. Where its code asks for float32 in between (rotation, norms, softmax),
it gets float64 too; without that, its answers must be the same to 1e-5 (at positions of some thousands to 1e-2, as an
angle in f32 has that error). What goes into a module is rounded to f32 before the module computes with it, so that the
inputs kept are exact.

Without a cache a layer has an offset only with `input = projected`. A call with a past is therefore two calls of the
model, with its cache between them; q, k and v are what the module's projections gave before norms and rotation, those
of past tokens in front. Each sequence of a batch has a past of its own, and keys that none of its queries sees are NaN.

Left out on purpose: the rest of a model, dropout, and rows that see no key. For these a model gives an average over
all keys, and the contract zero.
"""
import contextlib
import json
import shutil
import struct
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
import transformers

FOLDER = Path(__file__).parent / "data"
SINGLE = torch.float32
NAMES = {"float32": "F32", "int32": "I32", "bool": "BOOL"}


# ---- files ----

def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, tensor in tensors.items():
        begin = len(data)
        data += np.ascontiguousarray(tensor).tobytes()
        header[name] = {"dtype": NAMES[tensor.dtype.name], "shape": list(tensor.shape),
                        "data_offsets": [begin, len(data)]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def numbers(tensor):
    return tensor.detach().to(SINGLE).numpy()


def rounded(tensor):
    return tensor.to(SINGLE).to(torch.float64)


# ---- models ----

@contextlib.contextmanager
def widened(wide):
    """float64 for code that asks for float32."""
    method = torch.Tensor.float
    if wide:
        torch.float = torch.float32 = torch.float64
        torch.Tensor.float = torch.Tensor.double
        torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.float = torch.float32 = SINGLE
        torch.Tensor.float = method
        torch.set_default_dtype(SINGLE)


@dataclass
class Layer:
    """An attention module of a family's model, and its spec."""
    name: str
    module: str
    spec: dict
    calls: tuple = ()
    options: str = ""       # of attnrun, besides --weights
    padding: bool = True    # all calls have lengths, and so one spec
    small: str = ""         # plan.size = small: of "all" its specs, or of that with a "past"


@dataclass
class Family:
    name: str
    model: type
    config: object
    layers: list
    norm_mean: float = 1    # of the weights of norms
    kind: torch.dtype = torch.bfloat16
    models: dict = field(default_factory=dict)

    def make(self, seed):
        """The model in float64, and as it is where its code asks for float32."""
        self.config._attn_implementation = self.config._experts_implementation = "eager"
        for wide in (True, False):
            with widened(wide):
                self.models[wide] = self.model(self.config).double().eval()
        draw(self.models[True], seed, self.kind, self.norm_mean)
        self.models[False].load_state_dict(self.models[True].state_dict())

    def save(self):
        with tempfile.TemporaryDirectory() as folder:
            weights = {name: w.to(self.kind) for name, w in self.models[True].state_dict().items()}
            self.models[True].save_pretrained(folder, state_dict=weights)
            shutil.copyfile(Path(folder) / "model.safetensors", FOLDER / f"{self.name}.safetensors")


def draw(model, seed, kind, norm_mean):
    """Of such size that scores differ by some units; all are numbers of the type in which they are saved."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            drawn = torch.randn(weight.shape, generator=generator, dtype=torch.float64)
            if weight.ndim == 1 and name.endswith("weight"):
                drawn = norm_mean + 0.3 * drawn
            elif weight.ndim == 2 and "relative_attention_bias" not in name:
                drawn = drawn * 1.3 / weight.shape[1] ** 0.5
            weight.copy_(drawn.to(kind))


# ---- what a module takes and gives ----

class Watch:
    """Hooks of a layer's module, which round what goes in: x, source, and where `projected` q, k and v."""

    def __init__(self, model, layer, projected):
        self.layer = layer
        self.seen = {name: [] for name in ("x", "source", "q", "k", "v", "y", "attn")}
        module = model.get_submodule(layer.module)
        inner = dict(module.named_children())
        out = next(inner[name] for name in ("o_proj", "out_proj", "dense", "o") if name in inner)
        self.handles = [module.register_forward_pre_hook(self.take, with_kwargs=True),
                        module.register_forward_hook(lambda _, taken, given: self.note("attn", given[-1])),
                        out.register_forward_hook(lambda _, taken, given: self.note("y", given))]
        if projected and "query_key_value" in inner:
            self.handles.append(inner["query_key_value"].register_forward_hook(self.project_groups))
        elif projected:
            for role in "qkv":
                part = inner[role] if role in inner else inner[f"{role}_proj"]
                self.handles.append(part.register_forward_hook(
                    lambda _, taken, given, role=role: self.project(role, given)))

    def remove(self):
        for handle in self.handles:
            handle.remove()

    def note(self, name, tensor):
        self.seen[name].append(tensor)

    def take(self, _, arguments, named):
        for at, (name, kept) in enumerate((("hidden_states", "x"), ("key_value_states", "source"))):
            if named.get(name) is not None:
                named[name] = rounded(named[name])
                self.note(kept, named[name])
            elif at == 0:
                arguments = (rounded(arguments[0]), *arguments[1:])
                self.note(kept, arguments[0])
        return arguments, named

    def project(self, role, given):
        h, h_kv, d_k = heads(self.layer.spec)
        given = rounded(given)
        self.note(role, given.view(*given.shape[:2], h if role == "q" else h_kv, d_k))
        return given

    def project_groups(self, _, taken, given):
        h, h_kv, d_k = heads(self.layer.spec)
        given = rounded(given)
        groups = given.view(*given.shape[:2], h_kv, h // h_kv + 2, d_k)
        self.note("q", groups[:, :, :, :-2].flatten(2, 3))
        self.note("k", groups[:, :, :, -2])
        self.note("v", groups[:, :, :, -1])
        return given


def heads(spec):
    return spec["h"], spec.get("h_kv", spec["h"]), spec.get("d_k", spec["d_model"] // spec["h"])


# ---- calls ----

def run_decoder(model, call, b=slice(None)):
    """All sequences in one call, or with pasts those of `b` in two."""
    keys = {} if call.positions is None else {"position_ids": call.positions}
    if call.past is None:
        model(inputs_embeds=call.inputs, attention_mask=call.mask, use_cache=False, **keys)
        return
    before = model(inputs_embeds=call.inputs[b, :call.past[b.start]], use_cache=True)
    model(inputs_embeds=call.inputs[b, call.past[b.start]:][:, :call.n], past_key_values=before.past_key_values)


def run_t5(model, call, b=slice(None)):
    """The encoder reads the inputs, and the decoder the same, backwards."""
    if call.past is None:
        mask = None if call.mask is None else call.mask[:, :call.n_decoder]
        model(inputs_embeds=call.inputs, decoder_inputs_embeds=call.inputs.flip(1)[:, :call.n_decoder],
              attention_mask=call.mask, decoder_attention_mask=mask, use_cache=False)
        return
    encoded = transformers.modeling_outputs.BaseModelOutput(call.inputs[b, :5])
    before = model(encoder_outputs=encoded, decoder_inputs_embeds=call.inputs[b, :call.past[b.start]], use_cache=True)
    model(encoder_outputs=encoded, decoder_inputs_embeds=call.inputs[b, call.past[b.start]:][:, :call.n],
          past_key_values=before.past_key_values)


@dataclass
class Call:
    name: str
    n: int                        # tokens, or new ones
    lengths: tuple = None         # of sequences, padded to n
    left: tuple = None            # tokens in front of each sequence that are padding
    past: tuple = None            # of sequences
    positions: object = None
    segments: tuple = None        # lengths of documents
    n_decoder: int = None
    attn: bool = False
    close: float = 1e-5           # how far float32 in between may lead, of the largest y
    run: object = run_decoder
    inputs: object = None
    mask: object = None

    @property
    def batch(self):
        return len(self.lengths or self.left or self.past or (0,))


def answers(family, layer, call, wide):
    """What the module takes and gives: a list of what it has seen, of one call or of each sequence with its past."""
    model, found = family.models[wide], []
    sequences = [slice(b, b + 1) for b in range(call.batch)] if call.past is not None else [slice(None)]
    for b in sequences:
        watch = Watch(model, layer, call.past is not None)
        with widened(wide), torch.no_grad():
            call.run(model, call, b)
        watch.remove()
        for at, left in enumerate(call.left or ()): # rows that see no key
            watch.seen["y"][0][at, :left] = 0
            watch.seen["attn"][0][at, :, :left] = 0
        found.append(watch.seen)
    return found


def tensors_of(layer, call, found):
    """A call's tensors by the contract's names."""
    if call.past is not None:
        return tensors_with_past(call, found)
    seen = found[0]
    x, y, attn = seen["x"][0], seen["y"][0], seen["attn"][0]
    tensors = {"x": numbers(x)}
    if seen["source"]:
        tensors["source"] = numbers(seen["source"][0])
    if layer.padding or call.lengths is not None:
        m = (seen["source"] or seen["x"])[0].shape[1]
        tensors["lengths"] = np.minimum(call.lengths or (m,), m).astype(np.int32)
    if call.left is not None:
        columns = np.arange(call.n)
        seen_keys = columns[None, :] >= np.array(call.left)[:, None]
        tensors["mask_bool"] = np.repeat(seen_keys[:, None, None, :], call.n, axis=2)
    if call.segments is not None:
        tensors["segment"] = np.repeat(np.arange(len(call.segments)), call.segments)[None].astype(np.int32)
    if call.positions is not None:
        tensors["positions"] = call.positions.numpy().astype(np.int32)
    tensors["y"] = numbers(y)
    if call.attn:
        tensors["attn"] = numbers(attn)
    return tensors


def tensors_with_past(call, found):
    m = max(call.past) + call.n
    rows = {name: [] for name in "qkvy"}
    for past, seen in zip(call.past, found):
        rows["q"].append(numbers(seen["q"][1])[0])
        for name in "kv":
            keys = numbers(torch.cat(seen[name], dim=1))[0]
            rows[name].append(np.pad(keys, [(0, m - past - call.n), (0, 0), (0, 0)], constant_values=np.nan))
        rows["y"].append(numbers(seen["y"][1])[0])
    tensors = {name: np.stack(rows[name]) for name in "qkv"}
    tensors["past"] = np.array(call.past, dtype=np.int32)
    tensors["y"] = np.stack(rows["y"])
    return tensors


def spec_of(layer, call):
    """The name of the spec, and its keys."""
    spec = dict(layer.spec)
    if layer.small == "all" or layer.small == "past" and call.past is not None:
        spec["plan.size"] = "small"
    if call.past is not None:
        spec = {"input": "projected", "offset": "past", **spec, "d_k": heads(spec)[2], "source_len": 40}
        spec.pop("d_v", None) # as d_k
        return f"{layer.name}_past", spec
    masks, suffix = [spec["mask"]] if "mask" in spec else [], ""
    if layer.padding or call.lengths is not None:
        masks, suffix = masks + ["padding"], "" if layer.padding else "_padded"
    if call.positions is not None:
        spec["rope_positions"] = "given"
        masks.append("segments" if call.segments else "bool")
        suffix = "_packed" if call.segments else "_positions"
    if masks:
        spec["mask"] = "+".join(masks)
    return layer.name + suffix, {**spec, "scores": "true"}


def write_case(family, layer, call, seed, cases):
    width = family.config.hidden_size if hasattr(family.config, "hidden_size") else family.config.d_model
    generator = torch.Generator().manual_seed(seed)
    tokens = call.n + max(call.past or (0,))
    call.inputs = torch.randn((call.batch, tokens, width), generator=generator, dtype=torch.float64)
    call.mask = None
    if call.lengths is not None or call.left is not None:
        at = torch.arange(tokens)[None, :]
        call.mask = (at < torch.tensor(call.lengths)[:, None] if call.left is None else
                     at >= torch.tensor(call.left)[:, None]).long()
    found, narrow = answers(family, layer, call, True), answers(family, layer, call, False)
    case = f"{layer.name}_{call.name}"
    for wide_seen, narrow_seen in zip(found, narrow):
        for wide_y, narrow_y in zip(wide_seen["y"], narrow_seen["y"]):
            worst = (wide_y - narrow_y).abs().max().item()
            if not worst <= call.close * wide_y.abs().max().item():
                sys.exit(f"{case}: float64 instead of float32 makes a difference of {worst}")
    name, spec = spec_of(layer, call)
    text = "".join(f"{key} = {value}\n" for key, value in {"name": name, **spec}.items())
    text = f"# {family.model.__name__} of transformers {transformers.__version__}\n{text}"
    path = FOLDER / f"{name}.layer"
    if path.exists() and path.read_text() != text:
        sys.exit(f"{case}: {name}.layer is two specs")
    path.write_text(text)
    write_safetensors(FOLDER / f"{case}.safetensors", tensors_of(layer, call, found))
    cases.append(" ".join([case, name, family.name, "--prefix", layer.module + ".", layer.options]).rstrip())


# ---- the families ----

def calls(padded=(11, 10, 5), n=5, past=(9, 4), decode=(23,)):
    """What a family of decoders is asked for."""
    return (Call("one", 1), Call("seven", 7, attn=True), Call("all", 33), Call("padded", max(padded), padded),
            Call("past", n, past=past), Call("decode", 1, past=decode))


def calls_few(n=10):
    return (Call("few", n, attn=True),)


def llama_calls():
    left = torch.tensor([[0, 0, 0, 0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 5, 6, 7, 8]])
    documents = torch.tensor([[*range(9), *range(1), *range(14)]])
    far = torch.tensor([[0, 1, 2, 100, 8191, 8192, 131071]])
    return (*calls(), Call("left", 9, left=(3, 0), positions=left, attn=True),
            Call("packed", 24, segments=(9, 1, 14), positions=documents),
            Call("far", 7, left=(0,), positions=far, attn=True, close=0.01))


def t5_calls(attn=True):
    """n of the encoder, of which the decoder has fewer tokens."""
    return (Call("seven", 7, n_decoder=6, attn=attn, run=run_t5), Call("all", 33, n_decoder=33, run=run_t5),
            Call("padded", 11, (11, 9, 2), n_decoder=8, run=run_t5))


def t5_past():
    return (Call("past", 5, past=(9, 4), run=run_t5), Call("decode", 1, past=(31,), run=run_t5))


def spec(d_model, h, h_kv=None, d_k=None, **keys):
    shape = {"d_model": d_model, "h": h}
    if h_kv is not None:
        shape["h_kv"] = h_kv
    if d_k is not None:
        shape.update(d_k=d_k, d_v=d_k)
    return {**shape, "seq_len": 33, "weight_layout": "out_in", **keys}


def sizes(d_model, h, h_kv=None, d_k=None):
    """As most configurations name them."""
    names = {"hidden_size": d_model, "num_attention_heads": h, "intermediate_size": 4, "num_hidden_layers": 1}
    if h_kv is not None:
        names["num_key_value_heads"] = h_kv
    if d_k is not None:
        names["head_dim"] = d_k
    return names


def family(name, model, config, layers, **keys):
    tokens = {"vocab_size": 3, "bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
    model = getattr(transformers, model)
    return Family(name, model, model.config_class(**tokens, **config), layers, **keys)


def families():
    first = "model.layers.0.self_attn"
    yield family("llama", "LlamaForCausalLM", {
        **sizes(28, 4, 2, 12),
        "rope_parameters": {"rope_type": "llama3", "rope_theta": 5000.0, "factor": 8.0, "low_freq_factor": 1.0,
                            "high_freq_factor": 4.0, "original_max_position_embeddings": 64}},
        [Layer("llama", first, spec(28, 4, 2, 12, mask="causal", rope="half", rope_theta=5000, rope_scaling="llama3",
                                    rope_factor=8, rope_original_len=64), llama_calls(), padding=False)])
    yield family("mistral", "MistralForCausalLM", {**sizes(20, 4, 1, 8), "sliding_window": 8},
        [Layer("mistral", first, spec(20, 4, 1, 8, mask="causal+window", window_left=7, rope="half"), calls())])
    yield family("qwen2", "Qwen2ForCausalLM", {
        **sizes(24, 4, 2), "rope_parameters": {"rope_type": "default", "rope_theta": 1e6}},
        [Layer("qwen2", first, spec(24, 4, 2, mask="causal", bias="true", rope="half", rope_theta=1000000), calls_few(),
               small="all", options="--zero-bias")])
    yield family("qwen3", "Qwen3ForCausalLM", {
        **sizes(20, 4, 2, 12), "rms_norm_eps": 1e-5, "rope_parameters": {"rope_type": "default", "rope_theta": 1e6}},
        [Layer("qwen3", first, spec(20, 4, 2, 12, mask="causal", rope="half", rope_theta=1000000, qk_norm="rms",
                                    norm_eps="1e-5"), calls())])
    gemma2 = spec(20, 4, 2, 12, scale=repr(20 ** -0.5), softcap=2, rope="half")
    yield family("gemma2", "Gemma2ForCausalLM", {
        **sizes(20, 4, 2, 12), "num_hidden_layers": 2, "query_pre_attn_scalar": 20, "sliding_window": 6,
        "attn_logit_softcapping": 2.0},
        [Layer("gemma2_local", "model.layers.0.self_attn", {**gemma2, "mask": "causal+window", "window_left": 5},
               calls((11, 10, 7)), small="past"),
         Layer("gemma2_global", "model.layers.1.self_attn", {**gemma2, "mask": "causal"}, calls_few())], norm_mean=0)
    gemma3 = spec(20, 2, 1, 12, scale=repr(20 ** -0.5), rope="half", qk_norm="rms")
    yield family("gemma3", "Gemma3ForCausalLM", {
        **sizes(20, 2, 1, 12), "num_hidden_layers": 2, "query_pre_attn_scalar": 20, "sliding_window": 6,
        "layer_types": ["sliding_attention", "full_attention"],
        "rope_parameters": {"sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
                            "full_attention": {"rope_type": "linear", "rope_theta": 1e6, "factor": 8.0}}},
        [Layer("gemma3_local", "model.layers.0.self_attn", {**gemma3, "mask": "causal+window", "window_left": 5},
               calls_few(), small="all", options="--norm-plus-one"),
         Layer("gemma3_global", "model.layers.1.self_attn", {
             **gemma3, "mask": "causal", "rope_theta": 1000000, "rope_scaling": "linear", "rope_factor": 8},
               calls_few(), small="all", options="--norm-plus-one")], norm_mean=0)
    yield family("olmo2", "Olmo2ForCausalLM", sizes(24, 4, 2),
        [Layer("olmo2", first, spec(24, 4, 2, mask="causal", rope="half", qk_norm="rms_all", norm_eps="1e-5"),
               calls(), small="past")])
    gpt_oss = spec(20, 4, 2, 8, bias="true", sink="true", rope="half", rope_theta=150000, rope_scaling="yarn",
                   rope_factor=32, rope_original_len=4096, rope_truncate="false")
    yield family("gpt_oss", "GptOssForCausalLM", {
        **sizes(20, 4, 2, 8), "num_hidden_layers": 2, "sliding_window": 6, "num_local_experts": 2,
        "num_experts_per_tok": 1},
        [Layer("gpt_oss_local", "model.layers.0.self_attn", {**gpt_oss, "mask": "causal+window", "window_left": 5},
               calls((11, 10, 7)), small="past"),
         Layer("gpt_oss_global", "model.layers.1.self_attn", {**gpt_oss, "mask": "causal"}, calls_few())])
    yield family("bloom", "BloomForCausalLM", {"hidden_size": 25, "n_head": 5, "n_layer": 1},
        [Layer("bloom", "transformer.h.0.self_attention", spec(25, 5, mask="causal", bias="true", alibi="true"),
               calls(), small="past")])
    t5 = spec(16, 3, d_k=10, scale=1, relative="t5", rel_buckets=16, rel_distance=30)
    cross = {**t5, "attention": "cross"}
    for key in ("relative", "rel_buckets", "rel_distance"):
        del cross[key]
    yield family("t5", "T5ForConditionalGeneration", {
        "d_model": 16, "num_heads": 3, "d_kv": 10, "d_ff": 4, "num_layers": 2, "num_decoder_layers": 1,
        "relative_attention_num_buckets": 16, "relative_attention_max_distance": 30, "decoder_start_token_id": 0},
        [Layer("t5_encoder", "encoder.block.0.layer.0.SelfAttention", t5, t5_calls()),
         Layer("t5_encoder", "encoder.block.1.layer.0.SelfAttention", t5,
               (Call("second", 7, n_decoder=6, run=run_t5),)),
         Layer("t5_decoder", "decoder.block.0.layer.0.SelfAttention", {**t5, "mask": "causal"}, t5_calls() + t5_past()),
         Layer("t5_cross", "decoder.block.0.layer.1.EncDecAttention", cross, t5_calls())])
    yield family("gptj", "GPTJForCausalLM", {"n_embd": 24, "n_head": 2, "n_layer": 1, "n_inner": 4, "rotary_dim": 8},
        [Layer("gptj", "transformer.h.0.attn", spec(24, 2, mask="causal", rope="interleaved", rope_dims=8),
               calls(), small="past")],
        kind=torch.float16)
    yield family("gpt_neox", "GPTNeoXForCausalLM", {
        **sizes(24, 2),
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.34}},
        [Layer("gpt_neox", "gpt_neox.layers.0.attention",
               spec(24, 2, mask="causal", bias="true", rope="half", rope_dims=4), calls())])
    yield family("falcon", "FalconForCausalLM", {
        "hidden_size": 24, "num_attention_heads": 4, "num_kv_heads": 2, "num_hidden_layers": 1, "ffn_hidden_size": 4,
        "new_decoder_architecture": True, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}},
        [Layer("falcon", "transformer.h.0.self_attention", spec(24, 4, 2, mask="causal", rope="half"),
               calls_few(), small="all")])
    yield family("phi", "PhiForCausalLM", {
        **sizes(24, 3), "qk_layernorm": True, "layer_norm_eps": 1e-4,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}},
        [Layer("phi", first, spec(24, 3, mask="causal", bias="true", rope="half", rope_dims=4, qk_norm="layer",
                                  norm_eps="1e-4"), calls_few(), small="all")])
    yield family("phi3", "Phi3ForCausalLM", {
        **sizes(24, 4, 2), "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}},
        [Layer("phi3", first, spec(24, 4, 2, mask="causal", rope="half"),
               calls_few(), small="all")])


def main():
    transformers.logging.set_verbosity_error()
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    cases = []
    for number, family in enumerate(families()):
        family.make(1000 + number)
        family.save()
        for layer in family.layers:
            for call in layer.calls:
                write_case(family, layer, call, 100 * number + len(cases), cases)
    (FOLDER / "cases.txt").write_text(
        f"# Made by make_models.py with transformers {transformers.__version__}: case, spec, weights, options.\n" +
        "".join(f"{case}\n" for case in cases))
    size = sum(path.stat().st_size for path in FOLDER.iterdir())
    print(f"{len(cases)} cases, {len(list(FOLDER.glob('*.layer')))} specs, {size} bytes")


main()
