# SPDX-License-Identifier: MIT
"""attngen: attention layers in C, written for one shape. See docs/python.md."""
from .layer import Check, Layer
from .programs import CheckError, Error, MachineError, SpecError

__all__ = ["Check", "CheckError", "Error", "Layer", "MachineError", "SpecError"]
