#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What `attnrun run` and `attnrun check` say of numbers at the ends of f32: masks of -FLT_MAX, scores and sums that
# overflow, folded weights that are too large, scales at their limits, flushing to zero. A wrong y in the file never
# passes, and what could not be compared is neither called compared nor passed over.
#
#     BUILD=build ATTNRUN=build/attnrun tests/kernels/test_run.sh
#
# Left out on purpose: ordinary numbers (test_vectors.sh), the bounds themselves (test_compare.c).
# shellcheck disable=SC2054,SC2206,SC2034 # shapes have commas, numbers no spaces, checks.sh reads shown
set -u
cd "$(dirname "$0")/../.." || exit 3
. tests/checks.sh
cd "$work" || exit 3
shown=(out err)
export CFLAGS=-O0

# An f32's bits, or several, as hexadecimal numbers
zero=00000000 one=3f800000 two=40000000 lowest=ff7fffff large=7149f2ca # 1e30
wrong=4640e400 # 12345

# tensors FILE NAME SHAPE "BITS…"…: a safetensors file; SHAPE is 1,2,2; past holds integers
tensors() {
    local file=$1 header='' offset=0 bytes='' end word type
    shift
    while [ $# -gt 0 ]; do
        set -f
        for word in $3; do
            bytes="$bytes\\x${word:6:2}\\x${word:4:2}\\x${word:2:2}\\x${word:0:2}"
        done
        end=$((${#bytes} / 4))
        [ "$1" = past ] && type=I32 || type=F32
        header="$header${header:+,}\"$1\":{\"dtype\":\"$type\",\"shape\":[$2],\"data_offsets\":[$offset,$end]}"
        offset=$end
        shift 3
    done
    header="{$header}"
    {
        printf "%b" "$(printf '\\x%02x\\x%02x\\0\\0\\0\\0\\0\\0' $((${#header} % 256)) $((${#header} / 256)))"
        printf '%s' "$header"
        printf '%b' "$bytes"
    } >"$file"
}

run() { "$attnrun" run --isa scalar "$@"; }
says() { grep -qF -- "$1" out; }

# Two positions of width 1, every weight 1: values are the x themselves.
printf 'd_model = 1\nh = 1\nseq_len = 2\nmask = additive\nplan.fold = off\n' >one.layer
weights=(w_q 1,1 $one w_k 1,1 $one w_v 1,1 $one w_o 1,1 $one)

echo "== masks of -FLT_MAX =="
# query 0 sees key 0 alone; all that query 1 is shown is -FLT_MAX
mask=(mask_add 1,1,2,2 "$zero $lowest $lowest $lowest")
y_1=3fc00000 # 1.5
tensors right.st x 1,2,1 "$one $two" "${mask[@]}" y 1,2,1 "$one $y_1" "${weights[@]}"
ends 0 run one.layer --in right.st
check "nothing is left out" test "$(grep -c 'no bound' out)" -eq 0
tensors wrong.st x 1,2,1 "$one $two" "${mask[@]}" y 1,2,1 "$one $wrong" "${weights[@]}"
ends 1 run one.layer --in wrong.st
check "the wrong one of two is named" says "y[0][1][0] is 1.5; the file has 12345; 1 of 2 elements miss"
tensors near.st x 1,2,1 "$one $two" "${mask[@]}" y 1,2,1 "3f800100 $y_1" "${weights[@]}" # 1 + 2^-15
ends 1 run one.layer --in near.st
check "and where one key is left the bound is near" says "y[0][0][0] is 1; the file has"

echo "== masks of -FLT_MAX before a cache =="
printf 'd_model = 1\nh = 1\nseq_len = 2\nmask = additive\nscale = 1\ncache = rows\ncache_len = 2\n' >cached.layer
cache=(past 1 $zero k_cache 1,1,2,1 "$one $one" v_cache 1,1,2,1 "$one $one")
inf=7f800000 nan=7fc00000 minus_two=c0000000 near_lowest=ff317217 # times log2(e) the number above -FLT_MAX
for mask in $lowest $near_lowest; do
    tensors same.st x 1,2,1 "$one $two" mask_add 1,1,2,2 "$zero $lowest $mask $mask" y 1,2,1 "$one $y_1" "${cache[@]}" \
        "${weights[@]}"
    ends 0 run cached.layer --in same.st
    check "keys with a mask of $mask alone are alike" test "$(grep -c 'no bound' out)" -eq 0
done
# the only key that query 1 sees has a score of -infinity and, with a mask of -FLT_MAX, below
for mask in $zero $lowest; do
    tensors infinite.st x 1,2,1 "$inf $minus_two" mask_add 1,1,2,2 "$zero $zero $mask ff800000" y 1,2,1 "$nan $nan" \
        "${cache[@]}" "${weights[@]}"
    ends 0 run cached.layer --in infinite.st
    check "infinity that is seen makes the row NaN under $mask" test "$(grep -c 'y is not compared' out)" -eq 0
done

echo "== what overflows =="
# scores of 1e60
tensors right.st x 1,2,1 "$large $two" mask_add 1,1,2,2 "$zero $zero $zero $zero" y 1,2,1 "$large $large" "${weights[@]}"
ends 1 run one.layer --in right.st
check "what f32 overflowed on is not compared" says "1 of 2 elements of y have no bound, as f32 may overflow on their way"
tensors none.st x 1,2,1 "$large $large" mask_add 1,1,2,2 "$zero $zero $zero $zero" y 1,2,1 "$wrong $wrong" "${weights[@]}"
ends 1 run one.layer --in none.st
check "nothing compared is not called compared" says "y is not compared"
ends 1 run one.layer --in none.st --reference
check "the reference compares all of it" says "2 of 2 elements miss"

echo "== gradients =="
# one token: y = x w_v w_o, whatever the scores; x = 2, w_v = 2, w_o = 1, dy = 2
printf 'd_model = 1\nh = 1\nseq_len = 1\ntrain = true\n' >train.layer
four=40800000 eight=41000000
given=(x 1,1,1 $two w_q 1,1 $one w_k 1,1 $one w_v 1,1 $two w_o 1,1 $one)
tensors right.st "${given[@]}" dy 1,1,1 $two dx 1,1,1 $four dw_q 1,1 $zero dw_v 1,1 $four dw_o 1,1 $eight
ends 0 run train.layer --in right.st --out made.st
check "each gradient of the file is compared" test "$(grep -c ': d.* differs by at most 0 ' out)" -eq 4
ends 0 run train.layer --in right.st --reference
tensors wrong.st "${given[@]}" dy 1,1,1 $two dx 1,1,1 $four dw_o 1,1 $four
ends 1 run train.layer --in wrong.st
check "a wrong gradient is named" says "dw_o: element 0 is 8; the file has 4; 1 elements miss"
tensors alone.st "${given[@]}" dx 1,1,1 $four
ends 2 run train.layer --in alone.st
tensors shape.st "${given[@]}" dy 1,1,2 "$two $two"
ends 2 run train.layer --in shape.st
printf 'd_model = 1\nh = 1\nseq_len = 1\n' >plain.layer
ends 2 run plain.layer --in right.st
"$attnrun" bench --backward plain.layer >out 2>&1
check "a layer without gradients has no backward to time" test $? -eq 2

echo "== folded weights =="
# W_Q W_K^T = W_V W_O = 2e38; the plain layer has sums of 1e19 (x = 1, -1 in two columns)
printf 'd_model = 2\nh = 1\nd_k = 1\nd_v = 1\nseq_len = 1\nscale = 1\n' >fold.layer
big=5f4ec7a6 # 1.49e19
weights=(w_q 2,1 "$one $one" w_k 2,1 "$one $one" w_v 2,1 "$big $big" w_o 1,2 "$big $big")
tensors fold.st x 1,1,2 "$two bff33333" y 1,1,2 "7d859e58 7d859e58" "${weights[@]}" # x = 2, -1.9; y = 0.1 1.49e19^2
ends 0 "$attnrun" run fold.layer --set plan.fold=off --in fold.st --isa scalar
ends 2 "$attnrun" run fold.layer --set plan.fold=on --in fold.st --isa scalar
check "packing says why" grep -q "too large with the scale or another weight folded in" err
small=5d800000 # 2^60
weights=(w_q 2,1 "$one $one" w_k 2,1 "$one $one" w_v 2,1 "$small $small" w_o 1,2 "58000000 58000000") # 2^49
tensors fold.st x 1,1,2 "$two bff33333" "${weights[@]}"
ends 2 "$attnrun" run fold.layer --set plan.fold=on --in fold.st --isa scalar # 2^109
weights=(w_q 2,1 "$one $one" w_k 2,1 "$one $one" w_v 2,1 "$small $small" w_o 1,2 "55800000 55800000") # 2^44
tensors fold.st x 1,1,2 "$two bff33333" "${weights[@]}"
ends 0 "$attnrun" run fold.layer --set plan.fold=on --in fold.st --isa scalar # 2^104

echo "== scales =="
printf 'd_model = 8\nh = 2\nseq_len = 9\nmask = additive\nbias = true\nscores = true\n' >scale.layer
for scale in 2.35e38 -2.3e38 8.15e-39 0; do
    ends 0 "$attnrun" check scale.layer --isa scalar --set scale=$scale --set plan.fold=off
    check "all is compared at $scale" test "$(grep -c 'no bound' out)" -eq 0
done
ends 0 "$attnrun" check scale.layer --isa scalar --set scale=2.3e38 --set plan.fold=on
ends 0 "$attnrun" check scale.layer --isa scalar --set scale=2.3e38 --set w_k=tied
ends 2 "$attnrun" check scale.layer --isa scalar --set scale=1e-50
ends 0 "$attnrun" selftest scale.layer --set scale=2.3e38 -o scale_test.c
check "the self-test is promised all its numbers" test "$(grep -c ', -1}' scale_test.c)" -eq 0

echo "== flushing to zero =="
case $(uname -m) in
x86_64)
    # x = 1e-37 and w_v = 0.0625 make values that flush, w_o = 1e37 what is missing then
    tiny=02081cea sixteenth=3d800000 huge=7cf0bdc2
    weights=(w_q 1,1 $one w_k 1,1 $one w_v 1,1 $sixteenth w_o 1,1 $huge)
    tensors flush.st x 1,2,1 "$tiny $tiny" mask_add 1,1,2,2 "$zero $zero $zero $zero" y 1,2,1 "3d800000 3d800000" "${weights[@]}"
    CFLAGS="-O0 $root/tests/kernels/flush_to_zero.c"
    ends 0 run one.layer --in flush.st
    check "the values did flush" says "y differs by at most 0.0625"
    CFLAGS=-O0
    ends 0 run one.layer --in flush.st
    check "and are kept without it" says "y differs by at most 0 "
    ;;
*) skip "flushing to zero: not an x86 machine" 4 ;;
esac

tally
