#!/bin/sh
# SPDX-License-Identifier: MIT
# features.sh OUT: what each feature of a layer costs, beside what its arithmetic predicts.
#
# One feature at a time is switched on in a base layer. Each round measures base and feature one right after the other,
# in an order of its own; the ratio of the two times is what counts, its median over the rounds. Predicted are
#   arithmetic   the ratio of the plain layers' multiply-adds, those that `attngen --explain` totals
#   model        the ratio of the cycles that `attngen --explain` expects: with bytes, masks and tiles
# Into OUT go features.md and features.csv.
#
#   FEATURES           names of features, of the table below      (all)
#   FEATURES_BASE      base layers, of: base_512 base_768         (both)
#   FEATURES_ISA       instruction sets, joined by commas         (avx2,avx512)
#   FEATURES_ROUNDS    (7)      FEATURES_SECONDS  of one measurement (0.2)
#   FEATURES_LIMIT     percent above the arithmetic that are a fault (10)
#   FEATURES_SEED      of the orders (1)      FEATURES_CORE  core to measure on      JOBS  compilers at a time
#
# Ends with 1 if the ratio of the fastest calls is FEATURES_LIMIT percent above a feature's arithmetic (a median may be that of
# a machine that others use as well), 3 if something is missing.
set -eu
here=$(dirname "$0")
out=$1
bases=${FEATURES_BASE:-base_512 base_768}
isa=${FEATURES_ISA:-avx2,avx512}
rounds=${FEATURES_ROUNDS:-7}
seconds=${FEATURES_SECONDS:-0.2}
seed=${FEATURES_SEED:-1}
: "${ATTNGEN:=build/attngen}" "${ATTNRUN:=build/attnrun}"
export ATTNGEN ATTNRUN

# name | settings over the base, or how attnrun is called | bytes a query-key pair and head, read or written besides
table='
base         |                                    | 0
bias         | bias=true                          | 0
causal       | mask=causal                        | 0
window       | mask=window window_left=64 window_right=64 | 0
causal_window | mask=causal+window window_left=128 | 0
no_self      | mask=no_self                       | 0
padding      | mask=padding                       | 0
padding_half | mask=padding --lengths             | 0
bool         | mask=bool                          | 1
additive     | mask=additive                      | 4
all_masks    | mask=causal+padding+no_self+window+bool+additive window_left=256 | 5
scores       | scores=true                        | 12
cross        | attention=cross                    | 0
cross_long   | attention=cross source_len=1024    | 0
h_kv         | h_kv=2                             | 0
h_kv_1       | h_kv=1                             | 0
split        | input=split                        | 0
tied         | w_k=tied                           | 0
identity     | w_v=identity                       | 0
identity_split | w_v=identity input=split         | 0
w_o_none     | w_o=none                           | 0
conv         | w_o=conv conv_width=3              | 0
out_in       | weight_layout=out_in               | 0
odd_d_k      | d_k=61 d_v=64                      | 0
odd_d_v      | d_k=64 d_v=67                      | 0
odd_both     | d_k=61 d_v=67                      | 0
wide         | width=wide                         | 0
scale        | scale=0.25                         | 0
alibi        | alibi=true                         | 0
softcap      | softcap=30                         | 0
t5           | relative=t5                        | 0
relative_table | relative=table rel_left=128 rel_right=128 | 0
sink         | sink=true                          | 0
lse          | lse=true                           | 0
rope         | rope=half                          | 0
rope_interleaved | rope=interleaved               | 0
rope_given   | rope=half rope_positions=given     | 0
rms          | qk_norm=rms                        | 0
rms_all      | qk_norm=rms_all                    | 0
layer_norm   | qk_norm=layer                      | 0
l2           | qk_norm=l2                         | 0
rope_rms     | rope=half qk_norm=rms              | 0
'

# of BASE KEY: a number of the base layer's spec
of() {
    sed -n "s/^$2 *= *\([0-9]*\).*/\1/p" "$here/$1.layer"
}

# settings FEATURE: its settings as options
settings() {
    echo "$table" | awk -F'|' -v feature="$1" '
        { name = $1; gsub(/ /, "", name) }
        name == feature {
            n = split($2, word, " ")
            for (i = 1; i <= n; i++)
                if (word[i] !~ /^--/) printf "--set %s ", word[i]
        }'
}

# bench BASE FEATURE OPTION…: one run of attnrun
bench() {
    base=$1 feature=$2
    shift 2
    lengths=
    [ "$feature" != padding_half ] || lengths="--lengths $(($(of "$base" seq_len) / 2))"
    ${FEATURES_CORE:+taskset -c $FEATURES_CORE} "$ATTNRUN" bench --json --isa "$isa" $(settings "$feature") $lengths \
        "$@" "$here/$base.layer"
}

if [ "$out" = --compile ]; then # one line "BASE FEATURE", as xargs calls this script
    bench "$2" "$3" --rounds 1 --seconds 0.001 > /dev/null
    exit
fi

mkdir -p "$out/work"
work=$out/work
echo "$table" | awk -F'|' 'NF == 3 { gsub(/ /, "", $1); gsub(/ /, "", $3); print $1, $3 }' > "$work/table"
features=${FEATURES:-$(awk 'NR > 1 { print $1 }' "$work/table")}
for feature in $features; do
    if ! grep -q "^$feature " "$work/table"; then
        echo "bench-features: FEATURES = $feature is not in the table of bench/features/features.sh" >&2
        exit 3
    fi
done
for base in $bases; do
    printf "$base %s\n" base $features
done | awk '!seen[$0]++' > "$work/points"

# "BASE FEATURE multiply-adds N queries keys values scores sums output" and "BASE FEATURE expected ISA SHARE"
while read -r base feature; do
    "$ATTNGEN" --isa "$isa" --explain $(settings "$feature") "$here/$base.layer" |
        awk -v base="$base" -v feature="$feature" '
            /^Totals/ { totals = 1 }
            /^Which parameters/ { totals = 0 }
            totals && /^  / && /%$/ {
                name = $1
                work[name] = $(NF - 2)
            }
            $1 == "expected" && $3 == "layer" { print base, feature, "expected", $2, $4 }
            END {
                half = feature == "padding_half" ? 0.5 : 1 # what keys take: attngen counts full lengths
                keys = work["keys"] + work["values"] + work["scores"] + work["weighted"]
                printf "%s %s multiply-adds %.0f\n", base, feature, work["queries"] + half * keys + work["output"]
            }'
done < "$work/points" > "$work/predicted"

echo "bench-features: compiling $(wc -l < "$work/points") layers" >&2
if ! xargs -P "${JOBS:-$(nproc)}" -L 1 "$0" --compile < "$work/points" 2> "$work/log"; then
    grep error "$work/log" >&2 || tail -n 5 "$work/log" >&2
    exit 3
fi

: > "$work/measured"
round=1
while [ "$round" -le "$rounds" ]; do
    echo "bench-features: round $round of $rounds" >&2
    grep -v ' base$' "$work/points" | awk -v seed=$((1000 * seed + round)) -f "$here/../flat/shuffle.awk" |
    while read -r base feature; do
        # the pair in turns, base first in odd rounds
        if [ $((round % 2)) -eq 1 ]; then order="base $feature"; else order="$feature base"; fi
        for which in $order; do
            label=feature
            [ "$which" != base ] || label=base
            bench "$base" "$which" --rounds 3 --seconds "$seconds" < /dev/null 2>> "$work/log" |
                awk -v prefix="$base $feature $round $label" -f "$here/../flat/layer.awk"
        done
    done >> "$work/measured" || exit 3
    round=$((round + 1))
done

status=0
for base in $bases; do
    echo "$base $(of "$base" d_model) $(of "$base" h) $(of "$base" seq_len)"
done > "$work/bases"
awk -v limit="${FEATURES_LIMIT:-10}" -v csv="$out/features.csv" -v markdown="$out/features.md" -f "$here/../flat/quantile.awk" -f "$here/features.awk" \
    "$work/bases" "$work/table" "$work/points" "$work/predicted" "$work/measured" || status=$?
echo "bench-features: $out/features.md and $out/features.csv" >&2
exit "$status"
