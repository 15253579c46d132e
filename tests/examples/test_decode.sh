#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# examples/decode: it builds, rows, ring and paged give the bits of long calls token by token, and the program notices
# when they do not. Left out on purpose: times.
#
#   tests/examples/test_decode.sh      ATTNGEN=build/attngen  CC=gcc  CLANG=clang
set -u
cd "$(dirname "$0")/../.." || exit 3
. tests/checks.sh
log=$work/log excerpt=(head -n 20)

# build OUT SET VARIABLE=VALUE…: the Makefile's programs; small layers, as it is about bits
build() {
    local out=$1 set=$2
    shift 2
    make -s -C examples/decode ATTNGEN="$ATTNGEN" OUT="$work/$out" CFLAGS="-O1 -Wpedantic -Werror" \
        SET="--isa avx2 --set d_model=96 $set" "$@"
}

says() { "$1" >"$work/said" 2>&1 && grep -q "$2" "$work/said" || { cat "$work/said"; return 1; }; }
refuses() { ! "$1" >"$work/said" 2>&1 && grep -q "$2" "$work/said" || { cat "$work/said"; return 1; }; }

for compiler in $compilers; do
    check "it builds with $compiler" build "$compiler" "" CC="$compiler"
    for kind in rows ring paged; do
        check "$kind, $compiler: the same bits" says "$work/$compiler/$kind/decode" ' tokens: every bit$'
        check "$kind, $compiler: times are printed" grep -q '^one token behind 512 ... 1023: [0-9]* us$' "$work/said"
    done
done
compiler=${CC:-gcc}
check "without exact chunks it builds" build free "--set plan.exact_chunks=false" CC="$compiler"
for kind in rows ring paged; do
    check "$kind, without exact chunks: the same y" says "$work/free/$kind/decode" '^the same y'
done

# pairs that put a position where another one is; the caches differ in their sizes
place=$work/$compiler/rows/layer.c
sed -i 's|^    return head \* CACHE_LEN + position;$|    return head * CACHE_LEN + position / 2 * 2;|' "$place"
check "the edit fits" grep -q '^    return head . CACHE_LEN + position / 2 . 2;$' "$place"
check "it builds" build "$compiler" "" CC="$compiler"
check "another y is noticed" refuses "$work/$compiler/rows/decode" '^not the same y'

# a cache that is too short
check "a shorter one builds" build short "--set seq_len=128 --set cache_len=1000" CC="$compiler" "$work/short/rows/decode"
check "its end is an error" refuses "$work/short/rows/decode" 'above the 1000 tokens of the cache'
check "decode.c stays short" test "$(wc -l <examples/decode/decode.c)" -le 60
tally
