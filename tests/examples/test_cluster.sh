#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A sweep on more than one machine: examples/cluster/parallel.sh by GNU parallel, examples/cluster/sweep.sbatch as an
# array job of a Slurm that is started here for it. Both must give the points of the same sweep in one piece.
#
#   tests/examples/test_cluster.sh      ATTNRUN=build/attnrun  CC=gcc
set -u
cd "$(dirname "$0")/../.." || exit 3
here=$PWD/examples/cluster
. tests/checks.sh
. tests/examples/one_node.sh
leave() { one_node_stop; }
export CC=${CC:-gcc} CFLAGS=-O0 XDG_CACHE_HOME=$work/cache
unset SHARDS MACHINES JOBS
shown=(out err)
cd "$work" || exit 3

says() { check "says '$1'" grep -qF -- "$1" out err; }

# What of a table must not depend on where and when it was measured.
points() {
    awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) if (!($i in at)) at[$i] = i }
        { print $at["point"], $at["h"], $at["seq_len"], $at["status"], $at["isa"], $at["parameters"], $at["multiply_adds"],
                $at["packed_bytes"] }' "$1"
}
# Each point in one shard, each shard with points.
all_of() { # FOLDER SHARDS
    local i
    points "$1/sweep.csv" >found
    check "$1: the points of the sweep in one piece" cmp found whole
    for ((i = 1; i <= $2; i++)); do
        check "$1: shard $i has points" grep -q "\"shard\":\"$i/$2\"" "$1/shard.$i.jsonl"
    done
    check "$1: nothing twice" test "$(sort "$1"/shard.*.jsonl | wc -l)" -eq "$(wc -l <whole.jsonl)"
}

cat >small.layer <<'SPEC'
d_model = 16
h = 1
seq_len = 4
SPEC
vary=(small.layer --vary h=1,2,3 --vary seq_len=4,5 --isa scalar --rounds 2 --seconds 0.001)
ends 0 "$ATTNRUN" sweep "${vary[@]}" --json whole.jsonl --csv whole.csv
points whole.csv >whole
check "four points and two that are illegal" test "$(grep -c ' ok ' whole) $(grep -c ' illegal ' whole)" = "4 2"

# ---- GNU parallel ----

ends 2 "$here/parallel.sh" 2 folder
ends 2 "$here/parallel.sh" x folder "${vary[@]}"
ends 2 "$here/parallel.sh" 0 folder "${vary[@]}"
if ! parallel --version 2>/dev/null | grep -q '^GNU parallel'; then
    skip "GNU parallel is not here"
else
    mkdir 'a folder'
    ends 0 env JOBS=2 "$here/parallel.sh" 2 'a folder/p' "${vary[@]}"
    all_of 'a folder/p' 2
    cp 'a folder/p/shard.1.jsonl' before
    rm 'a folder/p/shard.2.jsonl'
    ends 1 "$ATTNRUN" merge 'a folder/p/shard.1.jsonl'
    says "nothing is there of shard 2/2"
    ends 0 "$here/parallel.sh" 2 'a folder/p' "${vary[@]}"
    all_of 'a folder/p' 2
    check "what was done is not done again" cmp before 'a folder/p/shard.1.jsonl'
    ends 2 "$here/parallel.sh" 1 'a folder/p' "${vary[@]}"
    says "another number of shards"
    ends 3 "$here/parallel.sh" 2 p3 missing.layer "${vary[@]:1}"
    says "missing.layer"
    mkdir empty
    ends 3 env PATH="$work/empty" "$BASH" "$here/parallel.sh" 2 p4 "${vary[@]}"
    says "Debian: apt-get install parallel"
fi

# ---- Slurm ----

ends 2 "$here/sweep.sbatch" folder "${vary[@]}"
if ! one_node_start "$work/slurm"; then
    skip "no Slurm: $one_node_reason"
else
    ends 0 sbatch --wait --array=1-2 "$here/sweep.sbatch" s "${vary[@]}"
    ends 0 "$ATTNRUN" merge s/shard.*.jsonl --json s/sweep.jsonl --csv s/sweep.csv
    all_of s 2
    check "each task has its log" eval 'cat attngen-sweep.1.log attngen-sweep.2.log >out'
    rm s/shard.1.jsonl
    ends 0 env SHARDS=2 sbatch --wait --array=1 "$here/sweep.sbatch" s "${vary[@]}"
    ends 0 "$ATTNRUN" merge s/shard.*.jsonl --csv s/sweep.csv
    all_of s 2
    ends 3 sbatch --wait --array=1 "$here/sweep.sbatch" t missing.layer "${vary[@]:1}"
    check "why a task failed is in its log" grep -q 'missing.layer: error' attngen-sweep.1.log
    one_node_stop
    check "no daemon is left" eval '! ps -A -o args | grep -F "$work/slurm" | grep -qv grep'
fi

if command -v shellcheck >/dev/null; then
    check "shellcheck" shellcheck -s sh "$here/parallel.sh" "$here/sweep.sbatch"
else
    skip "shellcheck is not here"
fi

tally
