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
CC=${CC:-gcc} set=avxvnni
. tests/targets/one_set.sh

# What goes with avxvnni that is not of this machine: gcc takes the assembler from the folder.
foreign="-B $root/tests/targets/avxvnni/ -include $root/tests/targets/avxvnni/cpu.h"
[ "$(uname -m)" = x86_64 ] && has avx2 && has fma || leave_out "everything: this machine has no AVX2"
has avx_vnni && foreign=
[ "$foreign" ] && [[ $($CC --version) = *clang* ]] && leave_out "$CC has an assembler of its own"

vectors=(precision_i8 precision_i8_{values,narrow,cached} precision_i16_{values,fast} types_i{4,8}_cached)
mutants=(whole_{operands_swapped,pairs_everywhere} types_i4_digits_operands_swapped types_i8_digits_added_stays)
if [ "${1-}" = all ]; then
    vectors+=(precision_i8_{narrowest,conv} precision_i16 precision_i16_cached_ring)
    mapfile -t mutants < <(cd tests/mutants && printf '%s\n' {whole,types_i4_digits,types_i8_digits}_*.mutant |
        sed 's/\.mutant//')
fi
others test_vectors.sh "${vectors[@]}"
others test_mutants.sh "${mutants[@]}"
checked examples/tiny.layer --set precision=i8
checked examples/tiny.layer --set precision=i16
checked tests/vectors/types_i4_cached.layer
checked tests/vectors/types_i8_cached.layer
[ "$foreign" ] && AVXVNNI=avx2 others test_vectors.sh precision_i8
tested examples/tiny.layer --set precision=i8
# random layers that have products of whole numbers
[ "${1-}" = all ] && drawn '/^# layer/ { n = $3 + 0; few = 0 } /^precision = i/ { print n }
    /^weight_type = i[48]/ { few = 1 } /^cache = / && few { print n }'
tally
