#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The rooms (folders) of gen/, runtime/ and templates/: a file includes files of its own room and of lower ones alone,
# and in the rooms that are named below no files include each other in a circle.
#
#   tests/test_rooms.sh
set -u
cd "$(dirname "$0")/.." || exit 3
unbuilt=yes
. tests/checks.sh

# Lowest first. What lies beside the rooms may include every one; runtime/ has those of gen/ that attnrun links below its own, and
# templates/interface for the types of a pair's table.
gen="base expression spec plan emit model"
runtime="base expression spec plan interface system inputs reference kernels timing promises options reports sweep commands"
templates="sets score tiles steps interface model"

# upwards FOLDER ROOMS…: the includes of FOLDER that lead to a higher room or to none, one a line
upwards() {
    local folder=$1
    shift
    grep -rEo '#include "[^"]+"|(include|capture)\((fmt\()?"[^"]+"' --include='*.[ch]' --include='*.in' "$folder" |
        awk -F: -v folder="$folder/" -v rooms="$*" '
        function room(path) { return substr(path, 1, index(path, "/") - 1) }
        BEGIN { for (i = split(rooms, name, / /); i > 0; i--) rank[name[i]] = i }
        {
            from = room(substr($1, length(folder) + 1))
            split($2, part, "\"")
            to = room(part[2])
            if (to != "" && from != "" && (!(to in rank) || rank[to] > rank[from]))
                print $1 " includes " part[2]
        }'
}

# circles FOLDER ROOM…: files, without their endings, that include each other by whatever way, one a line
circles() {
    local folder=$1
    shift
    (cd "$folder" && grep -rEo '^#include "[^"]+"' --include='*.[ch]' "$@") | awk -F: '
        function stem(path) { sub(/\.[ch]$/, "", path); return path }
        { split($2, part, "\""); if (stem($1) != stem(part[2])) print stem($1), stem(part[2]) }' |
        tsort 2>&1 >"$work/order" | sed -n 's/^tsort: -: .*//; s/^tsort: //p'
}

mkdir -p "$work/house/low" "$work/house/high"
echo '#include "high/roof.h"' >"$work/house/low/wall.c"
echo '#include "low/wall.h"' >"$work/house/high/roof.c"
check "the check finds an upward include, and that one alone" \
    test "$(cd "$work" && upwards house low high)" = "house/low/wall.c includes high/roof.h"
check "the check finds a circle" test "$(circles "$work/house" low high | sort | tr '\n' ' ')" = "high/roof low/wall "
check "gen: no circle of includes" test -z "$(circles gen base expression spec model | tee "$work/log")"
cat "$work/log"

for folder in gen runtime templates; do
    check "$folder: no include of a higher room" test -z "$(upwards $folder ${!folder} | tee "$work/log")"
    cat "$work/log"
done
tally
