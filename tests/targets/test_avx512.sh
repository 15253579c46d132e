#!/bin/sh
# SPDX-License-Identifier: MIT
# The avx512 kernels on machines that lack AVX-512: built from portable versions of the intrinsics (avx512_emulated.h, by
# SIMDe), run on vectors through `attnrun run`, with weights folded too, and through `attnrun check`. Where the machine has
# AVX-512, the other tests run them natively and this one takes a single vector, for the emulation's own sake.
#
#   tests/targets/test_avx512.sh [NAME…|all]      ATTNRUN=build/attnrun  CC=gcc  JOBS=N

root=$(cd "$(dirname "$0")/../.." && pwd)
build=${BUILD:-build}
case $build in /*) ;; *) build=$root/$build ;; esac
ATTNRUN=${ATTNRUN:-$build/attnrun}
CC=${CC:-gcc}
JOBS=${JOBS:-$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)}

# job NAME HOW…: a vector through `attnrun run`, or an example through `attnrun check`
if [ "$1" = --one ]; then
    name=$2
    shift 2
    spec=$root/tests/vectors/$name.layer
    if [ -e "$spec" ]; then
        set -- run "$spec" --in "${spec%.layer}.safetensors" "$@"
    else
        set -- check "$root/examples/$name.layer" "$@"
    fi
    log=$(mktemp "$results/XXXXXX")
    if "$ATTNRUN" "$@" --isa avx512 --cache "$results/cache" >"$log" 2>&1 && ! grep -q 'skipped,' "$log"; then
        : >"$log.passed"
    else
        { echo "FAILED ($?): CFLAGS='$CFLAGS' attnrun $* --isa avx512"; sed 's/^/    /' "$log"; } >"$log.failed"
    fi
    exit 0
fi

if [ ! -x "$ATTNRUN" ]; then
    echo "$ATTNRUN: error: not there; build it with make, or name it in ATTNRUN" >&2
    exit 3
fi
results=$(mktemp -d) || exit 3
trap 'rm -rf "$results"' EXIT
trap 'exit 3' HUP INT TERM

case $(uname -m) in
x86_64) ;;
*) echo "skipped: the emulation is written for x86-64"; echo "0 passed, 0 failed, 1 skipped"; exit 0 ;;
esac
if ! echo '#include <simde/x86/avx512.h>' | $CC -E - >/dev/null 2>&1; then
    echo "skipped: there is no simde/x86/avx512.h (Debian: libsimde-dev)"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi
flags=-O1
grep -q ' fma .* avx2 ' /proc/cpuinfo && flags="-O1 -mavx2 -mfma" # makes the emulation faster, no more

all=$(for spec in "$root"/tests/vectors/*.layer; do basename "$spec" .layer; done)
folds=
if [ "$1" = all ]; then
    folds=yes # each once more, with weights folded whether it pays or not
    set -- $all tiny kws grouped window conv_merge split decoder_cross
elif [ $# -eq 0 ] && grep -q ' avx512f ' /proc/cpuinfo; then
    set -- window_both_no_self
elif [ $# -eq 0 ]; then
    set -- every_mask later_scores_masked nonfinite_hidden_by_additive grouped_cross conv_padding split_conv tied_identity \
        wide_causal_padding short_call_cross tiny
fi

export ATTNRUN CC results
CFLAGS="$flags -include $root/tests/targets/avx512_emulated.h"
export CFLAGS
jobs=$(for name in "$@"; do
    echo "$name"
    [ -n "$folds" ] && [ -e "$root/tests/vectors/$name.layer" ] && [ "$name" != nonfinite_seen ] && echo "$name --set plan.fold=on"
done)
count=$(echo "$jobs" | wc -l)
# shellcheck disable=SC2016 # the inner shell parts the words
echo "$jobs" | xargs -P "$JOBS" -I '{}' sh -c '"$0" --one $1' "$0" '{}'
cat "$results"/*.failed 2>/dev/null
passed=$(find "$results" -name '*.passed' | wc -l)
echo "$passed passed, $((count - passed)) failed"
[ "$passed" -eq "$count" ]
