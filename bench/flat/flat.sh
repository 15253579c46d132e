#!/bin/sh
# SPDX-License-Identifier: MIT
# flat.sh OUT: the share of peak against each dimension of a layer, beside the share that attngen --explain expects.
#
# A point is one value of one dimension. All points are compiled first, several at a time, into attnrun's cache. Then
# they are measured round by round, each round in an order of its own, so that a disturbance of some seconds falls on
# unrelated points and not on a stretch of a curve. Into OUT go flat.csv and a plot DIMENSION.svg for each dimension.
#
#   FLAT           dimensions, of: dk step n d_model h batch49 batch10 (all)
#   FLAT_POINTS    values, in place of those below, for every dimension that is measured
#   FLAT_ISA       instruction sets, joined by commas               (avx2,avx512)
#   FLAT_ROUNDS    rounds over all points                           (5)
#   FLAT_SECONDS   time of one measurement, about                   (0.15)
#   FLAT_LIMIT     points below the expected share that are a fault (10)
#   FLAT_SLOWER    percent that a point may take longer than the next larger one of its dimension (3)
#   FLAT_SEED      of the orders                                    (1)
#   FLAT_CORE      core to measure on                               (any: attnrun stays where it starts)
#   JOBS           compilers at a time                              (one a core)
#
# Ends with 1 if a point's fastest call lies further below the expected share than FLAT_LIMIT (its share of the highest peak
# of all rounds; a median may be that of a machine that others use as well), or takes FLAT_SLOWER percent longer than that of
# the next larger value; 3 if something is missing.
set -eu
here=$(dirname "$0")
out=$1
dimensions=${FLAT:-dk step n d_model h batch49 batch10}
isa=${FLAT_ISA:-avx2,avx512}
rounds=${FLAT_ROUNDS:-5}
seconds=${FLAT_SECONDS:-0.15}
seed=${FLAT_SEED:-1}
: "${ATTNGEN:=build/attngen}" "${ATTNRUN:=build/attnrun}"
export ATTNGEN ATTNRUN here isa

if ! command -v gnuplot >/dev/null; then
    echo 'bench-flat: gnuplot is not here; on Debian: apt-get install gnuplot-nox (elsewhere: gnuplot)' >&2
    exit 3
fi

# points DIMENSION: its values
points() {
    case $1 in
    dk | step)
        echo 1 2 3 4 7 8 12 15 16 17 20 24 31 32 33 40 47 48 63 64 65 80 95 96 97 112 127 128 129 160 192 255 256 257 ;;
    n)  echo 1 2 3 4 5 7 8 9 12 15 16 17 24 31 32 33 40 47 48 49 63 64 65 79 80 81 95 96 97 111 112 113 127 128 129 \
             143 144 145 159 160 161 191 192 193 223 224 225 255 256 257 320 383 384 385 511 512 513 767 768 769 \
             1023 1024 1025 1535 1536 1537 2047 2048 ;;
    d_model) echo 16 37 64 100 101 128 192 255 256 257 300 384 511 512 513 640 728 768 1000 1024 ;;
    h)  echo 1 2 3 4 5 6 7 8 9 12 15 16 17 24 31 32 33 48 63 64 ;;
    batch49 | batch10) echo 1 2 3 4 5 7 8 12 15 16 17 24 31 32 33 48 63 64 ;;
    *)  echo "bench-flat: FLAT = $1 is no dimension; there are dk step n d_model h batch49 batch10" >&2; exit 3 ;;
    esac
}

# settings DIMENSION VALUE: how attngen and attnrun are told of it
settings() {
    case $1 in
    dk | step) echo "--set d_k=$2 --set d_v=$2" ;;
    n)  echo "--set seq_len=$2" ;;
    d_model | h) echo "--set $1=$2" ;;
    esac
}

# batch DIMENSION VALUE: the same for sequences, which are no matter of the spec
batch() {
    case $1 in batch*) echo "--batch $2" ;; esac
}

# call DIMENSION: the call that is timed, where it is not of full sequences
call() {
    case $1 in step) echo "--n 1 --past 1024" ;; esac
}

# shuffled SEED: the lines of standard input in the order of that seed
shuffled() {
    awk -v seed="$1" -f "$here/shuffle.awk"
}

# bench DIMENSION VALUE OPTION…: one run of attnrun
bench() {
    dimension=$1 value=$2
    shift 2
    ${FLAT_CORE:+taskset -c $FLAT_CORE} "$ATTNRUN" bench --json --isa "$isa" $(settings "$dimension" "$value") \
        $(batch "$dimension" "$value") $(call "$dimension") "$@" "$here/$dimension.layer"
}

if [ "$out" = --compile ]; then # one line "DIMENSION VALUE", as xargs calls this script
    bench "$2" "$3" --rounds 1 --seconds 0.001 >/dev/null
    exit
fi

mkdir -p "$out"
work=$out/work
mkdir -p "$work"
: > "$work/points"
for dimension in $dimensions; do
    known=$(points "$dimension") || exit 3
    for value in ${FLAT_POINTS:-$known}; do
        echo "$dimension $value" >> "$work/points"
    done
done
count=$(wc -l < "$work/points")

# what is expected: "DIMENSION VALUE ISA SHARE BOUND"; nothing of a call that is not of full sequences
while read -r dimension value; do
    if [ -n "$(call "$dimension")" ]; then
        echo "$isa" | tr , '\n' | sed "s/.*/$dimension $value & 0 -/"
        continue
    fi
    "$ATTNGEN" --isa "$isa" --explain $(batch "$dimension" "$value") $(settings "$dimension" "$value") "$here/$dimension.layer" |
        sed -n "s/^expected \([^ ]*\) layer /$dimension $value \1 /p"
done < "$work/points" > "$work/expected"

echo "bench-flat: compiling $count points" >&2
if ! shuffled 0 < "$work/points" | xargs -P "${JOBS:-$(nproc)}" -L 1 "$0" --compile 2> "$work/log"; then
    grep error "$work/log" >&2 || tail -n 5 "$work/log" >&2
    exit 3
fi

: > "$work/measured"
round=1
while [ "$round" -le "$rounds" ]; do
    echo "bench-flat: round $round of $rounds" >&2
    shuffled $((1000 * seed + round)) < "$work/points" | while read -r dimension value; do
        bench "$dimension" "$value" --rounds 3 --seconds "$seconds" < /dev/null 2>> "$work/log" |
            awk -v prefix="$dimension $value" -f "$here/layer.awk"
    done >> "$work/measured" || exit 3
    round=$((round + 1))
done

status=0
awk -v limit="${FLAT_LIMIT:-10}" -v slower="${FLAT_SLOWER:-3}" -v csv="$out/flat.csv" -f "$here/quantile.awk" \
    -f "$here/flat.awk" "$work/points" "$work/expected" "$work/measured" || status=$?
for dimension in $dimensions; do
    names=$(echo "$isa" | tr , ' ')
    gnuplot -e "csv='$out/flat.csv'; dimension='$dimension'; isas='$names'; svg='$out/$dimension.svg'" \
        "$here/flat.gnuplot" || status=3
done
echo "bench-flat: $out/flat.csv and $(for d in $dimensions; do printf '%s ' "$out/$d.svg"; done)" >&2
exit "$status"
