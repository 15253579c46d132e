# SPDX-License-Identifier: MIT
"""attngen: attention layers in C, written for one shape. See docs/python.md."""
from .flex import FlexError, from_flex
from .layer import Check, Layer
from .programs import CheckError, Error, MachineError, SpecError

__all__ = ["Check", "CheckError", "Error", "FlexError", "Layer", "MachineError", "SpecError", "from_flex"]
