#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The emitted pair by compilers old and new, at every level, in their own dialect and three standards, with and without LTO:
# no warning, and the instruction sets of the machine right and true to their promises, as attnrun check sees it. Parts of
# -ffast-math are refused, or, where clang tells of them by no macro, do no harm; flush-to-zero modes do none either. Scalar
# code has the same bits where floats are carried in a wider format (x87). tcc gets the scalar kernel.
# valgrind finds no use of what was never written, nor any access outside. Left out on purpose: what test_emitted.sh asks of
# one gcc and one clang: symbols, headers as C++, sanitizers.
#
#   tests/targets/test_compilers.sh      a sample: each compiler at each level once; standards, LTO, instruction sets in turn
#   tests/targets/test_compilers.sh all  everything with everything; `make test-compilers`
#                                ATTNGEN, ATTNRUN  COMPILERS="gcc-11 gcc-12 clang-14 clang-19"  JOBS=N
set -u
cd "$(dirname "$0")/../.." || exit 3
. tests/checks.sh
strict=${strict#* } # without the standard

# ---- one job ----

# attnrun check SPEC OPTION… with a compiler and flags
check() { # COMPILER FLAGS SPEC SIZE[/ISA]
    local isa=() only=
    [[ $4 = */* ]] && isa=(--isa "${4#*/}") only=$(alone "$root/$3.layer" "${4#*/}")
    (ulimit -v 8000000 && env CC="$1" CFLAGS="$2 $only" "$ATTNRUN" check "$root/$3.layer" --set plan.size="${4%/*}" \
        ${isa[@]+"${isa[@]}"} --cache "$work/cache") >"$log" 2>&1 &&
        grep -q '^ok' "$log"
}

one_check() { check "$1" "$4 $strict" "$2" "$3"; }

one_plain() { check "$1" "$4" "$2" "$3"; }

# Scalar y is the same, bit for bit, as without the flags.
one_bits() {
    emit "$2" "$3" --isa scalar >"$log" 2>&1 && driver "$1" "$2" -DALONE -O1 -std=c11 && "$place/driver" >"$place.expected" &&
        driver "$1" "$2" -DALONE "$4" && "$place/driver" >"$log" 2>&1 && grep -q '^scalar ' "$log" && cmp "$place.expected" "$log"
}

# tcc has no intrinsics: scalar, and no other
one_scalar() { check "$1" "$4" "$2" "$3" && [ "$(grep -c '^ok' "$log")" -eq 1 ] && grep -q '^ok.* scalar ' "$log"; }

emit() { # SPEC SIZE OPTION…
    mkdir "$place" && "$ATTNGEN" --size "$2" --shim -o "$place" "$root/$1.layer" ${3:+"$3" "$4"}
}

# The program that tests/kernels/emitted_driver.c makes of the pair
driver() { # COMPILER SPEC FLAG…
    compiler=$1 name=$(basename "$2")
    shift 2
    # shellcheck disable=SC2048,SC2086 # flags are words
    "$compiler" $* -I"$place" -DNAME="$name" -DPREFIX="$(echo "$name" | tr '[:lower:]' '[:upper:]')" \
        -DHEADER="\"$name.h\"" -o "$place/driver" "$root/tests/kernels/emitted_driver.c" "$place/$name.c" \
        "$place/${name}_shim.c" >"$log" 2>&1
}

one_refused() {
    name=$(basename "$2")
    emit "$2" "$3" >"$log" 2>&1 || return
    # shellcheck disable=SC2086 # flags are words
    ! "$1" -std=c11 $4 -fsyntax-only "$place/$name.c" >"$log" 2>&1 && grep -q 'needs IEEE arithmetic' "$log"
}

one_valgrind() {
    emit "$2" "$3" --isa scalar,avx2 >"$log" 2>&1 && driver "$1" "$2" -DALONE -std=c11 "$4" &&
        valgrind -q --error-exitcode=9 --track-origins=yes "$place/driver" >"$log" 2>&1 && grep -q '^scalar ' "$log"
}

if [ "${1-}" = --one ]; then
    kind=$3 compiler=$4 spec=$5 size=$6 place=$work/$2 log=$work/$2.log
    shift 6
    if "one_$kind" "$compiler" "$spec" "$size" "$*"; then
        echo "passed: $kind by $compiler"
    else
        echo "FAILED: $kind $compiler: $spec --size $size, flags $*"
        tail -n 12 "$log" | sed 's/^/    /'
    fi
    rm -rf "$place"
    exit 0
fi

# ---- which jobs ----

turn=0 part=0
IFS=, read -ra sets <<<"$(tests/isas_here.sh)"
# What follows lists jobs: KIND COMPILER SPEC SIZE FLAGS
is_here() { command -v "$1" >/dev/null 2>&1 || { skip "$1: it is not installed here (make deps-test)"; return 1; }; }

# Whether the compiler takes the flag and makes shared objects with it.
makes() { # COMPILER FLAG
    echo 'int one(void); int one(void) { return 1; }' >"$work/probe.c"
    "$1" "$2" -fPIC -shared -o "$work/probe.so" "$work/probe.c" >/dev/null 2>&1
}

matrix() { # COMPILER
    lto=
    makes "$1" -flto && lto=-flto || skip "$1 -flto: it makes no shared object so here"
    job check "$1" tests/kernels/found/tensors_of_whole_vectors fast/scalar -O1
    for level in -O0 -O1 -O2 -O3 -Os; do
        if [ "$all" ]; then
            for dialect in '' -std=c11 -std=c17 -std=c2x; do
                for link in -fno-lto $lto; do
                    job check "$1" examples/tiny fast $level $dialect $link
                    job check "$1" tests/vectors/every_mask fast $level $dialect $link
                    job check "$1" tests/vectors/conv_cross_padding small $level $dialect $link
                done
            done
        else
            turn=$((turn + 1))
            case $(((turn + turn / 4) % 4)) in # each level meets another one by each compiler
            0) dialect= ;;
            1) dialect=-std=c11 ;;
            2) dialect=-std=c17 ;;
            3) dialect=-std=c2x ;;
            esac
            link=-fno-lto isa=${sets[(turn + turn / 4) % ${#sets[@]}]}
            [ $((turn % 2)) -eq 0 ] && link=${lto:--fno-lto}
            if [ $((turn % 4)) -lt 2 ]; then
                job check "$1" examples/tiny "fast/$isa" $level $dialect $link
            else
                job check "$1" tests/vectors/every_mask "small/$isa" $level $dialect $link
            fi
        fi
    done
}

# gcc tells of every part by a macro; clang 14 only of all of them and of -ffinite-math-only, and has a pragma for the rest.
fast_math() { # COMPILER
    for flags in -ffast-math -Ofast -ffinite-math-only; do
        job refused "$1" examples/tiny fast $flags
    done
    for flags in -funsafe-math-optimizations "-fassociative-math -fno-signed-zeros -fno-trapping-math"; do
        case $1 in
        *clang*)
            part=$((part + 1))
            if [ "$all" ] || [ $((part % 4)) -lt 2 ]; then # one has the first, the next the second
                job plain "$1" tests/vectors/every_mask fast -O2 $flags
            fi ;;
        *) job refused "$1" examples/tiny fast -O2 $flags ;;
        esac
    done
}

# Floats in x87 registers, which are wider: gcc's own dialect lets them stay so. clang has that choice on i686 alone, which
# test_targets.sh has.
x87() { # COMPILER
    case $1 in *clang*) return ;; esac
    makes "$1" -mfpmath=387 || { skip "$1 -mfpmath=387: not an x86 machine"; return; }
    job check "$1" tests/vectors/every_mask small -O2 -mfpmath=387
    job bits "$1" examples/tiny fast -O2 -mfpmath=387
    if [ "$all" ]; then
        for spec in examples/tiny tests/vectors/every_mask tests/vectors/conv_cross_padding; do
            for flags in -O0 -O3 "-O2 -std=c11" "-O2 -mfma"; do
                job bits "$1" $spec small $flags -mfpmath=387
            done
            job bits "$1" $spec fast -O2 -mfpmath=both
        done
    fi
}

all=
[ "${1-}" = all ] && all=-O2
for cc in ${COMPILERS:-gcc-11 gcc-12 clang-14 clang-19}; do
    is_here "$cc" || continue
    matrix "$cc"
    fast_math "$cc"
    x87 "$cc"
done

cc=${CC:-gcc}
echo '#include <immintrin.h>' >"$work/probe.c"
if "$cc" -fsyntax-only "$work/probe.c" >/dev/null 2>&1; then
    job plain "$cc" tests/vectors/every_mask fast ${all:--O0} "$root/tests/kernels/flush_to_zero.c"
    job plain "$cc" tests/vectors/every_mask small ${all:--O0} "$root/tests/kernels/flush_to_zero.c"
    job plain "$cc" tests/vectors/conv_cross_padding fast ${all:--O0} "$root/tests/kernels/flush_to_zero.c"
else
    skip "flush-to-zero: not an x86 machine"
fi
if is_here tcc; then
    job scalar tcc examples/tiny fast
    job scalar tcc tests/vectors/every_mask small
    job scalar tcc tests/vectors/conv_cross_padding fast
fi
if is_here valgrind; then
    for spec in examples/tiny tests/vectors/every_mask tests/vectors/conv_cross_padding; do
        job valgrind "$cc" $spec fast -O1 -g
    done
    job valgrind "$cc" tests/vectors/every_mask small -O1 -g
fi

run_jobs
sed -n 's/^passed: //p' "$work/all" | sort | uniq -c | awk '{ printf "%4d passed: %s %s %s\n", $1, $2, $3, $4 }'
tally
