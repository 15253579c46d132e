#!/bin/sh
# SPDX-License-Identifier: MIT
# chunks.sh FOLDER: `make bench-chunks`, the time of calls of n tokens behind a cache over n: a table, and 1 where a call
# takes more than CHUNKS_LIMIT percent longer than one of the next larger n, or than two of half as many tokens, which see
# fewer keys and are counted with the keys of the call. Of each n the fastest call of all rounds counts: a median may be
# that of a machine that others use as well.
#
# From the environment: ATTNRUN, ATTNGEN; CHUNKS, the numbers of tokens in rising order; CHUNKS_PAST (1024), CHUNKS_ISA
# (avx2,avx512), CHUNKS_ROUNDS (3), CHUNKS_SECONDS of a measurement (0.1), CHUNKS_LIMIT (3).
set -eu
here=$(dirname "$0")
folder=$1
chunks=${CHUNKS:-$(seq -s ' ' 1 40) 48 56 63 64 65 96 127 128 129 192 256 384 512}
mkdir -p "$folder"
: >"$folder/measured"
while read -r name keys; do
    { printf '%s\n' "name = $name" "input = projected" "w_o = none" "mask = causal" "cache = rows" "seq_len = 512" \
        "cache_len = $((${CHUNKS_PAST:-1024} + 512))"
      for key in $keys; do echo "$key" | sed 's/=/ = /'; done; } >"$folder/$name.layer"
    for round in $(seq "${CHUNKS_ROUNDS:-3}"); do
        echo "bench-chunks: $name, round $round" >&2
        "$ATTNRUN" bench --json --isa "${CHUNKS_ISA:-avx2,avx512}" --n "$(echo "$chunks" | tr ' ' ,)" \
            --past "${CHUNKS_PAST:-1024}" --rounds 3 --seconds "${CHUNKS_SECONDS:-0.1}" "$folder/$name.layer" |
            awk -v prefix="$name" -v each=n -f "$here/../flat/layer.awk" >>"$folder/measured"
    done
done <<END
heads_12_of_64 h=12 d_k=64 d_v=64
heads_32_on_8_of_128 h=32 h_kv=8 d_k=128 d_v=128
heads_16_on_4_of_96 h=16 h_kv=4 d_k=96 d_v=96
END
awk -v limit="${CHUNKS_LIMIT:-3}" -v past="${CHUNKS_PAST:-1024}" '
    {
        key = $1 " " $3
        if (!(key in count)) keys[++all] = key
        if (!((key, $2) in us)) n[key, ++count[key]] = $2
        if (!((key, $2) in us) || $6 < us[key, $2]) us[key, $2] = $6
        if ($5 > share[key, $2]) share[key, $2] = $5
    }
    function keys_seen(tokens) { return tokens * (past + (tokens + 1) / 2) }
    function compare(key, tokens, other, times) {
        if (!((key, other) in us) || us[key, tokens] <= (1 + limit / 100) * times * us[key, other]) return
        printf "too slow: %s, %d tokens take %.2f of %s of %d\n", key, tokens,
            us[key, tokens] / (times * us[key, other]), times == 1 ? "one call" : "two calls", other
        slow = 1
    }
    END {
        for (k = 1; k <= all; k++) {
            key = keys[k]
            printf "\n%s\n%6s %10s %6s\n", key, "tokens", "us", "share"
            for (i = 1; i <= count[key]; i++)
                printf "%6d %10.2f %4.0f %%\n", n[key, i], us[key, n[key, i]], 100 * share[key, n[key, i]]
            for (i = 1; i <= count[key]; i++) {
                compare(key, n[key, i], n[key, i + 1], 1)
                half = n[key, i] / 2
                compare(key, n[key, i], half, half > 0 ? keys_seen(2 * half) / keys_seen(half) : 2)
            }
        }
        if (all == 0) { print "bench-chunks: nothing was measured" > "/dev/stderr"; exit 3 }
        exit slow
    }' "$folder/measured"
