#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# attnrun heatmap from outside: a panel for each head, each weight in its colour, what it refuses, what stays behind.
#
#   tests/commands/test_heatmap.sh      ATTNRUN=build/attnrun  CC=gcc
#
# Weights and colours are compared by heatmap.py, from the attn of tests/vectors, which came from elsewhere.
set -u
cd "$(dirname "$0")/../.." || exit 3
. tests/checks.sh
export XDG_CACHE_HOME=$work/cache TMPDIR=$work/tmp
export CFLAGS=-O0 # of the kernels, which need not be fast
vectors=$root/tests/vectors
shown=(out err)
mkdir "$TMPDIR"
cd "$work" || exit 3

# run STATUS ARGUMENT…: attnrun heatmap must end with that status; its output goes to out and err
run() {
    local wanted=$1
    shift
    ends "$wanted" "$attnrun" heatmap "$@"
    if [ "$wanted" -eq 0 ]; then
        check "attnrun heatmap $*: silent" test ! -s err
    else
        check "attnrun heatmap $*: says why" grep -q error: err
        check "attnrun heatmap $*: no picture" test ! -e bad.svg
    fi
    check "attnrun heatmap $*: nothing stays behind" test -z "$(ls -A "$TMPDIR")"
}

vector() { printf '%s\n' "$vectors/$1.layer" --in "$vectors/$1.safetensors"; }
mapfile -t grouped < <(vector grouped_causal)
mapfile -t padded < <(vector wide_causal_padding)

# ---- what it refuses; nothing of this needs a compiler ----

run 2;                                              says "needs one spec"
run 2 "${grouped[@]}";                              says "--out"
run 2 "${grouped[0]}" -o bad.svg;                   says "--in"
run 2 "${grouped[@]}" "${grouped[0]}" -o bad.svg;   says "one spec"
run 2 "${grouped[@]}" -o bad.svg --head x;          says "'x'"
run 2 "${grouped[@]}" -o bad.svg --head -1;         says "'-1'"
run 2 "${grouped[@]}" -o bad.svg --scale cubic;     says "linear, sqrt or log"
run 2 "${grouped[@]}" -o bad.svg --batch 2;         says "--batch"
run 2 "${grouped[@]}" -o bad.svg --head 6;          says "0 to 5 are possible"
run 2 "${grouped[@]}" -o bad.svg --sequence 2;      says "0 to 1 are possible"
run 2 "${grouped[@]}" -o bad.svg --source-labels x; says "cross-attention"
run 3 "${grouped[@]}" -o bad.svg --labels missing;  says "missing: error"
run 3 missing.layer "${grouped[@]:1}" -o bad.svg;   says "missing.layer"
run 3 "${grouped[@]:0:2}" missing.safetensors -o bad.svg; says "missing.safetensors"
run 2 "${grouped[0]}" "${padded[@]:1}" -o bad.svg;  says "safetensors: error"
for name in empty_batch empty_sequence empty_source; do
    mapfile -t none < <(vector $name)
    run 2 "${none[@]}" -o bad.svg;                  says "no weights to show"
done
printf 'a\nb\n' >two
run 2 "${grouped[@]}" -o bad.svg --labels two;      says "2 labels for 19 positions"
printf 'a\n\377\n' >latin
run 2 "${grouped[@]}" -o bad.svg --labels latin;    says "latin: error: line 2"
printf 'a\0b\n' >zero
run 2 "${grouped[@]}" -o bad.svg --labels zero;     says "zero: error: line 1"
printf 'd_model = 257\nh = 257\nseq_len = 2\n' >many.layer
run 2 many.layer "${grouped[@]:1}" -o bad.svg

# ---- pictures ----

run 0 "${grouped[@]}" -o all.svg --isa scalar
run 0 "${grouped[@]}" -o again.svg --isa scalar
check "the same command gives the same bytes" cmp all.svg again.svg
check "readable by all whom the umask lets" test "$(stat -c %a all.svg)" = "$(printf %o $((0666 & ~0$(umask))))"
run 0 "${grouped[@]}" -o one.svg --isa scalar --head 4 --sequence 1 --scale linear
run 0 "${grouped[@]}" -o off.svg --isa scalar --set scores=false --scale log
{ printf "<&>\"'%%d\\\\n\$x{/:Bold b}_i^2\nÄther\n\n注意\nabcdefghijklmnopqrstuvwxyz\n"
  printf '%s\n' "don't" "'" "'""'" $'\'bo\u202eth\'' '`:>ran`' "x'y"; seq 12 19; } >labels
run 0 "${grouped[@]}" -o labels.svg --isa scalar --labels labels --head 0
run 0 "${padded[@]}" -o padded.svg --isa scalar --sequence 1 --scale linear
mapfile -t seen < <(vector nonfinite_seen)
run 0 "${seen[@]}" -o seen.svg --isa scalar
check "a value that is no number has a colour of its own" grep -q 'rgb(214, *40, *57)' seen.svg
check "no legend for what is not there" eval '! grep -q "rgb(214, *40, *57)" all.svg'

printf 'name = distant\nd_model = 8\nh = 2\nseq_len = 1100\nmask = causal\n' >long.layer
if ! command -v python3 >/dev/null; then
    skip "pixels and texts, python3 is not here"
else
    look() { python3 -B "$root/tests/commands/heatmap.py" "$@" >out 2>err; }
    check "each head, its weights" look check all.svg sqrt 0 0,1,2,3,4,5 "${grouped[2]}" causal
    check "one head, linear" look check one.svg linear 1 4 "${grouped[2]}" causal
    check "scores=false is no obstacle; log" look check off.svg log 0 0,1,2,3,4,5 "${grouped[2]}" causal
    check "padding" look check padded.svg linear 1 0,1,2,3 "${padded[2]}" causal+padding
    check "another head would be seen" eval '! look check one.svg linear 1 3 "${grouped[2]}" causal'
    check "another sequence would be seen" eval '! look check one.svg linear 0 4 "${grouped[2]}" causal'
    look texts all.svg && cp out all.txt
    for text in "grouped_causal: attention weights" "head 0 (keys 0)" "head 5 (keys 1)" "query position" \
        "key position" "hidden by the mask" "weight (square-root scale)" \
        "d_model = 48, h = 6 on h_kv = 2, d_k = 8, n = 19, mask = causal" "sequence 0 (of 2), scalar kernel"; do
        check "the picture says: $text" grep -qxF -- "$text" all.txt
    done
    look texts labels.svg && cp out labels.txt
    while IFS= read -r text; do
        check "label $text on both axes" test "$(grep -cxF -- "$text" labels.txt)" -eq 2
    done < <(sed -e 's/^abc.*/abcdefghijklmno…/' -e '/^$/d' -e $'s/\u202e/?/' -e "s/^<.*/<\&>\"'%d\\\\n\$x{\/:B…/" labels)
    look make long.safetensors 1100
    run 0 long.layer --in long.safetensors -o long.svg --isa scalar
    check "1100 positions: known weights" look uniform long.svg 1100 2
    check "two panels" test "$(cat out)" = 2
    check "1100 positions stay small" test "$(stat -c %s long.svg)" -lt 1000000
    check "says what a pixel is" grep -q "largest of 2 × 2 weights" long.svg
fi

# ---- when drawing fails ----

mkdir folder locked && chmod 555 locked
run 3 "${grouped[@]}" -o folder --isa scalar;       says "folder: error"
run 2 "${grouped[@]}" -o a.d/f.png --isa scalar;    says 'write a name that ends in .svg instead of "a.d/f.png"'
locked=locked
[ "$(id -u)" -eq 0 ] && locked=/proc # root may write anywhere else
run 3 "${grouped[@]}" -o $locked/f.svg --isa scalar; says "$locked/f.svg: error"
if [ -e /dev/full ]; then
    run 3 "${grouped[@]}" -o /dev/full --isa scalar; says "/dev/full: error"
    check "/dev/full is still a device" test -c /dev/full
fi
if [ -e long.safetensors ]; then
    check "a full disk is an error" eval '(ulimit -f 500; trap "" XFSZ
        "$attnrun" heatmap long.layer --in long.safetensors -o full.svg --isa scalar >out 2>err
        test $? -eq 3 && grep -q "full.svg: error" err)'
    check "a full disk: no picture" test ! -e full.svg
fi

tally
