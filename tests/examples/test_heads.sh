#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# examples/heads: the program trains every task, goes on where it was ended, and refuses what it cannot use; its driver
# makes results and a page, and does not do again what is done. Left out on purpose: what is learnt.
#
#   tests/examples/test_heads.sh      ATTNGEN=build/attngen  CC=gcc
set -u
cd "$(dirname "$0")/../.." || exit 3
. tests/checks.sh
log=$work/log excerpt=(tail -n 20)
cc=${CC:-gcc} example=$root/examples/heads
shakespeare=$example/shakespeare.txt

# narrow: d_model 16, 2 heads
cat >"$work/attention.layer" <<'EOF'
d_model = 16
h = 2
seq_len = 64
mask = causal
bias = true
train = true
EOF
fields='FIELD(w_q,256,16) FIELD(b_q,16,0) FIELD(w_k,256,16) FIELD(b_k,16,0) FIELD(w_v,256,16) FIELD(b_v,16,0) '
fields+='FIELD(w_o,256,16) FIELD(b_o,16,0)'
compile() { # OUT FLAGS…
    local out=$1
    shift
    "$cc" -std=gnu11 -Wall -Wextra -Werror "$@" -I"$work" -DLAYERS=2 "-DFIELDS=$fields" -o "$work/$out" "$example/heads.c" \
        "$work/attention.c" -lm
}
heads() { "$work/heads" "$@" >"$work/said" 2>"$work/err"; }
learns() { # TASK LOSS: what is printed ends with less
    heads "$1" 60 1 "$work/$1" "$shakespeare" && awk -v loss="$2" '{
        n = split($0, points, /\[/); split(points[n], last, /,/); exit !(last[1] > 0 && last[1] < loss) }' "$work/said"
}
refuses() { # STATUS TEXT WORD…
    local status=$1 says=$2
    shift 2
    heads "$@"
    [ $? -eq "$status" ] && grep -q "$says" "$work/err"
}
goes_on() { # a run that was killed once it had a checkpoint ends like one that was not
    heads sort 200 7 "$work/whole" && cp "$work/said" "$work/wanted"
    "$work/heads" sort 200 7 "$work/cut" >/dev/null 2>&1 &
    until [ -s "$work/cut" ]; do sleep 0.01; done
    kill -9 $! && wait $! 2>/dev/null
    heads sort 200 7 "$work/cut" && diff <(sed 's/"seconds": [0-9.]*//' "$work/wanted") \
        <(sed 's/"seconds": [0-9.]*//' "$work/said")
}

check "the pair is emitted" "$ATTNGEN" --isa avx2 -o "$work" "$work/attention.layer"
check "the program compiles" compile heads -O1 -fsanitize=address,undefined -fno-sanitize-recover
check "recall is trained" learns recall 4.2
check "sort is trained" learns sort 4.2
check "text is trained" learns text 4.6
check "a run that was killed goes on" goes_on
check "a task that is none" refuses 2 usage other 60 1 "$work/other"
check "text without its text" refuses 2 'text needs one' text 60 1 "$work/other"
printf short >"$work/short"
check "a text that is too short" refuses 3 'too short' text 60 1 "$work/other" "$work/short"
head -c 100 "$work/sort" >"$work/torn"
check "a checkpoint that is torn" refuses 3 "another model's" sort 60 1 "$work/torn"
check "a checkpoint that cannot be written" refuses 3 'cannot be written' sort 60 1 "$work/none/checkpoint"
check "without the pair it is short" test "$(wc -l <"$example/heads.c")" -lt 400

if ! command -v python3 >/dev/null; then
    leave_out "python3 is not there" 8
fi
drive() { CC="$cc" python3 -B "$example/run.py" --out "$work/out" --jobs 1 --steps 20 --seeds 1 "$@" >"$work/said" 2>"$work/err"; }
says() { # TEXT WORD…: it fails and says so
    local text=$1
    shift
    ! drive "$@" && grep -q "$text" "$work/err" && ! grep -q Traceback "$work/err"
}
again() { # nothing is trained twice, and a line that was cut is done again
    cp "$work/out/results.jsonl" "$work/before" && drive --shard 2/94 && cmp "$work/before" "$work/out/results.jsonl" &&
        truncate -s -5 "$work/out/results.jsonl" && drive --shard 2/94 &&
        [ "$(grep -c '}$' "$work/out/results.jsonl")" -eq "$(wc -l <"$work/before")" ]
}
page() { drive --page && grep -q '<h2>recall</h2>' "$work/out/heads.html" && grep -q 'class="near"' "$work/out/heads.html"; }
check "a page without results" says 'there are no results' --page
check "a shard that is none" says 'shard is I/N' --shard 3/2
check "too few steps" says 'at least 20' --steps 1
check "a shard of the runs" drive --shard 2/94
check "its results" grep -q '"points": \[\[' "$work/out/results.jsonl"
check "what is done is not done again" again
check "the page" page
check "a program that is not there" env ATTNGEN="$work/none" bash -c '
    ! python3 -B "$1" --out "$2" --steps 20 --seeds 1 --shard 1/94 2>"$2.err" && grep -q "name it in ATTNGEN" "$2.err"' \
    - "$example/run.py" "$work/nothing"
tally
