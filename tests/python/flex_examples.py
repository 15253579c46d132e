# SPDX-License-Identifier: MIT
"""FlexAttention functions after public examples (PyTorch's documentation, attention-gym), written from definitions.

Each takes `xp` (torch, or attngen.flex) and `T`, which makes a tensor of nested lists, and returns score_mod and
mask_mod; H, N and B are the numbers of heads, positions and sequences. TRACED become layers, REFUSED have a part of the
message.
"""
H, N, B = 4, 16, 2


def whole(x):
    return x.to(int) if hasattr(x, "to") else int(x)


def causal(xp, T):
    return None, lambda b, h, q, kv: q >= kv


def sliding_window(xp, T):
    return None, lambda b, h, q, kv: (q >= kv) & (q - kv <= 5)


def bidirectional_window(xp, T):
    return None, lambda b, h, q, kv: abs(q - kv) <= 3


def dilated_window(xp, T):
    return None, lambda b, h, q, kv: ((q - kv) % 3 == 0) & (q >= kv) & (q - kv < 9)


def prefix_lm_constant(xp, T):
    return None, lambda b, h, q, kv: (kv < 6) | (q >= kv)


def prefix_lm(xp, T):
    prefix = T([3, 7])
    return None, lambda b, h, q, kv: (q >= kv) | (kv < prefix[b])


def padding(xp, T):
    lengths = T([16, 9])
    return None, lambda b, h, q, kv: kv < lengths[b]


def documents(xp, T):
    document_id = T([[0] * 5 + [1] * 7 + [2] * 4, [0] * 9 + [1] * 7])

    def mask(b, h, q, kv):
        return (document_id[b, q] == document_id[b, kv]) & (q >= kv)
    return None, mask


def documents_of_all(xp, T):
    document_id = T([0] * 5 + [1] * 7 + [2] * 4)
    return None, lambda b, h, q, kv: document_id[q] == document_id[kv]


def documents_with_prefix(xp, T):
    """Positions within documents: offsets of documents, indexed by an element of another tensor."""
    document_id, offsets = T([0] * 5 + [1] * 7 + [2] * 4), T([0, 5, 12])

    def inner(b, h, q, kv):
        return (q >= kv) | (kv < 2)

    def mask(b, h, q, kv):
        same = document_id[q] == document_id[kv]
        return same & inner(b, h, q - offsets[document_id[q]], kv - offsets[document_id[kv]])
    return None, mask


def alibi(xp, T):
    def score(score, b, h, q, kv):
        scale = xp.exp2(-((h + 1) * 8.0 / H))
        return score + (kv - q) * scale
    return score, None


def alibi_of_slopes(xp, T):
    slopes = T([0.5, 0.25, 0.125, 0.0625])
    return lambda score, b, h, q, kv: score - slopes[h] * abs(q - kv), lambda b, h, q, kv: q >= kv


def softcap(xp, T):
    return lambda score, b, h, q, kv: 5.0 * xp.tanh(score / 5.0), None


def relative_position(xp, T):
    return lambda score, b, h, q, kv: score + 0.1 * (q - kv), None


def relative_bias(xp, T):
    bias = T([[0.01 * ((7 * i + 3 * h) % 19) - 0.1 for i in range(2 * N - 1)] for h in range(H)])
    return lambda score, b, h, q, kv: score + bias[h, q - kv + (N - 1)], None


def t5_bias(xp, T):
    """Buckets of distances, whose logarithm becomes a table."""
    bias = T([[0.02 * ((5 * i + h) % 13) for h in range(H)] for i in range(8)])

    def score(score, b, h, q, kv):
        distance = xp.clamp(q - kv, min=0)
        large = 4 + whole(xp.log(xp.clamp(distance, min=1) / 4.0) / 1.3862943611 * 4)
        bucket = xp.where(distance < 4, distance, xp.clamp(large, max=7))
        return score + bias[bucket, h]
    return score, lambda b, h, q, kv: q >= kv


def log_distance(xp, T):
    return lambda score, b, h, q, kv: score - 0.3 * xp.log(abs(q - kv) + 1), None


def natten_2d(xp, T):
    """Neighbourhoods of 3 x 3 pixels in a picture of 4 x 4."""
    width, radius = 4, 1

    def mask(b, h, q, kv):
        q_x, q_y, kv_x, kv_y = q // width, q % width, kv // width, kv % width
        x, y = xp.clamp(q_x, min=radius, max=width - 1 - radius), xp.clamp(q_y, min=radius, max=width - 1 - radius)
        return (abs(x - kv_x) <= radius) & (abs(y - kv_y) <= radius)
    return None, mask


def tiled_natten(xp, T):
    def mask(b, h, q, kv):
        q_x, q_y = q // 8 * 2 + q % 4 // 2, q % 8 // 4 * 2 + q % 2
        kv_x, kv_y = kv // 8 * 2 + kv % 4 // 2, kv % 8 // 4 * 2 + kv % 2
        return (abs(q_x - kv_x) <= 1) & (abs(q_y - kv_y) <= 1)
    return None, mask


def morton_natten(xp, T):
    """Positions in Z order: bits apart by shifts and masks."""
    def decode(z):
        return (z & 1) + ((z >> 2) & 1) * 2, ((z >> 1) & 1) + ((z >> 3) & 1) * 2

    def mask(b, h, q, kv):
        (q_x, q_y), (kv_x, kv_y) = decode(q), decode(kv)
        return (abs(q_x - kv_x) <= 1) & (abs(q_y - kv_y) <= 1)
    return None, mask


def global_and_local(xp, T):
    return None, lambda b, h, q, kv: (abs(q - kv) <= 2) | (kv < 2) | (q < 2)


def strided_sparse(xp, T):
    return None, lambda b, h, q, kv: (q >= kv) & ((q - kv < 4) | (kv % 4 == 3))


def block_diagonal(xp, T):
    return None, lambda b, h, q, kv: q // 4 == kv // 4


def window_by_head(xp, T):
    windows = T([1, 2, 4, 8])
    return None, lambda b, h, q, kv: (q >= kv) & (q - kv < windows[h])


def composed(xp, T):
    """and_masks and or_masks, as torch.nn.attention has them."""
    def both(*masks):
        def mask(b, h, q, kv):
            result = b.new_ones((), dtype=bool)
            for one in masks:
                result = result & one(b, h, q, kv)
            return result
        return mask

    def window(b, h, q, kv):
        return q - kv <= 4
    return None, both(lambda b, h, q, kv: q >= kv, window)


def score_mask(xp, T):
    return lambda score, b, h, q, kv: xp.where(q >= kv, score, -float("inf")), None


def bias_of_pairs(xp, T):
    bias = T([[0.1 * ((q * 3 + kv) % 7) for kv in range(N)] for q in range(N)])
    return lambda score, b, h, q, kv: score + bias[q, kv], None


def bias_of_sequences(xp, T):
    bias = T([[[[0.1 * ((q * 3 + kv + h + 2 * b) % 7) for kv in range(N)] for q in range(N)] for h in range(H)]
              for b in range(B)])
    return lambda score, b, h, q, kv: score + bias[b, h, q, kv], None


def allowed_pairs(xp, T):
    allowed = T([[(q * 5 + kv * 3) % 4 != 0 or q == kv for kv in range(N)] for q in range(N)])
    return None, lambda b, h, q, kv: allowed[q, kv]


def stick_breaking_like(xp, T):
    return lambda score, b, h, q, kv: xp.sigmoid(score) * 2.0, lambda b, h, q, kv: q > kv


def checkerboard(xp, T):
    def score(score, b, h, q, kv):
        score = xp.where(abs(kv - q) % 2 == 1, score * 0.5, score)
        return xp.where((h == 0) & (kv == q), score * 2.0, score)
    return score, None


def inference_offset(xp, T):
    offset = T(0)

    def mask(b, h, q, kv):
        return q + offset >= kv
    return None, mask


def random_dropout(xp, T):
    """No function of positions: a number drawn for each pair."""
    def score(score, b, h, q, kv):
        return xp.where(xp.rand(1) > 0.5, score, 0.0) if hasattr(xp, "rand") else score.bernoulli(0.5)
    return score, None


def branching(xp, T):
    return None, lambda b, h, q, kv: True if q >= kv else kv < 4


def chained(xp, T):
    return None, lambda b, h, q, kv: 0 <= q - kv < 4


def scale_of_sequences(xp, T):
    temperature = T([1.0, 0.5])
    return lambda score, b, h, q, kv: score * temperature[b], None


def erf_of_score(xp, T):
    return lambda score, b, h, q, kv: score.erf(), None


def log_of_score(xp, T):
    return lambda score, b, h, q, kv: xp.log(score * score + 1.0), None


def sine_of_score(xp, T):
    return lambda score, b, h, q, kv: score.sin(), None


def global_or_causal(xp, T):
    first = T([True] * 3 + [False] * 13)
    return None, lambda b, h, q, kv: first[kv] | (q >= kv)


def logarithm_where_finite(xp, T):
    """log(0), which is not chosen, beside an index by a logarithm."""
    def score(s, b, h, q, kv):
        apart = xp.where(q >= kv, q - kv, kv - q)
        return s - xp.where(apart > 0, xp.log(whole(apart) * 1.0), 0.0)
    return score, None


def names_of_tensors(xp, T):
    w, x, lengths = T([0.25 * i for i in range(N)]), T([0.5, 1.5, -1.0, 2.0]), T([1.0 - 0.125 * i for i in range(N)])
    return lambda s, b, h, q, kv: s + w[q] * x[h] + lengths[kv], None


def two_roundings(xp, T):
    """Quotients and numbers without their fractions: two functions, two tables."""
    def score(s, b, h, q, kv):
        return s + whole(q * 0.3) + 0.5 * whole(abs(q - kv) / 3)
    return score, None


def sequence_as_number(xp, T):
    return lambda s, b, h, q, kv: s + b, None


def sequence_compared(xp, T):
    return None, lambda b, h, q, kv: (b == 0) | (q >= kv)


def table_too_small(xp, T):
    bias = T([0.5] * 5)
    return lambda s, b, h, q, kv: s + bias[q], None


def number_as_mask(xp, T):
    return None, lambda b, h, q, kv: q - kv


def infinite_table(xp, T):
    return lambda s, b, h, q, kv: s + xp.log(whole(q) * 1.0), None


TRACED = [causal, sliding_window, bidirectional_window, dilated_window, prefix_lm_constant, prefix_lm,
          padding, documents, documents_of_all, documents_with_prefix, alibi, alibi_of_slopes, softcap,
          relative_position, relative_bias, t5_bias, log_distance, natten_2d, tiled_natten, morton_natten,
          global_and_local, strided_sparse, block_diagonal, window_by_head, composed, score_mask,
          bias_of_pairs, bias_of_sequences, allowed_pairs, stick_breaking_like, checkerboard,
          inference_offset, log_of_score, global_or_causal, logarithm_where_finite, names_of_tensors, two_roundings]
REFUSED = [(random_dropout, "bernoulli"), (branching, "write &, |"), (chained, "chained comparisons"),
           (scale_of_sequences, "the number of the sequence, b"), (erf_of_score, r"no \.erf"),
           (sine_of_score, "sin of the score"), (sequence_as_number, "the number of the sequence, b"),
           (sequence_compared, "the number of the sequence, b"), (table_too_small, r"bias of shape \[5\] .* by 5"),
           (number_as_mask, "a mask is a condition"), (infinite_table, "has the value -inf")]
