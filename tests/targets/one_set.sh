# SPDX-License-Identifier: MIT
# For scripts that test an instruction set on machines that lack it: sourced behind tests/checks.sh, with $set, and in
# $foreign what the compiler takes besides so that the machine seems to have it.
# shellcheck shell=bash disable=SC2086,SC2154 # $foreign and lists of names are words
log=$work/log excerpt=(tail -n 20)

has() { grep -q -m 1 "^flags.*\b$1\b" /proc/cpuinfo; }

# others SCRIPT NAME…: a script of tests/kernels for this set alone; it counts itself
others() {
    local script=$1 said
    shift
    said=$(ISAS=$set CLANG='' CC=$CC CFLAGS="-O1 $foreign" BUILD=$build "tests/kernels/$script" "$@" 2>&1)
    passed=$((passed + $(sed -n 's/^\([0-9]*\) passed.*/\1/p' <<<"$said" | tail -n 1)))
    ! grep -E "^FAILED|^skipped.*$set|^0 passed" <<<"$said" >"$log"
    result $? "$script $*: $(cat "$log")"
}

# checked SPEC OPTION…: it keeps its promises
checked() {
    CC=$CC CFLAGS="-O1 $foreign" "$ATTNRUN" check "$@" --isa "$set" --cache "$work/cache" >"$log" 2>&1 &&
        grep -q "^ok .* $set " "$log"
    result $? "attnrun check $* --isa $set: $(cat "$log")"
}

# tested SPEC OPTION…: its selftest
tested() {
    rm -rf "$work/tested" && mkdir "$work/tested"
    check "a selftest: $*" "$ATTNRUN" selftest "$@" -o "$work/tested/program.c"
    check "its pair" "$ATTNGEN" "$@" --isa "$set" -o "$work/tested"
    check "compile them" $CC -std=c11 -O1 $foreign -o "$work/tested/program" "$work"/tested/*.c
    check "it is ok" "$work/tested/program" "$set"
}

# drawn AWK: of the random layers of SEED and SWEEP those whose numbers the program prints; cc draws the other flags
drawn() {
    printf '#!/bin/sh\nexec %s %s "$@"\n' "$CC" "$foreign" >"$work/cc" && chmod +x "$work/cc"
    "$build/sweep" --seed "${SEED:-1}" --count "${SWEEP:-1000}" --print | awk "$1" | sort -un >"$work/drawn"
    while read -r index; do
        check "sweep --seed ${SEED:-1} --first $index --count 1" env -u CFLAGS "$build/sweep" --seed "${SEED:-1}" \
            --first "$index" --count 1 --isa "$set" --attnrun "$ATTNRUN" --cc "$work/cc" --keep "$build/sweep-failures"
    done <"$work/drawn"
}
