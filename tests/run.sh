#!/usr/bin/env bash
# Runs test programs and scripts one after the other, sums what they report, and ends with "N passed, N failed".
#
# A program reports as cmocka does ("[  PASSED  ] N test(s)"), or ends, as a script does, with a line
# "N passed, N failed" or "N passed, N failed, N skipped". One that dies, takes longer than TEST_TIMEOUT seconds or
# reports nothing is one failure more. Logs go to $BUILD/test-logs/; the log of a failure is shown.
set -u
cd "$(dirname "$0")/.." || exit 3

build=${BUILD:-build}
logs=$build/test-logs
mkdir -p "$logs" || exit 3
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

passed=0 failed=0 skipped=0
for program in "$@"; do
    name=$(basename "$program")
    log=$logs/$name.log
    case $program in /*) path=$program ;; *) path=./$program ;; esac
    start=$SECONDS
    "${limit[@]}" "$path" >"$log" 2>&1 </dev/null
    status=$?
    read -r p f s < <(count "$log")
    why=
    if [ $status -ne 0 ] && [ "$f" -eq 0 ]; then
        f=1 why=" (ended with status $status)"
        [ $status -eq 124 ] && why=" (took too long)"
    elif [ $((p + f + s)) -eq 0 ]; then
        f=1 why=" (reported nothing)"
    fi
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
    word=ok
    [ "$f" -gt 0 ] && word=FAILED
    printf '%-6s %-24s %5d passed, %d failed, %d skipped, %d s%s\n' \
        "$word" "$name" "$p" "$f" "$s" $((SECONDS - start)) "$why"
    if [ "$f" -gt 0 ]; then
        echo "------ $log (run it alone: $program)"
        tail -n "${TEST_LOG_LINES:-200}" "$log"
        echo "------"
    fi
done

[ "$skipped" -gt 0 ] && echo "$skipped skipped: the logs in $logs say what and why"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
