#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What test_heatmap.sh needs to know of a picture: decodes the images in it and compares them with weights.

    heatmap.py make FILE.safetensors N       a causal layer, 8 wide, 2 heads, N positions, whose W_Q is zero: query t
                                             gives each of the t + 1 keys that it sees the weight 1 / (t + 1)
    heatmap.py check F.svg SCALE SEQUENCE HEADS FILE.safetensors MASK   the images against `attn` in the file
    heatmap.py uniform F.svg N BLOCK         the images against 1 / (t + 1), the largest of BLOCK x BLOCK weights
    heatmap.py texts F.svg                   every text in it, one a line

Says what differs and exits 1. The standard library only; colours are computed anew, from the ten points that the
documentation names. Left out on purpose: where things stand in the picture.
"""
import array
import base64
import json
import math
import struct
import sys
import xml.etree.ElementTree as xml
import zlib

COLOURS = ["440154", "482878", "3e4a89", "31688e", "26828e", "1f9e89", "35b779", "6dcd59", "b4de2c", "fde725"]
HIDDEN = "dedee4"


def rgb(text):
    return tuple(bytes.fromhex(text))


def colour(weight, top, scale):
    if weight is None:
        return rgb(HIDDEN)
    share = weight / top
    place = {"linear": lambda: share, "sqrt": lambda: math.sqrt(share),
             "log": lambda: 1 + math.log10(share) / 4 if share > 0 else 0}[scale]()
    at = min(max(place, 0), 1) * (len(COLOURS) - 1)
    i = min(int(at), len(COLOURS) - 2)
    return tuple(a + (at - i) * (b - a) for a, b in zip(rgb(COLOURS[i]), rgb(COLOURS[i + 1])))


def png(data):
    """(width, height, rows of r, g, b …, 3) of a PNG with a palette, 8 bits a pixel, not filtered."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, packed = 8, b""
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at:at + 8])
        body = data[at + 8:at + 8 + length]
        if kind == b"IHDR":
            width, height, depth, form, _, _, interlace = struct.unpack(">IIBBBBB", body)
            assert (depth, form, interlace) == (8, 3, 0)
        elif kind == b"PLTE":
            palette = [body[i:i + 3] for i in range(0, length, 3)]
        elif kind == b"IDAT":
            packed += body
        assert struct.unpack(">I", data[at + 8 + length:at + 12 + length])[0] == zlib.crc32(kind + body)
        at += length + 12
    raw, stride, rows = zlib.decompress(packed), width + 1, []
    assert len(raw) == height * stride and not any(raw[::stride])
    for y in range(height):
        rows.append(b"".join(palette[i] for i in raw[y * stride + 1:(y + 1) * stride]))
    return width, height, rows, 3


def images(path):
    root = xml.parse(path).getroot()
    prefix = "data:image/png;base64,"
    for element in root.iter("{http://www.w3.org/2000/svg}image"):
        link = element.get("{http://www.w3.org/1999/xlink}href")
        assert link.startswith(prefix)
        yield png(base64.b64decode(link[len(prefix):]))


def safetensors(path):
    data = open(path, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    for name, item in json.loads(data[8:8 + size]).items():
        if name != "__metadata__":
            start, end = item["data_offsets"]
            kind = {"F32": "f", "I32": "i", "BOOL": "B"}[item["dtype"]]
            yield name, (item["shape"], array.array(kind, data[8 + size + start:8 + size + end]))


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, (shape, values) in tensors.items():
        raw = array.array("f", values).tobytes()
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text + data)


def compare(what, image, expected, top, scale):
    """expected: rows of weights, None where hidden; each is a square of equal pixels in the image."""
    width, height, rows, channels = image
    high, wide = len(expected), len(expected[0])
    if width % wide or height % high or width // wide != height // high:
        sys.exit(f"{what}: {width} x {height} pixels for {wide} x {high} weights")
    repeat = width // wide
    known = {}
    for y in range(height):
        for x in range(0, width) if y % repeat == 0 else range(0, width, max(1, width // 7)):
            weight = expected[y // repeat][x // repeat]
            if weight not in known:
                known[weight] = colour(weight, top, scale)
            got = rows[y][x * channels:x * channels + 3]
            if any(abs(a - b) > 2 for a, b in zip(got, known[weight])):  # of 254 colours the nearest
                sys.exit(f"{what}: query {y // repeat}, key {x // repeat}: weight {weight} has the colour "
                         f"{tuple(got)}, not {known[weight]}")


def check(svg, scale, sequence, heads, file, mask):
    tensors = dict(safetensors(file))
    (_, h, n, m), attn = tensors["attn"]
    heads, b = [int(i) for i in heads.split(",")], int(sequence)
    keys = tensors["lengths"][1][b] if "padding" in mask else m
    panels = []
    for i in heads:
        rows = [attn[((b * h + i) * n + t) * m:((b * h + i) * n + t + 1) * m] for t in range(n)]
        panels.append([[None if j >= keys or ("causal" in mask and j > t) else rows[t][j] for j in range(m)]
                       for t in range(n)])
    top = max(w for rows in panels for row in rows for w in row if w is not None)
    found = list(images(svg))
    if len(found) != len(heads) + 1:  # the colour bar is the last
        sys.exit(f"{svg}: {len(found)} images for {len(heads)} heads and a colour bar")
    for i, image, rows in zip(heads, found, panels):
        compare(f"{svg}: head {i}", image, rows, top, scale)
    compare_bar(svg, found[-1])


def compare_bar(svg, image):
    width, height, rows, channels = image
    for y in range(height):
        at = (1 - (y + 0.5) / height)
        if any(abs(a - b) > 4 for a, b in zip(rows[y], colour(at, 1, "linear"))):
            sys.exit(f"{svg}: the colour bar's pixel {y} is {tuple(rows[y][:3])}")


def uniform(svg, n, block):
    n, block = int(n), int(block)
    side = (n + block - 1) // block
    rows = [[1 / (r * block + 1) if c <= r else None for c in range(side)] for r in range(side)]
    found = list(images(svg))
    for i, image in enumerate(found[:-1]):
        compare(f"{svg}: head {i}", image, rows, 1, "sqrt")
    print(len(found) - 1)


def make(path, n):
    n = int(n)
    weights = {name: ([8, 8], [0.0 if name == "w_q" else math.sin(i + 1) for i in range(64)])
               for name in ("w_q", "w_k", "w_v", "w_o")}
    write_safetensors(path, {"x": ([1, n, 8], [math.sin(i) for i in range(8 * n)]), **weights})


def texts(svg):
    for element in xml.parse(svg).getroot().iter("{http://www.w3.org/2000/svg}text"):
        print("".join(element.itertext()).strip())


if __name__ == "__main__":
    {"make": make, "check": check, "uniform": uniform, "texts": texts}[sys.argv[1]](*sys.argv[2:])
