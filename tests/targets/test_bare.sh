#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Bare metal: a pair compiled freestanding, with no header but the compiler's own, asks for memcpy and memset and
# nothing else; sizes are constants for arrays, assertions and #if; examples/bare runs on x86-64 and on an emulated Cortex-A.
#
#   tests/targets/test_bare.sh [LAYER[:LEVEL]…]      BUILD=build  ATTNGEN=…  ATTNRUN=…
#
# A layer of examples/ without a level is compiled at -O0, -O2 and -Os; `make bare` takes all layers.
# Left out on purpose: targets without a floating-point unit, whose compilers call their own library for every sum.
set -u
cd "$(dirname "$0")/../.." || exit 3
. tests/checks.sh
[ $# -gt 0 ] || set -- conv_merge:-O0
export XDG_CACHE_HOME=$work/cache
unset CFLAGS MAKEFLAGS MAKELEVEL
log=$work/log excerpt=(head -n 20)

# own_headers COMPILER: the folder of the headers that it brings itself
own_headers() {
    case $1 in
        *clang*) echo "$($1 -print-resource-dir)/include" ;;
        *) $1 -print-file-name=include ;;
    esac
}

# asks_for FILE: the symbols that it leaves to others, but memcpy and memset; weak ones too
asks_for() {
    nm -P "$1" | awk '$2 ~ /^[Uvw]$/ && $1 != "memcpy" && $1 != "memset" { print $1; bad = 1 } END { exit bad }'
}

# ---- no header, no symbol ----

# pair NAME COMPILER FLAGS
pair() {
    local object=$work/$1.o
    # shellcheck disable=SC2086
    check "$1.c by $2 $3, freestanding, with the compiler's headers only" $2 -std=c11 $3 -Wall -Wextra -Wpedantic \
        -Werror -ffreestanding -nostdinc -isystem "$(own_headers "$2")" -c -o "$object" "$work/$1.c"
    check "$1.c by $2 $3 asks for more than memcpy and memset: $(asks_for "$object")" asks_for "$object"
}
for wanted; do
    layer=${wanted%%:*}
    levels="-O0 -O2 -Os"
    [ "$layer" = "$wanted" ] || levels=${wanted#*:}
    "$ATTNGEN" -o "$work" "examples/$layer.layer" >/dev/null || exit 3
    for compiler in gcc clang aarch64-linux-gnu-gcc; do
        if ! command -v $compiler >/dev/null; then
            skip "no $compiler here"
            continue
        fi
        for level in $levels; do
            pair "$layer" $compiler "$level"
        done
    done
    [ "$(uname -m)" != x86_64 ] || pair "$layer" gcc "-O0 -mavx512f -mfma" # fmaf() must be an instruction
done

# ---- sizes ----

"$ATTNGEN" -o "$work" examples/tiny.layer >/dev/null || exit 3
cat >"$work/sizes.c" <<'PROGRAM'
#include "tiny.h"
#if TINY_PACKED_BYTES < 4 * 4 * 64 * 64 || TINY_SCRATCH_BYTES_FOR(3) <= TINY_SCRATCH_BYTES || TINY_SCRATCH_BYTES == 0
#error "sizes in #if"
#endif
extern unsigned char a[TINY_PACKED_BYTES], b[TINY_SCRATCH_BYTES_FOR(2)];
unsigned char a[TINY_PACKED_BYTES], b[TINY_SCRATCH_BYTES_FOR(2)];
#ifdef __cplusplus
static_assert(sizeof(TINY_PACKED_BYTES) == sizeof(size_t), "a size_t");
#else
_Static_assert(_Generic(TINY_PACKED_BYTES, size_t: 1, default: 0), "a size_t");
_Static_assert(_Generic(TINY_SCRATCH_BYTES_FOR(1), size_t: 1, default: 0), "a size_t");
_Static_assert(TINY_SCRATCH_BYTES_FOR(1) == TINY_SCRATCH_BYTES, "one worker");
#endif
PROGRAM
check "sizes are constants in C" ${CC:-gcc} -std=c11 -Wall -Wextra -Wpedantic -Werror -Wconversion -c -o "$work/s.o" \
    "$work/sizes.c"
check "sizes are constants in C++" ${CXX:-g++} -std=c++17 -Wall -Wextra -Wpedantic -Werror -x c++ -c -o "$work/s.o" \
    "$work/sizes.c"

# ---- the example ----

# example TARGET ISA VARIABLE=…: make it in a copy, and read what it prints
example() {
    local target=$1 isa=$2
    shift 2
    check "examples/bare: make $target $*" timeout 120 make -s -C "$work/bare" "$target" OUT="$work/out" "$@"
    cp "$work/log" "$work/made"
    check "examples/bare: make $target $* says ok for $isa, not: $(cat "$work/made")" \
        grep -qx "ok: the layer on $isa, y as the equations give it" "$work/made"
}
cp -r examples/bare "$work/bare" || exit 3
if [ "$(uname -sm)" = "Linux x86_64" ]; then
    example run scalar CC=gcc
    if command -v clang >/dev/null; then
        rm -rf "$work/out"
        example run scalar CC=clang
    fi
    program=$work/out/x86_64-scalar/bare
    check "the program asks for nothing" asks_for "$program"
    check "and no library is linked in" eval '! readelf -lW "$program" | grep -Eq "INTERP|DYNAMIC"'
    check "and it does not pack" eval '! nm "$program" | grep -q bare_pack$'
    # a wrong weight is seen: the last one of b_o, 1.5 in half precision
    head -c -2 examples/bare/weights.safetensors >"$work/bare/weights.safetensors"
    printf '\000\076' >>"$work/bare/weights.safetensors"
    touch "$work/bare/weights.safetensors"
    check "the example sees a wrong weight" eval '! make -s -C "$work/bare" run OUT="$work/out" >"$work/wrong" 2>&1 &&
        grep -q "FAILED: y is not" "$work/wrong"'
    cp examples/bare/weights.safetensors "$work/bare/"
    if grep -qw avx2 /proc/cpuinfo; then
        example run avx2 ISA=avx2
    else
        skip "no AVX2 here"
    fi
else
    skip "this is no Linux on x86-64"
fi
if ! command -v aarch64-linux-gnu-gcc >/dev/null; then
    skip "no aarch64-linux-gnu-gcc here"
elif ! command -v qemu-system-aarch64 >/dev/null; then
    skip "no qemu-system-aarch64 here"
else
    example run-aarch64 neon
fi

tally
