#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Eighteen random legal layers, each against the reference, and four with exact = portable: see sweep.c. `make sweep` runs thousands. And layers that
# failed once (found/), whose second line says why, and a vector whose sums wrap, with undefined behaviour as a trap;
# `# options:` are check's.
#
#   tests/kernels/test_sweep.sh      BUILD=build  CC=gcc  CLANG=clang (empty: only $CC)  SWEEP=18  SEED=1  JOBS=N
set -u
cd "$(dirname "$0")/../.." || exit 3
. tests/checks.sh
unset CFLAGS # sweep draws them

traps="-O1 -fsanitize=undefined,float-cast-overflow -fsanitize-undefined-trap-on-error"
for spec in tests/kernels/found/*.layer; do
    options=$(sed -n 's/^# options: //p' "$spec")
    CFLAGS=$traps check "$spec: $(sed -n '2s/# //p' "$spec")" "$ATTNRUN" check --quiet "$spec" --isa scalar $options
done
of=tests/vectors/precision_i16_fast
CFLAGS=$traps check "$of: intermediate sums leave 32 bits" "$ATTNRUN" run $of.layer --in $of.safetensors --isa scalar
tally
found=$?

set --
for cc in $compilers; do set -- "$@" --cc "$cc"; done
set -- --seed "${SEED:-1}" --isa "$(tests/isas_here.sh)" --jobs "$JOBS" --attnrun "$ATTNRUN" --keep "$build/sweep-failures" "$@"
"$build/sweep" --portable --count 4 "$@" || found=1
"$build/sweep" --count "${SWEEP:-18}" "$@" && exit $found
