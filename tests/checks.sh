# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# What every script of tests/ begins with, from the repository's root: . tests/checks.sh
#
# It sets, and exports but for the last two:
#   root, build        the repository, and $BUILD, as paths from /
#   ATTNGEN, ATTNRUN   the programs, from / as well; the same in small letters. They must be there, unless unbuilt=yes
#   JOBS               at once: all cores if it is not given
#   work               a folder that goes when the script ends, after leave() if there is one
#   compilers          $CC (gcc), and $CLANG (clang) where it is installed and not empty
#   strict             flags for a compiler that is to find nothing
#
#   check TEXT COMMAND…    the command must succeed; in this shell, so that what it sets and where it goes stays
#   ends STATUS COMMAND…   the command must end with that status; its output goes to the files out and err
#   result STATUS TEXT     the same of a command that has run: its status must be 0
#   skip TEXT [COUNT]      one check, or COUNT, that this machine cannot make
#   leave_out TEXT [COUNT] the same of all that follows: the script ends
#   says, prints TEXT      the file err has that text, or the file out
#   narrow FILE…           fails where a line has more than 120 columns, or ends in a blank, and names those lines
#   quick FLAGS            prints flags for attnrun's $CFLAGS: these, and for gcc and clang the intrinsics as a header that
#                          is compiled already, as reading them takes half of the time of a small pair at -O0
#   alone SPEC SETS        prints the flag by which the layer's pair compiles that instruction set without scalar code, which
#                          each pair has and which takes as long; nothing where SETS are several
#   set_of SPEC SETS       prints one of the sets, by the checksum of the spec: specs that are alike share a kernel
#   tally                  the last line, and 0 where nothing failed
#
# Many that need not wait for each other, in the folder $work:
#   job WORD…              notes one
#   run_jobs               runs all, $JOBS at a time, each as "SCRIPT --one NUMBER WORD…", and counts their lines
#                          "passed: …", "FAILED: …" and "skipped: …"; shows what they say, but for what passed. One
#                          without such a line has failed.
#   fail TEXT              ends a job: what went wrong, and the file $log
#
# What a script may set, to have more shown of a check that fails than its TEXT:
#   log=FILE               takes what the command of a check writes, and is shown; the command's input is empty then
#   shown=(FILE…)          are shown in place of that; one that is not there is passed over
#   excerpt=(COMMAND…)     the filter that shortens them, as in (head -n 20)
# or, where that is not enough, a show() of its own.
root=$PWD
if [ "${1-}" != --one ]; then # a job has them of its script
    build=$(realpath "${BUILD:-build}")
    ATTNGEN=$(realpath "${ATTNGEN:-$build/attngen}") ATTNRUN=$(realpath "${ATTNRUN:-$build/attnrun}")
fi
# shellcheck disable=SC2034 # the scripts use them
attngen=$ATTNGEN attnrun=$ATTNRUN compilers=${CC:-gcc} strict="-std=c11 -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror"
JOBS=${JOBS:-$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)}
export root build ATTNGEN ATTNRUN JOBS
command -v "${CLANG-clang}" >/dev/null && [ "$compilers" != "${CLANG-clang}" ] && compilers="$compilers ${CLANG-clang}"
leave() { :; }
if [ "${1-}" != --one ]; then
    for program in "$ATTNGEN" "$ATTNRUN"; do
        [ "${unbuilt-}" ] || [ -x "$program" ] ||
            { echo "$program: error: not there; build it with make, or name it in ATTNGEN, ATTNRUN" >&2; exit 3; }
    done
    work=$(mktemp -d) || exit 3
    export work
    # what may not be written may lie there, and a compiler whose parent was killed may still write
    trap 'leave; rm -rf "$work" 2>/dev/null || { chmod -R u+w "$work"; sleep 2; rm -rf "$work"; }' EXIT
    trap 'exit 3' HUP INT TERM
fi

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

leave_out() {
    skip "$@"
    tally
    exit
}

says() { check "says '$1'" grep -qF -- "$1" err; }
prints() { check "prints '$1'" grep -qF -- "$1" out; }

fail() {
    echo "FAILED: $*"
    head -n 30 "$log" | sed 's/^/    /'
    exit 0
}

job_count=0
job() {
    job_count=$((job_count + 1))
    echo "$job_count $*" >>"$work/jobs"
}

run_jobs() {
    local number p f s self=$0
    [ -x "$self" ] || self=$OLDPWD/$0
    : >"$work/all"
    [ $job_count -gt 0 ] || return 0
    mkdir -p "$work/said"
    # shellcheck disable=SC2016 # the inner shell's words
    xargs -P "$JOBS" -L 1 \
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

narrow() { # a column is a character: the continuation bytes of UTF-8 do not count
    LC_ALL=C awk '
        { line = $0; gsub(/[\200-\277]/, "", line) }
        length(line) > 120 { print FILENAME ":" FNR ": " length(line) " columns"; bad = 1 }
        line ~ /[ \t\r]$/ { print FILENAME ":" FNR ": ends in a blank"; bad = 1 }
        END { exit bad }' "$@"
}

quick() {
    local flags="-O2 -fPIC $*" known header='' kept='' own='' # as attnrun has them
    known=$work/quick.$(cksum <<<"$flags ${CC:-gcc}" | tr ' ' -)
    if [ ! -e "$known" ]; then
        case $(${CC:-gcc} -v 2>&1) in
        *'clang version'*) kept=pch own='-Xclang -fno-pch-timestamp' ;;
        *'gcc version'*) kept=gch ;;
        esac
        if [ "$kept" ] && [[ $build != *[[:space:]]* ]]; then # flags have no blanks
            header=$build/intrinsics/$(echo "$flags ${CC:-gcc} $(${CC:-gcc} --version 2>&1)" | cksum | tr ' ' -)/intrinsics.h
            # shellcheck disable=SC2086 # flags are words
            [ -e "$header.$kept" ] ||
                { mkdir -p "$(dirname "$header")" && echo '#include <immintrin.h>' >"$header" &&
                    ${CC:-gcc} $flags $own -x c-header -o "$header.$$" "$header" 2>/dev/null && mv "$header.$$" "$header.$kept"; }
            [ -e "$header.$kept" ] || header=
        fi
        echo "${header:+ -include $header}" >"$known.$$" && mv "$known.$$" "$known"
    fi
    echo "$*$(<"$known")"
}

alone() {
    local name
    case $2 in *,* | all | '') return ;; esac
    name=$(sed -n 's/^name *= *//p' "$1")
    [ -n "$name" ] || name=$(basename "$1" .layer)
    echo "-D${name^^}_ONLY_ISA=${name^^}_ISA_${2^^}"
}

set_of() {
    local sets number
    IFS=, read -ra sets <<<"$2"
    read -r number _ < <(cksum <"$1")
    echo "${sets[number % ${#sets[@]}]}"
}

tally() {
    echo "$passed passed, $failed failed, $skipped skipped"
    [ "$failed" -eq 0 ]
}
