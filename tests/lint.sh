#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# clang-tidy and cppcheck over the tools and over emitted pairs: nothing to say but what
# .clang-tidy and .cppcheck name as deliberate. `make lint`; what is not installed is left out. Minutes, so no part of
# `make test`.
#
#   tests/lint.sh SPEC…         ATTNGEN  BUILD  JOBS=N, all cores if not given
set -u
cd "$(dirname "$0")/.." || exit 3

# --one NUMBER TEXT COMMAND…: succeeds and says nothing on stdout; else what it says is kept, for the list in order
if [ "${1-}" = --one ]; then
    number=$2 text=$3
    shift 3
    "$@" >"$work/$number.log" 2>"$work/$number.errors" && [ ! -s "$work/$number.log" ] && exit
    { echo "FAILED: $text"; head -qn 40 "$work/$number.log" "$work/$number.errors" | sed 's/^/    /'; } >"$work/$number.failed"
    exit 0
fi

. tests/checks.sh
cp .clang-tidy "$work"
for spec in "$@"; do
    "$attngen" --isa scalar,avx2 -o "$work" "$spec" || exit
done

number=1000
job() { echo "$((++number)) $*" >>"$work/jobs"; }

tools=(gen/*.c gen/*/*.c runtime/*.c runtime/*/*.c)
tool_flags=(-std=c11 -D_GNU_SOURCE -Igen -Iruntime -Itemplates -I"$BUILD/gen")
for name in lua5.4 lua-5.4 lua54 lua; do
    # shellcheck disable=SC2207 # flags are words
    pkg-config --exists "$name >= 5.4" 2>/dev/null && tool_flags+=($(pkg-config --cflags "$name" | sed 's/-I/-isystem /g')) && break
done
: >"$work/jobs"
if command -v clang-tidy >/dev/null; then
    for file in "${tools[@]}" "$work"/*.c; do
        job "clang-tidy:${file#"$work"/}" clang-tidy --quiet "$file" -- "${tool_flags[@]}"
    done
else
    skip "clang-tidy: it is not here"
fi
if command -v cppcheck >/dev/null; then
    cppcheck=(cppcheck -q --std=c11 --error-exitcode=1 --template=gcc)
    kinds=warning,performance,portability
    for file in "${tools[@]}"; do
        job "cppcheck:$file" "${cppcheck[@]}" --enable=$kinds -Igen -Iruntime -Itemplates -I"$BUILD/gen" "$file"
    done
    for file in "$work"/*.c; do
        job "cppcheck:${file##*/}" "${cppcheck[@]}" --enable=$kinds,style --max-configs=1 --suppressions-list=.cppcheck "$file"
    done
else
    skip "cppcheck: it is not here"
fi

export work
xargs -r -P "${JOBS:-$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)}" -L 1 "$PWD/tests/lint.sh" --one <"$work/jobs" || exit 3
cat "$work"/*.failed 2>/dev/null
failed=$(find "$work" -name '*.failed' | wc -l)
passed=$((number - 1000 - failed)) # shellcheck disable=SC2034
tally
