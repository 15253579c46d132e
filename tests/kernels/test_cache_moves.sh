#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# NAME_cache_reset and NAME_cache_move of caches = rows, ring and paged beside a naive model; see cache_moves.c. With
# the address and undefined-behaviour sanitizers where the compiler can link them. Then pairs that are wrong on purpose
# must be noticed.
#
#   tests/kernels/test_cache_moves.sh      ATTNGEN  CC=gcc  ROUNDS=4000  SEED=1
set -u
cd "$(dirname "$0")/../.." || exit 3
. tests/checks.sh
log=$work/log excerpt=(tail -n 20)
sanitize='-g -fsanitize=address,undefined -fno-sanitize-recover=all'
echo 'int main(void) { return 0; }' >"$work/probe.c"
# shellcheck disable=SC2086 # words
if ! { ${CC:-gcc} $sanitize -o "$work/probe" "$work/probe.c" 2>"$log" && "$work/probe"; }; then
    skip "sanitizers: ${CC:-gcc} cannot build such programs here"
    sanitize=
fi

# pair KIND: work/KIND/kv.c and .h. h_kv, widths and page_len are odd, so that a wrong stride shows
pair() {
    {
        printf '%s\n' d_model=12 h=6 h_kv=3 d_k=5 d_v=4 seq_len=4 cache_len=13 "cache = $1"
        case $1 in
        ring) printf '%s\n' mask=causal+window window_left=9 ;;
        paged) printf '%s\n' mask=causal page_len=3 ;;
        *) echo mask=causal ;;
        esac
    } >"$work/kv.layer"
    "$ATTNGEN" --isa scalar -o "$work/$1" "$work/kv.layer"
}

# program KIND: work/KIND/moves
program() {
    # shellcheck disable=SC2086 # words
    ${CC:-gcc} $strict -Wno-conversion -O0 $sanitize "-DKIND_${1^^}" -I"$work/$1" -o "$work/$1/moves" \
        tests/kernels/cache_moves.c "$work/$1/kv.c"
}

# edited KIND FROM TO: the program of a pair in which one line has become another is wrong
edited() {
    local kind=$1
    grep -qF -- "$2" "$work/$kind/kv.c" || { echo "no such text: $2"; return 1; }
    FROM=$2 TO=$3 awk '{ at = index($0, ENVIRON["FROM"])
        print at ? substr($0, 1, at - 1) ENVIRON["TO"] substr($0, at + length(ENVIRON["FROM"])) : $0 }' \
        "$work/$kind/kv.c" >"$work/$kind/edited" && mv "$work/$kind/edited" "$work/$kind/kv.c" && program "$kind" &&
        ! "$work/$kind/moves" 2000 1
}

for kind in rows ring paged; do
    check "$kind: the pair is made" pair $kind
    check "$kind: it compiles" program $kind
    for seed in ${SEED:-1 2 3}; do
        check "$kind: as the model, seed $seed" "$work/$kind/moves" "${ROUNDS:-4000}" "$seed"
    done
done
check "rows: a circle that is not closed is noticed" edited rows "take_sequence(cache, to, source, 1)" \
    "take_sequence(cache, to, source, 0)"
check "ring: too few rows of a copy are noticed" edited ring "const size_t rows = min_size(most, CACHE_LEN);" \
    "const size_t rows = min_size(most, CACHE_LEN - 1);"
check "paged: pages that are not parted are noticed" edited paged "if (!shared || c->free_count == 0)" \
    "if (!shared || c->pages > 0)"
check "paged: the pair is made again" pair paged
check "paged: pages taken from behind the list are noticed" edited paged " || c->free_count == 0" ""
check "paged: the pair is made again" pair paged
check "paged: pages that are not emptied without sequences are noticed" edited paged \
    "c->batch == 0 && c->pages == 0" "c->batch == 0"
tally
