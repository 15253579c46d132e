#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# decode.sh FOLDER: `make bench-decode`, steps by two threads and in a ring: tables in Markdown, see decode.c.
#
# From the environment: ATTNGEN, CC; DECODE_ISA, names of instruction sets; DECODE_SECONDS of each table; PEERS_CORES,
# two of them.
set -eu
here=$(dirname "$0")
folder=$1
mkdir -p "$folder"
read -r first second _ <<<"${PEERS_CORES:-0 1}"

# layer NAME KEYS... [-- DEFINITIONS...]: emitted, compiled with decode.c, run with each instruction set
layer() {
    local name=$1 keys=()
    shift
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        keys+=("${1/=/ = }")
        shift
    done
    printf '%s\n' "name = $name" "input = projected" "w_o = none" "seq_len = 1" "${keys[@]}" >"$folder/$name.layer"
    "$ATTNGEN" -o "$folder" "$folder/$name.layer"
    "$CC" -std=gnu11 -O2 -c -o "$folder/$name.o" "$folder/$name.c"
    "$CC" -std=gnu11 -O2 -Wall -Wextra -march=native -pthread -DNAME="$name" -DPREFIX="${name^^}" \
        "-DHEADER=\"$name.h\"" "${@:2}" -I"$folder" -o "$folder/$name" "$here/decode.c" \
        "$here/../../runtime/timing/peak.c" "$here/../../runtime/system/clock.c" "$folder/$name.o"
    for isa in ${DECODE_ISA:-avx512 avx2}; do
        "$folder/$name" "$isa" "${DECODE_SECONDS:-20}" "$first" "$second"
        echo
    done
}

rows=(mask=causal cache=rows cache_len=16400)
ring=(mask=causal+window window_left=511 cache=ring cache_len=512 -- -DRING)
layer heads_12_of_64 h=12 d_k=64 d_v=64 "${rows[@]}"
layer heads_32_on_8_of_128 h=32 h_kv=8 d_k=128 d_v=128 "${rows[@]}"
layer ring_12_of_64 h=12 d_k=64 d_v=64 "${ring[@]}"
layer ring_32_on_8_of_128 h=32 h_kv=8 d_k=128 d_v=128 "${ring[@]}"
