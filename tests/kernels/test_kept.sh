#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# attnrun check of layers that keep their source: values in rows, in blocks and in words, folded, tied, the input itself, split,
# grouped, convolved, in blocks with feed-forwards, of every offset; each on one instruction set of this machine in turn.
# Left out on purpose: what a kept block must hold to (runtime/promises/keeping.c).
#
#   tests/kernels/test_kept.sh [all]      ATTNRUN=build/attnrun  CC=gcc  CFLAGS=-O0  JOBS=N
set -u
cd "$(dirname "$0")/../.." || exit 3
. tests/checks.sh
CFLAGS=$(quick "${CFLAGS--O0}")
export CFLAGS

# --one NUMBER ISA KEY=VALUE…: one layer
if [ "${1-}" = --one ]; then
    isa=$3 log=$work/$2.log set=()
    for key in "${@:4}"; do set+=(--set "$key"); done
    CFLAGS="$CFLAGS $(alone "$work/kept.layer" "$isa")" "$ATTNRUN" check "$work/kept.layer" "${set[@]}" --isa "$isa" >"$log" 2>&1 || fail "$isa: ${*:4}"
    grep -q ' 0 failed, 0 skipped' "$log" || fail "$isa: ${*:4}: not checked"
    echo "passed: $isa: ${*:4}"
    exit 0
fi

cat >"$work/kept.layer" <<'END'
d_model = 48
h = 6
seq_len = 9
attention = cross
source_len = 37
source_kept = true
bias = true
END
IFS=, read -ra sets <<<"$(tests/isas_here.sh)"
layers=(
    'mask=padding'
    'plan.fold=on plan.value_layout=rows mask=padding'
    'plan.fold=on plan.value_layout=blocks'
    'plan.value_layout=blocks mask=padding'
    'plan.value_layout=rows h_kv=2 mask=padding+causal'
    'w_v=identity w_k=tied scores=true plan.value_layout=blocks'
    'w_v=identity d_source=20 mask=padding plan.value_layout=rows lse=true'
    'input=split mask=padding'
    'w_o=conv mask=padding'
    'w_o=none lse=true'
    'qk_norm=rms mask=bool plan.size=small'
    'block=pre norm=rms ffn=geglu_tanh d_ff=60 mask=padding plan.batch_rows=64'
    'block=post ffn=gelu d_ff=60 mask=additive offset=past'
    'seq_len=1 source_len=1'
    'precision=i16 d_k=36 d_v=35 h_kv=2 mask=padding'
    'precision=i8 d_k=33 d_v=7 w_k=tied'
    'precision=i8 d_k=36 d_v=37 mask=bool+padding scores=true'
)
turn=0
for layer in "${layers[@]}"; do
    for isa in "${sets[@]}"; do
        # shellcheck disable=SC2086 # several keys
        if [ "${1-}" = all ] || [ "$isa" = "${sets[turn % ${#sets[@]}]}" ]; then job "$isa" $layer; fi
    done
    turn=$((turn + 1))
done
run_jobs
tally
