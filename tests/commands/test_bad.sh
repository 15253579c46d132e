#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Every spec in tests/bad/ must be refused with exactly the messages in its .expected, exit code 2, and nothing
# written. A .set beside it holds --set texts, one a line. Cases that cannot lie in a repository (a directory, a file
# that is not there, …) are made below and must end with exit code 3.
#
#     tests/commands/test_bad.sh             ATTNGEN=build/attngen
#     UPDATE=1 tests/commands/test_bad.sh    writes the .expected anew, to be read before they are committed
#
# Left out on purpose: good specs (test_layer.c) and wrong command lines.
set -u
cd "$(dirname "$0")/../.." || exit 3
. tests/checks.sh

# report NAME WHY COMMAND…: one case that failed, with what repeats it
report() {
    local name=$1 why=$2
    shift 2
    result 1 "$name: $why"
    printf '  repeat:'
    printf ' %q' "$@"
    echo
}

# refuse NAME EXPECTED_FILE EXIT_CODE ARGUMENT…
refuse() {
    local name=$1 expected=$2 code=$3 status
    shift 3
    local out=$work/out
    rm -rf "$out" && mkdir "$out"
    "$attngen" -o "$out" --isa scalar "$@" >"$work/stdout" 2>"$work/stderr" </dev/null
    status=$?
    if [ "${UPDATE:-}" = 1 ] && [ "$code" = 2 ]; then
        cp "$work/stderr" "$expected"
    fi
    if [ "$status" -ne "$code" ]; then
        report "$name" "exit code $status, expected $code" "$attngen" "$@"
    elif ! diff -u "$expected" "$work/stderr" >"$work/diff"; then
        report "$name" "another message" "$attngen" "$@"
        cat "$work/diff"
    elif [ -s "$work/stdout" ]; then
        report "$name" "wrote to standard output" "$attngen" "$@"
    elif [ -n "$(ls -A "$out")" ]; then
        report "$name" "wrote files: $(ls -A "$out")" "$attngen" "$@"
    else
        result 0 "$name"
    fi
}

for spec in tests/bad/*.layer; do
    name=$(basename "$spec" .layer)
    sets=()
    if [ -e "tests/bad/$name.set" ]; then
        while IFS= read -r text; do
            sets+=(--set "$text")
        done <"tests/bad/$name.set"
    fi
    refuse "$name" "tests/bad/$name.expected" 2 ${sets[@]+"${sets[@]}"} "$spec"
done

# What the environment refuses: the same messages on every system that has POSIX names for its errors.
mkdir "$work/folder.layer"
echo "$work/folder.layer: error: is a directory; give the path of a spec file, or a model's folder to attngen import" >"$work/expected"
refuse directory "$work/expected" 3 "$work/folder.layer"

unreadable="give the path of a spec file, or a model's folder to attngen import"
echo "$work/none.layer: error: cannot be read: No such file or directory; $unreadable" >"$work/expected"
refuse missing_file "$work/expected" 3 "$work/none.layer"

printf 'd_model = 64\nh = 4\nseq_len = 32\n' >"$work/secret.layer"
chmod 000 "$work/secret.layer"
if [ ! -r "$work/secret.layer" ]; then
    echo "$work/secret.layer: error: cannot be read: Permission denied; $unreadable" >"$work/expected"
    refuse unreadable_file "$work/expected" 3 "$work/secret.layer"
fi

head -c 1048577 /dev/zero | tr '\0' '#' >"$work/long.layer"
echo "$work/long.layer: error: longer than 1 MiB; a spec has some twenty lines" >"$work/expected"
UPDATE= refuse long_file "$work/expected" 2 "$work/long.layer"

tally
