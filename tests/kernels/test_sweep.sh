#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Sixty random legal layers, each against the reference: see sweep.c. `make sweep` runs thousands.
#
#   tests/kernels/test_sweep.sh      BUILD=build  CC=gcc  CLANG=clang (empty: only $CC)  SWEEP=60  SEED=1  JOBS=N

set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${BUILD:-build}
case $build in /*) ;; *) build=$root/$build ;; esac
ATTNRUN=${ATTNRUN:-$build/attnrun}
case $ATTNRUN in /*) ;; *) ATTNRUN=$(pwd)/$ATTNRUN ;; esac
if [ ! -x "$build/sweep" ] || [ ! -x "$ATTNRUN" ]; then
    echo "$build/sweep or $ATTNRUN: error: not there; build them with make sweep SWEEP=1" >&2
    exit 3
fi
unset CFLAGS # sweep draws them

JOBS=${JOBS:-$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)}
set -- --seed "${SEED:-1}" --count "${SWEEP:-60}" --isa "$("$root/tests/isas_here.sh")" --jobs "$JOBS" --attnrun "$ATTNRUN" --keep "$build/sweep-failures" --cc "${CC:-gcc}"
if [ -n "${CLANG-clang}" ] && command -v "${CLANG-clang}" >/dev/null 2>&1; then
    set -- "$@" --cc "${CLANG-clang}"
fi
exec "$build/sweep" "$@"
