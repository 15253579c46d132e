#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Kernels broken on purpose: each tests/mutants/*.mutant changes a line or two of the templates, and `attnrun check`
# must refuse the kernel that comes out, with exit code 1, while it passes the same layer without the change, which is
# asked of layers that several mutants have. Every fourth mutant runs, as its name and the texts of all templates decide,
# so that others run where a template changes; what the rest would change must be there. Layers take turns at this
# machine's instruction sets, one each; scalar, which tcc compiles in a fiftieth of the time, takes five turns of seven
# where tcc is. "all", or a name, breaks each set with $CC, and asks it of every layer.
# Left out on purpose: mutations that a compiler or attngen itself refuses, and any that change nothing a caller sees.
#
#   tests/kernels/test_mutants.sh [all|NAME…]      ATTNRUN=build/attnrun  CC=gcc  CFLAGS=-O0  JOBS=N
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
set -u
cd "$(dirname "$0")/../.." || exit 3
. tests/checks.sh
[ "${1-}" = --one ] || CFLAGS=$(quick "${CFLAGS--O0}")
export CFLAGS

# Applies the mutant to the templates in $folder and writes its spec there; says so when a text is not there once.
apply() { # MUTANT
    LC_ALL=C awk -v folder="$folder" '
        function fail(why) { printf "FAILED: %s: %s\n", FILENAME, why; bad = 1; exit 1 }
        function slurp(path,    text, line, status) {
            while ((status = (getline line < path)) > 0)
                text = text line "\n"
            close(path)
            if (status < 0)
                fail("there is no template " path)
            return text
        }
        function replace(    finds, path, text, at, rest) {
            finds = "echo " folder "/templates/" (file ~ "/" ? "" : "*/") file
            finds | getline path
            close(finds)
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

# layer_of MUTANT: a number for its layer, and how that is called
layer_of() { sed -n '/^call /p; /^--- spec/,/^--- file/{ /^---/!p }' "$1" | cksum; }

# isas_of MUTANT: those that must fail
isas_of() {
    local isas sets turn
    isas=$(sed -n 's/^isa //p' "$1")
    [ -n "$isas" ] && { echo "$isas"; return; }
    [ "$every" ] && { echo "$here"; return; }
    IFS=, read -ra sets <<<"$here"
    [ "$quickest" ] && sets+=(scalar scalar scalar scalar)
    turn=$(layer_of "$1") # its kernel without the change is kept
    echo "${sets[${turn%% *} % ${#sets[@]}]}"
}

# --one NUMBER MUTANT [waits]
if [ "${1-}" = --one ]; then
    mutant=$3
    name=$(basename "$mutant" .mutant)
    folder=$work/$name
    mkdir "$folder" && cp -R templates "$folder/templates" && apply "$mutant" || exit 0
    if [ "${4-}" ]; then
        rm -rf "$folder"
        echo "passed: $name: what it changes is there"
        exit 0
    fi
    read -ra call < <(sed -n 's/^call //p' "$mutant")
    isas=$(isas_of "$mutant")
    only=
    case $name:$isas in
    automatic_* | *,* | *:all) ;;
    *) only=-DMUTANT_ONLY_ISA=MUTANT_ISA_${isas^^} ;; # no other set is compiled
    esac
    CFLAGS+=" $only"
    set -- "$ATTNRUN" check "$folder/mutant.layer" ${call[@]+"${call[@]}"} --isa "$isas" --cache "$work/cache"
    sane=$work/sane.$(cat <(echo "$CFLAGS ${call[*]-} $isas") "$folder/mutant.layer" | cksum | tr ' ' -) # asked once of a layer
    if [ ! "$every" ] && ! grep -qx "$(layer_of "$mutant")" "$work/shared"; then
        sane=$work/unasked
    elif [ ! -e "$sane" ]; then
        "$@" >"$folder/sane" 2>&1
        echo $? >>"$folder/sane"
        mv "$folder/sane" "$sane"
    fi
    sed '$d' "$sane" >"$folder/sane"
    status=$(tail -n 1 "$sane")
    if [ $status -ne 0 ] && ! { [ $status -eq 3 ] && grep -q '^0 passed, 0 failed' "$folder/sane"; }; then
        echo "FAILED: $name: without the change this should pass: $*"
        sed 's/^/    /' "$folder/sane"
        exit 0
    fi
    # it has no builtins of gcc, and its code takes longer where all is to be asked, as of a layer without a change
    [ "$isas:$quickest" = scalar:yes ] && ! grep -q __builtin "$mutant" && CC=tcc CFLAGS=$only
    "$@" --templates "$folder/templates" >"$folder/out" 2>&1
    status=$?
    for isa in $(sed -n 's/^[a-zA-Z]* *mutant \([a-z0-9_]\{1,\}\).*/\1/p' "$folder/out" "$folder/sane" | sort -u); do
        if grep -q "^FAILED *mutant $isa" "$folder/out"; then
            why=$(grep -A 1 "^FAILED *mutant $isa" "$folder/out" | sed -n '2s/^ *//p')
            echo "passed: $name, $isa: $(sed -n '1s/^# *//p' "$mutant") -> $why"
        elif grep -q "^skipped mutant $isa" "$folder/out"; then
            echo "skipped: $name, $isa: this machine lacks it"
        else
            echo "FAILED: $name: $isa is not caught by: $*"
            sed 's/^/    /' "$folder/out"
        fi
    done
    if [ $status -ne 1 ] && ! grep -q '^skipped' "$folder/out"; then
        echo "FAILED: $name: attnrun ended with $status, not with 1: $*"
    fi
    rm -rf "$folder"
    exit 0
fi

here=$(tests/isas_here.sh)
every= quickest=
[ $# -gt 0 ] && every=yes
[ ! "$every" ] && [ "$here" != all ] && command -v tcc >/dev/null && quickest=yes
export here every quickest CC=${CC:-gcc}

mutants=(tests/mutants/*.mutant)
if [ $# -gt 0 ] && [ "$1" != all ]; then
    mutants=("${@/%/.mutant}")
    mutants=("${mutants[@]/#/tests/mutants/}")
    ls "${mutants[@]}" >/dev/null || exit 2
fi
texts=$(cat templates/*/* | cksum)
for mutant in "${mutants[@]}"; do
    turn=$(cksum <<<"$texts $(basename "$mutant")")
    if [ ! "$every" ] && [ $((${turn%% *} % 4)) -ne 0 ]; then
        job "$mutant" waits
    else
        job "$mutant"
        layer_of "$mutant" >>"$work/layers"
    fi
done
sort "$work/layers" | uniq -d >"$work/shared"
echo 0 >"$work/unasked" # as a report whose exit code is 0
run_jobs
sed -n 's/^passed: \(.* -> \)/caught  \1/p' "$work/all"
tally
