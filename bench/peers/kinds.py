# SPDX-License-Identifier: MIT
"""Rotary positions, norms of queries and keys, and what is added to scores, in double precision, by docs/spec.md.

It shares no code with the project, so that it can be wrong only by itself. Left out: `offset` (p is t), positions that the
call gives, the norms `layer`, `l2` and `rms_all`, `relative = table`, expressions, prefixes and segments.
"""
import dataclasses
import math

import numpy as np

BUILT = {"qk_norm": ("none", "rms"), "rope": ("none", "half", "interleaved"), "relative": ("none", "t5"),
         "heads": ("last",), "offset": ("none",), "rope_positions": ("offset",)}  # values that are known here


@dataclasses.dataclass(frozen=True)
class Rope:
    """Pairs of columns that turn by the angle p f_c. Cosines and sines are multiplied by `magnitude`."""
    kind: str          # "half": columns c and c + dims/2; "interleaved": 2c and 2c + 1
    frequencies: tuple
    magnitude: float

    @property
    def dims(self):
        return 2 * len(self.frequencies)

    def turns(self, positions):
        """cos, sin [positions][dims/2]"""
        angles = np.arange(positions)[:, None] * np.array(self.frequencies)[None, :]
        return self.magnitude * np.cos(angles), self.magnitude * np.sin(angles)

    def apply(self, x):
        """x [batch][positions][d]"""
        cos, sin = self.turns(x.shape[1])
        half = self.dims // 2
        a, b = (slice(0, half), slice(half, self.dims)) if self.kind == "half" else (
            slice(0, self.dims, 2), slice(1, self.dims, 2))
        y = x.copy()
        y[..., a] = x[..., a] * cos - x[..., b] * sin
        y[..., b] = x[..., a] * sin + x[..., b] * cos
        return y


def read_rope(spec, d_k):
    """A Rope, or None, from the keys of a spec."""
    if spec.get("rope", "none") == "none":
        return None
    number = lambda key, default=0.0: float(spec.get(key, default))
    dims, theta, factor = int(spec.get("rope_dims", d_k)), number("rope_theta", 10000), number("rope_factor", 1)
    length, scaling = number("rope_original_len"), spec.get("rope_scaling", "none")
    pair = np.arange(dims // 2)
    f = theta ** (-2.0 * pair / dims)
    magnitude = 1.0
    if scaling == "linear":
        f = f / factor
    elif scaling == "llama3":
        low, high = number("rope_low", 1), number("rope_high", 4)
        r = np.clip((length * f / (2 * math.pi) - low) / (high - low), 0, 1)
        f = (1 - r) * f / factor + r * f
    elif scaling == "yarn":
        dim = lambda beta: dims * math.log(length / (2 * math.pi * beta)) / (2 * math.log(theta))
        low = max(math.floor(dim(number("rope_beta_fast", 32))), 0)
        high = min(math.ceil(dim(number("rope_beta_slow", 1))), dims - 1)
        ramp = np.clip((pair - low) / max(high - low, 0.001), 0, 1)
        f = f / factor * ramp + f * (1 - ramp)
        magnitude = number("rope_attention_factor", 0.1 * math.log(factor) + 1)
    return Rope(spec["rope"], tuple(f.tolist()), magnitude)


def rms(x, gain, eps):
    """Each row over the root of the mean of its squares."""
    return gain * x / np.sqrt((x * x).mean(-1, keepdims=True) + eps)


def slopes(h):
    """ALiBi's, one a head, by Press et al."""
    power = 1 << (h.bit_length() - 1)
    first = [2.0 ** (-8.0 * (i + 1) / power) for i in range(power)]
    return np.array(first + [2.0 ** (-4.0 * (i + 1) / power) for i in range(0, 2 * (h - power), 2)])


def t5_buckets(n, m, buckets, distance, both_sides):
    """[n][m] int: the row of rel_bias for query t and key j."""
    count = buckets // 2 if both_sides else buckets
    exact = count // 2

    def bucket(d):
        first = count if both_sides and d > 0 else 0
        d = abs(d) if both_sides else max(-d, 0)
        if d < exact:
            return first + d
        far = math.log(d / exact) / math.log(distance / exact) * (count - exact)
        # a floor that rounding must not move: a power that is exact belongs to the bucket above
        return first + min(exact + math.floor(far + 1e-9), count - 1)

    by_distance = np.array([bucket(d) for d in range(-n + 1, m)])
    return by_distance[np.arange(m)[None, :] - np.arange(n)[:, None] + n - 1]
