# SPDX-License-Identifier: MIT
"""What tests compare numbers by."""
import math

from attngen import tensors


def numbers_of(values):
    """The numbers of a view, an array or nested lists, one after another."""
    return tensors.flat(values.tolist() if hasattr(values, "tolist") else values)


def furthest(a, b, relative=False):
    """The largest difference of two numbers in the same place, relative: to those of b above 1. Infinite if a place
    has one number or a NaN, and if there is none."""
    a, b = numbers_of(a), numbers_of(b)
    differences = [0.0 if x == y else abs(x - y) / (max(1, abs(y)) if relative else 1) for x, y in zip(a, b)]
    unlike = not a or len(a) != len(b) or any(map(math.isnan, differences))
    return math.inf if unlike else max(differences)
