#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What attngen writes, byte for byte: the one small pair kept in tests/golden, and, for every example, the same bytes
# again, from another folder and in another environment; and that it is not longer than a reader bears. Left out on purpose:
# whether the text is any good as C; test_emitted.sh asks that.
#
#   tests/kernels/test_golden.sh      ATTNGEN=build/attngen  UPDATE=1 (accept what attngen writes now, then read the diff)
set -u
cd "$(dirname "$0")/../.." || exit 3
. tests/checks.sh
golden=$PWD/tests/golden
examples=$PWD/examples
log=$work/log excerpt=(head -n 40)

# ---- the kept text ----

emit_golden() { (cd "$golden" && "$ATTNGEN" --isa scalar -o "$1" golden.layer); }
if [ "${UPDATE:-}" = 1 ]; then
    emit_golden "$golden" || exit 1
    git --no-pager diff --stat -- "$golden" 2>/dev/null
fi
mkdir "$work/golden"
check "attngen emits golden.layer" emit_golden "$work/golden"
for file in golden.c golden.h; do
    check "tests/golden/$file is what attngen writes; if the change is meant: UPDATE=1 $0" \
        diff -u "$golden/$file" "$work/golden/$file"
done

# ---- the same bytes again ----

mkdir "$work/here" "$work/there" "$work/elsewhere"
for spec in "$examples"/*.layer; do
    name=$(basename "$spec" .layer)
    check "attngen emits $name" "$ATTNGEN" -o "$work/here" "$spec"
    again() { (cd "$examples" && "$ATTNGEN" -o "$work/there" "$name.layer"); }
    check "attngen emits $name from the spec's folder" again
    cp "$spec" "$work/elsewhere/"
    other() { (cd "$work/elsewhere" && env -i TZ=Asia/Tokyo LC_ALL=C.UTF-8 HOME=/ "$ATTNGEN" "$name.layer"); }
    check "attngen emits $name from another folder, in another environment" other
    for file in "$name.c" "$name.h"; do
        check "$file: the same bytes from the spec's folder" cmp "$work/here/$file" "$work/there/$file"
        check "$file: the same bytes from another folder" cmp "$work/here/$file" "$work/elsewhere/$file"
        check "$file: at most 120 columns, no blanks at the ends" narrow "$work/here/$file"
    done
done

# ---- no more text than needed ----

short() { test "$(sed -n "1,${3-\$}p" "$1" | wc -l)" -le "$2"; } # FILE LINES [LAST]: of the lines up to the one that LAST finds
long() { ! short "$@"; }
plain() { # FILE: no + 0, * 1, loops of one turn, plurals of one, two blank lines
    ! grep -nE '[])a-z_0-9] (\+ 0|\* 1)[],;) ]|\(1 \* |for \(.* < 1( |;)|[*(:;,x] 1 (token|row|step|part|panel|line|key)s\>|\(s\)' "$1" &&
        awk 'last == "" && $0 == "" && NR > 1 { exit 1 } { last = $0 }' "$1"
}
printf 'a\n\nb + 0;\n' >"$work/odd"
printf 'a\n\n\nb\n' >"$work/gap"
check "three lines are no more than three" short "$work/odd" 3
check "and more than two" long "$work/odd" 2
check "a + 0 is found" eval '! plain "$work/odd"'
check "so are two blank lines" eval '! plain "$work/gap"'
check "gpt2, four sets: at most 6500 lines" short "$work/here/gpt2.c" 6500
check "the banner: at most 60 lines" short "$work/here/gpt2.c" 60 '/^ \*\//'
check "attngen emits gpt2 for avx2" "$ATTNGEN" --isa avx2 -o "$work/avx2" "$examples/gpt2.layer"
check "gpt2 for avx2: at most 2600 lines" short "$work/avx2/gpt2.c" 2600
for file in "$work"/here/*.[ch]; do
    check "$(basename "$file") has no arithmetic with nothing" plain "$file"
done

tally
