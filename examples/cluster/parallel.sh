#!/bin/sh
# SPDX-License-Identifier: MIT
# A sweep cut into shards, run by GNU parallel, and joined.
#
#   parallel.sh SHARDS FOLDER SPEC --vary KEY=VALUES… [OPTION…]      SPEC and the rest as of attnrun sweep
#
# In the environment:
#   ATTNRUN     the program; attnrun in PATH if not given
#   MACHINES    a file for parallel's --sshloginfile, one machine a line: they reach FOLDER, SPEC and the programs under
#               the same paths. Without it all runs here.
#   JOBS        shards at a time on a machine: 1 if not given, as shards on one machine disturb each other's timings
#
# The core of it, for the command line:
#
#   seq 8 | parallel -j 1 attnrun sweep my.layer --vary h=1,2,4 --shard {}/8 --json shard.{}.jsonl
#   attnrun merge shard.*.jsonl
#
# FOLDER gets shard.1.jsonl … and, joined, sweep.jsonl and sweep.csv. Started again it goes on where shards stopped.
# The exit code is that of attnrun merge: 1 where a point failed or is missing.
set -u
if [ $# -lt 3 ]; then
    echo 'parallel.sh: error: usage: parallel.sh SHARDS FOLDER SPEC --vary KEY=VALUES… [OPTION…]' >&2
    exit 2
fi
shards=$1 folder=$2
shift 2
attnrun=${ATTNRUN:-attnrun}
case $shards in '' | *[!0-9]* | 0*)
    echo "parallel.sh: error: SHARDS cannot be \"$shards\"; a whole number from 1 on is needed" >&2
    exit 2 ;;
esac
if ! command -v parallel >/dev/null; then
    echo 'parallel.sh: error: GNU parallel is not here; install it (Debian: apt-get install parallel)' >&2
    exit 3
fi
mkdir -p "$folder" || exit 3
for file in "$folder"/shard.*.jsonl; do # of a run with more shards, or none at all
    number=${file##*shard.}
    number=${number%.jsonl}
    [ "$number" = '*' ] || [ "$number" -le "$shards" ] || {
        echo "parallel.sh: error: $file is of another number of shards; name another folder" >&2
        exit 2
    }
done

# Tables of single shards are not wanted. What a shard's failure means, merge says: it knows what is missing.
seq "$shards" | parallel --will-cite --quote -j "${JOBS:-1}" ${MACHINES:+--sshloginfile "$MACHINES" --workdir "$PWD"} \
    "$attnrun" sweep --shard "{}/$shards" --json "$folder/shard.{}.jsonl" --resume "$@" >/dev/null
exec "$attnrun" merge "$folder"/shard.*.jsonl --json "$folder/sweep.jsonl" --csv "$folder/sweep.csv"
