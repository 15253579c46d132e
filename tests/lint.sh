#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# clang-tidy and cppcheck over the tools and over emitted pairs: nothing to say but what
# .clang-tidy and .cppcheck name as deliberate. `make lint`; what is not installed is left out. Minutes, so no part of
# `make test`.
#
#   tests/lint.sh SPEC…         ATTNGEN  BUILD
set -u
cd "$(dirname "$0")/.." || exit 3
attngen=${ATTNGEN:-${BUILD:-build}/attngen}
work=$(mktemp -d) || exit 3
trap 'rm -rf "$work"' EXIT
. tests/checks.sh
cp .clang-tidy "$work"
for spec in "$@"; do
    "$attngen" --isa scalar,avx2 -o "$work" "$spec" || exit
done

# silent TEXT COMMAND…: succeeds and says nothing
silent() {
    local text=$1
    shift
    "$@" >"$work/log" 2>"$work/errors" && [ ! -s "$work/log" ]
    result $? "$text: $(head -n 20 "$work/log" "$work/errors")"
}

tools=(gen/*.c runtime/*.c runtime/*/*.c)
tool_flags=(-std=c11 -D_GNU_SOURCE -Igen -Iruntime)
for name in lua5.4 lua-5.4 lua54 lua; do
    # shellcheck disable=SC2207 # flags are words
    pkg-config --exists "$name >= 5.4" 2>/dev/null && tool_flags+=($(pkg-config --cflags "$name" | sed 's/-I/-isystem /g')) && break
done
if command -v clang-tidy >/dev/null; then
    for file in "${tools[@]}" "$work"/*.c; do
        silent "clang-tidy of ${file##*/}" clang-tidy --quiet "$file" -- "${tool_flags[@]}"
    done
else
    skip "clang-tidy: it is not here"
fi
if command -v cppcheck >/dev/null; then
    kinds=warning,performance,portability
    for file in "${tools[@]}"; do
        silent "cppcheck of $file" cppcheck -q --std=c11 --enable=$kinds --error-exitcode=1 --template=gcc -Igen -Iruntime "$file"
    done
    for file in "$work"/*.c; do
        silent "cppcheck of ${file##*/}" cppcheck -q --std=c11 --enable=$kinds,style --error-exitcode=1 --template=gcc \
            --max-configs=1 --suppressions-list=.cppcheck "$file"
    done
else
    skip "cppcheck: it is not here"
fi
tally
