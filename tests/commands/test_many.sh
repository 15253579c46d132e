#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# attngen with several specs: each pair the same as alone, all of them or none; and several layers in one program: of one
# shape with one pair, of several shapes without a symbol in common.
#
#   tests/commands/test_many.sh      ATTNGEN=build/attngen  CC=gcc  CLANG=clang
set -u
cd "$(dirname "$0")/../.." || exit 3
. tests/checks.sh
log=log shown=(log err) excerpt=(head -n 20)
cd "$work" || exit 3

# run STATUS WORD…: attngen must end with that status; its output goes to out and err
run() { ends "$1" "$attngen" "${@:2}"; }

leaves() { check "in $1: '$2', not '$(ls -A "$1" | tr '\n' ' ')'" test "$(ls -A "$1" | tr '\n' ' ')" = "$2"; }

cp "$root"/examples/{tiny,kws}.layer "$root"/tests/vectors/{every_mask,conv_causal_even}.layer .
specs="tiny.layer every_mask.layer kws.layer conv_causal_even.layer"

# ---- the same as alone ----

for spec in $specs; do run 0 -o alone --isa scalar --set plan.unroll=2 "$spec"; done
# shellcheck disable=SC2086 # specs are words
run 0 -o together --isa scalar --set plan.unroll=2 --deps together.d $specs
check "the same files, the same bytes" diff -r alone together
check "a banner names its own command" grep -qF 'attngen --isa scalar --set plan.unroll=2 kws.layer' together/kws.c
for spec in $specs; do "$attngen" --explain "$spec"; done >explained_alone
# shellcheck disable=SC2086
run 0 --explain $specs
check "all are explained, and nothing is written" eval 'diff <(grep . out) <(grep . explained_alone) && ! ls ./*.c'
touch -d 2001-01-01 together/*
echo >>together/kws.h
# shellcheck disable=SC2086
run 0 -o together --isa scalar --set plan.unroll=2 $specs
check "only what changed is written" test "$(find together -type f -newermt 2002-01-01)" = together/kws.h

# ---- rules ----

check "one rule a pair" eval 'grep -qx "together/tiny.c together/tiny.h: tiny.layer" together.d &&
    grep -qx "together/kws.c together/kws.h: kws.layer" together.d && test "$(grep -c : together.d)" -eq 4'
run 0 -o made --templates "$root/templates" --deps made.d tiny.layer kws.layer
printf 'all: made/tiny.c made/kws.c\nmade/tiny.c made/kws.c:\n\t@echo again $@\ninclude made.d\n' >rules
touch -d 2100-01-01 kws.layer
check "make knows which spec is whose" test "$(env -u MAKEFLAGS -u MAKELEVEL make -f rules all 2>/dev/null)" = "again made/kws.c"

# ---- all or nothing ----

printf 'd_model = 64\nh = 5\nseq_len = 1\n' >bad.layer
printf 'd_model = 64\nh = 4\nseq_len = none\n' >worse.layer
run 2 -o none tiny.layer bad.layer kws.layer worse.layer
says "bad.layer:2: error: "; says "worse.layer:3: error: "
check "no folder" test ! -e none
run 2 -o none --explain tiny.layer bad.layer
check "nothing is explained" test ! -s out
run 2 -o none --set plan.unroll=no tiny.layer kws.layer
says "plan.unroll"
run 3 -o none tiny.layer missing.layer
says "missing.layer"
mkdir -p a b
sed '/^name/d' tiny.layer >a/twin.layer
sed '/^name/d' kws.layer >b/twin.layer
run 2 -o none a/twin.layer kws.layer b/twin.layer
says "b/twin.layer: error: the name 'twin' is also that of a/twin.layer ('twin')"
run 2 -o none --set name=one tiny.layer kws.layer
says "kws.layer: error: the name 'one' is also that of tiny.layer"
run 2 -o none tiny.layer tiny.layer
says "tiny.layer: error: the name 'tiny' is also that of tiny.layer"
sed 's/^name.*/name = TINY/' tiny.layer >capital.layer
run 2 -o none tiny.layer capital.layer
says "capital.layer: error: the name 'TINY' is in capitals also that of tiny.layer ('tiny')"
check "no folder" test ! -e none
mkdir -p blocked/kws.h
run 3 -o blocked tiny.layer kws.layer
says "blocked/kws.h"
leaves blocked "kws.h "
run 3 -o nodeps --deps missing/d.d tiny.layer kws.layer
says "missing/d.d"
leaves nodeps ""
mkdir old
echo old >old/tiny.c
mkdir old/kws.c
run 3 -o old tiny.layer kws.layer
leaves old "kws.c tiny.c "
check "what was there is there" grep -qx old old/tiny.c

# as on a full disk: the larger pair does not fit
small=$(stat -c %s alone/tiny.c) large=$(stat -c %s alone/every_mask.c)
check "one pair is larger" test "$large" -gt $((small + 4096))
check "a file that does not fit is an error" eval "(ulimit -f $((small / 1024 + 2)); trap '' XFSZ
    '$attngen' -o full --isa scalar --set plan.unroll=2 tiny.layer every_mask.layer 2>err
    test \$? -eq 3 && grep -q 'full/every_mask.c: error: cannot be written' err)"
leaves full ""

# ---- one commit: whatever call fails, the old files or the new ones ----

import() { "$attngen" import "$root/tests/models/imports/bert" -o "$1" --isa scalar --deps "$1/deps" --seq-len "$2"; }
remodel() { "$attngen" model "$1/bert.layers" -o "$1" --isa scalar --deps "$1/deps" --set plan.unroll="$2"; }
split() { "$attngen" -o "$1" --isa avx2 --split --deps "$1/deps" --set plan.unroll="$2" tiny.layer kws.layer; }
# commits COMMAND OLD NEW CALL AT: from a folder with the files of OLD; the command must fail and leave them
commits() {
    rm -rf there && cp -a "$1.old" there
    LD_PRELOAD=$work/failing.so FAIL=$4 AT=$5 "$1" there "$3" >out 2>err
    local status=$?
    [ $status -eq 0 ] && return 1 # it has fewer such calls
    check "$1, $4 $5: says why" eval 'test $status -eq 3 && grep -q "error: cannot be written" err'
    check "$1, $4 $5: what was there is there, and no more" diff -r "$1.old" there
}
if "${CC:-gcc}" -shared -fPIC -O1 -o failing.so "$root/tests/commands/failing.c" 2>err && nm -D "$attngen" | grep -qw fsync &&
    ! nm -D "$attngen" | grep -q __asan_init; then
    for words in "import 8 12" "remodel 1 2" "split 1 2"; do
        read -r command before after <<<"$words"
        mkdir "$command.old" "$command.first"
        [ "$command" = remodel ] && cp -a import.old/*.layer* remodel.old && cp -a import.old/*.layer* remodel.first
        cp -a "$command.first" empty
        "$command" "$command.old" "$before" && cp -a "$command.old" new && "$command" new "$after"
        check "$command makes other files of $after" eval '! diff -rq new "$command.old" >/dev/null'
        for call in rename write fsync; do
            for ((at = 1; at < 100; at++)); do commits "$command" "$before" "$after" $call $at || break; done
            check "$command has several $call" test $at -gt 4
        done
        cp -a "$command.old" there.new && LD_PRELOAD=$work/failing.so FAIL=link AT=0 "$command" there.new "$after"
        sed "s/there.new/new/g" -i there.new/deps
        check "$command without links writes the same" diff -r new there.new
        LD_PRELOAD=$work/failing.so FAIL=rename AT=3 "$command" "$command.first" "$after" >out 2>err
        check "$command where nothing was: nothing" diff -r empty "$command.first"
        rm -rf there.new new empty
    done
else
    skip "calls that fail: nothing can be loaded before this attngen's C library"
fi

# ---- one program ----

run 0 --set name=block --set d_model=32 --set h=4 --set seq_len=21 --set bias=true --set mask=causal tiny.layer
for cc in $compilers; do
    # shellcheck disable=SC2086
    check "twelve layers with $cc" "$cc" $strict -O0 -I. -o model "$root/tests/commands/many_program.c" block.c
    check "twelve layers of one shape" ./model
    mkdir "objects_${cc##*/}"
    for source in together/*.c; do
        check "$source with $cc" "$cc" -std=c11 -O0 -c -o "objects_${cc##*/}/$(basename "$source" .c).o" "$source"
    done
    nm -gP "objects_${cc##*/}"/*.o | awk '$2 ~ /^[A-TV-Z]$/ { print $1 }' | sort >symbols
    check "several shapes: there are symbols" test "$(wc -l <symbols)" -ge 36
    check "several shapes: none is there twice" test -z "$(uniq -d symbols)"
done

tally
