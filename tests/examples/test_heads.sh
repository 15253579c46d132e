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
    heads "$1" 60 1 3e-3 "$work/$1" "$shakespeare" && awk -v loss="$2" '{
        n = split($0, points, /\[/); split(points[n], last, /,/); exit !(last[1] > 0 && last[1] < loss) }' "$work/said"
}
refuses() { # STATUS TEXT WORD…
    local status=$1 says=$2
    shift 2
    heads "$@"
    [ $? -eq "$status" ] && grep -q "$says" "$work/err"
}
goes_on() { # a run that was killed once it had a checkpoint ends like one that was not
    heads sort 200 7 3e-3 "$work/whole" && cp "$work/said" "$work/wanted"
    "$work/heads" sort 200 7 3e-3 "$work/cut" >/dev/null 2>&1 &
    until [ -s "$work/cut" ]; do sleep 0.01; done
    kill -9 $! && wait $! 2>/dev/null
    heads sort 200 7 3e-3 "$work/cut" && diff <(sed 's/"seconds": [0-9.]*//' "$work/wanted") \
        <(sed 's/"seconds": [0-9.]*//' "$work/said")
}

check "the pair is emitted" "$ATTNGEN" --isa avx2 -o "$work" "$work/attention.layer"
check "the program compiles" compile heads -O1 -fsanitize=address,undefined -fno-sanitize-recover
check "recall is trained" learns recall 4.2
check "sort is trained" learns sort 4.2
check "text is trained" learns text 4.6
check "a run that was killed goes on" goes_on
check "a task that is none" refuses 2 usage other 60 1 3e-3 "$work/other"
check "text without its text" refuses 2 'text needs one' text 60 1 3e-3 "$work/other"
printf short >"$work/short"
check "a text that is too short" refuses 3 'too short' text 60 1 3e-3 "$work/other" "$work/short"
head -c 100 "$work/sort" >"$work/torn"
check "a checkpoint that is torn" refuses 3 "another model's" sort 60 1 3e-3 "$work/torn"
check "a checkpoint that cannot be written" refuses 3 'cannot be written' sort 60 1 3e-3 "$work/none/checkpoint"
check "without the pair it is short" test "$(wc -l <"$example/heads.c")" -lt 400

if ! command -v python3 >/dev/null; then
    leave_out "python3 is not there" 22
fi
export CC="$cc"
run_py() { # FOLDER WORD…: two cells, of three runs each: two rates, then a seed
    local out=$work/$1
    shift
    python3 -B "$example/run.py" --out "$out" --jobs 1 --steps 20 --seeds 1 --kinds narrow,tied --tasks sort --heads 2 \
        --budgets parameters --rates 3e-3,1e-2 "$@"
}
drive() { run_py out "$@" >"$work/said" 2>"$work/err"; }
says() { # TEXT WORD…: it fails and says so
    local text=$1
    shift
    ! drive "$@" && grep -q "$text" "$work/err" && ! grep -q Traceback "$work/err"
}
again() { # nothing is trained twice, and a line that was cut is done again
    cp "$work/out/results.jsonl" "$work/before" && drive && cmp "$work/before" "$work/out/results.jsonl" &&
        truncate -s -5 "$work/out/results.jsonl" && drive &&
        [ "$(grep -c '}$' "$work/out/results.jsonl")" -eq "$(wc -l <"$work/before")" ]
}
interrupt() { # HOW: it ends at once by the signal and trains nothing more, and what is done stands
    local turns=0 child done
    rm -rf "$work/cut"
    mkdir "$work/cut" && cp -r "$work/out/programs" "$work/cut" || return
    set -m # a child of a script that has no jobs ignores SIGINT
    run_py cut --steps 3000 >"$work/said" 2>"$work/err" </dev/null &
    child=$!
    set +m
    until [ -s "$work/cut/results.jsonl" ] || [ $((turns += 1)) -gt 1200 ]; do sleep 0.05; done
    case $1 in
    group) kill -INT -- -"$child" ;;
    INT) pkill -INT -P "$child" -f run.py || kill -INT "$child" ;;
    esac
    wait "$child" 2>/dev/null
    [ $? -eq 130 ] || return
    done=$(wc -l <"$work/cut/results.jsonl")
    sleep 1
    [ "$done" -lt 6 ] && [ "$done" -eq "$(grep -c '}$' "$work/cut/results.jsonl")" ] && ! grep -q Traceback "$work/err" &&
        grep -q 'interrupted; ' "$work/err" && ! pgrep -f "$work/cut/programs" >/dev/null
}
sizes() { # budgets that are called equal are so
    python3 -B - "$example" <<'END'
import sys
sys.path.insert(0, sys.argv[1])
import run
plan = dict(budgets=("parameters", "multiply-adds"), kinds=tuple(run.KINDS), heads=run.HEADS, tasks=tuple(run.WORDS))
seen = 0
for budget in plan["budgets"]:
    for cell in run.cells({**plan, "budgets": (budget,)}):
        off = run.COSTS[budget](*cell.values()) / run.COSTS[budget](cell["task"], *run.REFERENCE) - 1
        assert abs(off) <= run.EQUAL, (budget, cell, off)
        seen += 1
assert seen > 100
END
}
page() {
    drive --page && grep -q '<h2>Kinds and heads at the same parameters</h2>' "$work/out/heads.html" &&
        grep -q 'class=near' "$work/out/heads.html" && grep -q '<th>layer 2</th>' "$work/out/heads.html" &&
        grep -q '>narrow, 2</text>' "$work/out/heads.svg"
}
found() { # the page in docs/ is of the results beside the example
    mkdir "$work/found" && cp "$example/results.jsonl" "$work/found" &&
        python3 -B "$example/run.py" --out "$work/found" --page && cmp "$work/found/heads.svg" "$root/docs/heads.svg" || return
    python3 -B - "$example" "$root/docs/heads.md" <<'END'
import sys
sys.path.insert(0, sys.argv[1])
import pathlib, run
page, groups = open(sys.argv[2]).read(), list(run.groups_of(run.read_results(pathlib.Path(sys.argv[1])).values()))
assert len(groups) > 6 and all(len(group.rows) == 5 for group in groups)
for group in groups:
    show = lambda loss: f"{loss:.4f}" if loss < .1 else f"{loss:.3f}"
    row = f"| {show(group.mean)} | {show(group.low)} … {show(group.high)} | {group.learned().partition(',')[0]} |"
    sizes = f"| {group.task} | {group.kind} | {group.h} of {group.sizes[4]} | {group.sizes[3]} | {group.rows[0]['parameters']:,} "
    assert any(line.startswith(sizes) and line.endswith(row) for line in page.splitlines()), (sizes, row)
END
}
rates() { # of each cell both rates with one seed, then one rate with another
    [ "$(grep -c '"seed": 101' "$work/out/results.jsonl")" -eq 4 ] &&
        [ "$(grep -c '"seed": 1,' "$work/out/results.jsonl")" -eq 2 ]
}
front() { # the layers of a task, timed, beside the losses that lie there
    python3 -B "$example/front.py" --out "$work/front" --tasks sort --heads 4 --isa scalar --seconds 0.02 >"$work/said" \
        2>"$work/err" && [ "$(awk '$1 == "sort" && $7 > 0 && $10 < 0.002' "$work/said" | wc -l)" -eq 2 ] &&
        grep -q '\*$' "$work/said" && [ "$(grep -c '"held_by": "' "$work/front/front.jsonl")" -eq 2 ] &&
        grep -q '>wide, 4</text>' "$work/front/front.svg"
}
front_says() { # TEXT WORD…
    ! python3 -B "$example/front.py" --out "$work/front" "${@:2}" >"$work/said" 2>&1 && grep -q "$1" "$work/said" &&
        ! grep -q Traceback "$work/said"
}
dominates() { # none of the front is beaten, and what is not of it is
    python3 -B - "$example" <<'END'
import sys
sys.path.insert(0, sys.argv[1])
import front
rows = [dict(task=task, us=us, loss=loss) for task, us, loss in
        (("a", 1, 9), ("a", 2, 8), ("a", 3, 8), ("a", 4, 8.5), ("a", 4, 1), ("a", 4, 1), ("b", 9, 9))]
front.mark_front(rows)
assert [row["front"] for row in rows] == [True, True, False, False, True, True, True], rows
END
}
check "budgets that are called equal are" sizes
check "the front of latency and quality: what is on it" dominates
check "the front of latency and quality" front
check "a front without results" front_says 'there are no results of these layers' --heads 5
check "a front without attnrun" env ATTNRUN="$work/none" bash -c '! python3 -B "$1" --out "$2" --tasks sort 2>"$2.err" &&
    grep -q "name it in ATTNGEN, ATTNRUN" "$2.err" && ! grep -q Traceback "$2.err"' - "$example/front.py" "$work/no_front"
check "docs/heads.md has the results and their figure" found
check "a page without results" says 'there are no results' --page
check "a shard that is none" says 'shard is I/N' --shard 3/2
check "too few steps" says 'at least 20' --steps 1
check "a kind that is none" says "argument --kinds" --kinds broad
check "its words: a range" says "argument --heads" --heads 1,65
check "two cells are trained" drive
check "it says what it builds" grep -q 'programs built' "$work/err"
check "each rate is tried, one is taken" rates
check "what is done is not done again" again
check "the page" page
cp "$work/out/results.jsonl" "$work/before"
sed -i 's/"rate": [^,]*, //' "$work/out/results.jsonl"
check "results of an older version" says 'another version' --page
cp "$work/before" "$work/out/results.jsonl"
check "Ctrl-C at a terminal ends it at once" interrupt group
check "so does SIGINT to itself alone" interrupt INT
check "and it goes on" run_py cut --steps 20
check "a shard of the cells" run_py half --shard 2/2
check "a program that is not there" env ATTNGEN="$work/none" bash -c '
    ! python3 -B "$1" --out "$2" --steps 20 --seeds 1 --shard 1/9 2>"$2.err" && grep -q "name it in ATTNGEN" "$2.err" &&
    ! grep -q Traceback "$2.err"' - "$example/run.py" "$work/nothing"
tally
