#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Cosines and sines of rotary positions, as emitted files compute them, are within an ulp of the exact ones, for every
# scaling, drawn positions up to 2^20 and the ends of int32; frequencies are those of 300 bits (turns.txt, made by
# make_turns.py). Left out on purpose: how rows are turned by them, which attnrun check sees.
#
#   tests/turns/test_turns.sh      ATTNGEN=build/attngen  CC=gcc
set -u
cd "$(dirname "$0")/../.." || exit 3
build=${BUILD:-build}
case $build in /*) ;; *) build=$PWD/$build ;; esac
ATTNGEN=${ATTNGEN:-$build/attngen}
. tests/checks.sh
work=$(mktemp -d) || exit 3
trap 'rm -rf "$work"' EXIT
# shellcheck disable=SC2034 # check() reads it
log=$work/log

number=0
compare() { # KEY=VALUE…: with the lines of $work/lines
    local keys=("$@") name=turns_$number interleaved=0
    case " $* " in *" rope=interleaved "*) interleaved=1 ;; esac
    case " $* " in *" d_k="*) ;; *) keys+=("d_k=${!##*=}") ;; esac
    printf '%s\n' name=$name d_model=4 h=1 seq_len=3 "${keys[@]}" >"$work/$name.layer"
    "$ATTNGEN" -o "$work" "$work/$name.layer" || return 1
    "${CC:-gcc}" -std=c11 -O1 -w "-DTURNS_OF=\"$work/$name.c\"" -DINTERLEAVED=$interleaved \
        -D"${name^^}_ONLY_ISA=${name^^}_ISA_SCALAR" -o "$work/turns" tests/turns/turns.c -lm &&
        "$work/turns" <"$work/lines"
}
finish() {
    [ -n "${keys-}" ] || return
    number=$((number + 1))
    # shellcheck disable=SC2086 # words
    check "$keys" compare $keys
    [ -z "${VERBOSE-}" ] || cat "$work/log"
}
while read -r word rest; do
    if [ "$word" = layer ]; then
        finish
        keys=$rest
        : >"$work/lines"
    else
        echo "$word $rest" >>"$work/lines"
    fi
done <tests/turns/turns.txt
finish
check "there are layers" test $number -ge 9
tally
