# SPDX-License-Identifier: MIT
"""Rotary positions, norms of queries and keys, what is added to scores, and what stands around attention in a block, in
double precision, by docs/spec.md.

It shares no code with the project, so that it can be wrong only by itself. Left out: `offset` (p is t), positions that the
call gives, the norms `layer`, `l2` and `rms_all`, `relative = table`, expressions, prefixes and segments.
"""
import dataclasses
import math

import numpy as np

BUILT = {"qk_norm": ("none", "rms"), "rope": ("none", "half", "interleaved"), "relative": ("none", "t5"),
         "heads": ("last", "first"), "offset": ("none",), "rope_positions": ("offset",)}  # values that are known here


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


@dataclasses.dataclass(frozen=True)
class Block:
    """What stands around attention."""
    kind: str          # post, pre, parallel, sandwich
    rms: bool          # its norms; else layer norms
    shared: bool       # parallel: one norm for both
    ffn: str           # "none", or the activation by its name in a spec
    d_ff: int
    bias: bool         # of the feed-forward
    eps: float

    @property
    def gated(self):
        return self.ffn in ("swiglu", "geglu", "geglu_tanh")

    @property
    def activation(self):
        """relu, gelu, gelu_tanh or silu."""
        return {"swiglu": "silu", "geglu": "gelu", "geglu_tanh": "gelu_tanh"}.get(self.ffn, self.ffn)

    @property
    def norms(self):
        """Those that it has: n1 ... """
        count = 2 if self.kind == "sandwich" else 1
        return range(1, 1 + (count if self.ffn == "none" or self.shared else 2 * count))

    def around(self, x, attend, norm, feed, add):
        """y, by attend(rows), norm(number, rows), feed(rows) and add(rows, rows) of whatever library."""
        last = (lambda u, f: u) if self.ffn == "none" else (lambda u, f: f(u))
        if self.kind == "post":
            return last(norm(1, add(x, attend(x))), lambda u: norm(2, add(u, feed(u))))
        first = norm(1, x)
        if self.kind == "sandwich":
            return last(add(x, norm(2, attend(first))), lambda u: add(u, norm(4, feed(norm(3, u)))))
        of = first if self.shared else x if self.kind == "parallel" else None
        inside = lambda u: feed(of if self.shared else norm(2, u if of is None else of))
        return last(add(x, attend(first)), lambda u: add(u, inside(u)))

    def feed(self, u, product, activate, multiply):
        """The feed-forward, by product(name of the weight, rows)."""
        h = product("1", u)
        h = multiply(activate(product("g", u)), h) if self.gated else activate(h)
        return product("2", h)


def read_block(spec):
    """A Block, or None, from the keys of a spec."""
    if spec.get("block", "none") == "none":
        return None
    return Block(spec["block"], spec.get("norm") == "rms", spec.get("norm_shared") == "true", spec.get("ffn", "none"),
                 int(spec.get("d_ff", 0)), spec.get("ffn_bias", spec.get("bias")) == "true",
                 float(spec.get("norm_eps", 1e-6)))


def activate(name, x):
    """An activation of an array."""
    if name == "relu":
        return np.maximum(x, 0)
    if name == "silu":
        return x / (1 + np.exp(-x))
    if name == "gelu_tanh":
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))
    return 0.5 * x * (1 + np.vectorize(math.erf, otypes=[np.float64])(x / math.sqrt(2)))


def layer_norm(x, gain, shift, eps):
    """Each row less its mean, over the root of its variance."""
    x = x - x.mean(-1, keepdims=True)
    return gain * x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) + shift


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
