#!/bin/sh
# SPDX-License-Identifier: MIT
# The emitted pair by compilers old and new, at every level, as three standards, with and without LTO: no warning, and every
# instruction set of the machine right and true to its promises, as attnrun check sees it. Parts of -ffast-math are refused,
# or, where clang tells of them by no macro, do no harm; flush-to-zero modes do none either. tcc gets the scalar kernel.
# valgrind finds no use of what was never written, nor any access outside. Left out on purpose: what test_emitted.sh asks of
# one gcc and one clang: symbols, headers as C++, sanitizers.
#
#   tests/test_compilers.sh      a sample: each compiler at each level once, standards and LTO in turn
#   tests/test_compilers.sh all  everything with everything; `make test-compilers`
#                                ATTNGEN, ATTNRUN  COMPILERS="gcc-11 gcc-12 clang-14 clang-19"  JOBS=N

root=$(cd "$(dirname "$0")/.." && pwd)
build=${BUILD:-build}
case $build in /*) ;; *) build=$root/$build ;; esac
ATTNGEN=${ATTNGEN:-$build/attngen}
case $ATTNGEN in /*) ;; *) ATTNGEN=$(pwd)/$ATTNGEN ;; esac
ATTNRUN=${ATTNRUN:-$build/attnrun}
case $ATTNRUN in /*) ;; *) ATTNRUN=$(pwd)/$ATTNRUN ;; esac
JOBS=${JOBS:-$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)}
self=$0
strict="-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror"

# ---- one job: its verdict goes to a file, as several run at once ----

# attnrun check SPEC OPTION… with a compiler and flags
check() { # COMPILER FLAGS SPEC SIZE
    env CC="$1" CFLAGS="$2" "$ATTNRUN" check "$root/$3.layer" --set plan.size="$4" --cache "$work/cache" >"$log" 2>&1 &&
        grep -q '^ok' "$log"
}

one_check() { check "$1" "$4 $strict" "$2" "$3"; }

one_plain() { check "$1" "$4" "$2" "$3"; }

# tcc has no intrinsics: scalar, and no other
one_scalar() { check "$1" "$4" "$2" "$3" && [ "$(grep -c '^ok' "$log")" -eq 1 ] && grep -q '^ok.* scalar ' "$log"; }

emit() { mkdir "$place" && "$ATTNGEN" --size "$2" -o "$place" "$root/$1.layer"; }

one_refused() {
    name=$(basename "$2")
    emit "$2" "$3" >"$log" 2>&1 || return
    # shellcheck disable=SC2086 # flags are words
    ! "$1" -std=c11 $4 -fsyntax-only "$place/$name.c" >"$log" 2>&1 && grep -q 'needs IEEE arithmetic' "$log"
}

# The program that tests/emitted_driver.c makes of the pair
one_valgrind() {
    name=$(basename "$2") prefix=$(basename "$2" | tr '[:lower:]' '[:upper:]')
    # shellcheck disable=SC2086
    emit "$2" "$3" >"$log" 2>&1 &&
        "$1" -std=c11 $4 -I"$place" -DALONE -DNAME="$name" -DPREFIX="$prefix" -DHEADER="\"$name.h\"" -o "$place/driver" \
            "$root/tests/emitted_driver.c" "$place/$name.c" >"$log" 2>&1 &&
        valgrind -q --error-exitcode=9 --track-origins=yes "$place/driver" >"$log" 2>&1 && grep -q '^scalar ' "$log"
}

if [ "$1" = --one ]; then
    number=$2 kind=$3 compiler=$4 spec=$5 size=$6
    shift 6
    place=$work/$number
    log=$place.log
    if "one_$kind" "$compiler" "$spec" "$size" "$*"; then
        echo "passed $kind $compiler" >"$place.result"
    else
        {
            echo "FAILED $kind $compiler: $spec --size $size, flags $*"
            tail -n 12 "$log" | sed 's/^/    /'
        } >"$place.result"
    fi
    rm -rf "$place"
    exit 0
fi

# ---- which jobs ----

for program in "$ATTNGEN" "$ATTNRUN"; do
    if [ ! -x "$program" ]; then
        echo "$program: error: not there; build it with make, or name it in ATTNGEN, ATTNRUN" >&2
        exit 3
    fi
done
work=$(mktemp -d) || exit 3
trap 'rm -rf "$work"' EXIT
trap 'exit 3' HUP INT TERM
number=0
skipped=0
turn=0
: >"$work/jobs"
job() { # KIND COMPILER SPEC SIZE FLAGS
    number=$((number + 1))
    echo "$number $*" >>"$work/jobs"
}
skip() {
    skipped=$((skipped + 1))
    echo "skipped: $*"
}
is_here() { command -v "$1" >/dev/null 2>&1 || { skip "$1: it is not installed here (make deps-test)"; return 1; }; }

# Whether the compiler takes the flag and makes shared objects with it.
makes() { # COMPILER FLAG
    echo 'int one(void); int one(void) { return 1; }' >"$work/probe.c"
    "$1" "$2" -fPIC -shared -o "$work/probe.so" "$work/probe.c" >/dev/null 2>&1
}

matrix() { # COMPILER
    lto=
    makes "$1" -flto && lto=-flto || skip "$1 -flto: it makes no shared object so here"
    for level in -O0 -O2 -O3 -Os; do
        if [ "$all" ]; then
            for standard in c11 c17 c2x; do
                for link in -fno-lto $lto; do
                    job check "$1" examples/tiny fast $level -std=$standard $link
                    job check "$1" tests/vectors/every_mask fast $level -std=$standard $link
                    job check "$1" tests/vectors/conv_cross_padding small $level -std=$standard $link
                done
            done
        else
            turn=$((turn + 1))
            # shellcheck disable=SC2086 # words
            set -- "$1" c11 c17 c2x
            shift_by=$((turn % 3 + 2))
            eval "standard=\${$shift_by}"
            link=-fno-lto
            [ $((turn % 2)) -eq 0 ] && link=${lto:--fno-lto}
            if [ $((turn % 4)) -lt 2 ]; then
                job check "$1" examples/tiny fast $level -std=$standard $link
            else
                job check "$1" tests/vectors/every_mask small $level -std=$standard $link
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
        *clang*) job plain "$1" tests/vectors/every_mask fast -O2 $flags ;;
        *) job refused "$1" examples/tiny fast -O2 $flags ;;
        esac
    done
}

all=
[ "$1" = all ] && all=yes
for cc in ${COMPILERS:-gcc-11 gcc-12 clang-14 clang-19}; do
    is_here "$cc" || continue
    matrix "$cc"
    fast_math "$cc"
done

cc=${CC:-gcc}
echo '#include <immintrin.h>' >"$work/probe.c"
if "$cc" -fsyntax-only "$work/probe.c" >/dev/null 2>&1; then
    job plain "$cc" tests/vectors/every_mask fast "$root/tests/flush_to_zero.c"
    job plain "$cc" tests/vectors/every_mask small "$root/tests/flush_to_zero.c"
    job plain "$cc" tests/vectors/conv_cross_padding fast "$root/tests/flush_to_zero.c"
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

export work ATTNGEN root strict
xargs -r -P "$JOBS" -L 1 "$self" --one <"$work/jobs" || exit 3
cat "$work"/*.result >"$work/all"
grep -v '^passed' "$work/all"
grep '^passed' "$work/all" | sort | uniq -c | awk '{ printf "%4d passed: %s by %s\n", $1, $3, $4 }'
passed=$(grep -c '^passed' "$work/all")
echo "$passed passed, $((number - passed)) failed, $skipped skipped"
[ "$passed" -eq "$number" ] && [ "$number" -gt 0 ]
