#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Runs attention layers of models, which make_models.py made with the transformers package (README.md here), through
# `attnrun run`: each by the reference, by scalar code, compiled by tcc where it is, and by one more instruction set of this
# machine, compiled with $CC (default gcc); with "all", or a name, by every one. Their weights come from files of whole models, by the names of each family. How close a kernel must come is attnrun's derived
# bound; the reference must give the f32 that is nearest to transformers' number, or one beside it.
#
#   tests/models/test_models.sh [all|CASE…]      BUILD=build  ATTNGEN, ATTNRUN  CC=gcc  CFLAGS=-O0  JOBS=N
set -u
cd "$(dirname "$0")/../.." || exit 3
. tests/checks.sh
[ "${1-}" = --one ] || CFLAGS=$(quick "${CFLAGS--O0}")
export CC=${CC:-gcc} CFLAGS
export XDG_CACHE_HOME="${XDG_CACHE_HOME:-$build/cache}" # of compiled kernels: some cases have one spec
data=tests/models/data

# near REPORT: every output that the reference compared is within 1.2e-7 of the largest, an f32's last bit
near() {
    awk '/differs by at most/ { sub(/^.*\(/, ""); seen++; if (!($1 <= 1.2e-7)) far = 1 } END { exit far || !seen }' "$1"
}

# run WHO CASE SPEC WEIGHTS OPTION…: one case, by the reference or by kernels
run() {
    local who=$1 name=$2
    set -- "$ATTNRUN" run "$data/$3.layer" --in "$data/$name.safetensors" --weights "$data/$4.safetensors" "${@:5}"
    if "$@" >"$report" 2>&1 && { [ "$who" != reference ] || near "$report"; }; then
        echo "passed: $who, $name"
    else
        echo "FAILED: $who, $name: CC='$CC' CFLAGS='$CFLAGS' $*"
        sed 's/^/    /' "$report"
    fi
}

# --one NUMBER tcc+ISA|ISAS CASE…: cases of one spec, one after the other, as the first compiles for all
if [ "${1-}" = --one ]; then
    isas=$3 report=$work/$2.report
    for name in "${@:4}"; do
        read -ra words < <(grep "^$name " $data/cases.txt)
        run reference "${words[@]}" --reference
        for set in ${isas//+/ }; do
            case $set in
            tcc) CC=tcc CFLAGS='' run scalar "${words[@]}" --isa scalar ;;
            *) CFLAGS="$CFLAGS $(alone "$data/${words[1]}.layer" "$set")" run kernels "${words[@]}" --isa "$set" ;;
            esac
        done
    done
    exit 0
fi

isas=$(tests/isas_here.sh all) every=${1-}
[ "$every" != all ] || shift
declare -A cases=()
while read -r name spec _; do
    case $name in '#') continue ;; esac
    [ $# -eq 0 ] || [[ " $* " == *" $name "* ]] || continue
    cases[$spec]+=" $name"
done <$data/cases.txt
for name; do
    [[ "${cases[*]} " == *" $name "* ]] || { echo "$name: error: no case of $data/cases.txt" >&2; exit 2; }
done
for spec in "${!cases[@]}"; do
    of=$isas
    [ "$every" ] || [[ $isas != scalar,* ]] || ! command -v tcc >/dev/null ||
        of="tcc+$(set_of "$data/$spec.layer" "${isas#scalar,}")"
    job "$of" "${cases[$spec]# }"
done
run_jobs
tally
