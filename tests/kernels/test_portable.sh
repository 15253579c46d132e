#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# exact = portable: the same bits of y, attn, lse, caches and gradients wherever a layer is computed. Layers are drawn. `attnrun
# check` compares the sets of this machine, and the bits of a call with those by workers, in batches, in chunks and in
# steps; selftests of a long call and of a step have one digest on all sets, by gcc, clang and tcc at all levels, and in
# emulators of other machines. Multiply-adds of sets without them against fmaf. Broken templates must be found.
#
#   tests/kernels/test_portable.sh      ATTNGEN  ATTNRUN  CC=gcc  JOBS=N  COUNT=layers  SEED=S  TRIPLES=N
#   EVERYTHING=1: 60 layers, each by all compilers and on all machines, and 10^9 triples; KIND=train: layers with
#   gradients alone
set -u
cd "$(dirname "$0")/../.." || exit 3
. tests/checks.sh
here=$(tests/isas_here.sh all)
clang19=${CLANG19:-clang-19}
# compilers and flags of `attnrun check`, one a line
checks="${CC:-gcc} -O0
clang -O2
${CC:-gcc} -O3 -march=native"
# targets of the selftest: a compiler, its sets, and where a program runs, by semicolons
riscv="$clang19 --target=riscv64-linux-gnu -march=rv64gcv -fuse-ld=lld"
vlen() { echo "qemu-riscv64 -cpu rv64,v=true,vlen=$1 -L /usr/riscv64-linux-gnu"; }
targets="aarch64-linux-gnu-gcc -O1|scalar,neon|qemu-aarch64 -L /usr/aarch64-linux-gnu
${CC:-gcc} -O3 -march=native|$here|env
$riscv -O1|scalar,rvv|$(vlen 128);$(vlen 256);$(vlen 512)
clang -O0|$here|env
s390x-linux-gnu-gcc -O2 -std=c11 -fexcess-precision=fast|scalar|qemu-s390x -L /usr/s390x-linux-gnu
${CC:-gcc} -O1 -ffp-contract=fast -march=native|$here|env
$clang19 --target=wasm32-wasi -msimd128 -O1|scalar,wasm_simd128|node --no-warnings tests/targets/wasi/run.mjs
clang -O3|$here|env
$clang19 --target=aarch64-linux-gnu -fuse-ld=lld -O2|scalar,neon|qemu-aarch64 -L /usr/aarch64-linux-gnu
tcc|scalar|env
riscv64-linux-gnu-gcc -O3|scalar|qemu-riscv64 -L /usr/riscv64-linux-gnu
clang -O1|$here|env
${CC:-gcc} -O0|$here|env
clang -O2|$here|env
${CC:-gcc} -O2|$here|env"

# ---- layers ----

dice() { RANDOM=$1; }
one_of() { local words=("$@"); echo "${words[RANDOM % ${#words[@]}]}"; }
maybe() { [ $((RANDOM % $1)) -ne 0 ] || echo "${*:2}"; }
draw() { # SEED: a legal layer
    dice "$1"
    local h masks cached=
    h=$(one_of 1 2 3 4)
    if [ $((RANDOM % 8)) -eq 0 ] || [ "$kind" = train ]; then
        printf '%s\n' "name = drawn" "exact = portable" "train = true" "h = $((h * 2))" "h_kv = $(one_of 2 $((h * 2)))" \
            "seq_len = $((1 + RANDOM % 60))" "d_model = $((h * (4 + 4 * (RANDOM % 9))))" "d_k = $((2 + 2 * (RANDOM % 20)))" \
            "bias = $(one_of true false)" "mask = $(one_of none causal causal window bool additive padding segments)" \
            "rope = $(one_of none half interleaved)" "qk_norm = $(one_of none rms layer l2 rms_all)" \
            "dropout = $(one_of 0 0 0.25)" "sink = $(one_of true false)"
        maybe 3 "$(one_of "softcap = 5" "alibi = true" "relative = t5" "w_k = tied" "w_v = identity" "plan.size = small")"
        maybe 4 "pad_rows = skipped"
        return
    fi
    if [ $((RANDOM % 12)) -eq 0 ]; then
        printf '%s\n' "name = drawn" "exact = portable" "seq_len = $((1 + RANDOM % 90))" "d_model = $((1 + RANDOM % 90))" \
            "layer = ffn" "d_ff = $((1 + RANDOM % 90))" "ffn = $(one_of gelu gelu_tanh silu swiglu relu2)" \
            "block = $(one_of none pre post)" "ffn_bias = $(one_of true false)"
        return
    fi
    if [ $((RANDOM % 8)) -eq 0 ]; then
        local kind
        kind=$(one_of linear gated delta gated_delta gated_delta gated_delta)
        printf '%s\n' "name = drawn" "exact = portable" "layer = recurrent" "seq_len = $((1 + RANDOM % 40))" "rule = $kind" \
            "h = $h" "h_v = $((h * (1 + RANDOM % 3)))" "d_k = $((1 + RANDOM % 40))" "d_v = $((1 + RANDOM % 40))" \
            "d_model = $((1 + RANDOM % 60))" "conv_taps = $((RANDOM % 5))" "qk_norm = $(one_of none l2_sum)" \
            "bias = $(one_of true false)" "out_gate = $(one_of none silu sigmoid)" "cache_type = $(one_of f32 bf16)"
        case $kind in *gated*) echo "decay = $(one_of head column)" ;; esac
        maybe 4 "state_window = $((1 + RANDOM % 4))"
        maybe 4 "weight_type = $(one_of bf16 f16 i8 i4)"
        maybe 4 "block = pre"$'\n'"ffn = swiglu"$'\n'"d_ff = $((1 + RANDOM % 60))"
        return
    fi
    if [ $((RANDOM % 20)) -eq 0 ]; then
        printf '%s\n' "name = drawn" "exact = portable" "layer = conv" "seq_len = $((1 + RANDOM % 60))" \
            "channels = $((1 + RANDOM % 90))" "conv_taps = $((1 + RANDOM % 6))" "activation = $(one_of none silu)" \
            "bias = $(one_of true false)" "cache_type = $(one_of f32 bf16)"
        return
    fi
    echo "name = drawn"
    echo "exact = portable"
    echo "h = $h"
    echo "seq_len = $((1 + RANDOM % 90))"
    case $((RANDOM % 7)) in
    5 | 6) printf '%s\n' "d_model = $((h * (2 + 2 * (RANDOM % 14))))" "rope = $(one_of none half)" \
        "cache = $(one_of rows rows ring paged$'\n'page_len=$((1 + RANDOM % 20)))" "cache_len = $((90 + RANDOM % 500))" "bias = $(one_of true false)"
        cached=yes ;;
    0) printf '%s\n' "input = projected" "d_k = $((2 + 2 * (RANDOM % 20)))" "d_v = $((1 + RANDOM % 40))" \
        "source_len = $((1 + RANDOM % 120))" "$(one_of 'w_o = none' "d_model = $((1 + RANDOM % 70))")" ;;
    1) printf '%s\n' "attention = cross" "d_model = $((h * (2 + 2 * (RANDOM % 14))))" "d_source = $((1 + RANDOM % 50))" \
        "source_len = $((1 + RANDOM % 120))" "bias = $(one_of true false)" ;;
    2) printf '%s\n' "d_model = $((h * (2 + 2 * (RANDOM % 14))))" "d_k = $((2 + 2 * (RANDOM % 20)))" \
        "d_v = $((1 + RANDOM % 40))" "bias = $(one_of true false)" "gate = $(one_of none heads features)" ;;
    *) printf '%s\n' "d_model = $((h * (2 + 2 * (RANDOM % 14))))" "bias = $(one_of true false)" \
        "rope = $(one_of none half interleaved)" ;;
    esac
    masks=$(one_of none causal causal window no_self bool additive prefix segments)
    for word in $(one_of '' padding no_self window causal); do
        case "+$masks+" in *+none+*) masks=$word ;; *"+$word+"*) ;; *) masks=$masks+$word ;; esac
    done
    case $masks in *prefix*) masks=causal+${masks//causal+/} masks=${masks//+causal/} ;; esac
    echo "mask = $masks"
    case $masks in *window*) printf '%s\n' "window_left = $((RANDOM % 30))" "window_right = $((RANDOM % 20))" ;; esac
    maybe 3 "qk_norm = $(one_of rms layer l2 rms_all)"
    maybe 3 "block = $(one_of pre post outputs sandwich parallel)"$'\n'"norm = $(one_of rms layer)"$'\n'"ffn = $(one_of gelu \
        silu swiglu)"$'\n'"d_ff = $((1 + RANDOM % 60))"
    case $((RANDOM % 6)) in
    0) echo "softcap = $((1 + RANDOM % 40))" ;;
    1) echo "alibi = true" ;;
    2) echo "relative = t5" ;;
    esac
    [ -z "$cached" ] || maybe 2 "cache_type = $(one_of bf16 f16 i8)"
    maybe 3 "sink = true"
    maybe 2 "lse = true"
    maybe 2 "scores = $(one_of true biased)"
    if [ $((RANDOM % 6)) -eq 0 ]; then echo "precision = $(one_of i8 i16)"; else maybe 4 "weight_type = $(one_of bf16 f16 i8 i4)"; fi
    maybe 5 "score = $(one_of 's - 0.7 * sqrt(abs(p - j))' 's * (1 + 0.1 * log(1 + floor((p + 1) / 8)))' \
        'where((p + j) % 3 == 0, -1e999, s * 0.3 + tanh(s))' 'min(s, 2.5) / (1 + p // 5) - exp(-abs(s))')"
    maybe 6 "visible = $(one_of 'p // 7 == j // 7 or j < 3' 'abs(p - j) * 0.37 <= 4.1 + p % 5' 'p % 4 != 1 or sqrt(j) < 3.3')"
    maybe 5 "tensor_type = $(one_of bf16 f16)"
    maybe 4 "plan.size = small"
    maybe 5 "plan.value_layout = blocks"
    [ "$cached" ] || maybe 4 "plan.key_block = $((1 + RANDOM % 40))"
    maybe 4 "plan.query_vecs = $((1 + RANDOM % 3))"
}

digests() { grep -oE '^[0-9a-f]{16}' "$1" | sort -u; }

# One layer on the sets of this machine, by 1, 2 and 5 workers, in batches, whole, in chunks and in steps; its digest
# goes to a file beside it
one_check() { # SPEC CC FLAGS…
    local spec=$1
    shift
    CC=$1 CFLAGS="${*:2}" "$ATTNRUN" check --digest --isa "$here" "$spec" >"$log" 2>&1 &&
        [ "$(grep -cE '^[0-9a-f]{16}' "$log")" -eq "$(tr , '\n' <<<"$here" | wc -l)" ] ||
        fail "CC='$1' CFLAGS='${*:2}' attnrun check --digest --isa $here $(tr '\n' ';' <"$spec")"
    digests "$log" | sed 's/^/check /' >>"$spec.digests"
}

# The selftests of a layer by one compiler: of a long call, and with a cache of one token of each of four sequences.
# They know the digest; all sets have it, each machine.
one_target() { # SPEC ROW
    local spec=$1 compiler sets places place kind calls=whole dir=$result.d
    IFS='|' read -r compiler sets places < <(sed -n "$2p" <<<"$targets")
    grep -q '^cache = ' "$spec" && calls="whole step"
    mkdir "$dir"
    "$ATTNGEN" --isa "$sets" -o "$dir" "$spec" >"$log" 2>&1 &&
        $compiler -Wno-unused-command-line-argument -c -o "$dir/pair.o" "$dir/drawn.c" >>"$log" 2>&1 ||
        fail "the pair of $(tr '\n' ';' <"$spec") with $compiler"
    for kind in $calls; do
        # shellcheck disable=SC2046 # words
        "$ATTNRUN" selftest "$spec" $([ "$kind" = step ] && echo --n 1 --batch 4) -o "$dir/$kind.c" >>"$log" 2>&1 &&
            $compiler -Wno-unused-command-line-argument -I"$dir" -o "$dir/$kind" "$dir/$kind.c" "$dir/pair.o" \
                >>"$log" 2>&1 || fail "the selftest of $(tr '\n' ';' <"$spec") with $compiler"
        while read -r place; do
            $place "$dir/$kind" >"$log" 2>&1 || fail "$kind, $compiler, $place: $(tr '\n' ';' <"$spec")"
            digests "$log" | sed "s/^/$kind /" >>"$spec.digests"
        done < <(tr ';' '\n' <<<"$places")
    done
}

if [ "${1:-}" = --one ]; then
    result=$work/$2 log=$work/$2.log
    "one_$3" "${@:4}"
    echo "passed: $3"
    rm -rf "$result.d" "$result.here" "$result.there"
    exit 0
fi

seed=${SEED:-1} count=${COUNT:-6}
[ -z "${EVERYTHING:-}" ] || count=${COUNT:-60}
usable() { command -v "${1%% *}" >/dev/null; }
rows=()
for ((row = 1; row <= $(wc -l <<<"$targets"); row++)); do
    IFS='|' read -r compiler _ places < <(sed -n "${row}p" <<<"$targets")
    if usable "$compiler" && usable "$places"; then rows+=($row); else skip "there is no ${compiler%% *} or ${places%% *}"; fi
done
for ((layer = 0, tries = 0; layer < count; tries++)); do
    kind=${KIND:-}
    [ $((layer % 6)) -ne 5 ] || kind=train
    draw $((seed * 1000 + tries)) >"$work/$layer.layer"
    "$ATTNGEN" --explain "$work/$layer.layer" >/dev/null 2>&1 || continue # not every draft is legal
    for ((i = 0; i < ${#rows[@]}; i++)); do
        [ -z "${EVERYTHING:-}" ] && [ $((i / 2)) -ne $((layer % ((${#rows[@]} + 1) / 2))) ] && continue
        job target "$work/$layer.layer" "${rows[i]}"
    done
    line=$((${EVERYTHING:-0} ? layer % 3 + 1 : 1))
    compiler=$(sed -n "${line}p" <<<"$checks")
    usable "$compiler" && job check "$work/$layer.layer" "$compiler"
    layer=$((layer + 1))
done
run_jobs
for ((layer = 0; layer < count; layer++)); do
    about="layer $layer has one digest of each call, of $(wc -l <"$work/$layer.layer.digests")"
    calls=$(cut -d' ' -f1 "$work/$layer.layer.digests" | sort -u | wc -l)
    check "$about: $(tr '\n' ';' <"$work/$layer.layer")" \
        test "$(sort -u "$work/$layer.layer.digests" | wc -l)" -eq "$calls"
    [ -z "${EVERYTHING:-}" ] || echo "$about"
done

# ---- whole models ----

# one_model NAME COMPILER PLACES [FLAG]: the digests of a model by one compiler, where it runs, to a file beside the others
one_model() {
    local name=$1 program=$work/program_$1 place
    # shellcheck disable=SC2086 # words
    $2 -Wall -Wextra -Wno-unused-function -Wno-unused-command-line-argument "-DNAME=$name" "-DPREFIX=${name^^}" \
        "-DHEADER=\"${name}_model.h\"" -DHEADS= ${4-} -Itests/models "-I$work/$name" -o "$program" \
        tests/models/portable_program.c "$work/$name"/*.c -lm || return
    while read -r place; do
        $place "$program" "$name" "$root/tests/models/imports/$name"/*.safetensors </dev/null >"$work/out" 2>&1 &&
            grep -qE '^[0-9a-f]{16}$' "$work/out" || return
        cat "$work/out" >>"$work/$name.digests"
    done < <(tr ';' '\n' <<<"$3")
}
for line in bert "llama -DDECODER"; do
    read -r name flag <<<"$line"
    check "$name is imported" "$ATTNGEN" import "tests/models/imports/$name" -o "$work/$name" --name "$name" --exact portable --isa all
    for cc in $compilers; do
        check "$name by $cc -O0" one_model "$name" "$cc -O0 -std=c11" env $flag
        check "$name by $cc -O2" one_model "$name" "$cc -O2" env $flag
    done
    emulators= # each once
    while IFS='|' read -r compiler sets places; do
        case " env $emulators " in *" ${places%% *} "*) [ "${EVERYTHING:-}" ] && [ "$places" != env ] || continue ;; esac
        emulators="$emulators ${places%% *}"
        if usable "$compiler" && usable "$places"; then
            check "$name by $compiler, $places" one_model "$name" "$compiler" "$places" $flag
        else
            skip "$name: there is no ${compiler%% *} or ${places%% *}"
        fi
    done <<<"$targets"
    check "$name has one digest" test "$(grep -E '^[0-9a-f]{16}$' "$work/$name.digests" | sort -u | wc -l)" -eq 1
    check "$name has the same bits in calls of any sizes" eval '! grep -q "^not" "$work/$name.digests"'
done

# ---- multiply-adds ----

log=$work/log
printf '%s\n' "name = fma_pair" "d_model = 8" "h = 1" "seq_len = 4" "exact = portable" >"$work/fma_pair.layer"
triples=${TRIPLES:-1000000}
[ -z "${EVERYTHING:-}" ] || triples=${TRIPLES:-1000000000}
check "a pair with fused multiply-adds" "$ATTNGEN" --isa scalar,sse4 -o "$work" "$work/fma_pair.layer"
for cc in $compilers; do
    check "fused.c compiles with $cc" $cc -O2 -msse4.1 "-DPAIR=\"fma_pair.c\"" -I"$work" -Wno-unused-function -o "$work/fused" \
        tests/kernels/fused.c -lm
    check "multiply-adds are those of fmaf, by $cc" "$work/fused" "$triples"
done

# ---- floats in a wider format ----

# advises COMPILER: it is refused, and takes the pair with the options that the message names
advises() {
    local options
    # shellcheck disable=SC2086 # words
    options=$($1 -fsyntax-only "$work/fma_pair.c" 2>&1 | sed -n '/exact = portable/ { s/.*: compile with \(.*\)"$/\1/p; q }') &&
        [ "$options" ] && $1 $options -fsyntax-only "$work/fma_pair.c"
}
for compiler in "s390x-linux-gnu-gcc -std=c11" "i686-linux-gnu-gcc -std=c11" "${CC:-gcc} -mfpmath=387"; do
    if usable "$compiler" && echo '#include <string.h>' | $compiler -E - >/dev/null 2>&1; then
        check "$compiler: the message's options take the pair" advises "$compiler"
    else
        skip "the message's options: there is no ${compiler%% *}"
    fi
done

# ---- what must be found ----

# broken TEXT FILE OLD NEW: a mutated template must leave other bits
broken() {
    rm -rf "$work/templates"
    cp -r templates "$work/templates"
    grep -qF -- "$3" "$work/templates/$2" || { result 1 "$1: the text is not in $2"; return; }
    OLD=$3 NEW=$4 perl -0pi -e 's/\Q$ENV{OLD}\E/$ENV{NEW}/' "$work/templates/$2"
    CFLAGS=-O0 "$ATTNRUN" check --templates "$work/templates" --isa "$here" "$work/broken.layer" >"$work/broken" 2>&1
    check "$1 is found" test $? -eq 1
    check "$1: other bits" grep -q "the order of exact = portable gives" "$work/broken"
}
printf '%s\n' "name = broken" "d_model = 24" "h = 2" "seq_len = 40" "mask = causal" "exact = portable" >"$work/broken.layer"
broken "m that is the largest of a first block" steps/block.in 'opens = PORTABLE and not plan.two_pass' 'opens = false'
broken "a multiply-add with two roundings" sets/simd_scalar.in \
    '#define fma_scalar(a, b, c) fused_scalar(a, b, c)' '#define fma_scalar(a, b, c) ((a) * (b) + (c))'
printf '%s\n' "name = broken" "d_model = 24" "h = 2" "seq_len = 130" "qk_norm = layer" "train = true" "sink = true" \
    "exact = portable" >"$work/broken.layer"
broken "gains' sums head by head in blocks of rows" steps/norm_back.in 'local by_head = PORTABLE and not all' 'local by_head = false'
broken "D as a sum across lanes" steps/backward.in '$ if PORTABLE then
    for (size_t row = 0; row < rows; row++) {
        const float *of_dz' '$ if false then
    for (size_t row = 0; row < rows; row++) {
        const float *of_dz'
broken "parts as high as a set's tiles" steps/backward.in 'plan.back.part_rows' '(plan.back.part_rows + 8)'
printf '%s\n' "name = broken" "d_model = 24" "h = 1" "d_k = 1" "d_v = 90" "seq_len = 40" "mask = causal" "train = true" \
    "exact = portable" >"$work/broken.layer"
broken "what fills a vector of an infinite gradient" steps/backward.in \
    'vec_load_first(at, min_size(LANES, columns - c))' 'vec_load_first(at, min_size(LANES, row_step - c))'
tally
