#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The fuzzers of tests/fuzz/, by clang's libFuzzer with ASan, UBSan and LeakSanitizer: each first runs the inputs of its
# corpus, which may fail nowhere, and then looks for others until its time is over.
#
#   tests/fuzz/test_fuzz.sh [NAME…]      BUILD=build  FUZZ_CC=clang  FUZZ_SECONDS=2  SEED=1  JOBS=N at a time
#                                        FUZZ_LEVEL=-O0, compiled in a quarter of the time; `make fuzz` searches at -O1
#   tests/fuzz/test_fuzz.sh --keep NAME… takes what earlier runs found over into the corpus: of all inputs those that reach more
#
# A corpus is tests/fuzz/corpus/NAME, an input a line in base64; new inputs grow in $BUILD/fuzz/corpus/NAME. An input that
# fails is kept in $BUILD/fuzz/found, and the command that repeats it is printed.
#
# What there is:
#   spec     specs and --set, as text                       layer    mostly legal layers: counts, plan, explanations, text
#   texts    plan files, lists, attnrun's command line      tensors  safetensors: as such, as weights, as inputs
#   expressions  texts of score and visible: values, ranges, the form for kernels
#   records  JSON lines, journals, merge; CSV and pages     calls    emitted pairs, called rightly and wrongly
#   models   packed files of emitted models, checkpoints
#
# Left out on purpose, as no reader of theirs is a function of its own: labels of a heatmap, kernels in the cache. Templates
# are programs, and whoever gives --templates runs them.
set -u
cd "$(dirname "$0")/../.." || exit 3
unbuilt=yes # it makes its programs itself
. tests/checks.sh
cc=${FUZZ_CC:-clang} seconds=${FUZZ_SECONDS:-2} seed=${SEED:-1} level=${FUZZ_LEVEL:--O0}
folder=$build/fuzz
programs=$folder/${level#-} # make does not see by which flags an object was made

# unpack NAME FOLDER: the inputs of a corpus as files; what the tests have already need not stand there
unpack() {
    local line number=0
    mkdir -p "$2" || return
    if [ "$1" = spec ]; then
        for line in tests/bad/*.layer tests/vectors/*.layer examples/*.layer; do cp "$line" "$2/${line//\//_}" || return; done
    fi
    while read -r line; do
        number=$((number + 1))
        base64 -d <<<"$line" >"$2/$number" || return
    done <"tests/fuzz/corpus/$1"
}

# options NAME: inputs longer than some lines find nothing that short ones do not; choices take fewer bytes still.
options() {
    options=(-timeout=60 -rss_limit_mb=3000 "-artifact_prefix=$folder/found/$1-")
    case $1 in
        layer | calls | models) options+=(-max_len=256) ;;
        *) options+=(-max_len=2048 "-dict=$folder/$1.dict") ;;
    esac
}

# one NAME: "ok …", or what failed. A search runs all of the corpus first, however long that takes.
one() {
    local log=$folder/$1.log program=$programs/fuzz_$1 given=$work/given/$1 own=$folder/corpus/$1 options
    options "$1"
    unpack "$1" "$given" || { echo "FAILED: $1, a corpus that cannot be read"; return; }
    if "$program" "${options[@]}" "-seed=$seed" "-max_total_time=$seconds" "$own" "$given" >"$log" 2>&1; then
        echo "ok $1 $(grep -E '^#[0-9]+.*(DONE|INITED)' "$log" | tail -n 1)"
        return
    fi
    echo "FAILED: $1"
    grep -vE '^#[0-9]+' "$log" | head -n 60 | sed 's/^/    /'
    sed -n "s|.*Test unit written to \(.*\)|    repeat: $program \1|p" "$log"
}

keep() {
    local kept=$work/kept/$1 file options
    options "$1"
    unpack "$1" "$kept" || return
    # by edges alone: how often one is passed is for the search to find out, and takes five times as many inputs
    if ! "$programs/fuzz_$1" "${options[@]}" -use_counters=0 -merge=1 "$kept" "$folder/corpus/$1" >"$folder/$1.log" 2>&1; then
        cat "$folder/$1.log"
        return 1
    fi
    for file in "$kept"/*; do
        case $file in *.layer) continue ;; esac # of other tests
        base64 -w 0 "$file"
        echo
    done | LC_ALL=C sort >"$work/packed" && cp "$work/packed" "tests/fuzz/corpus/$1" && wc -lc "tests/fuzz/corpus/$1"
}

if [ "${1-}" = --one ]; then
    output=$(one "$2")
    printf '%s\n' "$output" # in one write: several may end at once
    exit 0
fi

keeping=0
if [ "${1-}" = --keep ]; then
    keeping=1 level=${FUZZ_LEVEL:--O1} programs=$folder/${level#-} # fewer edges than at -O0, each of which says more
    shift
fi
names=("$@")
if [ ${#names[@]} -eq 0 ]; then
    for source in tests/fuzz/*.c; do
        name=$(basename "$source" .c)
        [ "$name" = fuzz ] || names+=("$name")
    done
fi
for name in "${names[@]}"; do
    if [ "$name" = fuzz ] || [ ! -e "tests/fuzz/$name.c" ]; then
        echo "tests/fuzz/test_fuzz.sh: error: there is no fuzzer '$name'; write some of$(printf ' %s' tests/fuzz/*.c |
            sed 's|tests/fuzz/||g; s/\.c//g; s/ fuzz / /')" >&2
        exit 2
    fi
done

export TMPDIR=$work # a fuzzer that fails leaves its files
echo 'int LLVMFuzzerTestOneInput(const unsigned char *d, unsigned long n) { return n > 9 && d[0]; }' >"$work/probe.c"
if ! { "$cc" -fsanitize=fuzzer,address,undefined -o "$work/probe" "$work/probe.c" && "$work/probe" -runs=1; } \
    >"$work/log" 2>&1; then
    leave_out "fuzzers: $cc cannot build programs with libFuzzer and sanitizers here" ${#names[@]}
fi
if ! make -s -j "$JOBS" BUILD="$programs" CC="$cc" CFLAGS="$level -g1 -fsanitize=fuzzer-no-link" SANITIZE=address,undefined \
    "${names[@]/#/$programs/fuzz_}" >"$work/log" 2>&1; then
    result 1 "the fuzzers cannot be made:"
    cat "$work/log"
    tally
    exit
fi

mkdir -p "$folder/found" "${names[@]/#/$folder/corpus/}"
cp tests/fuzz/*.dict "$folder"
sed -nE 's/^KEY\([A-Z0-9_]+, ([a-z0-9_]+),.*/"\1 = "/p' gen/spec/key_rows.h >>"$folder/spec.dict"
grep -oE '\{"[a-z0-9_]+", ' gen/spec/key_rows.h | tr -d '{, ' | sort -u >>"$folder/spec.dict"
if [ $keeping -eq 1 ]; then
    for name in "${names[@]}"; do keep "$name" || exit 1; done
    exit
fi
results=$(printf '%s\n' "${names[@]}" | xargs -P "$JOBS" -I '{}' "$0" --one '{}')
echo "$results"
# shellcheck disable=SC2034
passed=$(grep -c '^ok ' <<<"$results")
# shellcheck disable=SC2034
failed=$(grep -c '^FAILED: ' <<<"$results")
tally
