# SPDX-License-Identifier: MIT
"""attngen: attention layers in C, written for one shape. See docs/python.md."""
from .flex import FlexError, from_flex
from .kernel import Cache, Kernel, Packed, Saved
from .layer import Check, Layer
from .model import Model, import_model
from .native import CallError, Tensor
from .programs import CheckError, Error, MachineError, SpecError

__version__ = "0.1.0"
__all__ = ["Cache", "CallError", "Check", "CheckError", "Error", "FlexError", "Kernel", "Layer", "MachineError",
           "Model", "Packed", "Saved", "SpecError", "Tensor", "from_flex", "import_model"]
