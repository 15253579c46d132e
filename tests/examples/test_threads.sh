#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# examples/threads: it builds, with OpenMP and without, its drivers give the same bits for any number of workers, and it
# notices when they do not. Left out on purpose: times, which depend on what else the machine does.
#
#   tests/examples/test_threads.sh      ATTNGEN=build/attngen  CC=gcc  CLANG=clang
set -u
cd "$(dirname "$0")/../.." || exit 3
. tests/checks.sh
log=$work/log excerpt=(head -n 20)

# links COMPILER FLAG: whether a program with that flag can be built and run here
links() {
    echo 'int main(void) { return 0; }' >"$work/probe.c"
    "$@" -o "$work/probe" "$work/probe.c" 2>/dev/null && "$work/probe"
}

# build OUT VARIABLE=VALUE…: the Makefile's programs; small layers, as it is about bits
build() {
    local out=$1
    shift
    make -s -C examples/threads ATTNGEN="$ATTNGEN" OUT="$work/$out" CFLAGS="-O0 -Wpedantic -Werror" "$@"
}

says() { "$1" "${@:3}" >"$work/said" 2>&1 && grep -q "$2" "$work/said" || { cat "$work/said"; return 1; }; }

cc=${CC:-gcc} small='SET=--isa avx2 --set seq_len=150 --set d_model=96'
openmp=-fopenmp drivers="plain loop, pthreads, OpenMP"
if ! links "$cc" -fopenmp; then
    openmp='' drivers="plain loop, pthreads"
    skip "OpenMP: $cc cannot build such programs here"
fi
check "it builds with $cc" build first CC="$cc" OPENMP="$openmp" "$small"
for layer in bert_base gpt2; do
    check "$layer: the same bits" says "$work/first/$layer/threads" \
        "^$layer: the same bits from $drivers with 1, 2, 3, 7 and 16 workers\$" 0
done
check "times are printed" says "$work/first/bert_base/threads" '^pthreads .*[0-9]x$' 1
check "no such number of rounds" eval '! "$work/first/bert_base/threads" 1001'
if command -v taskset >/dev/null; then
    check "on one core" says taskset 'the same bits' -c "$(taskset -cp $$ | sed 's/.*: *\([0-9]*\).*/\1/')" \
        "$work/first/bert_base/threads" 0
else
    skip "on one core: there is no taskset"
fi

# a pair whose parts do not make the whole
layer=$work/first/bert_base/layer.c
sed -i '/^size_t layer_parts/,/^}/s|    return of.kernel->parts(\(.*\));|    return of.kernel->parts(\1) / 2;|' "$layer"
check "the edit fits" grep -q '^    return of.kernel->parts(.*) / 2;$' "$layer"
check "it builds" build first CC="$cc" OPENMP="$openmp" "$small"
check "other bits are noticed" \
    eval '! "$work/first/bert_base/threads" 0 2>"$work/said" && grep -q "other bits" "$work/said"'

clang=${CLANG-clang}
if ! command -v "$clang" >/dev/null; then
    skip "clang: it is not here"
elif [ "$cc" != "$clang" ]; then
    openmp=-fopenmp
    links "$clang" -fopenmp || { openmp=''; skip "OpenMP with $clang: it cannot build such programs here"; }
    check "it builds with $clang" build second CC="$clang" OPENMP="$openmp" "$small"
    check "the same bits with $clang" says "$work/second/gpt2/threads" 'the same bits' 0
fi

# OpenMP's own barriers are not known to ThreadSanitizer
if links "$cc" -fsanitize=thread; then
    check "it builds for ThreadSanitizer, without OpenMP" build third CC="$cc" OPENMP='-fsanitize=thread -g' \
        SET='--isa scalar --set seq_len=40 --set d_model=96'
    check "ThreadSanitizer has nothing to say" says "$work/third/gpt2/threads" 'from plain loop, pthreads with' 0
else
    skip "ThreadSanitizer: $cc cannot build such programs here"
fi

tally
