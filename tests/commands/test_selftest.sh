#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# attnrun selftest: the program that it writes compiles without a warning, passes with a good pair, finds a bad one, and
# needs nothing but the pair. Left out on purpose: other machines; the tests of each instruction set run it there.
#
#   tests/commands/test_selftest.sh      ATTNGEN, ATTNRUN  CC=gcc  CLANG=clang
set -u
cd "$(dirname "$0")/../.." || exit 3
. tests/checks.sh
cc=${CC:-gcc}
log=log excerpt=(head -n 20)
cd "$work" || exit 3

# says_ok PROGRAM WORD…: "ok" and nothing else
says_ok() { [ "$("$@" 2>&1)" = ok ]; }

# says_wrong PATTERN PROGRAM WORD…: one line like that, and 1
says_wrong() {
    local pattern=$1
    shift
    "$@" >wrong 2>&1
    [ $? -eq 1 ] && [ "$(wc -l <wrong)" -eq 1 ] && grep -Eq "$pattern" wrong || { cat wrong; return 1; }
}

# ends STATUS PATTERN COMMAND…: with that status, that in its words, and nothing new in this folder
ends() {
    local wanted=$1 pattern=$2 before got
    shift 2
    before=$(ls -A)
    "$@" >"$work/said" 2>&1
    got=$?
    cat "$work/said"
    [ "$got" -eq "$wanted" ] && grep -Eq -- "$pattern" "$work/said" && [ "$(ls -A)" = "$before" ]
}

# ---- specs of every kind: warnings with all compilers, alone and freestanding; ok with one of them in turn ----

turn=0
for spec in examples/tiny tests/vectors/{every_mask,split_conv_cross_out_in,conv_causal_even,split_tied_identity_none} \
    tests/vectors/{additive_by_head_causal,conv_cross_padding,grouped_cross,scale_zero,window_nothing} \
    tests/vectors/{tensors_bf16_cross,tensors_f16_ring,cached_bf16_paged,cached_i8_paged} \
    tests/vectors/blocks/{linear_pooler,block_bert_skipped,block_gemma2}; do
    name=${spec##*/}
    upper=$(echo "$name" | tr '[:lower:]' '[:upper:]')
    check "selftest $spec" "$ATTNRUN" selftest "$root/$spec.layer"
    "$ATTNGEN" --isa scalar "$root/$spec.layer"
    for compiler in $compilers; do
        # shellcheck disable=SC2086 # flags are words
        for flag in -O1 -ffreestanding; do
            check "${name}_test.c with $compiler $strict $flag" "$compiler" $strict $flag -c -o $flag.o "${name}_test.c"
        done
    done
    # shellcheck disable=SC2086
    set -- $compilers
    shift $((turn++ % $#))
    check "$name with $1" "$1" -std=c11 -O0 -o "$name" "${name}_test.c" "$name.c"
    check "$name is ok" says_ok "./$name"
    check "the program stays moderate" test "$(stat -c %s "${name}_test.c")" -lt 400000
done
check "the last one was freestanding" eval "nm ./-ffreestanding.o | grep -q ' T ${name}_selftest' &&
    ! nm ./-ffreestanding.o | grep -Eq ' U (printf|puts|fflush|stdout)| T main'"
check "and needs memcpy, memset and the pair, no more" eval \
    "! nm ./-ffreestanding.o | awk '\$1 == \"U\" { print \$2 }' |
        grep -Evq '^(memcpy|memset|_GLOBAL_OFFSET_TABLE_|${name}_[a-z_]+)\$'"

# ---- sizes that are asked for ----

# sized NAME "OPTION…": says ok, and its first comment names the command that writes it again
sized() {
    local name=$1
    shift
    # shellcheck disable=SC2086
    "$ATTNRUN" selftest "$root/tests/vectors/$name.layer" -o sized_test.c $1 &&
        "$cc" -O0 -I. -o sized sized_test.c "$name.c" && says_ok ./sized && (mkdir -p again && cd again && cp "$root/tests/vectors/$name.layer" . &&
            eval "${ATTNRUN%/*}/$(sed -n '2s/^ \*  *//p' ../sized_test.c)" && cmp "${name}_test.c" ../sized_test.c)
}
check "one query" sized every_mask "--batch 1 --n 1"
check "no query" sized every_mask "--n 0"
check "no sequence" sized every_mask "--batch 0"
check "lengths" sized every_mask "--batch 3 --n 22 --lengths 0,22,7 --seed 9"
check "no key" sized conv_cross_padding "--n 5 --m 0"
check "another seed, other numbers" eval '! cmp -s every_mask_test.c sized_test.c'
"$ATTNRUN" selftest "$root/tests/vectors/every_mask.layer" -o again/here_test.c
check "-o names the file, and nothing else changes" cmp every_mask_test.c again/here_test.c

# ---- one instruction set; firmware; names that the program might use itself ----

"$ATTNGEN" "$root/examples/tiny.layer"
check "every instruction set" eval "$cc -O0 -o all tiny_test.c tiny.c && ./all | grep -qx ok"
check "one of them by name" says_ok ./all scalar
check "the best one" says_ok ./all auto
check "one that is not there" says_wrong '^tiny: .*lacks the requested instruction set' ./all nothing
if [ -e /dev/full ]; then
    check "an ok that cannot be printed is none" eval '! ./all >/dev/full'
fi
echo 'int tiny_selftest(void); int main(void) { return tiny_selftest() + 4; }' >firmware.c
check "firmware is built" "$cc" -DTINY_TEST_FREESTANDING -O0 -o firmware firmware.c tiny_test.c tiny.c
check "firmware calls it" eval './firmware; test $? -eq 4'
for name in test draw run walk found print; do
    "$ATTNGEN" --isa scalar --set name=$name --set seq_len=3 "$root/examples/tiny.layer"
    "$ATTNRUN" selftest --set name=$name --set seq_len=3 "$root/examples/tiny.layer" 2>>log
    [ -e ${name}_test.c ] && check "a layer named $name" $cc $strict -fsyntax-only ${name}_test.c
done

# ---- bad pairs ----

# broken TEXT NAME SED PATTERN: NAME.c so changed is found out
broken() {
    local text=$1 name=$2 edit=$3 pattern=$4
    mkdir -p broken
    cp "$name.h" "${name}_test.c" broken/
    sed "$edit" "$name.c" >"broken/$name.c"
    if cmp -s "$name.c" "broken/$name.c"; then
        check "$text: the edit fits nothing" false
    else
        check "$text: compiles" "$cc" -O0 -o bad "broken/${name}_test.c" "broken/$name.c"
        check "$text: found" says_wrong "$pattern" ./bad
    fi
}
"$ATTNGEN" --isa scalar "$root/examples/tiny.layer"
element='y(\[[0-9]+\]){3} is [-0-9.e]+; expected [-0-9.e]+, at most [0-9.e-]+ away$'
broken "a scale" tiny 's/#define QUERY_SCALE /&1.001f*/' "^tiny scalar: $element"
broken "a mask" every_mask 's/#define LOG2_E 1/&.01f*1/' "^every_mask scalar: (attn|y)(\[[0-9]+\]){3,4} is "
broken "an error code" tiny 's/return TINY_ERROR_ALIGNMENT;/return TINY_OK;/' 'alignment is 0; expected 6$'
broken "a part run twice" tiny '/phase % PHASES, part, worker);/s/part, worker/0, worker/' 'y.* run part by part is '
broken "a wrong instruction set" tiny 's/== TINY_OK ? block.packer->id/== TINY_OK ? (tiny_isa_id)9/' \
    'instruction set is 9; expected 1$'
broken "an output past its end" tiny \
    '/^int tiny_forward/,/^}/s/    return TINY_OK;/    args->y[args->batch * args->n * TINY_D_OUT] = 0;\n&/' 'written outside the outputs$'
broken "nothing written" tiny '/^int tiny_forward/,/^}/s/PHASES; phase/0 \&\& &/' "$element"
broken "a refused call that writes" tiny \
    '/^static int check_call/,/^}/s/return error ?/args->y[5] = error ? 0 : args->y[5]; &/' 'refused wrote an output$'
broken "a length unchecked" every_mask 's/return EVERY_MASK_ERROR_LENGTH;/continue;/' \
    'length past the keys is 0; expected 4$'
broken "rows of a bf16 y cut short" tensors_bf16_cross 's/bits + 0x7fffu + (bits >> 16 & 1u)/bits/' "^tensors_bf16_cross scalar: y"
broken "the scale of a cached row" cached_i8_paged 's/^    return scale;/    return scale * 1.005f;/' "^cached_i8_paged scalar: (y|[kv]_pages)"
"$ATTNGEN" -o other --isa scalar --set h=8 "$root/examples/tiny.layer"
cp tiny_test.c other/
check "a pair of another spec" eval \
    "! $cc -fsyntax-only other/tiny_test.c 2>refused && grep -q 'written for another tiny.h' refused"

# ---- sanitizers ----

sanitize="-O0 -g -fsanitize=address,undefined -fno-sanitize-recover=all"
echo 'int main(void) { return 0; }' >probe.c
# shellcheck disable=SC2086
if "$cc" $sanitize -o probe probe.c 2>/dev/null && ./probe; then
    check "with sanitizers" "$cc" $sanitize -o sanitized every_mask_test.c every_mask.c
    check "nothing for ASan and UBSan to say" says_ok ./sanitized
else
    skip "ASan and UBSan: $cc cannot build such programs here"
fi

# ---- exact = portable: the digest that is known when the program is written ----

mkdir portable && cd portable || exit 3
printf '%s\n' "name = exact" "d_model = 24" "h = 3" "seq_len = 20" "mask = causal" "cache = rows" "cache_len = 60" "lse = true" \
    "cache_type = bf16" "exact = portable" >exact.layer
check "a portable pair" eval '"$ATTNGEN" --isa scalar exact.layer && "$ATTNRUN" selftest exact.layer'
known=$(sed -n 's/.*digest == UINT64_C(0x\([0-9a-f]*\)).*/\1/p' exact_test.c)
check "has its digest" eval '${CC:-gcc} -O1 -o good exact_test.c exact.c && ./good >out && grep -qx "$known" out && grep -qx ok out'
sed 's/0\.055507\([0-9]*\)f/0.055508\1f/' exact.c >other.c # a coefficient of 2^t, by 1e-6: far within the bound
check "other bits within the bound are found" eval '! cmp -s exact.c other.c && ${CC:-gcc} -O1 -o bad exact_test.c other.c &&
    ! ./bad >out && grep -q "other bits than the order of exact = portable gives" out'
check "bench prints one digest for all sets" eval '"$ATTNRUN" bench --digest --seconds 0.01 --n 3 --past 5 exact.layer >out &&
    [ "$(sed -n "s/.* digest  *//p" out | sort -u | wc -l)" -eq 1 ]'
printf '%s\n' "name = trains" "d_model = 24" "h = 3" "seq_len = 20" "mask = padding" "qk_norm = rms" "bias = true" "sink = true" \
    "dropout = 0.25" "train = true" "exact = portable" >trains.layer
check "a portable pair that trains" eval '"$ATTNGEN" --isa scalar trains.layer && "$ATTNRUN" selftest trains.layer'
for compiler in $compilers; do
    # shellcheck disable=SC2086 # flags are words
    for flag in -O1 -ffreestanding; do
        check "trains_test.c with $compiler $strict $flag" "$compiler" $strict $flag -c -o $flag.o trains_test.c
    done
done
known=$(sed -n 's/.*digest == UINT64_C(0x\([0-9a-f]*\)).*/\1/p' trains_test.c | tail -1)
check "has the digest of its gradients" eval '${CC:-gcc} -O1 -o good trains_test.c trains.c && ./good >out && grep -qx "$known" out'
sed 's/0\.693147181f/0.693147242f/' trains.c >other.c # ln 2 by 9e-8, in backward alone
check "other bits of gradients are found" eval '! cmp -s trains.c other.c && ${CC:-gcc} -O1 -o bad trains_test.c other.c &&
    ! ./bad >out && grep -q "other gradients than the order of exact = portable gives" out'
for sizes in "--n 0" "--batch 0" "--batch 3 --n 5 --lengths 0,5,2"; do
    check "a call that trains, $sizes" eval '"$ATTNRUN" selftest trains.layer $sizes -o sized_test.c &&
        ${CC:-gcc} -O1 -o sized sized_test.c trains.c && ./sized | grep -qx ok'
done
cd ..

# ---- what is refused, and what cannot be written ----

printf '#!/bin/sh\ncp %s "$2"\n' "$work/tiny.h" >header_only
chmod +x header_only
mkdir empty && cd empty || exit 3
spec=$root/tests/vectors/every_mask.layer tiny=$root/examples/tiny.layer
check "no spec" ends 2 'needs one spec' "$ATTNRUN" selftest
"$ATTNRUN" selftest --set 'h = 4 # */ int stray; /*' "$tiny" -o comment_test.c
check "a comment of --set stays in the comment" grep -qF "'h = 4 # *? int stray; /?'" comment_test.c
odd=$'a\u202eb\u2028c\xff\e[31md/*e.layer'
odd=${odd//\//_} && cp "$tiny" "$odd"
check "a hostile name of a spec" "$ATTNRUN" selftest "$odd" -o odd_test.c
check "stays readable" grep -qF "'a?b?c??[31md_*e.layer'" odd_test.c
check "two specs" ends 2 'needs one spec' "$ATTNRUN" selftest "$spec" "$tiny"
check "a bad spec" ends 2 'h = 5 does not divide' "$ATTNRUN" selftest --set h=5 "$tiny"
check "a bad plan" ends 2 'plan.fold' "$ATTNRUN" selftest --set plan.fold=maybe "$tiny"
check "too many queries" ends 2 'n = 23' "$ATTNRUN" selftest --n 23 "$spec"
check "a length past the keys" ends 2 'lengths = 9' "$ATTNRUN" selftest --n 8 --lengths 8,9 "$spec"
check "more lengths than sequences" ends 2 'more numbers' "$ATTNRUN" selftest --n 8 --lengths 8,1,2 "$spec"
check "lengths without padding" ends 2 'lengths is for' "$ATTNRUN" selftest --lengths 3 "$tiny"
for command in selftest check bench roof; do
    check "$command: keys of self-attention" ends 2 '--m is for cross-attention' "$ATTNRUN" $command --m 3 "$tiny"
done
check "tune: keys of self-attention" ends 2 '--m is for cross-attention' "$ATTNRUN" tune --m 3 -o none "$tiny"
for lengths in 3x 1,,2 '' , 99999999999 -1; do
    check "lengths that are none: '$lengths'" \
        ends 2 'lengths cannot be' "$ATTNRUN" selftest --lengths "$lengths" "$spec"
done
check "an option of another command" ends 2 'unknown option' "$ATTNRUN" selftest --json "$spec"
check "a spec that is not there" ends 3 'nowhere.layer' "$ATTNRUN" selftest nowhere.layer
check "no generator" ends 3 'nowhere' "$ATTNRUN" selftest --attngen ./nowhere "$tiny"
check "a folder that is not there" ends 3 'nowhere/t.c: error: cannot be written' \
    "$ATTNRUN" selftest "$tiny" -o nowhere/t.c
check "a folder in place of the file" ends 3 'Is a directory' "$ATTNRUN" selftest "$tiny" -o .
mkfifo device && { cat device >read & } # a device of its own: /dev/null is everybody's
timeout 60 "$ATTNRUN" selftest "$tiny" -o device
wait $!
check "a device is written, not replaced" test -p device -a -s read
rm -f device read
# as on a full disk: this shell lets programs write files of 20 KiB only, which is enough for a header
check "a header is enough" \
    eval '"$ATTNRUN" selftest --attngen ../header_only "$tiny" && cmp tiny_test.c ../tiny_test.c'
rm -f tiny_test.c
check "a file that does not fit" ends 3 '^tiny_test.c: error: cannot be written: File too large' \
    bash -c 'ulimit -f 20; trap "" XFSZ; "$ATTNRUN" selftest --attngen ../header_only "$1"' - "$tiny"
check "help" eval '"$ATTNRUN" help selftest | grep -q -- "-o, --out FILE"'

tally
