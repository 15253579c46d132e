#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The demo (`make demo`): two attention layers generated, compiled, checked and timed, each command shown before it runs.
#
# First layer 0 of all-MiniLM-L6-v2 on real sentences, against what PyTorch gives for them; then GPT-2's with drawn
# weights, against the reference. Everything that it makes goes below $BUILD/demo. Left out on purpose: measuring
# anything that attnrun does not measure itself.
set -eu
cd "$(dirname "$0")/.."

BUILD=${BUILD:-build}
attngen=${ATTNGEN:-$BUILD/attngen}
attnrun=${ATTNRUN:-$BUILD/attnrun}
out=$BUILD/demo
mkdir -p "$out"
XDG_CACHE_HOME=$(cd "$out" && pwd) # compiled kernels go there
export XDG_CACHE_HOME ATTNGEN=$attngen

minilm=tests/data/minilm_layer0.layer
sentences=tests/data/minilm_layer0.safetensors
gpt2=examples/gpt2.layer

heading() { printf '\n== %s ==\n' "$1"; }
say()     { printf '\n%s\n' "$1"; }
show()    { printf '\n$ %s\n' "$*"; "$@"; }

emit() {
    local name
    name=$(basename "$1" .layer)
    show "$attngen" -o "$out" "$1"
    echo "emitted: $out/$name.c and $out/$name.h, $(wc -l <"$out/$name.c") lines"
    awk '/^ \* Cost of one|^ \* Packed weights/ { sub(/^ \* /, "  "); print }' "$out/$name.c"
}

# The whole layer only: attnrun's table without its steps.
layers_only() { awk 'NR <= 4 || $3 == "layer" || $3 == "reference"'; }

echo "CPU: $(awk -F': *' '/^model name/ { print $2; exit }' /proc/cpuinfo 2>/dev/null || uname -m)"
heading "1. A real layer: all-MiniLM-L6-v2, attention of layer 0"
emit "$minilm"

say "The hidden states of six English sentences (4 to 25 tokens, padded to 25); y is compared with PyTorch's:"
show "$attnrun" run "$minilm" --in "$sentences" --isa all

say "The same by the reference, the layer's equations in double precision:"
show "$attnrun" run "$minilm" --in "$sentences" --reference

say "Time of the kernels on six sequences of 25 positions:"
show "$attnrun" bench "$minilm" --batch 6 --n 25 --seconds 0.5 --reference | layers_only

heading "2. GPT-2 (small): 768 wide, 12 causal heads, 1024 positions, drawn weights"
emit "$gpt2"

say "Every instruction set against the reference, within the derived bound (this takes some seconds):"
show "$attnrun" check "$gpt2"

say "Time of the layer and of its steps on one core, and the share of that core's peak:"
show "$attnrun" bench "$gpt2" --rounds 5 --seconds 0.5 --reference

heading "The kernels are yours"
cat <<END
$out/minilm_layer0.c and .h, $out/gpt2.c and .h: C11, nothing else needed; 0BSD.
Next: README.md, or
  $attngen --explain examples/tiny.layer
END
