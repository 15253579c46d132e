#!/bin/sh
# SPDX-License-Identifier: MIT
# As many heads as fit: sweeps the head counts of a layer, takes the largest one whose call is within a budget of time,
# emits that layer, builds a program with it and runs it.
#
#   autotune.sh D_MODEL MICROSECONDS [FOLDER]       FOLDER: where everything goes; ./autotune-D_MODEL if not given
#
# In the environment:
#   ATTNGEN, ATTNRUN    the programs; those in PATH if not given
#   SPEC                the layer to start from; chosen.layer beside this script
#   HEADS               the counts to try, "1 2 4"; all that make heads at least 8 wide if not given
#   SWEEP               more options for the sweep, "--rounds 5 --seconds 0.1"
#   CC, CFLAGS          the compiler, of the sweep and of the program
#
# Exit codes: 0 done, 1 nothing fits (the fastest is named), 2 wrong usage or spec, 3 the environment failed.
set -u
here=$(cd "$(dirname "$0")" && pwd) || exit 3
attngen=${ATTNGEN:-attngen} attnrun=${ATTNRUN:-attnrun} spec=${SPEC:-$here/chosen.layer}
CC=${CC:-cc}
export CC

say() { printf 'autotune: %s\n' "$*"; }
stop() { # STATUS TEXT
    printf 'autotune: error: %s\n' "$2" >&2
    exit "$1"
}

[ $# -eq 2 ] || [ $# -eq 3 ] || stop 2 'usage: autotune.sh D_MODEL MICROSECONDS [FOLDER]'
d_model=$1 budget=$2 folder=${3:-autotune-$1}
case $d_model in '' | *[!0-9]* | 0*) stop 2 "D_MODEL cannot be \"$d_model\"; a whole number from 1 on is needed" ;; esac
awk -v b="$budget" 'BEGIN { exit !(b ~ /^[0-9]+(\.[0-9]*)?$/ && b > 0) }' ||
    stop 2 "MICROSECONDS cannot be \"$budget\"; a number above 0 is needed"

# Head counts that divide d_model, into heads of 8 columns at least (one head in any case).
divisors() {
    awk -v d="$1" 'BEGIN { for (h = 1; h <= d; h++) if (d % h == 0 && (h == 1 || d / h >= 8)) print h }'
}
heads=${HEADS:-$(divisors "$d_model")}
# shellcheck disable=SC2086 # one word a count
vary=$(printf '%s,' $heads)

# ---- sweep: a point that fails is a row that says so, and status 1; the others count all the same ----

mkdir -p "$folder" || stop 3 "$folder cannot be made"
rm -f "$folder/sweep.csv"
# shellcheck disable=SC2086 # $SWEEP is options
"$attnrun" sweep "$spec" --set d_model="$d_model" --vary h="${vary%,}" --csv "$folder/sweep.csv" ${SWEEP:-}
status=$?
case $status in
0 | 1) ;;
2) stop 2 "the sweep ended with status $status" ;;
*) stop 3 "the sweep ended with status $status" ;;
esac
[ -s "$folder/sweep.csv" ] || stop 3 "the sweep left no $folder/sweep.csv"

# ---- choose ----

# "h us disturbed" of every good point. These columns stand left of every one that could hold a comma.
good=$(awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) if (!($i in at)) at[$i] = i; next }
                $at["status"] == "ok" { print $at["h"], $at["us"], $at["disturbed"] + 0 }' "$folder/sweep.csv" | sort -n)
[ -n "$good" ] || stop 1 'no point of the sweep is good; its table says why'
disturbed=$(printf '%s\n' "$good" | awk '$3 { printf "%s%s", joint, $1; joint = ", " }')
[ -z "$disturbed" ] ||
    printf 'autotune: warning: the machine was disturbed while h = %s was timed; on a quiet one more may fit\n' "$disturbed" >&2
good=$(printf '%s\n' "$good" | cut -d ' ' -f 1,2)
chosen=$(printf '%s\n' "$good" | awk -v budget="$budget" '$2 <= budget { last = $0 } END { print last }')
if [ -z "$chosen" ]; then
    fastest=$(printf '%s\n' "$good" | awk 'NR == 1 || $2 < min { min = $2; line = $0 } END { print line }')
    stop 1 "nothing fits in $budget µs; the fastest is h = ${fastest% *} with ${fastest#* } µs"
fi
say "h = ${chosen% *} takes ${chosen#* } µs, within $budget µs"

# ---- emit, build, run ----

"$attngen" --set name=chosen --set d_model="$d_model" --set h="${chosen% *}" -o "$folder" "$spec" || exit
# shellcheck disable=SC2086 # $CC and $CFLAGS may be several words
$CC -std=c11 -O2 ${CFLAGS:-} -I"$folder" -o "$folder/chosen" "$here/main.c" "$folder/chosen.c" ||
    stop 3 'the program could not be built'
say "$folder/chosen.c and $folder/chosen.h; the program is $folder/chosen"
"$folder/chosen" || stop 3 "$folder/chosen failed"
