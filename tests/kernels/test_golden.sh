#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What attngen writes, byte for byte: the one small pair kept in tests/golden, and, for every example, the same bytes
# again, from another folder and in another environment. Left out on purpose: whether the text is any good as C;
# test_emitted.sh asks that.
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

tally
