#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The emitted pair as a compiler, a linker and a user's program meet it: no warnings, no symbols but its own, nothing
# from libc but memcpy and memset, no mutable state, -ffast-math refused, the header good for C++, a .c and a .h of two runs
# refused, several pairs in one program, threads that change no bit, nothing for ASan, UBSan, TSan and gcc's analyzer to
# say, and ASan seeing a read behind x. Left out on purpose: whether the numbers are right; attnrun's reference knows, and
# the vectors, the sweep and the mutants ask it.
#
#   tests/kernels/test_emitted.sh [all] [KIND…]      ATTNGEN, ATTNRUN  CC=gcc  CLANG=clang  CXX=g++  JOBS=N
#
# KIND: warnings native refused torn note analyzed symbols headers program threads other_machine short sanitized; each of
# them if not given. Levels take turns at layers and compilers, instruction sets at layers under the sanitizers and at what
# gcc warns of when it optimises; "all": everything with everything.
set -u
cd "$(dirname "$0")/../.." || exit 3
. tests/checks.sh
CXX=${CXX:-g++}
# Layers that reach what the examples do not.
vectors="additive_each bool_by_head conv_causal_even conv_cross_padding cross_causal_no_self_padding every_mask
    grouped_cross split_conv_cross_out_in split_tied_identity_none tied_identity window_both_no_self window_nothing
    hf_minicpm3_cache hf_deepseek_v2 hf_deberta_v2 hf_parakeet"
few="tiny every_mask"

# The vector of a name, here or one folder down
vector() { ls "$root/tests/vectors/$1.layer" "$root/tests/vectors"/*/"$1.layer" 2>/dev/null; }

# ---- one job ----

# $1 NAME, $2 compiler and flags: NAME.o in a place of its own
compile() {
    # shellcheck disable=SC2086 # flags are words
    $2 -c -o "$result.o" "$work/$1.c" >"$log" 2>&1
}

one_warnings() { compile "$1" "$2 $strict" || fail "$1 with $2 $strict"; }

one_refused() {
    compile "$1" "$2 -std=c11 -Wfatal-errors" && fail "$1 compiles with $2"
    grep -qE 'needs IEEE arithmetic|has the name of a constant of this file' "$log" || fail "$1 with $2 fails for another reason than its #error"
}

# tiny.c of one run, tiny.h of another that differs by $1 alone, and a header that was written upon.
one_torn() {
    for pair in "ours $1" "$1 ours"; do
        mkdir "$result.d"
        cp "$work/torn/${pair% *}/tiny.c" "$work/torn/${pair#* }/tiny.h" "$result.d"
        # shellcheck disable=SC2086
        $2 -Wfatal-errors -fsyntax-only "$result.d/tiny.c" >"$log" 2>&1 && fail "the .c and the .h of $pair compile together with $2"
        grep -q 'error.*copy both files of one run' "$log" || fail "$2 does not say what is wrong with the pair of $pair"
        rm -r "$result.d"
    done
    for edit in 's/_PACKED_BYTES TINY_SIZE(/&1/' 's/_SIZE(workers) \* /&1/' 's/_SEQ_LEN /&1/'; do
        mkdir "$result.d"
        cp "$work/torn/ours/tiny.c" "$result.d"
        sed "$edit" "$work/torn/ours/tiny.h" >"$result.d/tiny.h"
        cmp -s "$work/torn/ours/tiny.h" "$result.d/tiny.h" && fail "$edit fits nothing"
        # shellcheck disable=SC2086
        $2 -Wfatal-errors -fsyntax-only "$result.d/tiny.c" >"$log" 2>&1 && fail "tiny.c compiles after $edit of tiny.h with $2"
        grep -q 'assert' "$log" || fail "$2 says something else of $edit"
        rm -r "$result.d"
    done
}

# A .c that comes without its .h, as after a kill between the two, is no longer torn after the next run.
one_mended() {
    # shellcheck disable=SC2086
    $2 -fsyntax-only "$work/torn/mended/tiny.c" >"$log" 2>&1 || fail "a pair made anew over a torn one"
}

# gcc for Windows gets no wide registers, and says so; who asks for what it has is not bothered.
one_note() {
    # shellcheck disable=SC2086
    $2 $strict -D_WIN32 -fsyntax-only "$work/$1.c" >"$log" 2>&1 || fail "$1 with $2 -D_WIN32"
    grep -q 'without avx2 and avx512.*PR54412' "$log" || fail "$2 -D_WIN32 does not say why there is no avx2"
    # shellcheck disable=SC2086
    $2 $strict -D_WIN32 -D"$(echo "$1" | tr '[:lower:]' '[:upper:]')"_ONLY_ISA=TINY_ISA_SCALAR -fsyntax-only "$work/$1.c" \
        >"$log" 2>&1 && [ ! -s "$log" ] || fail "$2 -D_WIN32 for scalar alone says something"
}

one_analyzed() {
    compile "analyzed/$1" "$2 $strict" || fail "$1 with $2 $strict"
}

# Any pair on threads, which take parts as they come
one_threads() {
    # shellcheck disable=SC2086
    $2 -I"$work/threads" -DALONE -DWORKERS=4 -DNAME="$1" -DPREFIX="$(echo "$1" | tr '[:lower:]' '[:upper:]')" \
        -DHEADER="\"$1.h\"" -o "$result.program" "$root/tests/kernels/emitted_driver.c" "$work/threads/$1.c" "$work/threads/${1}_shim.c" \
        -lpthread >"$log" 2>&1 ||
        fail "emitted_driver of $1 with $2"
    "$result.program" >"$log" 2>&1 || fail "$1 on threads, built with $2"
}

# Exported: NAME_… only. Undefined: memcpy and memset. Writable data: none (position-independent code would put constant
# pointers there).
one_symbols() {
    compile "$1" "$2 -std=c11 -fno-stack-protector -fno-pic" || fail "$1 with $2"
    nm -P "$result.o" >"$log"
    awk -v prefix="$1_" '
        $2 == "U" { bad = bad || ($1 != "memcpy" && $1 != "memset"); next }
        $2 ~ /[A-Z]/ && index($1, prefix) != 1 { bad = 1 }
        $2 ~ /[A-Z]/ { own++ }
        $2 ~ /[BbDdCcVv]/ { bad = 1 }
        END { exit bad || own == 0 }' "$log" || fail "symbols of $1 with $2"
}

# The header before anything else, twice, as C and as C++, whose sizes are no casts; the pair as C++ is refused.
one_headers() {
    upper=$(echo "$1" | tr '[:lower:]' '[:upper:]')
    printf '#include "%s.h"\n#include "%s.h"\nint used = %s_OK;\n' "$1" "$1" "$upper" >"$result.c"
    { cat "$result.c"; grep -oE "^#define ${upper}_[A-Z_]*(BYTES|APART|BYTES_FOR.workers.) " "$work/$1.h" |
        sed 's/#define \(.*\) /static_assert(\1 > 0, "");/; s/workers/2/'; } >"$result.cc"
    # shellcheck disable=SC2086
    $2 $strict -fsyntax-only -I"$work" "$result.c" >"$log" 2>&1 || fail "$1.h alone as C with $2"
    command -v "$CXX" >/dev/null 2>&1 || return 0
    for standard in c++11 c++17; do
        # shellcheck disable=SC2086
        $CXX -std=$standard ${strict#* } -Wold-style-cast -fsyntax-only -I"$work" "$result.cc" >"$log" 2>&1 ||
            fail "$1.h as $standard with $CXX"
        $CXX -std=$standard -fsyntax-only -x c++ "$work/$1.c" >"$log" 2>&1 && fail "$1.c is taken as C++"
        grep -m 1 error: "$log" | grep -q "$1.c is C11, not C++" || fail "$1.c does not say that it is no C++"
    done
}

# Several pairs in one program: see tests/kernels/emitted_program.c.
one_program() {
    sources="$root/tests/kernels/emitted_program.c $work/first.c $work/second.c $work/third.c"
    # shellcheck disable=SC2086
    $2 $strict -D_GNU_SOURCE -I"$work" -o "$result.program" $sources -lpthread >"$log" 2>&1 || fail "program with $2"
    "$result.program" >"$log" 2>&1 || fail "the program built with $2 ended with $?"
}

# Another machine or system: what it has of the sets compiles there (as far as clang can tell from here).
one_other_machine() {
    compile "$1" "$2 $strict -O0 -ffreestanding -nostdlibinc" || fail "$1 with $2"
}

# A number short of x, one call for each instruction set of the machine: ASan stops it where it is read.
one_short() {
    # shellcheck disable=SC2086
    $2 -I"$work" -o "$result.program" "$root/tests/kernels/short_input.c" "$work/$1.c" >"$log" 2>&1 || fail "short_input with $2"
    seen=0
    for isa in 1 2 3 5; do # scalar, avx2, avx512, neon: what a pair has by default
        "$result.program" $isa 0 >"$log" 2>&1
        case $? in
        0) ;;
        2) continue ;;
        *) fail "$2: instruction set $isa with all of x" ;;
        esac
        "$result.program" $isa 1 >"$log" 2>&1 && fail "$2: instruction set $isa computes with an x too short"
        grep -q 'heap-buffer-overflow' "$log" || fail "$2: instruction set $isa, not what was expected of ASan"
        seen=$((seen + 1))
    done
    [ $seen -gt 0 ] || fail "$2: no instruction set"
}

# The sanitized attnrun finds the generator beside itself.
check_sanitized() { # NAME-OR-PATH SETS COMPILER_AND_FLAGS OPTION...
    local spec=$1 isas=$2 compiler=${3%% *} flags=${3#* }
    case $spec in /*) ;; *) spec=$(vector "$1") ;; esac
    flags="$flags $(alone "$spec" "$isas")"
    set -- "$spec" --isa "$isas" "${@:4}"
    env ATTNGEN='' CC="$compiler" CFLAGS="$flags" "$build/sanitized/attnrun" check "$@" --cache "$work/cache" \
        >"$log" 2>&1 || fail "CC='$compiler' CFLAGS='$flags' $build/sanitized/attnrun check $*"
}
# The first word behind the name: instruction sets
one_sanitized() { check_sanitized "$1" "${2%% *}" "${2#* }" --batch 3 "${@:3}"; }
one_sanitized_rows() { one_sanitized "$@" --set plan.fold=off --set plan.z_layout=rows; }
one_sanitized_small() { one_sanitized "$@" --set plan.size=small; }
one_sanitized_folded() {
    one_sanitized "$@" --set plan.fold=on --set plan.value_layout=blocks --set plan.depth_slab=5 --set plan.prefetch=on
}
one_sanitized_crowd() {
    check_sanitized "$1" "${2%% *}" "${2#* }" --batch 23 --n 3 --set plan.fold=off --set plan.value_layout=rows
}
# What is prefetched lies inside the tensors and the packed block: here it is read.
one_sanitized_asks() {
    check_sanitized "$work/asking/$1.layer" "${2%% *}" "${2#* }" --batch 2 --set plan.fold=off --set plan.prefetch=on \
        --templates "$work/asking/templates"
}

if [ "${1-}" = --one ]; then
    result=$work/results/$2
    log=$result.log
    kind=$3 name=$4
    shift 4
    "one_$kind" "$name" "$*"
    echo "passed: $kind $name"
    exit 0
fi

# ---- which jobs ----

mkdir "$work/results"

examples=
for spec in "$root"/examples/*.layer; do
    examples="$examples $(basename "$spec" .layer)"
    "$ATTNGEN" -o "$work" "$spec" || exit 1
done
for name in $vectors; do
    "$ATTNGEN" -o "$work" "$(vector "$name")" || exit 1
done
for name in first second; do
    "$ATTNGEN" -o "$work" --set name=$name "$root/tests/kernels/emitted_program.layer" || exit 1
done
"$ATTNGEN" -o "$work" --set name=third --set h=2 "$root/tests/kernels/emitted_program.layer" || exit 1

every=
if [ "${1-}" = all ]; then
    every=yes
    shift
fi
turns=0
# turn_of WORD…: sets $turn to one of them, each time the next; to all of them where all is asked for
turn_of() {
    turns=$((turns + 1))
    turn=${*:turns % $# + 1:1}
    [ "$every" ] && turn=$*
}

# What follows lists jobs: KIND NAME COMPILER AND FLAGS

# Whether a program built with this flag runs here at all.
runs_with() { # COMPILER FLAG
    echo 'int main(void) { return 0; }' >"$work/probe.c"
    "$1" "$2" -o "$work/probe" "$work/probe.c" >/dev/null 2>&1 && "$work/probe" >/dev/null 2>&1
}

add_warnings() {
    local sets only
    IFS=, read -ra sets <<<"$("$root/tests/isas_here.sh")"
    for cc in $compilers; do
        level=-O1 # gcc warns of what its optimiser sees, clang before it
        case $cc in *clang*) level=-fsyntax-only ;; esac
        for name in $vectors; do
            only=
            if [ ! "$every" ] && [ $level = -O1 ] && [ "${sets[0]}" != all ]; then # an instruction set each
                turn_of "${sets[@]}"
                only=$(echo "-D${name}_ONLY_ISA=${name}_ISA_$turn" | tr '[:lower:]' '[:upper:]')
            fi
            job warnings "$name" "$cc" $level $only
        done
        [ "$every" ] || level=-fsyntax-only
        for name in $examples; do job warnings "$name" "$cc" $level; done
    done
}

add_native() {
    for cc in $compilers; do job warnings tiny "$cc" -O2 -march=native; done
}

add_refused() {
    for cc in $compilers; do
        for flag in -ffast-math -Ofast -ffinite-math-only; do job refused tiny "$cc" "$flag"; done
        for name in tiny llama_decode t5_ffn; do
            for constant in $(awk '/^enum [{]/, /[}];$/' "$work/$name.c" | sed 's,/[*].*[*]/,,' |
                              grep -owE '[A-Z][A-Z_]*' | grep -vE '^(PHASE|BACK)_' | sort -u); do
                job refused "$name" "$cc" "-D$constant=8"
            done
        done
    done
}

emit_torn() { # FOLDER OPTION…
    folder=$1
    shift
    "$ATTNGEN" -o "$work/torn/$folder" "$@" "$root/examples/tiny.layer" || exit 1
}

add_torn() {
    emit_torn ours
    emit_torn heads --set h=2
    emit_torn plan --set plan.query_vecs=1
    emit_torn sets --isa scalar
    emit_torn mended --set h=2
    cp "$work/torn/ours/tiny.c" "$work/torn/mended"
    emit_torn mended
    for cc in $compilers; do
        for other in heads plan sets; do job torn $other "$cc"; done
    done
    job mended all "${CC:-gcc}"
}

add_note() {
    case ${CC:-gcc} in
    *gcc*) [ "$(uname -m)" = x86_64 ] && job note tiny "${CC:-gcc}" || skip "what gcc for Windows says: not an x86-64 machine" ;;
    *) skip "what gcc for Windows says: ${CC:-gcc} is none" ;;
    esac
}

# At -O0, where it follows the text, and one small layer: it takes its time.
add_analyzed() {
    echo 'int main(void) { return 0; }' >"$work/probe.c"
    if ! "${CC:-gcc}" -fanalyzer -o "$work/probe" "$work/probe.c" 2>/dev/null; then
        skip "analyzed: ${CC:-gcc} has no -fanalyzer"
        return
    fi
    "$ATTNGEN" --isa scalar --size small -o "$work/analyzed" "$root/examples/tiny.layer" || exit 1
    job analyzed tiny "${CC:-gcc}" -O0 -fanalyzer
}

add_threads() {
    if ! runs_with "${CC:-gcc}" -fsanitize=thread; then
        skip "threads under ThreadSanitizer: ${CC:-gcc} cannot build such programs here"
        return
    fi
    for name in every_mask conv_cross_padding grouped_cross split_wide_out_in hf_deberta_v2 hf_deepseek_v2; do
        "$ATTNGEN" --isa avx2,neon --size small --set plan.group_rows=8 --set plan.z_layout=rows --shim \
            -o "$work/threads" "$(vector "$name")" || exit 1
        job threads $name "${CC:-gcc}" -O0 -g -fsanitize=thread
    done
}

add_symbols() {
    for cc in $compilers; do
        for name in $few conv_causal_even; do
            turn_of -O2 -Os
            for level in $turn; do job symbols "$name" "$cc" "$level"; done
        done
    done
}

add_headers() {
    for name in $examples $vectors; do job headers "$name" "${CC:-gcc}"; done
    command -v "$CXX" >/dev/null 2>&1 || skip "headers as C++: there is no $CXX"
}

add_program() {
    for cc in $compilers; do
        job program all "$cc" -O1
        if runs_with "$cc" -fsanitize=thread; then
            job program all "$cc" -O0 -g -fsanitize=thread
        else
            skip "the program under ThreadSanitizer: $cc cannot build such programs here"
        fi
    done
}

add_other_machine() {
    for cc in $compilers; do
        case $cc in
        *clang*) for name in $few; do
                     for target in aarch64-linux-gnu i686-linux-gnu riscv64-linux-gnu x86_64-w64-mingw32 \
                         x86_64-apple-macos11 arm64-apple-macos11; do
                         job other_machine "$name" "$cc" "--target=$target"
                     done
                 done ;;
        esac
    done
}

add_short() {
    for cc in $compilers; do
        if runs_with "$cc" -fsanitize=address; then
            for level in -O0 ${every:+-O2}; do job short tiny "$cc" $level -g -fsanitize=address; done
        else
            skip "an input too short under ASan: $cc cannot build such programs here"
        fi
    done
}

# Generator and runtime are built with the sanitizers as well, once.
add_sanitized() {
    local flags="-fsanitize=address,undefined" whole="grouped_cross split_conv_cross_out_in every_mask" sets
    if ! runs_with "${CC:-gcc}" -fsanitize=address,undefined; then
        skip "ASan and UBSan: ${CC:-gcc} cannot build such programs here"
        return
    fi
    if ! make -s -C "$root" -j "${JOBS:-1}" BUILD="$build/sanitized" SANITIZE=address,undefined CFLAGS='-O0 -g1' all \
        >"$work/log" 2>&1; then
        cat "$work/log"
        result 1 "make BUILD=$build/sanitized SANITIZE=address,undefined"
        return
    fi
    mkdir "$work/asking"
    cp -r "$root/templates" "$work/asking/templates"
    for words in "$work"/asking/templates/sets/simd_*.in; do
        sed -i 's|^#define vec_prefetch(p) .*|#define vec_prefetch(p) ((void)*(const volatile float *)(const void *)(p))|' "$words"
    done
    printf 'd_model = 16\nh = 1\nd_k = 8\nd_v = 1032\nseq_len = 24\n' >"$work/asking/short_slab.layer"
    printf 'd_model = 64\nh = 4\nseq_len = 100\nw_o = none\n' >"$work/asking/concat.layer"
    printf 'd_model = 48\nh = 3\nw_v = identity\ninput = split\nseq_len = 70\n' >"$work/asking/identity.layer"
    # at -O1 it takes six times as long
    flags="${CC:-gcc} $(quick -O0 -g1 $flags -fno-sanitize-recover=all)"
    IFS=, read -ra sets <<<"$("$root/tests/isas_here.sh")"
    for name in short_slab concat identity; do
        vectored=("${sets[@]:1}") # scalar code prefetches nothing
        turn_of "${vectored[@]:-${sets[0]}}"
        job sanitized_asks "$name" "${turn// /,}" $flags
    done
    for name in $vectors; do
        case " $whole " in
        *" $name "*) job sanitized "$name" "$("$root/tests/isas_here.sh" all)" $flags ;;
        *) sanitized_in_turn sanitized "$name" ;;
        esac
    done
    for name in $whole; do
        for how in sanitized_folded sanitized_crowd; do sanitized_in_turn $how "$name"; done
    done
    # Z in the place of the queries
    for name in grouped_cross every_mask split_wide_out_in short_call; do sanitized_in_turn sanitized_rows "$name"; done
    turn_of "${sets[@]}"
    job sanitized_small conv_cross_padding "${turn// /,}" ${flags/-O0/-O1}
}

sanitized_in_turn() { # KIND NAME, with $flags and $sets
    turn_of "${sets[@]}"
    job "$1" "$2" "${turn// /,}" $flags
}

# shellcheck disable=SC2048 # words
for kind in ${*:-warnings native refused torn note analyzed symbols headers program threads other_machine short sanitized}; do
    "add_$kind"
done

export CXX
run_jobs
tally
