#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The inner loops of AVX2's register tiles, as machine code: each compiler keeps their accumulators, up to fourteen of
# sixteen registers, in registers from iteration to iteration. No loop stores a vector. Where a row has two vectors or
# more, a loop has fewer loads than multiply-adds, since a core starts as many of one as of the other. Nothing is run,
# so any x86-64 will do, AVX2 or not. How fast the loops are: make bench-flat.
#
#   tests/kernels/test_loops.sh      ATTNGEN=build/attngen  COMPILERS="gcc gcc-11 gcc-12 clang clang-14 clang-19"
set -u
cd "$(dirname "$0")/../.." || exit 3
. tests/checks.sh
cd "$work" || exit 3
log=$work/log
# shellcheck disable=SC2034 # show() reads it
shown=("$work/found" "$log")

# loops OBJECT: of each innermost loop of a tile that has twelve multiply-adds or more, as many to each broadcast: function,
# address, multiply-adds, loads and stores of vectors, broadcasts
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
            fma = loads = stores = splats = begins = 0
            for (i = start; i <= count; i++) {
                memory = text[i] ~ /\(/ && text[i] ~ /^v/
                store = memory && text[i] ~ /^v(mov|extract).*%[xyz]mm[0-9]+,[^%]*\([^)]*\)$/
                stores += store
                loads += memory && !store
                fma += text[i] ~ /^vfmadd/
                begins += text[i] ~ /^v?p?xor/ # a sum: a loop around a whole tile
                splats += text[i] ~ /^vbroadcastss .*\(/ && text[i] !~ /%rip/ # a constant is no operand of a tile
            }
            if (name ~ /dots_[2-9].*avx2/ && fma >= 12 && !begins) # of several rows behind a cache
                print name, $3, fma, loads, stores, fma / 2
            if (name ~ /avx2/ && fma >= 12 && !begins && splats && fma % splats == 0)
                print name, $3, fma, loads, stores, splats
        }'
}

# each loop keeps its sums, and loads less than a vector a multiply-add; there are tiles of one, two and three vectors a row
good() {
    awk '{ vecs = $3 / $6; seen[vecs] = 1 }
        $5 > 0 || (vecs > 1 && $4 >= $3) { bad = 1; print "not kept: " $0 }
        END { exit bad || !seen[1] || !seen[2] || !seen[3] }' "$1"
}

# of scores of several rows behind a cache: keys are loaded once for all rows of a tile
held() {
    awk '$1 ~ /dots_/ { seen = 1; if ($4 >= $3) { bad = 1; print "not held: " $0 } } END { exit bad || !seen }' "$1"
}

# of a recurrence in chunks: sums of a piece's rows have a function of their own, and stay in registers
summed() {
    awk '$1 ~ /sums_rule/ { seen = 1; if ($5 > 0) { bad = 1; print "not kept: " $0 } } END { exit bad || !seen }' "$1"
}

[ "$(uname -m)" = x86_64 ] || leave_out "no x86-64"
command -v objdump >/dev/null || leave_out "no objdump (Debian: binutils)"
layer() { # NAME LINE…
    printf '%s\n' "h = 4" "bias = true" "plan.panel_vecs = 3" "${@:2}" >"$1.layer"
}
layer narrow d_model=96 seq_len=64
layer odd d_model=300 seq_len=61 mask=causal
layer deep d_model=1100 seq_len=100 mask=padding+causal plan.prefetch=on
layer steps d_model=512 h_kv=1 seq_len=8 mask=causal cache=rows cache_len=256
printf '%s\n' "layer = recurrent" "rule = gated_delta" "input = projected" "h = 4" "d_k = 96" "d_v = 96" "seq_len = 512" \
    >chunks.layer
check "attngen" "$ATTNGEN" --isa avx2 -o . narrow.layer odd.layer deep.layer steps.layer chunks.layer
seen=
for compiler in ${COMPILERS:-gcc gcc-11 gcc-12 clang clang-14 clang-19}; do
    if ! program=$(command -v "$compiler"); then
        case $compiler in clang*) skip "no $compiler" 6 ;; *) skip "no $compiler" 20 ;; esac
        continue
    fi
    program=$(readlink -f "$program")
    case " $seen " in *" $program "*) continue ;; esac # one compiler under two names
    seen="$seen $program"
    for name in narrow odd deep steps chunks; do
        case $name in steps) of=held ;; chunks) of=summed ;; *) of=good ;; esac
        prefix=$(echo $name | tr '[:lower:]' '[:upper:]')
        for flags in -O2 "-O2 -march=haswell"; do
            case $compiler$flags$name in clang*march* | clang*steps | clang*chunks) continue ;; esac # as without; inlined
            : >found
            # shellcheck disable=SC2086 # words
            check "$compiler $flags compiles $name" "$compiler" $flags -D"${prefix}_ONLY_ISA=${prefix}_ISA_AVX2" -c \
                -o "$name.o" "$name.c"
            loops "$name.o" >found
            check "$compiler $flags $name: sums, or keys, stay in registers" $of found
        done
    done
done
tally
