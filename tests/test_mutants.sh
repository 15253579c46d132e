#!/bin/sh
# SPDX-License-Identifier: MIT
# Kernels broken on purpose: each tests/mutants/*.mutant changes a line or two of the templates, and `attnrun check`
# must refuse every kernel that comes out, with exit code 1, while it passes the same layer without the change.
# Left out on purpose: mutations that a compiler or attngen itself refuses, and any that change nothing a caller sees.
#
#   tests/test_mutants.sh [NAME…]      ATTNRUN=build/attnrun  CC=gcc  CFLAGS=-O0  JOBS=N
#
# A mutant is plain text:
#   # what is broken
#   isa LIST          instruction sets that must fail: all that this machine has if not given
#   call WORDS        options of attnrun check
#   --- spec          the layer
#   --- file F        a template, and in it, exactly once,
#   --- old           this text
#   --- new           which becomes this one (file, old, new: as often as needed)
#   --- end

root=$(cd "$(dirname "$0")/.." && pwd)
build=${BUILD:-build}
case $build in /*) ;; *) build=$root/$build ;; esac
ATTNRUN=${ATTNRUN:-$build/attnrun}
case $ATTNRUN in /*) ;; *) ATTNRUN=$(pwd)/$ATTNRUN ;; esac
CFLAGS=${CFLAGS--O0}
JOBS=${JOBS:-$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)}

# Applies the mutant to the templates in $folder and writes its spec there; says so when a text is not there once.
apply() { # MUTANT
    LC_ALL=C awk -v folder="$folder" '
        function fail(why) { printf "%s: %s\n", FILENAME, why; bad = 1; exit 1 }
        function slurp(path,    text, line, status) {
            while ((status = (getline line < path)) > 0)
                text = text line "\n"
            close(path)
            if (status < 0)
                fail("there is no template " path)
            return text
        }
        function replace(    path, text, at, rest) {
            path = folder "/templates/" file
            text = slurp(path)
            sub(/\n$/, "", old); sub(/\n$/, "", new)
            at = index(text, old)
            rest = substr(text, at + length(old))
            if (old == "" || at == 0)
                fail("the old text is not in " file ", so the mutant must follow the template:\n" old)
            if (index(rest, old))
                fail("the old text is in " file " more than once:\n" old)
            if (old == new)
                fail("old and new are the same")
            printf "%s%s%s", substr(text, 1, at - 1), new, rest > path
            close(path)
            applied++
        }
        /^--- / {
            if (section == "new")
                replace()
            section = $2
            if (section == "file")
                file = $3
            else if (section == "old")
                old = new = ""
            next
        }
        section == "spec" { print > (folder "/mutant.layer") }
        section == "old" { old = old $0 "\n" }
        section == "new" { new = new $0 "\n" }
        END {
            if (!bad && (section != "end" || !applied))
                fail("no change, or no --- end")
            exit bad
        }' "$1"
}

# One mutant; its report goes to files in $results, as several run at once.
if [ "$1" = --one ]; then
    mutant=$2
    name=$(basename "$mutant" .mutant)
    report=$results/$name
    folder=$work/$name
    mkdir "$folder" && cp -R "$root/templates" "$folder/templates" || exit 255
    isas=$(sed -n 's/^isa //p' "$mutant")
    call=$(sed -n 's/^call //p' "$mutant")
    isas=${isas:-$("$root/tests/isas_here.sh")}
    if ! apply "$mutant" >"$report.failed"; then
        exit 0
    fi
    # shellcheck disable=SC2086 # $call is words
    set -- "$ATTNRUN" check "$folder/mutant.layer" $call --isa "$isas" --cache "$work/cache"
    "$@" >"$report.sane" 2>&1
    status=$?
    if [ $status -ne 0 ] && ! { [ $status -eq 3 ] && grep -q '^0 passed, 0 failed' "$report.sane"; }; then
        { echo "$name: without the change this should pass: $*"; cat "$report.sane"; } >"$report.failed"
        exit 0
    fi
    "$@" --templates "$folder/templates" >"$report.out" 2>&1
    status=$?
    for isa in $(sed -n 's/^[a-z]* *mutant \([a-z0-9_]*\) .*/\1/p' "$report.sane"); do
        if grep -q "^FAILED *mutant $isa" "$report.out"; then
            why=$(grep -A 1 "^FAILED *mutant $isa" "$report.out" | sed -n '2s/^ *//p')
            echo "$why" >"$report.$isa.caught"
        elif grep -q "^skipped mutant $isa" "$report.out"; then
            : >"$report.$isa.skipped"
        else
            echo "$name: $isa is not caught" >>"$report.failed"
        fi
    done
    if [ "$status" -ne 1 ] && [ -z "$(find "$results" -name "$name.*.skipped")" ]; then
        echo "$name: attnrun ended with $status, not with 1" >>"$report.failed"
    fi
    if [ -s "$report.failed" ]; then
        { cat "$report.out"; echo "  the mutant: $mutant"; } >>"$report.failed"
    else
        rm "$report.failed"
    fi
    rm -rf "$folder"
    exit 0
fi

if [ ! -x "$ATTNRUN" ]; then
    echo "$ATTNRUN: error: not there; build it with make, or name it in ATTNRUN" >&2
    exit 3
fi

if [ $# -gt 0 ]; then
    mutants=$(for name in "$@"; do ls "$root/tests/mutants/$name.mutant"; done) || exit 2
else
    mutants=$(ls "$root"/tests/mutants/*.mutant)
fi

work=$(mktemp -d) || exit 3
trap 'rm -rf "$work"' EXIT
trap 'exit 3' HUP INT TERM
results=$work/results
mkdir "$results"
export ATTNRUN CFLAGS root work results
printf '%s\n' "$mutants" | xargs -P "$JOBS" -I '{}' "$0" --one '{}' || exit 3

for mutant in $mutants; do
    name=$(basename "$mutant" .mutant)
    if [ -e "$results/$name.failed" ]; then
        sed 's/^/    /; 1s/^ */FAILED /' "$results/$name.failed"
    else
        why=$(cat "$results/$name".*.caught 2>/dev/null | head -n 1)
        echo "caught  $name: $(sed -n '1s/^# *//p' "$mutant") -> $why"
    fi
done
failed=$(find "$results" -name '*.failed' | wc -l)
caught=$(find "$results" -name '*.caught' | wc -l)
skipped=$(find "$results" -name '*.skipped' | wc -l)
[ "$skipped" -eq 0 ] && echo "$caught passed, $failed failed" || echo "$caught passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
