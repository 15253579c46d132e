#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Runs every vector of tests/vectors, of its kinds/, blocks/, gradients/ and states/, and the real layer of tests/data, through
# `attnrun run`: the reference; with $CC (default gcc) a vector of each kind at -O2 on every second instruction set of this
# machine in turn; the others at -O0, in a quarter of the time: scalar by tcc, where it is, in a fiftieth, and one set of
# the others in turn; and every third vector on one set, in turn, with Z in rows by clang where there is one, or with
# weights folded whether it pays or not. With "all" each has all three variants on every set by $CC and clang, at -O2, -O1
# and -O0. Left out on purpose: what a vector is and how close an answer must come; make_vectors.py and attnrun say that.
#
#   tests/kernels/test_vectors.sh [all|NAME…]      ATTNRUN=build/attnrun  CC=gcc  CLANG=clang (empty: no second)  JOBS=N
#
# $CFLAGS, if set, is what all are compiled with.
set -u
cd "$(dirname "$0")/../.." || exit 3
. tests/checks.sh
export XDG_CACHE_HOME="${XDG_CACHE_HOME:-$build/cache}" # of compiled kernels
export CC=${CC:-gcc} second=${compilers##* }

# Folded scores of an infinite key may be -infinity where plain ones are NaN: y shows it then, but attn need not, and
# misses NaN there (docs/bound.md, "Non-finite values"). y has to be right all the same.
not_said() { # ROUND NAME REPORT
    case "$1 $2" in
    folded*\ nonfinite_seen)
        grep -q ': y differs' "$3" && ! grep -q ': y differs.*MISSED' "$3" &&
            ! grep '^ ' "$3" | grep -vq 'attn\[0\].*; the file has nan; ' ;;
    *) false ;;
    esac
}

# --one NUMBER ROUND FLAGS SPEC OPTION…: one vector
if [ "${1-}" = --one ]; then
    round=$3 spec=$5 name=$(basename "$5" .layer) report=$work/$2.report
    [ "$round" = rows ] && CC=$second
    [ "$round" = scalar ] && CC=tcc
    export CFLAGS=${CFLAGS-$(quick "$4")}
    [ "${6-}" != --isa ] || CFLAGS+=" $(alone "$5" "$7")"
    set -- "$ATTNRUN" run "$spec" --in "${spec%.layer}.safetensors" "${@:6}"
    if "$@" >"$report" 2>&1 || not_said "$round" "$name" "$report"; then
        echo "passed: $round, $name"
    else
        echo "FAILED: CC='$CC' CFLAGS='$CFLAGS' $*"
        sed 's/^/    /' "$report"
    fi
    sed -n "s/^.*[Ss]kipped/skipped: $round, $name:&/p" "$report"
    exit 0
fi

all=$(tests/isas_here.sh all) isas=$(tests/isas_here.sh)
IFS=, read -ra sets <<<"$isas"
IFS=, read -ra vectored <<<"${all#scalar,}"
halves=("$(tr , '\n' <<<"$all" | sed -n 'p;n' | paste -sd ,)" "$(tr , '\n' <<<"$all" | sed -n 'n;p' | paste -sd ,)")
halves[1]=${halves[1]:-$all}
scalar=
[[ $all = scalar,* ]] && command -v tcc >/dev/null && scalar=yes
# masks of each kind, groups, split heads, convolutions, folds, large and infinite numbers, calls below the limits
optimised=" additive_each bool_by_head conv_cross_padding every_mask grouped_cross later_scores_masked lengths_zero
    minilm_layer0 nonfinite_hidden_by_additive short_call_cross split_conv_cross_out_in tied_identity
    mha_causal train_conv_padding train_grouped_causal train_tied_no_self
    wide_causal_padding window_both_no_self "

# of those, the ones whose numbers a vector has: precision = i8 has columns of one kind or the other, by its name
of_rule() { # NAME SETS
    case $1 in
    precision_i8*_pairs) tr , '\n' <<<"$2" | grep -xE 'sse4|avx2' | paste -sd , ;;
    precision_i8*) tr , '\n' <<<"$2" | grep -vxE 'sse4|avx2' | paste -sd , ;;
    *) echo "$2" ;;
    esac
}

plain() { job plain "$2" "$1" --isa "$(of_rule "$(basename "$1" .layer)" "$3")"; }
rows() { job rows "$2" "$1" --isa "$(of_rule "$(basename "$1" .layer)" "$3")" --set plan.z_layout=rows; }
folded() { job folded -O0 "$1" --isa "$(of_rule "$(basename "$1" .layer)" "$2")" --set plan.fold=on; }

specs=(tests/vectors/*.layer tests/vectors/{kinds,blocks,gradients,states}/*.layer tests/data/*.layer)
every=
if [ "${1-}" = all ]; then
    every=yes
elif [ $# -gt 0 ]; then
    every=yes specs=()
    for name in "$@"; do
        specs+=("$(ls tests/{vectors,vectors/kinds,vectors/blocks,vectors/gradients,vectors/states,data}/"$name.layer" 2>/dev/null)")
        [ -n "${specs[-1]}" ] || { echo "$name: error: no vector of tests/vectors or tests/data" >&2; exit 2; }
    done
fi
turn=0 optimised_turn=0
for spec in "${specs[@]}"; do
    name=$(basename "$spec" .layer)
    turn=$((turn + 1))
    case $name in
    *_pairs) job reference -O0 "$spec" --reference --isa avx2 ;;
    *) job reference -O0 "$spec" --reference ;;
    esac
    if [ $every ]; then
        plain "$spec" -O2 "$all"
        rows "$spec" -O1 "$isas"
        folded "$spec" "$isas"
    else
        set=${vectored[turn % ${#vectored[@]}]} isa=${sets[turn / 4 % ${#sets[@]}]}
        [[ $name = precision_* ]] && set=$all isa=$isas # not all sets have such sums
        if [[ $optimised =~ [[:space:]]$name[[:space:]] ]]; then
            for set in ${halves[optimised_turn++ % 2]//,/ }; do plain "$spec" -O2 "$set"; done
        elif [ $scalar ]; then
            [ -z "$(of_rule "$name" scalar)" ] || job scalar -O0 "$spec" --isa scalar
            plain "$spec" -O0 "$set"
        else
            half=${halves[turn / 2 % 2]}
            [[ $name = precision_i8* ]] && half=$all
            plain "$spec" -O0 "$half"
        fi
        case $((turn % 6)) in
        0) rows "$spec" -O0 "$isa" ;;
        3) folded "$spec" "$isa" ;;
        esac
    fi
done
run_jobs
grep '^passed' "$work/all" | cut -d, -f1 | sort | uniq -c
tally
