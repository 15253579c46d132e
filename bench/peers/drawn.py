# SPDX-License-Identifier: MIT
"""A table of drawn layers for bench.py, as shapes.txt: attention alone of given q, k and v, and whole layers.

    drawn.py SEED COUNT FILE

Widths, heads and lengths are those that models have and their neighbours; a layer has 4e9 multiply-adds at most.
"""
import random
import sys

MOST = 4e9


def draw(dice):
    """The keys of one layer."""
    d_k = dice.choice((32, 48, 64, 64, 80, 96, 128, 128, 256))
    h = dice.choice((1, 2, 4, 8, 12, 16))
    n = dice.choice((1, 2, 3, 4, 8, 16, 17, 31, 33, 53, 64, 100, 128, 161, 197, 300, 512))
    keys = {"h": h, "seq_len": n}
    if dice.random() < 0.2:
        keys["mask"] = "causal"
    if dice.random() < 0.5:
        m = n if "mask" in keys else dice.choice((n, 77, 256, 512, 1024, 2048, 4608))
        groups = dice.choice([g for g in (1, 1, 2, 4) if h % g == 0])
        given = {"input": "projected", "w_o": "none", "h_kv": h // groups, "d_k": d_k, "d_v": d_k, "source_len": m}
        return {**keys, **given}
    return {**keys, "d_model": h * d_k, "bias": dice.choice(("true", "false"))}


def work(keys):
    """Multiply-adds of a call, roughly."""
    if "input" in keys:
        return 2 * keys["seq_len"] * keys["source_len"] * keys["h"] * keys["d_k"]
    d = keys["d_model"]
    return keys["seq_len"] * (4 * d * d + 2 * keys["seq_len"] * d)


def main(seed, count, path):
    dice, lines = random.Random(seed), []
    while len(lines) < count:
        keys = draw(dice)
        if work(keys) <= MOST:
            words = " ".join(f"{key}={value}" for key, value in keys.items())
            lines.append(f"drawn_{seed}_{len(lines)} {words}\n")
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(lines)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
