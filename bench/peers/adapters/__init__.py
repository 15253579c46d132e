# SPDX-License-Identifier: MIT
"""The table of peers. To add one: a module with a subclass of base.Peer, and a row here."""
import importlib

# peer -> (module, class). The order is that of tables and of the plot's legend; ours comes first.
PEERS = {
    "ours": ("ours", "Ours"),
    "torch": ("torch_cpu", "Torch"),
    "onnxruntime": ("onnx_runtime", "OnnxRuntime"),
    "openblas": ("openblas", "OpenBlas"),
    "openvino": ("open_vino", "OpenVino"),
    "onednn": ("onednn", "OneDnn"),
    "ggml": ("ggml", "Ggml"),
    "iree": ("iree", "Iree"),
    "emx-onnx-cgen": ("emx", "Emx"),
    "bound": ("bound", "Bound"),
}


def peer(name):
    """An instance of the peer; nothing of its library is imported yet."""
    module, cls = PEERS[name]
    return getattr(importlib.import_module("adapters." + module), cls)()
