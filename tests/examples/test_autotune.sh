#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# examples/autotune/autotune.sh and autotune.py: what they choose of a sweep that is known, what they say where nothing
# fits or something fails, and each once for real, down to the built program.
#
#   tests/examples/test_autotune.sh      ATTNGEN=build/attngen  ATTNRUN=build/attnrun  CC=gcc
set -u
cd "$(dirname "$0")/../.." || exit 3
here=$PWD/examples/autotune
. tests/checks.sh
export CC=${CC:-gcc} XDG_CACHE_HOME=$work/cache
export CFLAGS=-O0 # of the programs, which need not be fast
unset HEADS SWEEP SPEC
real=$ATTNRUN
shown=(out err)
cd "$work" || exit 3

# tune STATUS ARGUMENT…: $tuner must end with that status
tune() {
    ends "$1" "${tuner[@]}" "${@:2}"
    [ "$1" -eq 0 ] || check "${tuner[*]} ${*:2}: says why" grep -q error: err
}
says() { check "${tuner[*]} says '$1'" grep -qF -- "$1" out err; }

# A sweep that leaves this table: 3 is no legal count, 16 failed its check.
cat >table.csv <<'CSV'
point,h,status,isa,us,us_min,disturbed,spec,reason
1,1,ok,avx2,12.5,12,0,"a,b.layer",
2,2,ok,avx2,9.75,9,0,"a,b.layer",
3,3,illegal,,,,,"a,b.layer","h = 3 does not divide d_model = 32, but …"
4,4,ok,avx2,21,20,0,"a,b.layer",
5,8,ok,avx2,30.25,30,1,"a,b.layer",
6,16,failed,avx2,,,,"a,b.layer",ok
CSV
cat >table.jsonl <<'JSON'
{"h":8,"status":"ok","us":30.25,"disturbed":1}
{"h":3,"status":"illegal","reason":"h = 3 does not divide d_model = 32"}
{"h":1,"status":"ok","us":12.5,"disturbed":0}
{"h":2,"status":"ok","us":9.75}
{"h":16,"status":"failed","reason":"ok"}
{"h":4,"status":"ok","us":21}
JSON
cat >fake <<'SH'
#!/bin/sh
echo "$*" >>"$WORK/commands"
for word; do
    case $last in
    --csv) cp "$WORK/table.csv" "$word" ;;
    --json) cp "$WORK/table.jsonl" "$word" ;;
    esac
    last=$word
done
exit "${FAKE:-0}"
SH
sed -i 's/^for word/last=\n&/' fake
chmod +x fake
export WORK=$work

# all_cases NAME: both scripts stand these alike
all_cases() {
    local folder=$1
    tune 2
    tune 2 32
    tune 2 0 100;       tune 2 x 100;       tune 2 32 x;    tune 2 32 0;    tune 2 32 -5
    tune 2 31x 100
    export ATTNRUN=$work/fake
    tune 0 32 30.25 "${at[@]}" "$folder/all";    says "h = 8 takes 30.25 µs, within 30.25 µs"
    says "the machine was disturbed while h = 8 was timed"
    check "the chosen pair is there" grep -Eq 'CHOSEN_H 8 ' "$folder/all/chosen.h"
    check "the program runs" eval '"$folder/all/chosen" | grep -q "d_model = 32, h = 8, d_k = 4, n = 128 on "'
    FAKE=1 CC=false tune 3 32 25 "${at[@]}" "$folder/bad"; says "h = 4 takes 21 µs, within 25 µs"
    says "could not be built"
    tune 1 32 9 "${at[@]}" "$folder/none";       says "nothing fits in 9 µs; the fastest is h = 2 with 9.75 µs"
    check "nothing is emitted" test ! -e "$folder/none/chosen.c"
    FAKE=2 tune 2 32 25 "${at[@]}" "$folder/bad"
    FAKE=3 tune 3 32 25 "${at[@]}" "$folder/bad"
    ATTNRUN=$work/missing tune 3 32 25 "${at[@]}" "$folder/bad"
    echo text >file
    tune 3 32 25 "${at[@]}" file/folder
    mv table.csv csv && mv table.jsonl jsonl && grep -v ok csv >table.csv && grep -v ok jsonl >table.jsonl
    tune 1 32 25 "${at[@]}" "$folder/bad";       says "no point of the sweep is good"
    mv csv table.csv && mv jsonl table.jsonl
    ATTNRUN=$real
}

# real_case FOLDER ARGUMENT…: a sweep, a choice and a program, all real; h = 3 is listed as illegal on the way
real_case() {
    local folder=$1
    shift
    tune 0 16 1000000 "$@"
    says "illegal"
    says "autotune: h = 2 takes "
    says "chosen: d_model = 16, h = 2, d_k = 8, n = 128 on "
    check "the sweep's table is kept" eval 'ls "$folder"/sweep.* | grep -q .'
}

shell=$(command -v dash || echo sh) # dash takes nothing that is not POSIX
tuner=("$shell" "$here/autotune.sh") at=()
all_cases shell
check "heads at least 8 wide are tried" grep -q -e '--vary h=1,2,4 ' commands
export HEADS="1 2 3" SWEEP="--isa scalar --rounds 3 --seconds 0.01"
real_case real "$work/real"
SPEC=missing.layer tune 3 16 1000000 "$work/bad"
unset HEADS SWEEP

rm commands
if command -v python3 >/dev/null; then
    tuner=(python3 -B "$here/autotune.py") at=(--folder)
    all_cases python
    check "heads at least 8 wide are tried" grep -q -e '--vary h=1,2,4 ' commands
    CC=false ATTNRUN=$work/fake tune 3 32 25 --folder widest --choose widest
    says "h = 1 takes 12.5 µs"
    real_case again --folder again --heads 1,2,3 --sweep "--isa scalar --rounds 3 --seconds 0.01"
    tune 3 16 1000000 --spec missing.layer
else
    skip "autotune.py, python3 is not here"
fi

if command -v shellcheck >/dev/null; then
    check "shellcheck" shellcheck "$here/autotune.sh"
else
    skip "shellcheck is not here"
fi

tally
