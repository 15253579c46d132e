#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The kernels of amx, on machines with AVX-512 and VNNI: natively where the CPU has AMX, elsewhere with its tile registers
# emulated (amx/amx.h). Layers whose sums are of whole rows of a register and of others, a selftest, vectors, mutants;
# with "all" more of them, and random layers.
#
#   tests/targets/test_amx.sh [all]      ATTNRUN=build/attnrun  CC=gcc  BUILD=build  JOBS=N
set -u
cd "$(dirname "$0")/../.." || exit 3
. tests/checks.sh
CC=${CC:-gcc} set=amx
. tests/targets/one_set.sh

foreign="-include $root/tests/targets/amx/amx.h"
[ "$(uname -m)" = x86_64 ] && has avx512_vnni && has avx512dq || leave_out "everything: this machine has no AVX-512 with VNNI"
has amx_int8 && foreign=

others test_mutants.sh tiles_{row_lost,rest_lost,scale_of_first_row,column_shifted}
others test_vectors.sh precision_i8{,_tiles}
checked examples/kws.layer --set precision=i8
# 38 words: two of a register's rows, and six; 50 rows: three registers, and two; 150 and 200 columns
checked examples/kws.layer --set precision=i8 --set d_model=150 --set h=3 --set seq_len=50 --set bias=true \
    --set block=pre --set ffn=gelu --set d_ff=200
tested examples/kws.layer --set precision=i8 --set d_model=150 --set h=3 --set seq_len=50
if [ "${1-}" = all ]; then
    others test_vectors.sh precision_i8_{values,narrow,narrowest,conv,cached}
    for spec in minilm vit_b16 grouped window decoder_cross conv_merge split; do
        checked "examples/$spec.layer" --set precision=i8
    done
    checked examples/conv_merge.layer --set precision=i8 --set d_k=132 --set d_v=132 # a register's columns for each tap
    drawn '/^# layer/ { n = $3 + 0 } /^precision = i8/ { print n }'
fi
tally
