#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# unpack.sh FOLDER: the cases of cases.txt as NAME.layer and NAME.safetensors in the folder, which is made.
set -eu
mkdir -p "$1"
# a case: "== NAME", its spec, "data BASE64"
while IFS= read -r line; do
    case $line in
    '#'*) ;;
    '== '*) name=${line#== } && : >"$1/$name.layer" ;;
    'data '*) base64 -d <<<"${line#data }" >"$1/$name.safetensors" ;;
    *) echo "$line" >>"$1/$name.layer" ;;
    esac
done <"$(dirname "$0")/cases.txt"
