#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs every vector of tests/vectors, and the real layer of tests/data, through `attnrun run`: the reference, then every
# instruction set of this machine with $CC (default gcc), then with Z in rows by clang where there is one, then with $CC
# and weights folded whether it pays or not. Left out on purpose: what a vector is and how close an answer
# must come; make_vectors.py and attnrun say that.
#
#   tests/kernels/test_vectors.sh [NAME…]      ATTNRUN=build/attnrun  CC=gcc  CLANG=clang (empty: no second)  JOBS=N

root=$(cd "$(dirname "$0")/../.." && pwd)
build=${BUILD:-build}
case $build in /*) ;; *) build=$root/$build ;; esac
ATTNRUN=${ATTNRUN:-$build/attnrun}
export XDG_CACHE_HOME="${XDG_CACHE_HOME:-$build/cache}" # of compiled kernels
CC=${CC:-gcc}
CLANG=${CLANG-clang}
JOBS=${JOBS:-$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)}

# Folded scores of an infinite key may be -infinity where plain ones are NaN: y shows it then, but attn need not, and
# misses NaN there (docs/bound.md, "What is not finite"). y has to be right all the same.
not_said() { # HOW SPEC REPORT
    case "$1 $2" in
    *plan.fold=on*/nonfinite_seen.layer)
        grep -q ': y differs' "$3" && ! grep -q ': y differs.*MISSED' "$3" &&
            ! grep '^ ' "$3" | grep -vq 'attn\[0\].*; the file has nan; ' ;;
    *) false ;;
    esac
}

# One vector, run as $how says, with $CC; its report goes to files in $results, as several run at once.
if [ "$1" = --one ]; then
    spec=$2
    base=$results/$(basename "$spec" .layer)
    # shellcheck disable=SC2086 # $how is one to three words
    set -- "$ATTNRUN" run "$spec" --in "${spec%.layer}.safetensors" $how
    if "$@" >"$base.out" 2>&1 || not_said "$how" "$spec" "$base.out"; then
        : >"$base.passed"
    else
        { echo "FAILED ($?): CC='$CC' $*"; sed 's/^/    /' "$base.out"; } >"$base.failed"
    fi
    exit 0
fi

if [ ! -x "$ATTNRUN" ]; then
    echo "$ATTNRUN: error: not there; build it with make, or name it in ATTNRUN" >&2
    exit 3
fi

if [ $# -gt 0 ]; then
    specs=$(for name in "$@"; do ls "$root"/tests/*/"$name.layer"; done) || exit 2
else
    specs=$(ls "$root"/tests/vectors/*.layer "$root"/tests/data/*.layer)
fi

temporary=$(mktemp -d) || exit 3
trap 'rm -rf "$temporary"' EXIT
trap 'exit 3' HUP INT TERM

passed=0 failed=0 skipped=0
run_all() { # title, then the words that say how
    results=$(mktemp -d "$temporary/XXXXXX") || exit 3
    how=$2
    export ATTNRUN CC results how
    printf '%s\n' "$specs" | xargs -P "$JOBS" -I '{}' "$0" --one '{}'
    cat "$results"/*.failed 2>/dev/null
    good=$(find "$results" -name '*.passed' | wc -l)
    none=$(cat "$results"/*.out | grep -ci skipped)
    echo "$1: $good of $count vectors passed, $none kernels skipped that this machine cannot run"
    passed=$((passed + good)) failed=$((failed + count - good)) skipped=$((skipped + none))
}

count=$(printf '%s\n' "$specs" | wc -l)
run_all reference --reference
run_all "$(basename "${CC%% *}")" "--isa $("$root/tests/isas_here.sh" all)"
isas=$("$root/tests/isas_here.sh")
flags=$CFLAGS # what -O2 makes of a kernel has been seen by now: the rest with less of it, unless it is asked for
CFLAGS=${CFLAGS:--O1}
export CFLAGS
first=$CC
if [ -n "$CLANG" ] && command -v "$CLANG" >/dev/null 2>&1; then
    CC=$CLANG
fi
run_all "$(basename "${CC%% *}"), Z in rows" "--isa $isas --set plan.z_layout=rows"
CC=$first
CFLAGS=${flags:--O0}
run_all "$(basename "${CC%% *}"), folded" "--isa $isas --set plan.fold=on"

[ "$skipped" -eq 0 ] && echo "$passed passed, $failed failed" || echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
