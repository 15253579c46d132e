#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# attnrun roof from outside: its table and JSON lines agree with each other and with the layer, the picture shows each
# step, what it refuses. No time is compared: shares are checked against the figures that they are made of.
#
#   tests/commands/test_roof.sh      ATTNRUN=build/attnrun  CC=gcc
set -u
cd "$(dirname "$0")/../.." || exit 3
. tests/checks.sh
export XDG_CACHE_HOME=$work/cache TMPDIR=$work/tmp
export CFLAGS=-O1
shown=(out err)
mkdir "$TMPDIR"
cd "$work" || exit 3

cat >plain.layer <<'END'
d_model = 32
h = 4
seq_len = 24
bias = true
END
cat >cached.layer <<'END'
d_model = 32
h = 4
h_kv = 2
seq_len = 4
mask = causal
cache = rows
cache_len = 64
END

# run STATUS ARGUMENT…: attnrun roof must end with that status
run() {
    local wanted=$1
    shift
    ends "$wanted" "$attnrun" roof "$@" --rounds 1 --seconds 0
    check "roof $*: nothing stays behind" test -z "$(ls -A "$TMPDIR")"
}
says() { check "says $1" grep -q -- "$1" err; }

run 2;                                               says "needs one spec"
run 2 plain.layer --past 3;                          says "this one has none"
run 2 plain.layer -o all.svg --isa scalar,avx2;      says "one instruction set"
check "no picture" test ! -e all.svg
run 3 plain.layer --isa scalar -o none/f.svg;        says "none/f.svg"

# project: x, then q, k and v of 24 tokens, and three matrices with their biases; attend: q, k, v and z
run 0 plain.layer --isa scalar --json -o plain.svg
check "four steps and the layer" test "$(grep -c '"isa":"scalar"' out)" -ge 4
field() { sed -n "s/.*\"step\":\"$1\".*\"$2\":\"\{0,1\}\([^,\"}]*\).*/\1/p" out | head -1; }
check "bytes of project" test "$(field project bytes)" = $((4 * (24 * 32 * 4 + 3 * (32 * 32 + 32))))
check "bytes of attend" test "$(field attend bytes)" = $((4 * 24 * 32 * 4))
check "operations of attend" test "$(field attend flops)" = $((2 * 2 * 24 * 24 * 32))
check "bytes of the layer" test "$(field layer bytes)" = $((4 * (2 * 24 * 32 + 4 * (32 * 32 + 32))))
agrees() { # the share is the roof over the time, the roof the larger of both bounds
    awk -v us="$(field "$1" us)" -v roof="$(field "$1" roof_us)" -v share="$(field "$1" share)" \
        -v flops="$(field "$1" flops)" -v peak="$(field "$1" peak_gflops)" -v bytes="$(field "$1" bytes)" \
        -v rate="$(field "$1" gbytes)" 'function near(a, b) { return a > 0.99 * b && a < 1.01 * b }
        BEGIN { c = flops / peak / 1e3; m = bytes / rate / 1e3; exit !(near(share, roof / us) && near(roof, c > m ? c : m)) }'
}
for step in layer project attend output; do
    check "$step: share and roof" agrees "$step"
    check "$step in the picture" grep -q ">$step<" plain.svg
done
check "levels in the picture" grep -q "memory, .* GB/s" plain.svg
check "a whole picture" test "$(tail -1 plain.svg)" = "</svg>"

run 0 cached.layer --isa scalar --n 1,4 --past 8,32 -o cached.svg
check "four calls" test "$(grep -c '^cached scalar, n ' out)" -eq 4
check "past in the table" grep -q "n 1, past 32" out
check "past in the picture" grep -q ">attend, n 4, past 8<" cached.svg
# without --isa the best set alone
run 0 plain.layer
check "one set" test "$(grep -c '^plain ' out)" -eq 1
tally
