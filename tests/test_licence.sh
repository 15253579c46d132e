#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Each source file names the project's licence in one of its first lines, and no emitted file does: what comes out belongs
# to the user.
#
#   tests/test_licence.sh      ATTNGEN, ATTNRUN
set -u
cd "$(dirname "$0")/.." || exit 3
. tests/checks.sh

tag=SPDX-License-Identifier
check "LICENSE is the MIT licence" test "$(head -n 1 LICENSE)" = "MIT License"

# ---- ours: sources, but not data (bad specs, vectors, mutants, weights) and not what attngen wrote ----

sources() {
    find gen runtime templates packaging tests bench examples Makefile -type f \( -name Makefile -o \
        -name CMakeLists.txt -o -name meson.build -o -regextype posix-extended -regex \
        '.*\.(c|h|cpp|S|lua|in|sh|py|awk|gnuplot|layer|cmake|js|css)' \) |
        grep -Ev '^tests/(vectors|bad|data|models/data)/.*\.layer$|/(golden|tiny)\.[ch]$' | sort
}
check "there are sources" test "$(sources | wc -l)" -gt 100
while read -r file; do
    check "$file: \"$tag: MIT\" is missing in its first lines" \
        test "$(sed 3q "$file" | grep -c "$tag: MIT\( \*/\)\?$")" -eq 1
done < <(sources)

# ---- the user's ----

"$ATTNGEN" -o "$work" examples/tiny.layer
"$ATTNGEN" --split -o "$work/split" examples/tiny.layer
"$ATTNRUN" selftest examples/tiny.layer -o "$work/tiny_test.c"
for file in "$work"/tiny.c "$work"/tiny.h "$work"/tiny_test.c "$work"/split/* examples/vendor/tiny.[ch] tests/golden/golden.[ch]; do
    check "${file##*/} says whose it is, in one line of its first comment" test "$(sed '/\*\//q' "$file" |
        grep -cx " \* $tag: 0BSD. This file belongs to whoever generated it, without conditions.")" -eq 1
    check "${file##*/} names one licence" test "$(grep -c "$tag" "$file")" -eq 1
done

tally
