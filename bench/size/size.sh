#!/bin/sh
# SPDX-License-Identifier: MIT
# size.sh DIR: bytes against microseconds of --size fast and small, as a table in Markdown on standard output.
#
# For each example (or those in SIZE_LAYERS) and each instruction set of the machine: bytes of that set's code with gcc -O2
# (or $CC), what all sets share included, and the median time of the layer on one core, batch 1, n = seq_len. Fast and
# small are timed alternating, ROUNDS (5) times, so that a slow minute affects both; the median of the rounds counts.
#
#   ATTNGEN  ATTNRUN  CC=gcc  SIZE_LAYERS="tiny bert_base"  SIZE_ROUNDS=5  SIZE_SECONDS=0.3
set -e
root=$(cd "$(dirname "$0")/../.." && pwd)
CC=${CC:-gcc}
export CC ATTNGEN
folder=$1
[ -n "$folder" ] && [ -x "$ATTNGEN" ] && [ -x "$ATTNRUN" ] || {
    echo "usage: ATTNGEN=build/attngen ATTNRUN=build/attnrun size.sh DIR; or make bench-size" >&2
    exit 2
}
[ -n "$SIZE_LAYERS" ] || SIZE_LAYERS=$(for spec in "$root"/examples/*.layer; do basename "$spec" .layer; done)

echo "| layer | set | fast, bytes | fast, µs | small, bytes | small, µs | code | time |"
echo "| --- | --- | --: | --: | --: | --: | --: | --: |"
for name in $SIZE_LAYERS; do
    here=$folder/$name
    mkdir -p "$here"
    rm -f "$here"/*
    for size in fast small; do
        "$ATTNGEN" --size $size -o "$here" "$root/examples/$name.layer" >/dev/null
        "$CC" -O2 -std=c11 -c -o "$here/$size.o" "$here/$name.c"
        "$root/bench/size/bytes.sh" "$here/$size.o" >"$here/$size.bytes"
    done
    round=0
    while [ $round -lt "${SIZE_ROUNDS:-5}" ]; do
        for size in fast small; do
            "$ATTNRUN" bench "$root/examples/$name.layer" --set plan.size=$size --rounds 1 --batch 1 \
                --seconds "${SIZE_SECONDS:-0.3}" | awk '$3 == "layer" { print $2, $4 }' >>"$here/$size.us"
        done
        round=$((round + 1))
    done
    sort -k1,1 -k2,2n "$here/fast.us" >"$here/fast.sorted"
    sort -k1,1 -k2,2n "$here/small.us" >"$here/small.sorted"
    awk -v name="$name" '
        FILENAME ~ /bytes$/ { which = FILENAME ~ /fast/ ? "fast" : "small"; bytes[which, $1] = $2; next }
        { which = FILENAME ~ /fast/ ? "fast" : "small"; n = ++count[which, $1]; us[which, $1, n] = $2
          if (!($1 in seen)) { seen[$1] = 1; order[++isas] = $1 } }
        function median(which, isa) { return us[which, isa, int((count[which, isa] + 1) / 2)] }
        function total(which, isa) { return bytes[which, isa] + bytes[which, "shared"] }
        END {
            for (i = 1; i <= isas; i++) {
                isa = order[i]
                printf "| %s | %s | %d | %.4g | %d | %.4g | %.2f | %.2f |\n", name, isa, total("fast", isa), median("fast", isa),
                       total("small", isa), median("small", isa), total("small", isa) / total("fast", isa),
                       median("small", isa) / median("fast", isa)
            }
        }' "$here/fast.bytes" "$here/small.bytes" "$here/fast.sorted" "$here/small.sorted"
done
