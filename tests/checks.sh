# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Counting checks, for the scripts of this folder: . tests/checks.sh
#
#   check TEXT COMMAND…    the command must succeed; in this shell, so that what it sets and where it goes stays
#   ends STATUS COMMAND…   the command must end with that status; its output goes to the files out and err
#   result STATUS TEXT     the same of a command that has run: its status must be 0
#   skip TEXT [COUNT]      one check, or COUNT, that this machine cannot make
#   tally                  the last line, and 0 where nothing failed
#
# Many that need not wait for each other, in the folder $work:
#   job WORD…              notes one
#   run_jobs               runs all, $JOBS at a time, each as "SCRIPT --one NUMBER WORD…", and counts their lines
#                          "passed: …", "FAILED: …" and "skipped: …"; shows what they say, but for what passed. One
#                          without such a line has failed.
#
# What a script may set, to have more shown of a check that fails than its TEXT:
#   log=FILE               takes what the command of a check writes, and is shown; the command's input is empty then
#   shown=(FILE…)          are shown in place of that; one that is not there is passed over
#   excerpt=(COMMAND…)     the filter that shortens them, as in (head -n 20)
# or, where that is not enough, a show() of its own.
passed=0 failed=0 skipped=0
log='' shown=() excerpt=(cat)

show() { sed 's/^/    /' "${shown[@]:-$log}" 2>/dev/null | "${excerpt[@]}"; }

logged() { if [ -n "$log" ]; then "$@" >"$log" 2>&1 </dev/null; else "$@"; fi; }

result() {
    if [ "$1" -eq 0 ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $2"
    fi
}

check() {
    local text=$1
    shift
    if logged "$@"; then
        result 0 "$text"
    else
        result 1 "$text"
        show
    fi
}

ends() {
    local wanted=$1 got
    shift
    "$@" >out 2>err </dev/null
    got=$?
    check "$* → $got, not $wanted" test $got -eq "$wanted"
}

skip() {
    echo "skipped: $1"
    skipped=$((skipped + ${2:-1}))
}

job_count=0
job() {
    job_count=$((job_count + 1))
    echo "$job_count $*" >>"$work/jobs"
}

run_jobs() {
    local number p f s self=$0
    [ -x "$self" ] || self=$OLDPWD/$0
    [ $job_count -gt 0 ] || return 0
    mkdir -p "$work/said"
    export work
    # shellcheck disable=SC2016 # the inner shell's words
    xargs -P "${JOBS:-$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)}" -L 1 \
        bash -c '"$0" --one "$@" >"$work/said/$1" 2>&1' "$self" <"$work/jobs" || exit 3
    for ((number = 1; number <= job_count; number++)); do
        grep -qsE '^(passed|FAILED|skipped): ' "$work/said/$number" ||
            sed -n "${number}s/^[0-9]*/FAILED: no verdict of/p" "$work/jobs" >>"$work/said/$number"
        cat "$work/said/$number"
    done >"$work/all"
    grep -v '^passed: ' "$work/all"
    read -r p f s < <(awk -F: '{ count[$1]++ }
        END { print count["passed"] + 0, count["FAILED"] + 0, count["skipped"] + 0 }' "$work/all")
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
}

tally() {
    echo "$passed passed, $failed failed, $skipped skipped"
    [ "$failed" -eq 0 ]
}
