# SPDX-License-Identifier: MIT
"""What becomes of a score: masks, terms and the convolution's padding, for all that computes layers in Python.

One table that make_vectors.py and bench/peers/layers.py read. It shares no code with the project, so that it can be wrong
only by itself. Left out on purpose: the scale, which is a number of its own.
"""
import math

INF = math.inf


def or_infinity(reach):
    return INF if reach is None else reach


# By word of `mask`: may a query at t see a key at j? (window: how far back and ahead, None: unbounded). Numbers or arrays.
POSITION = {
    "causal": lambda t, j, window: j <= t,
    "no_self": lambda t, j, window: j != t,
    "window": lambda t, j, window: (j >= t - or_infinity(window[0])) & (j <= t + or_infinity(window[1])),
}

# By word of `mask`: what the call brings, its name, and whether its number for a pair lets the key be seen.
BROUGHT = {
    "padding": ("lengths", lambda number, j: j < number),
    "bool": ("mask_bool", lambda number, j: bool(number)),
    "additive": ("mask_add", lambda number, j: number != -INF),
}

# By word: the score behind the term, in the order in which they are applied.
TERMS = {
    "additive": lambda score, number: score + float(number),
}


def sees(masks, t, j, window):
    """Whether all masks of position let t see j."""
    see = True
    for mask in masks:
        if mask in POSITION:
            see = see & POSITION[mask](t, j, window)
    return see


def number(tensors, mask, b, i, t, j):
    """What the call's tensor has for one pair; an extent of 1 is shared."""
    tensor = tensors[BROUGHT[mask][0]]
    if tensor.ndim == 1:
        return tensor[b]
    return tensor[b if tensor.shape[0] > 1 else 0][i if tensor.shape[1] > 1 else 0][t, j]


def conv_pad(conv_width, masks):
    """Rows of zeros before the first that a convolution reads."""
    return conv_width - 1 if "causal" in masks else (conv_width - 1) // 2
