#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# attnrun pack: a block is the one that NAME_pack makes, whatever names, layout and element type its weights came in,
# for every instruction set, on any machine; and what is refused.
#
#   tests/commands/test_pack.sh      BUILD=build  ATTNGEN=…  ATTNRUN=…  CC=gcc
#
# Left out on purpose: the exact messages about names and shapes; test_weights.c has them.
set -u
cd "$(dirname "$0")/../.." || exit 3
. tests/checks.sh
recast=$build/recast
[ -x "$recast" ] || { echo "$recast: error: not there; build it with make $recast" >&2; exit 3; }
log=log
show() { head -n 20 log err 2>/dev/null | sed 's/^/    /'; }
cd "$work" || exit 3
export XDG_CACHE_HOME=$work/cache
unset CFLAGS
CC=${CC:-gcc}

pack() { "$attnrun" pack "$@" >out 2>err </dev/null; }

# refused STATUS MESSAGE ARGUMENT…: attnrun pack must end with that status and say so, and leave no file
refused() {
    local wanted=$1 message=$2 got
    shift 2
    mkdir empty && cd empty || exit 3
    "$attnrun" pack "$@" >../out 2>../err </dev/null
    got=$?
    cd ..
    check "pack $*: exit code $got, not $wanted" test $got -eq "$wanted"
    check "pack $*: does not say '$message' but $(cat err)" grep -qF -- "$message" err
    check "pack $*: leaves something behind: $(ls -A empty)" rmdir empty
    rm -rf empty
}

# what a block is for, as the pair has it: the layer, the plan's choices and the set
number_of() { "$attngen" --isa scalar -o numbered "$@" "$root/examples/kws.layer" && grep -m 1 '"scalar", 0x' numbered/kws.c; }
check "the same layer has the same number" test "$(number_of)" = "$(number_of)"
check "another plan has another" test "$(number_of --set plan.key_block=16)" != "$(number_of --set plan.key_block=32)"
check "another layer too" test "$(number_of --set mask=causal)" != "$(number_of)"

# A layer that torch computed, its weights cut to numbers that f16 and bf16 hold: weights are [out][in]
spec=$root/tests/vectors/torch_mha_self.layer name=torch_mha_self
weights="w_q w_k w_v w_o b_q b_k b_v b_o"
rules=$(for w in $weights; do echo "$w=$w~"; done)
# shellcheck disable=SC2086 # rules are words
{
    "$recast" "$root/tests/vectors/$name.safetensors" w.safetensors F32 $rules &&
    "$recast" "$root/tests/vectors/$name.safetensors" all.safetensors F32 $rules x=x
} || exit 3
isas=$("$attngen" --isa . "$spec" 2>&1 | sed -n 's/.*known are \([^;]*\).*/\1/p' | head -n 1 | tr -d , | sed 's/avxvnni //; s/amx //')
check "the list of instruction sets: $isas" test -n "$isas"

# ---- the block ----

"$attngen" -o . "$spec" >/dev/null || exit 3
objects="$build/gen/base/tensors.o $build/gen/base/json.o $build/runtime/system/process.o $build/gen/base/memory.o $build/runtime/system/clock.o $build/gen/base/filekind.o $build/gen/base/diag.o $build/gen/base/replace.o $build/gen/base/file.o $build/gen/base/text.o $build/runtime/system/sha256.o"
# objects of a build with SANITIZE need its libraries
nm $build/gen/base/diag.o | grep -q __asan && objects="$objects -fsanitize=address,undefined"
upper=$(echo $name | tr a-z A-Z)
tables= # of the layer, if it has any: -DTABLES=…
# fields STRUCT: initialisers of the fields that the layer's struct has; those of a call are its inputs, y and attn
fields() {
    sed -n "/^typedef struct ${name}_$1 {/,/^}/s/^    .*[ *]\([a-z0-9_]*\);.*/\1/p" $name.h | while read -r field; do
        case $field in
            tables | y | attn) echo ".$field = $field," ;;
            batch | n | m | lse) ;;
            *) echo ".$field = floats(\"$field\")," ;;
        esac
    done | sed '$s/,$//' | tr '\n' ' '
}
program() { # OUT BLOCK WHAT…: pack_program with that block
    local out=$1 block=$2
    shift 2
    # shellcheck disable=SC2086
    $CC -std=c11 -O1 -Wall -Wextra -Wpedantic -Werror -I"$work" -I"$root/gen" -I"$root/runtime" -D_GNU_SOURCE -DNAME=$name -DPREFIX=$upper \
        -DHEADER="\"$name.h\"" -DBLOCK="\"$block.h\"" -DSYMBOL=${name}_packed \
        -DWEIGHTS="$(fields weights)" -DARGUMENTS="$(fields args)" $tables -o "$out" \
        "$root/tests/commands/pack_program.c" "$@" $objects
}
max=$(sed -n "s/^#define ${upper}_PACKED_BYTES .*(\([0-9]*\)).*/\1/p" $name.h)
check "the pair compiles" $CC -std=c11 -O1 -c $name.c
for isa in $isas; do
    check "packs for $isa, whatever this machine has" pack "$spec" --weights w.safetensors --isa "$isa" -o "$isa.c"
    check "a program with the array of $isa" program "c-$isa" "$isa" "$isa.c" $name.o
    check "the block of $isa is what NAME_pack makes" "./c-$isa" all.safetensors
    echo "$isa: $(sed 's/.*: //' log)" | tee -a programs
    check "the block of $isa is 64 bytes and more, and no more than the header says" \
        eval 'pack "$spec" --weights w.safetensors --isa $isa -o $isa.bin &&
              test "$(stat -c %s $isa.bin)" -gt 64 -a "$(stat -c %s $isa.bin)" -le "$max"'
    if "$attngen" --isa "$isa" -o "only-$isa" "$spec" >/dev/null; then
        cat >known.c <<PROGRAM
#include "only-$isa/$name.h"
#include "$isa.h"
int main(void) { return ${name}_isa(${name}_packed) != ${upper}_ISA_$(echo "$isa" | tr a-z A-Z); }
PROGRAM
        check "a pair with $isa only, to pack only, compiles" \
            $CC -std=c11 -D${upper}_PACK_ONLY -I. -o known known.c "only-$isa/$name.c" "$isa.c"
        check "a pair with $isa only knows the block of $isa" ./known
    fi
done

check "scalar ran" grep -qx "scalar: the same bits" programs

# ---- weights of less than four bytes: words, in the byte order of this machine ----

cat >same.c <<'PROGRAM'
#include <stdio.h>
#include <string.h>
#include NARROW
int main(int count, char **argument)
{
    static unsigned char bytes[sizeof SYMBOL + 1];
    FILE *const file = count > 1 ? fopen(argument[1], "rb") : NULL;
    return file == NULL || fread(bytes, 1, sizeof bytes, file) != sizeof SYMBOL || memcmp(bytes, SYMBOL, sizeof SYMBOL) != 0;
}
PROGRAM
for narrow in precision_i8 precision_i16 precision_bf16 types_i4 types_i8 types_f16; do
    vector=$root/tests/vectors/$narrow
    check "packs $narrow as C" pack "$vector.layer" --weights "$vector.safetensors" --isa scalar -o "$narrow-c.c"
    check "packs $narrow as a blob" pack "$vector.layer" --weights "$vector.safetensors" --isa scalar -o "$narrow-blob.bin"
    check "the C of $narrow is compiled" $CC $strict -O0 "-DNARROW=\"$narrow-c.h\"" "-DSYMBOL=${narrow}_packed" \
        -I. -o same same.c "$narrow-c.c"
    check "it has the bytes of the blob" ./same "$narrow-blob.bin"
    check "it is refused where words lie the other way" eval \
        '! $CC -U__BYTE_ORDER__ -D__BYTE_ORDER__=__ORDER_BIG_ENDIAN__ -I. -c -o other.o $narrow-c.c 2>log && grep -q "is little-endian" log'
done

# ---- several sets in one file: the best that the machine has, and an error where it has none ----

nehalem=(qemu-x86_64 -cpu Nehalem)
takes() { # WHAT PROGRAM…: prints that line
    local what=$1 said
    shift
    said=$("$@" all.safetensors 2>&1)
    check "$* says $what, not $said" test "$said" = "$what"
}
best=scalar
[ "$(./c-avx2 all.safetensors)" = "avx2: the same bits" ] && best=avx2
for format in c S; do
    check "packs for two sets" pack "$spec" --weights w.safetensors --isa avx2,scalar -o two.$format
    check "and says how much that is" grep -q "^packed for scalar,avx2: two.* $((2 * $(stat -c %s scalar.bin))) bytes as" out
    check "a program with both" program "two-$format" two two.$format $name.o
    takes "$best: the same bits" "./two-$format"
done
check "the blob is the two blocks" test "$(stat -c %s two.bin)" -eq $((2 * $(stat -c %s scalar.bin)))
check "packs for every set" pack "$spec" --weights w.safetensors --isa all -o all.S
check "a program with all" program all all all.S $name.o
check "packs for this kind of machine" pack "$spec" --weights w.safetensors --isa auto -o auto.S
check "a program with those" program auto auto auto.S $name.o
check "that takes as good a set as the one with all: $(./auto all.safetensors)" \
    eval '[ "$(./auto all.safetensors)" = "$(./all all.safetensors)" ] && ./auto all.safetensors'
if [ "$(uname -m)" != x86_64 ]; then
    skip "a CPU without AVX2: this machine is no x86-64"
elif ! "${nehalem[@]}" /bin/true 2>/dev/null; then
    skip "a CPU without AVX2: no qemu-x86_64 that knows Nehalem"
else
    refused="refused: this file or this machine lacks the instruction set, or those of all blocks"
    takes "$refused" "${nehalem[@]}" ./c-avx2
    takes "$refused" "${nehalem[@]}" ./c-avx512
    takes "scalar: the same bits" "${nehalem[@]}" ./two-c
    takes "scalar: the same bits" "${nehalem[@]}" ./auto
fi
takes "refused: this file or this machine lacks the instruction set, or those of all blocks" ./c-rvv
check "a program with the blob of scalar" program s-scalar scalar scalar.S $name.o
check "the blob of scalar is what NAME_pack makes" ./s-scalar all.safetensors
arm=aarch64-linux-gnu-gcc
if ! command -v $arm >/dev/null || ! $arm -print-file-name=libc.so | grep -q / ||
        ! command -v qemu-aarch64 >/dev/null; then
    skip "no $arm with a libc, or no qemu-aarch64"
else
    check "a program with the array of neon for AArch64" eval \
        '(CC=$arm objects="-static $root/gen/base/tensors.c $root/gen/base/json.c $root/runtime/system/process.c $root/gen/base/memory.c $root/runtime/system/clock.c $root/gen/base/filekind.c $root/gen/base/diag.c $root/gen/base/replace.c $root/gen/base/file.c $root/gen/base/text.c $root/runtime/system/sha256.c"
          program arm neon neon.c $name.c)'
    check "the block of neon, packed here, is what NAME_pack makes there" qemu-aarch64 ./arm all.safetensors
    check "neon ran" eval 'qemu-aarch64 ./arm all.safetensors | grep -qx "neon: the same bits"'
fi

mv scalar.c first.c
check "the same command gives the same bytes" eval \
    'pack "$spec" --weights w.safetensors --isa scalar -o scalar.c && cmp first.c scalar.c'
check "the default name" eval \
    'pack "$spec" --weights w.safetensors --isa scalar && test -e ${name}_packed.c -a -e ${name}_packed.h'
check "the default name of a blob" eval \
    'pack "$spec" --weights w.safetensors --isa scalar --format blob &&
     test -e ${name}_packed.S -a -e ${name}_packed.bin'
check "another symbol" eval \
    'pack "$spec" --weights w.safetensors --isa scalar --symbol layer_7 -o s.c && $CC -c s.c && nm s.o | grep -qw layer_7'
check "clang takes the array" eval \
    '! command -v clang >/dev/null || clang -std=c11 -Wall -Wextra -Wpedantic -Werror -c scalar.c'
check "the header is C++" eval \
    'printf "#include \"%s.h\"\n#include \"scalar.h\"\nint main() { return %s_isa(%s_packed); }\n" \
        $name $name $name >h.cpp &&
     ${CXX:-g++} -std=c++17 -Wall -Wextra -Wpedantic -Werror -fsyntax-only h.cpp'
for cross in aarch64-linux-gnu-gcc; do
    if command -v $cross >/dev/null; then
        check "$cross takes array and stub" eval \
            "$cross -ffreestanding -c scalar.c -o a.o && $cross -c ${name}_packed.S"
    else
        skip "no $cross here"
    fi
done

# ---- names, layouts and element types: the block is the same byte for byte ----

# convention TEXT OPTIONS RULE…, TYPE by TYPE
convention() {
    local text=$1 options=$2 type
    shift 2
    for type in ${types:-F32}; do
        check "$text as $type can be made" "$recast" w.safetensors theirs.safetensors "$type" "$@"
        # shellcheck disable=SC2086
        check "$text as $type is packed" pack "$spec" --weights theirs.safetensors --isa scalar -o theirs.c $options
        sed -e 's/theirs/scalar/' theirs.c >renamed.c
        check "$text as $type gives the same block" cmp scalar.c renamed.c
    done
}
# four QUERY KEY VALUE OUTPUT: rules for separate matrices and biases
four() {
    local letter
    for letter in q k v o; do
        echo "$1.weight=w_$letter $1.bias=b_$letter"
        shift
    done
}
types="F32 F16 BF16 F64" convention "attngen's names" "" w_q=w_q w_k=w_k w_v=w_v w_o=w_o b_q=b_q b_k=b_k b_v=b_v b_o=b_o
types="F16 BF16" convention "torch.nn.MultiheadAttention" "" in_proj_weight=w_q+w_k+w_v in_proj_bias=b_q+b_k+b_v \
    out_proj.weight=w_o out_proj.bias=b_o
convention "torch.nn.MultiheadAttention with kdim" "" q_proj_weight=w_q k_proj_weight=w_k v_proj_weight=w_v \
    in_proj_bias=b_q+b_k+b_v out_proj.weight=w_o out_proj.bias=b_o
types="F16 F32" convention "GPT-2, of two layers" "--prefix h.1." h.1.attn.c_attn.weight=w_q+w_k+w_v^ \
    h.1.attn.c_attn.bias=b_q+b_k+b_v h.1.attn.c_proj.weight=w_o^ h.1.attn.c_proj.bias=b_o h.1.mlp.c_proj.weight=w_q \
    h.11.attn.c_attn.weight=w_q+w_q+w_q^ h.11.attn.c_attn.bias=b_k+b_k+b_v h.1.attn.bias=w_q
convention "timm" "" attn.qkv.weight=w_q+w_k+w_v attn.qkv.bias=b_q+b_k+b_v attn.proj.weight=w_o attn.proj.bias=b_o
convention "Phi-3" "" self_attn.qkv_proj.weight=w_q+w_k+w_v self_attn.qkv_proj.bias=b_q+b_k+b_v \
    self_attn.o_proj.weight=w_o self_attn.o_proj.bias=b_o
bert=encoder.layer.0.attention
# shellcheck disable=SC2046
{
types="F32 BF16" convention "BERT" "--prefix encoder.layer.0" \
    $(four $bert.self.query $bert.self.key $bert.self.value $bert.output.dense) \
    encoder.layer.0.output.dense.weight=w_q \
    $(four encoder.layer.1.attention.self.{query,key,value} encoder.layer.1.attention.output.dense)
convention "ViT" "" $(four $bert.attention.query $bert.attention.key $bert.attention.value $bert.output.dense)
convention "DistilBERT" "" $(four attention.{q,k,v,out}_lin)
convention "Llama" "" $(four model.layers.0.self_attn.{q,k,v,o}_proj)
convention "BART" "--prefix d.0.self_attn" $(four d.0.self_attn.{q,k,v,out}_proj) \
    $(four d.0.encoder_attn.{k,q,v,out}_proj)
convention "T5" "" $(four SelfAttention.{q,k,v,o})
}
check "a bias of zeros" "$recast" w.safetensors k.safetensors F32 $(four {q,k,v,out}_proj | sed 's/k_proj.bias=b_k//')
check "k_proj without a bias, as Whisper has it" pack "$spec" --weights k.safetensors --isa scalar -o zero.c --zero-bias
check "which makes another block" test -n "$(cmp scalar.c zero.c)"

# the spec's layout is the pair's, not the file's: y is what torch computed
"$recast" "$root/tests/vectors/$name.safetensors" mha.safetensors F32 in_proj_weight=w_q+w_k+w_v \
    in_proj_bias=b_q+b_k+b_v out_proj.weight=w_o out_proj.bias=b_o
"$recast" "$root/tests/vectors/$name.safetensors" call.safetensors F32 x=x y=y attn=attn
for layout in out_in in_out; do
    check "run with torch's weights in a pair of $layout" "$attnrun" run --set weight_layout=$layout "$spec" \
        --in call.safetensors --weights mha.safetensors --reference
    check "and by a kernel" env CFLAGS=-O0 "$attnrun" run --set weight_layout=$layout "$spec" --isa scalar \
        --in call.safetensors --weights mha.safetensors
done
# a sample with weights of its own, here the wrong ones: those of --weights are taken
"$recast" "$root/tests/vectors/$name.safetensors" wrong.safetensors F32 x=x y=y attn=attn w_q=w_k w_k=w_q w_v=w_o w_o=w_v \
    b_q=b_k b_k=b_q b_v=b_o b_o=b_v
check "run with wrong weights in the sample misses" eval \
    '"$attnrun" run "$spec" --in wrong.safetensors --reference >out; test $? -eq 1'
check "and with --weights it does not" "$attnrun" run "$spec" --in wrong.safetensors --weights mha.safetensors --reference
check "run with no weights is refused" eval '! "$attnrun" run "$spec" --in call.safetensors --reference 2>err'

# ---- what else a layer learns: norms' gains and shifts, relative positions, a sink, tables ----

vectors=$root/tests/vectors/kinds
# recasts FROM TO RULE…: with RULE for RULE=RULE
recasts() {
    local from=$1 to=$2 rule rules=()
    shift 2
    for rule in "$@"; do case $rule in *=*) rules+=("$rule") ;; *) rules+=("$rule=$rule") ;; esac; done
    "$recast" "$from" "$to" F32 "${rules[@]}"
}
# learns LAYER "KEY=VALUE…" "TABLE…" "CALL…" WEIGHT…: the layer with these keys, packed from a file that holds the WEIGHTs
# of its vector and nothing else
learns() {
    local layer=$1 name upper tables= call=$4 set=() word title
    name=$(basename "$layer" .layer)
    upper=$(echo "$name" | tr a-z A-Z)
    title="$name${2:+ with $2} (${*:5})"
    for word in $2; do set+=(--set "$word"); done
    for word in $3; do tables="$tables\"$word\","; done
    tables=${tables:+-DTABLES=$tables}
    shift 4
    check "$title: its weights" recasts "$vectors/$name.safetensors" own.safetensors "$@"
    # shellcheck disable=SC2086 # words
    check "$title: with what a call brings" recasts "$vectors/$name.safetensors" both.safetensors "$@" $call
    check "$title: the pair" eval \
        '"$attngen" --isa scalar -o . ${set[@]+"${set[@]}"} "$layer" >/dev/null && $CC -std=c11 -O1 -c $name.c'
    check "$title is packed" pack ${set[@]+"${set[@]}"} "$layer" --weights own.safetensors --isa scalar -o own.c
    check "$title: a program with the block" program learned own own.c "$name.o"
    check "$title: the block is what NAME_pack makes" ./learned both.safetensors
}
grep -v '^rel' "$vectors/d_order.layer" >d_order.layer # projected, and nothing learned but a table
four="w_q w_k w_v w_o" biased="w_q w_k w_v w_o b_q b_k b_v b_o"
# shellcheck disable=SC2086 # words
{
learns "$vectors/hf_phi_norm.layer" "" "" x $biased g_q g_k c_q c_k
learns "$vectors/hf_phi_norm.layer" "qk_norm=rms" "" x $biased g_q=c_k g_k
learns "$vectors/hf_phi_norm.layer" "qk_norm=rms_all" "" x $biased g_q=g_q+g_k+c_q+c_k g_k=c_k+c_q+g_k+g_q
learns "$vectors/hf_gptoss_window.layer" "" "" x $biased sink
learns "$vectors/hf_t5_enc.layer" "mask=none" "" x $four rel_bias
learns "$vectors/d_tables.layer" "scores=true" "bias2 keep" x $four bias2 keep
learns "$vectors/d_order.layer" "mask=causal" tau "q k v" rel_bias tau
learns d_order.layer "mask=causal" tau "q k v" tau
}

# run takes tables from --weights too, and rather than those of the sample
order=$vectors/d_order.layer
recasts "$vectors/d_order.safetensors" call.safetensors q k v mask_add y attn
recasts "$vectors/d_order.safetensors" own.safetensors tau rel_bias
recasts "$vectors/d_order.safetensors" wrong.safetensors q k v mask_add y attn rel_bias tau=tau~
recasts "$vectors/d_tables.safetensors" call2.safetensors x y $four bias2=keep keep
check "run with a table of --weights" "$attnrun" run "$order" --in call.safetensors --weights own.safetensors --reference
check "and by a kernel" env CFLAGS=-O0 "$attnrun" run "$order" --isa scalar --in call.safetensors --weights own.safetensors
check "a heatmap with it" env CFLAGS=-O0 "$attnrun" heatmap "$order" --in call.safetensors --weights own.safetensors -o map.svg
check "a wrong table in the sample misses" eval \
    '"$attnrun" run "$order" --in wrong.safetensors --reference >out; test $? -eq 1'
check "and with --weights it does not" "$attnrun" run "$order" --in wrong.safetensors --weights own.safetensors --reference
refused 2 'tensor "bias2" is [2][7]; [2][8] is needed (table.bias2 of the spec)' "$vectors/d_tables.layer" --isa scalar \
    --weights "$work/call2.safetensors"
recasts "$vectors/d_tables.safetensors" own.safetensors $four bias2
refused 2 'tensor "keep" is missing; [2][7] is needed (table.keep of the spec)' "$vectors/d_tables.layer" --isa scalar \
    --weights "$work/own.safetensors"
recasts "$vectors/d_order.safetensors" own.safetensors slope=tau
refused 2 'no weights of the layer among 1 tensors: slope; known are names that end in tau (attngen), of shape [3]' \
    "$work/d_order.layer" --isa scalar --weights "$work/own.safetensors"

# ---- what is refused ----

w="--weights $work/w.safetensors"
# shellcheck disable=SC2086 # $w is two words
{
refused 2 "pack needs --weights" "$spec" --isa scalar
refused 2 "pack needs --isa" "$spec" $w
for isa in mmx auto,avx2 avx2,all; do
    refused 2 "unknown instruction set '" "$spec" $w --isa $isa
done
refused 2 "'avx2' is given twice" "$spec" $w --isa avx2,scalar,avx2
refused 2 "avxvnni: the pair has no such set, as it has no products of whole numbers" "$spec" $w --isa avx2,avxvnni
refused 2 "an empty name in the list" "$spec" $w --isa scalar,
refused 2 "ends in none of" "$spec" $w --isa scalar -o block.o
refused 2 "is not a name for --format c" "$spec" $w --isa scalar -o block.S --format c
refused 2 "--format cannot be 'elf'; write c or blob" "$spec" $w --isa scalar --format elf
refused 2 "is not a name for a C object" "$spec" $w --isa scalar --symbol 7up
refused 2 "is a keyword of C or C++" "$spec" $w --isa scalar --symbol int
refused 2 "is the pair's own" "$spec" $w --isa scalar --symbol "$name"
refused 2 "is the header of the pair" "$spec" $w --isa scalar -o "$name.S"
refused 2 "cannot stand in an #include" "$spec" $w --isa scalar -o 'a"b.c'
refused 2 "cannot stand in an #include" "$spec" $w --isa scalar -o $'a\nb.bin'
refused 2 "needs one spec" $w --isa scalar
refused 3 "cannot be written" "$spec" $w --isa scalar -o nowhere/at/all.c
}
refused 3 "cannot be read" "$spec" --isa scalar --weights nothing.safetensors
refused 3 "is a directory; the path of a safetensors file is needed" "$spec" --isa scalar --weights "$work"
mkfifo pipe
refused 3 "is a device, a pipe or a socket, not a file on disk; the path of a safetensors file is needed" "$spec" --isa scalar --weights "$work/pipe"

# files of another kind: named for what they are
other() { # NAME WHAT [FIRST]: as weights, as the input of a call, as a spec for both programs, where FIRST comes first
    local file=$work/$1 what=$2 first=${3-}
    refused 2 "$1: error: is $what; " "$spec" --isa scalar --weights "$file"
    refused 2 "$1: error: is $what; ${first}a spec is text " "$file" --isa scalar --weights "$work/w.safetensors"
    ends 2 "$attnrun" run "$spec" --in "$file"
    check "run --in $1: $(cat err)" grep -qF "$1: error: is $what; " err
    ends 2 "$attngen" --explain "$file"
    check "attngen $1: $(cat err)" grep -qF "$1: error: is $what; ${first}a spec is text " err
}
check "a plan file of another kind: $("$attngen" --plan w.safetensors "$spec" 2>&1)" eval \
    '"$attngen" --plan w.safetensors "$spec" 2>&1 | grep -qF "is safetensors; give the path of a plan file"'
check "NAME.layers of another kind" eval \
    '"$attngen" model "$spec" 2>&1 | grep -qF "is a spec; give the path of a NAME.layers"'
check "results of another kind" eval '"$attnrun" merge w.safetensors 2>&1 | grep -qF "is safetensors; name a file of results"'
printf '{\n  "architectures": ["BertModel"],\n  "hidden_size": 384\n}\n' >config.json
printf 'PK\3\4\0\0\10\10\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\30\0\22\0pytorch_model/data.pklFB' >pytorch_model.bin
printf '\10\10\22\7pytorch\32\0052.1.0:\307\1' >model.onnx
other config.json "a model's configuration (JSON)" "attngen import DIR makes specs of its folder; "
other pytorch_model.bin "a PyTorch checkpoint (a pickle, .bin or .pt)"
other model.onnx "an ONNX model"
"$recast" w.safetensors bad.safetensors F32 w_q=w_q
refused 2 '"w_k" is missing' "$spec" --isa scalar --weights "$work/bad.safetensors"
"$recast" w.safetensors bad.safetensors F32 q_proj.weight=w_q+w_q $(four {q,k,v,o}_proj | sed 's/q_proj.weight=w_q//')
refused 2 '"q_proj.weight" is [192][96]; [96][96] is needed' "$spec" --isa scalar --weights "$work/bad.safetensors"
"$recast" w.safetensors bad.safetensors F32 $(four a.{q,k,v,o}) $(four b.{q,k,v,o})
refused 2 'choose one by the beginning of its names, as in --prefix a.' "$spec" --isa scalar \
    --weights "$work/bad.safetensors"
refused 2 'no tensor'"'"'s name begins with "c."' "$spec" --isa scalar --weights "$work/bad.safetensors" --prefix c.
"$recast" w.safetensors bad.safetensors F32 $'evil\e[31m=w_q'
refused 2 'evil?[31m' "$spec" --isa scalar --weights "$work/bad.safetensors"
sed 's/"F32"/"F8 "/' w.safetensors >bad.safetensors
refused 2 'dtype "F8 " is not supported' "$spec" --isa scalar --weights "$work/bad.safetensors"
sed 's/"F32"/"I32"/' w.safetensors >bad.safetensors
refused 2 'is I32; F32, F16, BF16 and F64 are read' "$spec" --isa scalar --weights "$work/bad.safetensors"
head -c 70000 w.safetensors >bad.safetensors
refused 2 'lie outside' "$spec" --isa scalar --weights "$work/bad.safetensors"
{ head -c -4 w.safetensors; printf '\0\0\300\177'; } >bad.safetensors # the last number, of b_o, is NaN
refused 2 'tensor "b_o": b_o holds nan' "$spec" --isa scalar --weights "$work/bad.safetensors"
# as on a full disk: this shell lets a program write files of a few blocks only; the kernel is in the cache
mkdir full
check "a block that does not fit is an error" eval '(ulimit -f 250; trap "" XFSZ
    "$attnrun" pack "$spec" --weights w.safetensors --isa scalar -o full/b.c >out 2>err
    test $? -eq 3 && grep -q "full/b.c: error: cannot be written" err)'
check "and leaves nothing behind: $(ls full)" rmdir full
# whenever it is ended; and several at once
whole() { [ "$(ls cut | xargs)" = "b.S b.bin b.h" ] && case $(grep -alx old cut/* | wc -l) in 0 | 3) ;; *) false ;; esac; }
for delay in 0.01 0.02 0.03 0.05 0.08 0.12 0.2 0.3; do
    rm -rf cut && mkdir cut && echo old | tee cut/b.S cut/b.bin >cut/b.h
    timeout -s INT $delay "$attnrun" pack "$spec" --weights w.safetensors --isa scalar -o cut/b.bin >out 2>err
    check "ended after $delay s: all files or none: $(ls cut | xargs)" whole
done
for i in 1 2 3; do "$attnrun" pack "$spec" --weights w.safetensors --isa scalar -o cut/b.bin & done >out 2>err
wait
check "three at once: all files, each whole" eval 'whole && cmp cut/b.bin scalar.bin'

tally
