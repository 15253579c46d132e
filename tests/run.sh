#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Runs test programs and scripts, two at a time, sums what they report, and ends with "N passed, N failed". Those that
# WAITING names (test_NAME.sh) keep no core busy: they wait for limits, budgets and each other, one by one beside the two.
#
# A program reports as cmocka does ("[  PASSED  ] N test(s)"), or ends, as a script does, with a line
# "N passed, N failed" or "N passed, N failed, N skipped". One that dies, takes longer than TEST_TIMEOUT seconds or
# reports nothing is one failure more. Logs go to $BUILD/test-logs/; the log of a failure is shown.
set -u
cd "$(dirname "$0")/.." || exit 3

build=${BUILD:-build}
logs=$build/test-logs
mkdir -p "$logs" || exit 3
# Scripts work in folders of their own, and hand these on.
for name in BUILD ATTNGEN ATTNRUN; do
    case ${!name-/} in /*) ;; *) export "$name=$PWD/${!name}" ;; esac
done
limit=()
command -v timeout >/dev/null && limit=(timeout -k 10 "${TEST_TIMEOUT:-1800}")

# count LOG → "passed failed skipped"
count() {
    awk '
        match($0, /^\[  PASSED  \] [0-9]+ test\(s\)/)  { passed += $4; next }
        match($0, /^\[  FAILED  \] [0-9]+ test\(s\)/)  { failed += $4; next }
        match($0, /^\[  SKIPPED \] [0-9]+ test\(s\)/)  { skipped += $4; next }
        /^[0-9]+ passed, [0-9]+ failed(, [0-9]+ skipped)?$/ { line = $0 }
        END {
            if (line != "") { split(line, word, / /); passed += word[1]; failed += word[3]; skipped += word[5] }
            printf "%d %d %d\n", passed, failed, skipped
        }' "$1"
}

# One program: its line, and its log where it failed; the counts go to $logs/NAME.counts.
run_one() {
    local program=$1 name log path status p f s real user system why= word=ok TIMEFORMAT='%0R %0U %0S'
    name=$(basename "$program")
    log=$logs/$name.log
    case $program in /*) path=$program ;; *) path=./$program ;; esac
    { time "${limit[@]}" "$path" >"$log" 2>&1 </dev/null; } 2>"$logs/$name.time"
    status=$?
    read -r real user system <"$logs/$name.time"
    read -r p f s < <(count "$log")
    if [ $status -ne 0 ] && [ "$f" -eq 0 ]; then
        f=1 why=" (ended with status $status)"
        [ $status -eq 124 ] && why=" (took too long)"
    elif [ $((p + f + s)) -eq 0 ]; then
        f=1 why=" (reported nothing)"
    fi
    [ "$f" -gt 0 ] && word=FAILED
    {
        printf '%-6s %-24s %5d passed, %d failed, %d skipped, %d s (%d of a core)%s\n' \
            "$word" "$name" "$p" "$f" "$s" "$real" $((user + system)) "$why"
        if [ "$f" -gt 0 ]; then
            echo "------ $log (run it alone: $program)"
            tail -n "${TEST_LOG_LINES:-200}" "$log"
            echo "------"
        fi
    } >"$logs/$name.report"
    cat "$logs/$name.report" # in one write: two programs may end at once
    echo "$p $f $s" >"$logs/$name.counts"
}

# Two programs at a time, each with half of the cores: most have stretches that keep only one busy.
cores=$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)
at_once=$((cores > 1 ? 2 : 1))
export JOBS=${JOBS:-$((cores / at_once))}
rm -f "$logs"/*.counts
waits() {
    local name=${1##*/test_}
    [[ " ${WAITING-} " == *" ${name%.sh} "* ]]
}
{
    running=0
    for program in "$@"; do
        waits "$program" && continue
        if [ $running -eq $at_once ]; then
            wait -n
            running=$((running - 1))
        fi
        run_one "$program" &
        running=$((running + 1))
    done
    wait
} &
for program in "$@"; do
    ! waits "$program" || run_one "$program"
done &
wait

passed=0 failed=0 skipped=0
for program in "$@"; do
    p=0 f=1 s=0
    read -r p f s <"$logs/$(basename "$program").counts" || echo "no result of $program"
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
done

[ "$skipped" -gt 0 ] && echo "$skipped skipped: the logs in $logs say what and why"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
