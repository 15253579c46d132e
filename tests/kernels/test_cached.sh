#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A layer with cache = rows, ring and paged: the same sequences, in calls of several sizes, give the same bits; see
# cached_program.c. With plan.exact_chunks = true those of all sizes, without it those of calls on the same path. Caches of
# fewer bytes take turns at this machine's instruction sets.
#
#   tests/kernels/test_cached.sh      ATTNGEN  CC=gcc
set -u
cd "$(dirname "$0")/../.." || exit 3
. tests/checks.sh
log=$work/log
left=9 page=5 h=4 heads=2 here=$(tests/isas_here.sh) excerpt=(head -n 20)
isas=$here
IFS=, read -ra sets <<<"$here"
flags="-O2 -fPIC $(quick -std=c11 -O0)" # as quick wants them

# program EXACT KEY=VALUE…: $work/program from three pairs; $elements: what the compiler is told of their caches
elements=
program() {
    local exact=$1 kind
    shift
    for kind in rows ring paged; do
        {
            printf '%s\n' "name = kv_$kind" d_model=24 h=$h h_kv=$heads seq_len=8 mask=causal+window "window_left = $left" \
                bias=true lse=true rope=half "cache = $kind" "plan.exact_chunks = $exact" "$@"
            case $kind in
            rows) echo cache_len=64 ;;
            ring) echo "cache_len = $((left + 8))" ;;
            paged) printf '%s\n' cache_len=64 "page_len = $page" ;;
            esac
        } >"$work/kv_$kind.layer"
        "$ATTNGEN" --isa "$isas" -o "$work" "$work/kv_$kind.layer" || return 1
    done
    # shellcheck disable=SC2086 # flags are words
    ${CC:-gcc} $flags -Wall -Wextra -I"$work" -DPROGRAM_LEFT=$left -DPROGRAM_PAGE=$page $elements -o "$work/program" \
        tests/kernels/cached_program.c "$work"/kv_{rows,ring,paged}.c
}

for widths in "d_k=6 d_v=7" "d_k=18 d_v=33" "d_k=30 d_v=127"; do
    # shellcheck disable=SC2086 # two words
    check "$widths, exact chunks: three pairs compile" program true $widths
    check "$widths, exact chunks: rows, ring and paged agree in calls of any sizes" "$work/program" 8 1 7 0
    # shellcheck disable=SC2086
    check "$widths: three pairs compile" program false $widths
    check "$widths: rows, ring and paged agree in calls of one token" "$work/program" 1
    check "$widths: rows, ring and paged agree in the largest calls" "$work/program" 8
    check "$widths: rows, ring and paged agree in calls of any sizes" "$work/program" 0
done
turn=0
in_turn() { # the types' instruction sets, one each
    isas=${sets[turn++ % ${#sets[@]}]}
}
for type in bf16=uint16_t f16=uint16_t "i8=int8_t -DSCALED"; do
    elements="-DELEMENT=${type#*=}"
    in_turn
    check "${type%%=*}: three pairs compile" program true d_k=18 d_v=33 "cache_type = ${type%%=*}"
    check "${type%%=*}: rows, ring and paged agree in calls of any sizes" "$work/program" 8 1 7 0
    in_turn
    check "${type%%=*}: three pairs compile" program false d_k=6 d_v=7 "cache_type = ${type%%=*}"
    check "${type%%=*}: rows, ring and paged agree in calls of one token" "$work/program" 1
done
# a row that shares its keys with no other has products of its own where a vector of keys lies side by side
left=25 heads=4 elements=
isas=$here
check "lone rows: three pairs compile" program false d_k=32 d_v=81
check "lone rows: rows, ring and paged agree in calls of one token" "$work/program" 1
check "lone rows: rows, ring and paged agree in calls of any sizes" "$work/program" 0
# 17 heads that share keys have one path for calls of all sizes; its scores and sums are of whole numbers, in blocks of
# keys that have scales of their own
left=25 h=34 heads=2
for precision in i8 i16; do
    check "$precision: three pairs compile" program false d_k=34 d_v=39 "precision = $precision" plan.key_block=16
    check "$precision: rows, ring and paged agree in calls of any sizes" "$work/program" 8 1 7 0
done
elements="-DELEMENT=int8_t -DSCALED"
in_turn
check "i8, cache too: three pairs compile" program false d_k=34 d_v=39 cache_type=i8 precision=i8 plan.key_block=16
check "i8, cache too: rows, ring and paged agree in calls of any sizes" "$work/program" 8 1 7 0
tally
