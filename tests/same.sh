#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Emits every example, vector and imported model by two builds of attngen and compares the texts: with every instruction
# set, fast, small and split; --explain; the examples with other number types and gradients too; the
# messages of what is refused as well. Both builds read the specs of this tree.
#
#     tests/same.sh REV      REV: a revision of git, built below $BUILD/same     BUILD=build ATTNGEN=build/attngen JOBS=2
#
# Files that differ by the same lines (numbers aside) are one entry of the report, with one diff. Exit code 1 where
# something differs. Left out on purpose: what the texts compute.
set -eu
cd "$(dirname "$0")/.."
[ $# = 1 ] || { echo "usage: tests/same.sh REV (make same BEFORE=REV)" >&2; exit 2; }
build=$(realpath "${BUILD:-build}") now=$(realpath "${ATTNGEN:-build/attngen}")
revision=$(git rev-parse --verify --quiet "$1^{commit}") || { echo "same: git knows no revision $1" >&2; exit 2; }
rev=$build/same/$revision
mkdir -p "$rev"
if [ ! -x "$rev/build/attngen" ]; then
    git archive "$revision" | tar -x -C "$rev"
    MAKEFLAGS='' make -C "$rev" -s -j "${JOBS:-2}" BUILD=build build/attngen
fi

# FOLDER/NAME VARIANT ARGUMENTS…, one a line: what is emitted
plan() {
    local spec name set
    for spec in examples/*.layer $(find tests/vectors tests/models tests/onnx tests/data -name '*.layer' | sort); do
        name=${spec%.layer}
        echo "$name/fast --isa all $spec"
        echo "$name/small --isa all --size small $spec"
        echo "$name/split --isa all --split $spec"
        echo "$name/explain --explain $spec"
        case $spec in examples/*) ;; *) continue ;; esac
        for set in precision=i8 precision=i16 weight_type=i4 weight_type=i8 train=true cache_type=i8; do
            echo "$name/$set --isa all --set $set $spec"
        done
    done
    for name in tests/models/imports/*/; do
        echo "${name}import import $name"
    done
}

# PROGRAM OUT: everything of plan() into OUT/FOLDER/NAME/VARIANT; what it says and its exit code with it
emit_all() {
    plan | PROGRAM=$1 OUT=$2 xargs -P "${JOBS:-2}" -L 1 bash -c '
        at=$OUT/$1
        shift
        mkdir -p "$at"
        way=(-o "$at")
        [ "$1" != --explain ] || way=()
        status=0
        command=("$@")
        [ "$1" != import ] || command=(import "${@:2}")
        "$PROGRAM" "${command[@]}" ${way[@]+"${way[@]}"} >"$at/said" 2>&1 || status=$?
        echo "exit code $status" >>"$at/said"' one
}

# The texts before are kept for the next comparison with the same specs.
specs=$({ plan; plan | grep -o '[^ ]*\.layer$' | sort -u | xargs cat; } | sha256sum | cut -c1-16)
if [ ! -f "$rev/$specs/whole" ]; then
    rm -rf "$rev/$specs"
    emit_all "$rev/build/attngen" "$rev/$specs"
    touch "$rev/$specs/whole"
fi
rm -rf "$build/same/now"
emit_all "$now" "$build/same/now"
touch "$build/same/now/whole"

cd "$build/same"
{ diff -rq "$revision/$specs" now || true; } >differ
total=$(find now -type f ! -name whole | wc -l)
grep '^Only' differ || true
sed -n 's/^Files .* and \(now.*\) differ$/\1/p' differ >changed
rm -rf kinds
mkdir kinds
while read -r file; do
    { diff "$revision/$specs/${file#now/}" "$file" || true; } | sed -n 's/[0-9][0-9]*/N/g; s/0x[0-9a-fN]*/N/g; /^[<>]/p' | sort -u >kind
    echo "$file" >>"kinds/$(sha256sum <kind | cut -c1-16)"
done <changed
for kind in $(wc -l kinds/* 2>/dev/null | sort -rn | awk '/kinds/ { print $2 }'); do
    file=$(head -n 1 "$kind")
    echo "== $(wc -l <"$kind") files like $file"
    { diff "$revision/$specs/${file#now/}" "$file" || true; } | head -n "${LINES_EACH:-12}" | cut -c1-160
done
echo "$((total - $(wc -l <changed))) of $total texts are those of $1, $(wc -l <changed) differ in $(find kinds -type f | wc -l) ways"
[ ! -s differ ]
