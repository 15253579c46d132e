# SPDX-License-Identifier: MIT
"""attngen: attention layers in C, written for one shape. See docs/python.md."""
from .flex import FlexError, from_flex
from .layer import Check, Layer
from .model import Model, import_model
from .native import CallError
from .programs import CheckError, Error, MachineError, SpecError

__all__ = ["CallError", "Check", "CheckError", "Error", "FlexError", "Layer", "MachineError", "Model", "SpecError",
           "from_flex", "import_model"]
