#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# examples/vendor: the committed pair is what attngen emits today, and builds and runs alone, with gcc and with clang.
#
#   tests/examples/test_vendor.sh               ATTNGEN=build/attngen  UPDATE=1: writes the committed pair anew
#
# Left out on purpose: other layers, and accuracy beyond a few digits; `attnrun check` does both.
set -u
cd "$(dirname "$0")/../.." || exit 3
. tests/checks.sh

if [ -n "${UPDATE:-}" ]; then
    "$attngen" -o examples/vendor examples/tiny.layer || exit
fi

"$attngen" -o "$work/new" examples/tiny.layer
for file in tiny.c tiny.h; do
    cmp "$work/new/$file" "examples/vendor/$file"
    result $? "examples/vendor/$file is not what attngen emits; write it anew: UPDATE=1 tests/examples/test_vendor.sh"
done

# The first elements of y by the layer's formulas in double precision, for the inputs that main.c draws.
near() {
    awk -v expected="-0.00197 -0.44079 -0.16018 0.38752" '
        { split(expected, e); sub(/.*y\[0\]\[0\] = /, "")
          for (i = 1; i <= 4; i++) if (!($i - e[i] < 3e-5 && e[i] - $i < 3e-5)) exit 1
          seen = 1 }
        END { exit !seen }' "$1"
}

for compiler in gcc clang; do
    if ! command -v $compiler >/dev/null; then
        skip "no $compiler here"
        continue
    fi
    alone=$work/$compiler
    mkdir "$alone" && cp examples/vendor/{Makefile,main.c,tiny.c,tiny.h} "$alone" || exit 3
    (cd "$alone" && env -u MAKEFLAGS -u MAKELEVEL -u CFLAGS make CC=$compiler >make.out 2>&1)
    result $? "make CC=$compiler in a copy of examples/vendor: $(cat "$alone/make.out")"
    ! grep -q warning "$alone/make.out"
    result $? "no warning from $compiler: $(grep warning "$alone/make.out")"
    "$alone/main" >"$alone/main.out" 2>&1
    result $? "main, built by $compiler, runs: $(cat "$alone/main.out")"
    near "$alone/main.out"
    result $? "main, built by $compiler, gives what the formulas give: $(cat "$alone/main.out")"
done

[ "$(wc -l <examples/vendor/main.c)" -le 60 ] && [ "$(wc -l <examples/vendor/Makefile)" -le 4 ]
result $? "main.c stays at 60 lines, the Makefile at three and the licence"

tally
