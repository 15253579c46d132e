#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The inner loops of projections, as machine code: where AVX2's tile of 4 tokens x 3 vectors takes every register, each
# compiler keeps its twelve sums in them from turn to turn. No loop stores a vector, and each loads less than a vector a
# multiply-add, of which a core starts as many as loads. Nothing is run, so that x86-64 is enough, AVX2 or not.
# Left out on purpose: other tiles, where compilers have registers to spare and move a sum now and then (gcc 12: one loop in
# 17, without loss where turns are long); how fast it is: make bench-flat.
#
#   tests/test_loops.sh      ATTNGEN=build/attngen  COMPILERS="gcc gcc-11 gcc-12 clang clang-14 clang-19"
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
build=${BUILD:-build}
case $build in /*) ;; *) build=$root/$build ;; esac
ATTNGEN=${ATTNGEN:-$build/attngen}
case $ATTNGEN in /*) ;; *) ATTNGEN=$(pwd)/$ATTNGEN ;; esac
# shellcheck source=tests/checks.sh
. "$root/tests/checks.sh"
work=$(mktemp -d) || exit 3
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 3
log=$work/log
# shellcheck disable=SC2034 # show() reads it
shown=("$work/found" "$log")

# loops OBJECT: of each innermost loop of a projection that has twice twelve multiply-adds or more: function, address,
# multiply-adds, loads and stores of vectors, broadcasts
loops() {
    objdump -d --no-show-raw-insn "$1" | awk '
        /^[0-9a-f]+ <.*>:$/ { name = $2; count = 0; inner = -1; split("", place); next }
        !/^ *[0-9a-f]+:\t/ { next }
        {
            at = $1
            sub(":", "", at)
            line = $0
            sub(/^[^\t]*\t/, "", line)
            sub(/ *[#<].*/, "", line)
            text[++count] = line
            place[at] = count
        }
        $2 ~ /^j/ && ($3 in place) {
            start = place[$3]
            if (start <= inner) # around another loop
                next
            inner = start
            fma = loads = stores = splats = 0
            for (i = start; i <= count; i++) {
                memory = text[i] ~ /\(/ && text[i] ~ /^v/
                store = memory && text[i] ~ /^v(mov|extract).*%[xyz]mm[0-9]+,[^%]*\([^)]*\)$/
                stores += store
                loads += memory && !store
                fma += text[i] ~ /^vfmadd/
                splats += text[i] ~ /^vbroadcastss .*\(/
            }
            if (name ~ /^<(queries|output)_(last_)?avx2/ && fma >= 24 && fma % 12 == 0)
                print name, $3, fma, loads, stores, splats
        }'
}

# each loop keeps its sums, loads less than a vector a multiply-add and broadcasts for every third; and there is one
good() { awk '$5 > 0 || $4 >= $3 || 3 * $6 != $3 { bad = 1; print "not kept: " $0 } END { exit bad || NR == 0 }' "$1"; }

if [ "$(uname -m)" != x86_64 ]; then
    skip "no x86-64"
    tally
    exit
fi
if ! command -v objdump >/dev/null; then
    skip "no objdump (Debian: binutils)"
    tally
    exit
fi
layer() { # NAME D_MODEL PREFETCH
    printf '%s\n' "d_model = $2" "h = 4" "seq_len = 64" "bias = true" "plan.panel_vecs = 3" "plan.prefetch = $3" >"$1.layer"
}
layer narrow 96 off
layer odd 300 off
layer asking 768 on
layer deep 1100 on
check "attngen" "$ATTNGEN" --isa avx2 -o . narrow.layer odd.layer asking.layer deep.layer
seen=
for compiler in ${COMPILERS:-gcc gcc-11 gcc-12 clang clang-14 clang-19}; do
    if ! program=$(command -v "$compiler"); then
        skip "no $compiler" 8
        continue
    fi
    program=$(readlink -f "$program")
    case " $seen " in *" $program "*) continue ;; esac # one compiler under two names
    seen="$seen $program"
    for name in narrow odd asking deep; do
        prefix=$(echo $name | tr '[:lower:]' '[:upper:]')
        : >found
        check "$compiler compiles $name" "$compiler" -O2 -D"${prefix}_ONLY_ISA=${prefix}_ISA_AVX2" -c -o "$name.o" "$name.c"
        loops "$name.o" >found
        check "$compiler $name: sums stay in registers" good found
    done
done
tally
