#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The avx512 kernels on machines that lack AVX-512: built from portable versions of the intrinsics (avx512_emulated.h, by
# SIMDe), run on vectors through `attnrun run`, with weights folded too, and through `attnrun check`. Where the machine has
# AVX-512, the other tests run them natively and this one takes two vectors, for the emulation's own sake.
#
#   tests/targets/test_avx512.sh [NAME…|all]      ATTNRUN=build/attnrun  CC=gcc  JOBS=N
set -u
cd "$(dirname "$0")/../.." || exit 3
. tests/checks.sh
export CC=${CC:-gcc}

# --one NUMBER NAME OPTION…: a vector through `attnrun run`, or an example through `attnrun check`
if [ "${1-}" = --one ]; then
    name=$3 report=$work/$2.report
    shift 3
    spec=$root/tests/vectors/$name.layer
    if [ -e "$spec" ]; then
        set -- run "$spec" --in "${spec%.layer}.safetensors" "$@"
    else
        set -- check "$root/examples/$name.layer" "$@"
    fi
    if "$ATTNRUN" "$@" --isa avx512 --cache "$work/cache" >"$report" 2>&1 && ! grep -q 'skipped,' "$report"; then
        echo "passed: $name"
    else
        echo "FAILED: CFLAGS='$CFLAGS' attnrun $* --isa avx512"
        sed 's/^/    /' "$report"
    fi
    exit 0
fi

[ "$(uname -m)" = x86_64 ] || leave_out "the emulation is written for x86-64"
echo '#include <simde/x86/avx512.h>' | $CC -E - >/dev/null 2>&1 ||
    leave_out "there is no simde/x86/avx512.h (Debian: libsimde-dev)"
flags=-O1
grep -q ' fma .* avx2 ' /proc/cpuinfo && flags="-O1 -mavx2 -mfma" # makes the emulation faster, no more
export CFLAGS="$flags -include $root/tests/targets/avx512_emulated.h"

folds=
if [ "${1-}" = all ]; then
    folds=yes # each once more, with weights folded whether it pays or not
    # shellcheck disable=SC2046 # words
    set -- $(for spec in "$root"/tests/vectors/*.layer; do basename "$spec" .layer; done) tiny kws grouped window conv_merge \
        split decoder_cross
elif [ $# -eq 0 ] && grep -q ' avx512f ' /proc/cpuinfo; then
    set -- window_both_no_self kinds/expression_words precision_bf16
elif [ $# -eq 0 ]; then
    set -- every_mask later_scores_masked nonfinite_hidden_by_additive grouped_cross conv_padding split_conv tied_identity \
        wide_causal_padding short_call_cross tiny kinds/expression_words kinds/d_03 precision_bf16
fi
for name; do
    job "$name"
    [ "$folds" ] && [ -e "$root/tests/vectors/$name.layer" ] && [ "$name" != nonfinite_seen ] && job "$name" --set plan.fold=on
done
run_jobs
tally
