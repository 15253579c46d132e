#!/bin/sh
# Runs every vector of tests/vectors, and the real layer of tests/data, through `attnrun run` on every instruction set
# of this machine: once with $CC (default gcc), once more with clang where there is one. Left out on purpose: what a vector
# is and how close an answer must come; make_vectors.py and attnrun say that.
#
#   tests/test_vectors.sh [NAME…]      ATTNRUN=build/attnrun  CC=gcc  CLANG=clang (empty: no second pass)  JOBS=N

root=$(cd "$(dirname "$0")/.." && pwd)
ATTNRUN=${ATTNRUN:-$root/build/attnrun}
CC=${CC:-gcc}
CLANG=${CLANG-clang}
JOBS=${JOBS:-$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)}

# One vector with $CC; its report goes to files in $results, as several run at once.
if [ "$1" = --one ]; then
    spec=$2
    base=$results/$(basename "$spec" .layer)
    set -- "$ATTNRUN" run "$spec" --in "${spec%.layer}.safetensors" --isa all
    if "$@" >"$base.out" 2>&1; then
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
run_all() {
    results=$temporary/$1
    mkdir "$results"
    export ATTNRUN CC results
    printf '%s\n' "$specs" | xargs -P "$JOBS" -I '{}' "$0" --one '{}'
    cat "$results"/*.failed 2>/dev/null
    good=$(ls "$results" | grep -c '\.passed$')
    bad=$(ls "$results" | grep -c '\.failed$')
    none=$(cat "$results"/*.out | grep -ci skipped)
    echo "$CC: $good vectors passed, $bad failed, $none kernels skipped that this machine cannot run"
    passed=$((passed + good)) failed=$((failed + bad)) skipped=$((skipped + none))
}

run_all first
if [ -n "$CLANG" ] && command -v "$CLANG" >/dev/null 2>&1 && [ "$CC" != "$CLANG" ]; then
    CC=$CLANG
    run_all second
fi

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
