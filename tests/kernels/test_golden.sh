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
check "gpt2 for avx2: at most 2500 lines" short "$work/avx2/gpt2.c" 2600

# ---- pairs of other kinds ----

# NAME EXAMPLE KEY=VALUE…: the example's pair with these keys
also() {
    local name=$1 spec=$examples/$2.layer keys=()
    for key in "${@:3}"; do keys+=(--set "$key"); done
    check "attngen emits $name: $2 with ${*:3}" "$ATTNGEN" --isa all -o "$work/here" --set "name=$name" "${keys[@]}" "$spec"
}
says() { grep -qF -- "$2" "$1"; } # FILE TEXT
also i4 vit_patches weight_type=i4
also i4_decode llama_decode weight_type=i4
also fast bert_block precision=i16 plan.products=fast
also i8_products tiny precision=i8
also bf16_products tiny precision=bf16
also f16_weights tiny weight_type=f16
for set in i4:AVX512_VNNI i4_decode:AVX512_VNNI i8_products:AVX512_VNNI bf16_products:AVX512_BF16 f16_weights:F16C; do
    check "${set%:*}.h names ${set#*:}" says "$work/here/${set%:*}.h" "and ${set#*:} */"
done
for name in i4 i4_decode fast i8_products f16_weights; do
    check "$name.c says what rows of tiles are" says "$work/here/$name.c" '/* Rows of register tiles'
    check "$name.c: at most 120 columns, no blanks at the ends" narrow "$work/here/$name.c"
done
check "i4.c says what digits are" says "$work/here/i4.c" '/* Of digits'
for file in "$work"/here/*.[ch]; do
    check "$(basename "$file") has no arithmetic with nothing" plain "$file"
done

tally
