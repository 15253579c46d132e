#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The kernels of avxvnni, on machines with AVX2: natively where the CPU has AVX-VNNI; where it has AVX512-VNNI, whose
# instructions compute the same, in that encoding; elsewhere, and for one vector anyway, emulated by AVX2 (avxvnni/as).
# Vectors, examples through `attnrun check`, a selftest, mutants; with "all" more of them, and random layers.
#
#   tests/targets/test_avxvnni.sh [all]      ATTNRUN=build/attnrun  CC=gcc  BUILD=build  JOBS=N
set -u
cd "$(dirname "$0")/../.." || exit 3
. tests/checks.sh
CC=${CC:-gcc}

# What goes with avxvnni that is not of this machine: gcc takes the assembler from the folder.
foreign="-B $root/tests/targets/avxvnni/ -include $root/tests/targets/avxvnni/cpu.h"
has() { grep -q -m 1 "^flags.*\b$1\b" /proc/cpuinfo; }
[ "$(uname -m)" = x86_64 ] && has avx2 && has fma || leave_out "everything: this machine has no AVX2"
has avx_vnni && foreign=
[ "$foreign" ] && [[ $($CC --version) = *clang* ]] && leave_out "$CC has an assembler of its own"
log=$work/log excerpt=(tail -n 20)

# others SCRIPT NAME…: a script of tests/kernels for this set alone; it counts itself
others() {
    local script=$1 said
    shift
    said=$(ISAS=avxvnni CLANG='' CC=$CC CFLAGS="-O1 $foreign" BUILD=$build "tests/kernels/$script" "$@" 2>&1)
    passed=$((passed + $(sed -n 's/^\([0-9]*\) passed.*/\1/p' <<<"$said" | tail -n 1)))
    ! grep -E '^FAILED|^skipped.*avxvnni|^0 passed' <<<"$said" >"$log"
    result $? "$script $*: $(cat "$log")"
}

# checked SPEC OPTION…: it keeps its promises
checked() {
    CC=$CC CFLAGS="-O1 $foreign" "$ATTNRUN" check "$@" --isa avxvnni --cache "$work/cache" >"$log" 2>&1 &&
        grep -q '^ok .* avxvnni ' "$log"
    result $? "attnrun check $* --isa avxvnni: $(cat "$log")"
}

vectors="precision_i8 precision_i8_values precision_i8_narrow precision_i8_cached precision_i16_values precision_i16_fast types_i4_cached types_i8_cached"
mutants="whole_operands_swapped whole_pairs_everywhere types_i4_digits_operands_swapped types_i8_digits_added_stays"
[ "${1-}" = all ] && vectors="precision_i8 precision_i8_values precision_i8_narrow precision_i8_narrowest precision_i8_conv precision_i8_cached precision_i16 precision_i16_cached_ring precision_i16_values precision_i16_fast types_i4_cached types_i8_cached"
[ "${1-}" = all ] && mutants=$(cd tests/mutants && printf '%s\n' {whole,types_i4_digits,types_i8_digits}_*.mutant | sed 's/\.mutant//')
# shellcheck disable=SC2086 # words
others test_vectors.sh $vectors
# shellcheck disable=SC2086
others test_mutants.sh $mutants
checked examples/tiny.layer --set precision=i8
checked examples/tiny.layer --set precision=i16
checked tests/vectors/types_i4_cached.layer
checked tests/vectors/types_i8_cached.layer
[ "$foreign" ] && AVXVNNI=avx2 others test_vectors.sh precision_i8

cd "$work" || exit 3
check "a selftest" "$ATTNRUN" selftest "$root/examples/tiny.layer" --set precision=i8
check "its pair" "$ATTNGEN" --set precision=i8 "$root/examples/tiny.layer"
# shellcheck disable=SC2086
check "compile them" $CC -std=c11 -O1 $foreign -o tiny tiny_test.c tiny.c
check "it is ok" ./tiny avxvnni
cd "$root" || exit 3

# random layers that have products of whole numbers; cc draws the other flags
if [ "${1-}" = all ]; then
    printf '#!/bin/sh\nexec %s %s "$@"\n' "$CC" "$foreign" >"$work/cc" && chmod +x "$work/cc"
    "$build/sweep" --seed "${SEED:-1}" --count "${SWEEP:-1000}" --print |
        awk '/^# layer/ { n = $3 + 0; few = 0 } /^precision = i/ { print n } /^weight_type = i[48]/ { few = 1 } /^cache = / && few { print n }' |
        sort -un >"$work/drawn"
    while read -r index; do
        check "sweep --seed ${SEED:-1} --first $index --count 1" env -u CFLAGS "$build/sweep" --seed "${SEED:-1}" --first "$index" \
            --count 1 --isa avxvnni --attnrun "$ATTNRUN" --cc "$work/cc" --keep "$build/sweep-failures"
    done <"$work/drawn"
fi
tally
