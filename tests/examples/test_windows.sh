#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The examples' programs for Windows: they compile with MinGW's gcc and with clang, and say under wine what they say here.
#
#   tests/examples/test_windows.sh      ATTNGEN=build/attngen  ATTNRUN=build/attnrun  CLANG19=clang-19
#
# Left out on purpose: examples/threads, which pins its threads as Linux does; each instruction set (test_targets.sh).
set -u
cd "$(dirname "$0")/../.." || exit 3
. tests/checks.sh
mingw=x86_64-w64-mingw32
command -v $mingw-gcc >/dev/null || leave_out "the examples for Windows: there is no $mingw-gcc"
log=$work/log WINEPREFIX=$work/wine WINEDEBUG=-all
export WINEPREFIX WINEDEBUG
leave() { [ ! -d "$WINEPREFIX" ] || wineserver -k >/dev/null 2>&1; }

"$attngen" -o "$work" --isa scalar --set name=chosen examples/autotune/chosen.layer
"$attngen" -o "$work" --isa scalar examples/tiny.layer examples/build/average.layer
"$attngen" -o "$work" --isa scalar --set name=layer examples/decode/rows.layer
for model in bert:minilm gpt2:gpt2 llama_bias:llama; do
    "$attngen" import "tests/models/imports/${model%:*}" -o "$work" --isa scalar --name "${model#*:}" >"$log"
done
CFLAGS=-O0 check "a model is packed" "$attnrun" pack --all "$work/llama.layers" --weights tests/models/imports/llama_bias --isa scalar \
    -o "$work/llama.packed"

compile() { # OUT COMPILER PROGRAM PAIR
    # shellcheck disable=SC2086,SC2046 # several words and files
    $2 $strict -O1 -I"$work" -o "$work/$1" "examples/$3" $(ls "$work"/$4*.c) -lm
}
clang="${CLANG19:-clang-19}"
for program in vendor/main.c:tiny autotune/main.c:chosen build/main.c:average decode/decode.c:layer minilm/embed.c:minilm \
    gpt2/generate.c:gpt2 llama/generate.c:llama; do
    name=${program%%/*} file=${program%:*} pair=${program#*:}
    check "$name here" compile "$name" "${CC:-gcc}" "$file" "$pair"
    check "$name with $mingw-gcc" compile "$name.exe" $mingw-gcc "$file" "$pair"
    if command -v "$clang" >/dev/null; then
        check "$name with $clang" compile "$name-clang.exe" \
            "$clang --target=$mingw -L$(dirname "$($mingw-gcc -print-libgcc-file-name)")" "$file" "$pair"
    else
        skip "$name with $clang"
    fi
done
command -v wine >/dev/null || leave_out "programs under wine: it is not here" 3
same() { # NAME WORD…: says the same here and there
    "$work/$1" "${@:2}" <"$work/in" >"$work/here" && [ -s "$work/here" ] && wine "$work/$1.exe" "${@:2}" <"$work/in" >"$work/there" &&
        diff "$work/here" <(tr -d '\r' <"$work/there")
}
printf '3 4 5 6\n7\n8 9\n' >"$work/in"
wine "$work/vendor.exe" >"$log" 2>&1 # which makes its folder, and says so
check "vendor under wine" same vendor
check "llama under wine, with a mapped file" same llama "$work/llama.packed" 5
check "minilm under wine" same minilm tests/models/imports/bert/model.safetensors
tally
