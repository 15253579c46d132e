#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Runs ONNX's own tests of attention, which make_onnx.py turned into specs and tensors (README.md here), through
# `attnrun run`: each by the reference, by scalar code, compiled by tcc where it is, and by one more instruction set of this
# machine, compiled with $CC (default gcc); with "all", or a name, by every one. Left out on purpose: what is right; that is the
# operator's, and how close an answer must come is attnrun's derived bound.
#
#   tests/onnx/test_onnx.sh [all|NAME…]      BUILD=build  ATTNGEN, ATTNRUN  CC=gcc  CFLAGS=-O0  JOBS=N
set -u
cd "$(dirname "$0")/../.." || exit 3
. tests/checks.sh
[ "${1-}" = --one ] || CFLAGS=$(quick "${CFLAGS--O0}")
export CC=${CC:-gcc} CFLAGS
export XDG_CACHE_HOME="${XDG_CACHE_HOME:-$build/cache}" # of compiled kernels: many cases have one spec

# --one NUMBER WHO NAME OPTION…: one case, by the reference or by kernels
if [ "${1-}" = --one ]; then
    who=$3 name=$4 report=$work/$2.report
    [ "$who" != scalar ] || CC=tcc CFLAGS=
    [ "${5-}" != --isa ] || CFLAGS+=" $(alone "$work/$name.layer" "$6")"
    set -- "$ATTNRUN" run "$work/$name.layer" --in "$work/$name.safetensors" "${@:5}"
    if "$@" >"$report" 2>&1; then
        echo "passed: $who, $name"
    else
        echo "FAILED: $who, $name: CC='$CC' CFLAGS='$CFLAGS' $*"
        sed 's/^/    /' "$report"
        sed 's/^/        /' "$work/$name.layer"
    fi
    exit 0
fi

isas=$(tests/isas_here.sh all)

tests/onnx/unpack.sh "$work" || exit 3

every=${1-}
[ "$every" != all ] || shift
if [ $# -eq 0 ]; then
    for spec in "$work"/*.layer; do
        set -- "$@" "$(basename "$spec" .layer)"
    done
fi
for name; do
    [ -e "$work/$name.layer" ] || { echo "$name: error: no case of tests/onnx/cases.txt" >&2; exit 2; }
    job reference "$name" --reference
    if [ "$every" ] || [[ $isas != scalar,* ]] || ! command -v tcc >/dev/null; then
        job kernels "$name" --isa "$isas"
    else
        job scalar "$name" --isa scalar
        job kernels "$name" --isa "$(set_of "$work/$name.layer" "${isas#scalar,}")"
    fi
done
run_jobs
tally
