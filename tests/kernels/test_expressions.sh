#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Expressions at the ends of what they may be: every instruction set of this machine against the reference by `attnrun check`,
# and no warning of a strict compiler.
#
#     BUILD=build tests/kernels/test_expressions.sh
#
# Left out on purpose: ordinary expressions (tests/vectors/kinds), the language (tests/unit/test_expression.c).
set -u
cd "$(dirname "$0")/../.." || exit 3
. tests/checks.sh
[ "${1-}" = --one ] || CFLAGS=$(quick -O0)
export CFLAGS

# What a layer of given queries, keys and values has besides
keys_of() {
    case $1 in
    # NaN that tanh, exp, min and max do not bound
    of_nan) printf '%s\n' 'score = s + where(tanh(sqrt(p - 5.0)) <= 2.0, 1, 2)' 'scores = biased' ;;
    # rows that a division by 0 hides; integers in lanes have no -0
    of_zero) printf '%s\n' 'score = s - 1.0 / abs(p - j)' 'scores = biased' ;;
    of_minus_zero)
        echo 'score = s - 1 / abs((p - j) * -1 % 7) + where(p % 3 == 1, -1e999, 0.0) - 1 / -(j // -50)'
        echo 'scores = true' ;;
    # constants that f32 does not hold in base 2, and factors that it does not hold together
    lowest) echo 'score = where(j > p, -3.4028234663852886e38, s)' ;;
    factors) echo 'score = s + tanh((p - j) * 1e30 * 1e30)' ;;
    # integers that are no floats: indices above 2^24, what a comparison of scores chooses, the lowest
    far_index) printf '%s\n' 'table.far = 4100, 4097' 'score = s + far[4098 + i][4095 - (p * 3 + j) % 50]' ;; # no run of lanes
    chosen) echo 'score = where(where(s > 0, p * 10000000, j) // 3 % 2 == 0 and s < 1, s, s - 0.5)' ;;
    chosen_key) printf '%s\n' 'table.t = 40' 'score = s + where(t[j] > 0.0, j * 16777217, 0) % 2' ;;
    larger) echo 'visible = max(p, j) * 10000000 > 30000000 * min(j // (p + 1), 7) and where(0.5 * j > 3.0, j, 0) // 2 < 15' ;;
    lowest_integer) echo 'visible = p > -9223372036854775807 - 1 or j > -9223372036854775807 - 1' ;;
    # scores that rise behind a window's edge by more than 2^128: no weight before them may be forgotten
    rising) printf '%s\n' 'mask = window' 'window_left = 6' 'scores = true' 'score = 1.5 * s' ;;
    # ranges of blocks are those that attngen has judged: nothing leaves 64 bits; INT64_MIN has no rest by -1
    exact_rest) echo 'visible = p % (j + 4000000000) * 4000000000 > 0' ;;
    exact_quotient) echo 'visible = p // (j - 7) * 90000000000000000 <= j' ;;
    lowest_rest)
        printf '%s\n' 'visible = (p - 9223372036854775807 - 1) % (j - 1) == 0' \
            'score = s + where((p - 9223372036854775807 - 1) % (j - 1) == 0, 0.5, 0)' ;;
    # -infinity by overflow alone; by its value, of a key that is shown; rows of NaN by large scores alone
    grows) printf '%s\n' 'score = s - exp(1000.0 * p)' 'scores = true' ;;
    hides_shown) printf '%s\n' 'score = where(s > 0, s, -1e999)' 'scores = raw' ;;
    grown) printf '%s\n' 'score = exp(s)' 'scores = true' ;;
    # the same in a whole row, with a cache, where -FLT_MAX stands for a seen -infinity
    lowest_alone) printf '%s\n' cache=rows cache_len=90 mask=causal sink=true 'score = where(j < p, s, -3.4e38)' ;;
    # one key is seen, or none: what f32 does not know of a score's sign decides
    only_key)
        printf '%s\n' cache=rows cache_len=90 mask=causal 'score = where(j == p and s < 0, s, -1e999)' \
            'scores = biased' ;;
    # -infinity, infinity and NaN by the sign of a score
    quotient) printf '%s\n' mask=causal 'score = s / abs(p - j)' 'scores = true' ;;
    # weights that are alike: roundings of their sum are not random
    alike) printf '%s\n' 'source_len = 4001' 'score = where(j == 0, 2.792, 0.0)' 'visible = j % 2 == 0' 'scores = true' ;;
    # lanes behind the last query read no table
    behind) printf '%s\n' 'table.t = 274' 'score = s + t[7 * p]' ;;
    # terms whose sum is not read
    forgets) printf '%s\n' 'alibi = true' 'relative = table' 'rel_left = 3' 'softcap = 5' 'score = 0.5 * (j - p)' ;;
    # blocks: whole functions that few expressions need
    order) echo 'visible = j <= p' ;;
    floats) echo 'visible = j < 1e999 and p > -1e999 or i == 0' ;;
    squares) echo 'visible = (p - j) * (p - j) < 50 and 0.5 * p * j < 300.0' ;;
    distances) echo 'visible = abs(p - j) < 9' ;;
    rests) echo 'visible = (p - j) % 5 < 3' ;;
    parts) echo 'visible = p // 8 == where(i == 0, j // 8, j)' ;;
    # what only expressions use of a vocabulary
    words) printf '%s\n' 'table.t = 7, 9' 'score = sqrt(abs(s)) + t[p % 7][abs(p - j) // 2] + exp(-abs(s)) / (2 + j % 3)' ;;
    esac
}

# --one NUMBER NAME: its layer
if [ "${1-}" = --one ]; then
    name=$3 log=$work/$3.log
    {
        printf 'name = %s\ninput = projected\nd_k = 8\nh = 2\nw_o = none\nseq_len = 40\nlse = true\n' "$name"
        keys_of "$name"
    } >"$work/$name.layer"
    few=() # queries: each of them sees as many keys
    [ "$name" != alike ] || few=(--n 9)
    [ "$name" != far_index ] || [ -z "$lanes" ] || few=(--isa "$lanes") # scalar code has none, and the table is of 64 MiB
    if ! ATTNRUN_LIMIT=900 "$attnrun" check "$work/$name.layer" ${few[@]+"${few[@]}"} >"$log" 2>&1; then
        fail "$name"
    elif ! "$attngen" -o "$work" "$work/$name.layer" >>"$log" 2>&1 || ! mkdir "$work/$name" ||
        { [[ $name = order || $name = words ]] && # split, two of them say it
            ! "$attngen" --split -o "$work/$name" "$work/$name.layer" >>"$log" 2>&1; }; then
        fail "$name: attngen"
    else
        for compiler in $compilers; do
            for file in "$work/$name.c" "$work/$name/$name"_*.c; do
                [ -e "$file" ] || continue
                # shellcheck disable=SC2086 # the flags are several
                "$compiler" $strict -fsyntax-only "$file" >>"$log" 2>&1 || { fail "$name: $compiler warns"; exit; }
            done
        done
        echo "passed: $name"
    fi
    exit
fi

lanes=$(tests/isas_here.sh)
case $lanes in
scalar,*) export lanes=${lanes#scalar,} ;;
*) export lanes= ;;
esac
for name in of_nan of_zero of_minus_zero lowest factors far_index chosen chosen_key larger lowest_integer behind forgets order floats squares distances \
    rests parts words rising exact_rest exact_quotient lowest_rest grows hides_shown grown alike \
    lowest_alone only_key quotient; do
    job "$name"
done
run_jobs
tally
