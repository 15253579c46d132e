# SPDX-License-Identifier: MIT
"""llama.cpp: a GGUF file of a checkpoint, f32, without a vocabulary, and the library through its C interface (llama.h).

The library is the one inside xllamacpp, whose package has no header. The places of a context's parameters are those of
llama.h, checked against their defaults.
"""
import ctypes
import glob
import importlib.util
import os

import numpy as np

ARCHITECTURES = {"bert": "BERT", "gpt2": "GPT2", "llama": "LLAMA"}


# ---- the file ----

def write_gguf(w, path, kind):
    """kind: f32, or q8_0 or q4_0 of the layers' matrices and of words that logits are made by."""
    import gguf
    few = None if kind == "f32" else gguf.GGMLQuantizationType[kind.upper()]
    c, (d, layers, heads, ff) = w.config, w.sizes
    architecture = getattr(gguf.MODEL_ARCH, ARCHITECTURES[w.family])
    names = gguf.get_tensor_name_map(architecture, layers)
    file = gguf.GGUFWriter(path + ".part", gguf.MODEL_ARCH_NAMES[architecture])
    file.add_block_count(layers)
    file.add_context_length(w.size("max_position_embeddings", "n_positions"))
    file.add_embedding_length(d)
    file.add_feed_forward_length(ff)
    file.add_head_count(heads)
    file.add_vocab_size(c["vocab_size"])
    file.add_file_type(gguf.LlamaFileType["ALL_F32" if few is None else "MOSTLY_" + kind.upper()])
    file.add_tokenizer_model("no_vocab")
    if w.family == "llama":
        file.add_layer_norm_rms_eps(c["rms_norm_eps"])
        file.add_rope_dimension_count(d // heads)
        file.add_rope_freq_base((c.get("rope_parameters") or c)["rope_theta"])
    else:
        file.add_layer_norm_eps(w.size("layer_norm_eps", "layer_norm_epsilon"))
    if w.family == "bert":
        file.add_causal_attention(False)
        file.add_pooling_type(gguf.PoolingType.NONE)
        file.add_token_type_count(c["type_vocab_size"])
    for name in w.spans:
        new = names.get_name(name, try_suffixes=(".weight", ".bias"))
        if new is None:
            continue  # poolers, buffers
        tensor = w[name]
        if w.family == "gpt2" and tensor.ndim == 2 and ".h." in "." + name:
            tensor = tensor.T  # [in][out]
        if name.endswith(("q_proj.weight", "k_proj.weight")):  # pairs of neighbours instead of halves
            tensor = tensor.reshape(heads, 2, d // heads // 2, d).swapaxes(1, 2).reshape(d, d)
        tensor = np.ascontiguousarray(tensor)
        if few is not None and tensor.ndim == 2 and (new.startswith("blk.") or w.decodes and new.startswith("token_embd")):
            file.add_tensor(new, gguf.quants.quantize(tensor, few), raw_dtype=few)
        else:
            file.add_tensor(new, tensor)
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()
    os.rename(path + ".part", path)


# ---- the library ----

_WORDS = 64  # of 4 bytes, more than the parameters have: they are passed in memory, the rest is not looked at


class _Parameters(ctypes.Structure):
    _fields_ = [("word", ctypes.c_int32 * _WORDS)]


class _Batch(ctypes.Structure):
    _fields_ = [("n_tokens", ctypes.c_int32), ("token", ctypes.POINTER(ctypes.c_int32)), ("embd", ctypes.c_void_p),
                ("pos", ctypes.POINTER(ctypes.c_int32)), ("n_seq_id", ctypes.POINTER(ctypes.c_int32)),
                ("seq_id", ctypes.POINTER(ctypes.POINTER(ctypes.c_int32))), ("logits", ctypes.POINTER(ctypes.c_int8))]


N_CTX, N_BATCH, N_UBATCH, N_SEQ_MAX, THREADS, THREADS_BATCH, FLASH, TYPE_K, TYPE_V = 0, 1, 2, 3, 7, 8, 13, 26, 27
BOOLEANS = 34  # embeddings first
DEFAULTS = {N_CTX: 512, N_BATCH: 2048, N_UBATCH: 512, N_SEQ_MAX: 1, THREADS: 4, THREADS_BATCH: 4, 10: -1, 11: -1, 12: -1,
            FLASH: -1, TYPE_K: 1, TYPE_V: 1, BOOLEANS: 0x01010100}
F32, NO_POOLING, POOLING = 0, 0, 11
_FUNCTIONS = {
    "backend_init": (None, ()),
    "log_set": (None, (ctypes.c_void_p, ctypes.c_void_p)),
    "model_default_params": (_Parameters, ()),
    "context_default_params": (_Parameters, ()),
    "model_load_from_file": (ctypes.c_void_p, (ctypes.c_char_p, _Parameters)),
    "init_from_model": (ctypes.c_void_p, (ctypes.c_void_p, _Parameters)),
    "free": (None, (ctypes.c_void_p,)),
    "batch_init": (_Batch, (ctypes.c_int32, ctypes.c_int32, ctypes.c_int32)),
    "decode": (ctypes.c_int32, (ctypes.c_void_p, _Batch)),
    "encode": (ctypes.c_int32, (ctypes.c_void_p, _Batch)),
    "get_memory": (ctypes.c_void_p, (ctypes.c_void_p,)),
    "memory_seq_rm": (ctypes.c_bool, (ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32, ctypes.c_int32)),
    "get_logits_ith": (ctypes.POINTER(ctypes.c_float), (ctypes.c_void_p, ctypes.c_int32)),
    "get_embeddings_ith": (ctypes.POINTER(ctypes.c_float), (ctypes.c_void_p, ctypes.c_int32)),
    "synchronize": (None, (ctypes.c_void_p,)),
}


class Library:
    def __init__(self):
        package = importlib.util.find_spec("xllamacpp")
        found = glob.glob(os.path.join(package.submodule_search_locations[0], "xllamacpp*.so")) if package else []
        if len(found) != 1:
            raise ImportError("no xllamacpp")
        self.path = found[0]
        library = ctypes.CDLL(found[0])
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(library, "llama_" + name)
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)
        self.quiet = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(
            lambda level, text, _: print(text.decode(errors="replace"), end="") if level >= 4 else None)
        self.log_set(ctypes.cast(self.quiet, ctypes.c_void_p), None)
        self.backend_init()

    def load(self, path):
        model = self.model_load_from_file(path.encode(), self.model_default_params())
        if not model:
            raise RuntimeError("llama.cpp does not load " + path)
        return model

    def context(self, model, tokens, sequences, threads, flash, embeddings):
        p = self.context_default_params()
        other = [at for at, value in DEFAULTS.items() if p.word[at] != value]
        if other:
            raise RuntimeError(f"another layout of llama_context_params, at words {other}")
        p.word[N_CTX] = -(-tokens // 256) * 256
        p.word[N_BATCH] = p.word[N_UBATCH] = max(512, tokens)
        p.word[N_SEQ_MAX] = sequences
        p.word[THREADS] = p.word[THREADS_BATCH] = threads
        p.word[FLASH], p.word[TYPE_K], p.word[TYPE_V] = int(flash), F32, F32
        if embeddings:
            p.word[POOLING] = NO_POOLING
            p.word[BOOLEANS] |= 1
        context = self.init_from_model(model, p)
        if not context:
            raise RuntimeError("llama.cpp makes no context")
        return context

    def batch(self, sequences, first, all_rows):
        """Tokens of sequences, from position `first` on; the output of all rows, or of the last one alone."""
        tokens = [(s, first + t, token) for s, row in enumerate(sequences) for t, token in enumerate(row)]
        batch = self.batch_init(len(tokens), 0, 1)
        batch.n_tokens = len(tokens)
        for i, (sequence, position, token) in enumerate(tokens):
            batch.token[i], batch.pos[i], batch.n_seq_id[i] = int(token), position, 1
            batch.seq_id[i][0], batch.logits[i] = sequence, int(all_rows or i == len(tokens) - 1)
        return batch
