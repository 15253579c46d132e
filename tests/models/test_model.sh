#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# attngen model: the C of imported encoders gives what transformers answered (answers/, by make_answers.py), and keeps its
# promises, under sanitizers. attngen model itself: what it refuses, and that it writes all or nothing.
#
#   tests/models/test_model.sh      ATTNGEN=build/attngen  CC=gcc  CLANG=clang
set -u
cd "$(dirname "$0")/../.." || exit 3
. tests/checks.sh
log=$work/log

strictly() { # FOLDER NAME: each compiler finds nothing in the model's file
    for compiler in $compilers; do
        # shellcheck disable=SC2086 # several flags
        check "$compiler finds nothing in $2" "$compiler" $strict -O0 -c -o "$1/model.o" "$1/$2_model.c"
    done
}
# Imports a model, generates it, compiles a program around it, and counts what that says.
isa=scalar
try() { # NAME MODEL PROGRAM OPTIONS-OF-IMPORT FLAG...
    local name=$1 model=$2 program=$3 options=$4 of=$work/$1
    shift 4
    # shellcheck disable=SC2086 # several options
    check "$name is imported" "$ATTNGEN" import "tests/models/imports/$model" -o "$of" --name "$name" $options
    check "$name becomes C" "$ATTNGEN" model "$of/$name.layers" -o "$of" --isa "$isa" --deps "$of/deps"
    check "no line is long" narrow "$of/${name}_model.c" "$of/${name}_model.h"
    strictly "$of" "$name"
    grep -q '_TYPES ' "$of/${name}_model.h" && set -- "$@" -DTYPES
    check "$name is compiled" "${CC:-gcc}" -std=c11 -O0 -g -fsanitize=address,undefined -fno-sanitize-recover=all \
        -DNAME="$name" -DPREFIX="$(echo "$name" | tr a-z A-Z)" -DHEADER="\"${name}_model.h\"" -I"$of" "$@" \
        -o "$of/program" "tests/models/$program.c" "$of/$name"_*.c -lm
    "$of/program" "tests/models/answers/$model" "tests/models/imports/$model"/*.safetensors >"$of/said" 2>"$log"
    result $? "$name"
    while read -r verdict text; do
        case $verdict in ok | not) check "$name: $text" test "$verdict" = ok ;; esac
    done <"$of/said"
}

words='HEAD(transform,N,16) HEAD(logits,N,19)'
try bert bert model_program "" -DHEADS='HEAD(pooler,1,16)'
try bert_words bert_words model_program "" \
    -DHEADS="HEAD(pooler,1,16) $words HEAD(seq_relationship,1,2)"
try bert_classes bert_classes model_program "" -DHEADS='HEAD(pooler,1,16) HEAD(classifier,1,3)'
try roberta roberta model_program "" -DHEADS="$words"
try roberta_classes roberta_classes model_program "" -DHEADS='HEAD(dense,1,16) HEAD(classifier,1,3)'
try distilbert distilbert model_program "" -DHEADS="$words"
try vit vit model_program "" -DPIXELS=432 -DHEADS='HEAD(classifier,1,3)'
try gpt2 gpt2 decoder_program "" -DFIRST=_layer_isa -DPAST=12
try gpt2_pages gpt2 decoder_program "--cache paged" -DFIRST=_layer_isa -DPAST=12 -DPAGED
for name in llama llama_bias mistral qwen2 qwen3; do
    try $name $name decoder_program "" -DFIRST=_layer_isa -DPAST=40
done
try mistral_ring mistral decoder_program "--cache ring --seq-len 9" -DFIRST=_layer_isa -DPAST=INT32_MAX
try qwen2_window qwen2_window decoder_program "" -DFIRST=_full_isa -DPAST=40
try gemma2 gemma2 decoder_program "" -DFIRST=_window_isa -DPAST=40
try t5 t5 decoder_program "--seq-len 20 --cache-len 24" -DFIRST=_encoder_isa -DPAST=24 -DENCODER=1
try t5_gated t5_gated decoder_program "" -DFIRST=_encoder_isa -DPAST=512 -DENCODER=1
try whisper whisper decoder_program "" -DFIRST=_encoder_isa -DPAST=12 -DENCODER=2 -DFRAMES=100
check "the rule names the specs" grep -q "bert_model.c.*bert_model.h: .*bert.layers .*bert_layer.layer" "$work/bert/deps"

# the example, around another model of the same build
checkpoint=$root/tests/models/imports/bert
check "examples/minilm builds" make -s -C examples/minilm ATTNGEN="$ATTNGEN" OUT="$work/example" MODEL="$checkpoint" \
    CFLAGS="-O0 -Wpedantic -Werror" all
printf '2 3 4\n2 3 4\n5 6 7 8\n' | "$work/example/embed" "$checkpoint/model.safetensors" >"$work/said" 2>"$log"
result $? "it embeds"
check "a sentence is like itself" test "$(grep -c '^[01]: 3 tokens, cosine 1.0000' "$work/said")" -eq 2
check "and less like another one" grep -q '^2: 4 tokens, cosine 0\.' "$work/said"
"$work/example/embed" "$checkpoint/config.json" </dev/null >"$work/said" 2>&1
check "no checkpoint is an error" grep -q 'no safetensors' "$work/said"

# refused, by name, and nothing is written
refuses() { # TEXT FILE: attngen model ends with 2, says so, and writes nothing
    rm -rf "$work/none"
    "$ATTNGEN" model "$2" -o "$work/none" >"$log" 2>&1
    [ $? = 2 ] && grep -qF -- "$1" "$log" && [ ! -e "$work/none" ]
}
layers=$work/bert/bert.layers
edit() { sed "$1" "$layers" >"$work/bert/edited.layers"; }
edit 's/^format.*/format = 2/'
check "another format is refused" refuses "is no NAME.layers of format 1" "$work/bert/edited.layers"
edit '/layer 1\]/,$ s/^w_q.*//'
check "a tensor that is missing is named" refuses "the layer has no tensor w_q" "$work/bert/edited.layers"
edit 's/^w_k\(.*\) out_in/w_k\1 in_out/'
check "another layout is named" refuses "w_k lies there as 'in_out'" "$work/bert/edited.layers"
edit 's/^spec.*/spec = ..\/bert_layer.layer/'
check "a spec of another folder is refused" refuses "the layer has no spec" "$work/bert/edited.layers"
edit 's/^position.*/& # a comment/'
check "a comment behind a name is one" "$ATTNGEN" model "$work/bert/edited.layers" -o "$work/again"
check "and changes nothing" cmp "$work/again/bert_model.c" "$work/bert/bert_model.c"
edit 's/^word.*/word = x"); y(/'
check "a tensor's name without quotes is refused" refuses "no name of a tensor" "$work/bert/edited.layers"
edit 's/layer 1\]/layer 2]/'
check "a layer that is missing is named" refuses "[encoder layer 1] is missing" "$work/bert/edited.layers"
edit 's/^w_q.*/&\n&/'
check "a key that is there twice is refused" refuses "the key is in this section twice" "$work/bert/edited.layers"
edit 's/^activation.*/activation = relu/'
check "another pooler is refused" refuses "the pooler is w, b and activation = tanh" "$work/bert/edited.layers"
"$ATTNGEN" model "$layers" -o "$work/none" --set pad_rows=computed >"$work/said" 2>&1
check "rows of padding that are computed are refused" grep -q 'pad_rows = skipped' "$work/said"
"$ATTNGEN" model "$layers" -o "$work/none" --set name=bert_model >"$work/said" 2>&1
check "a pair that has the model's names is refused" grep -q 'would share files or macros' "$work/said"
check "and nothing is written" test ! -e "$work/none"
"${CC:-gcc}" -std=c11 -O0 -DBERT_LAYER_PACK_ONLY -I"$work/bert" -shared -fPIC -Wl,-z,defs -o "$work/pack.so" \
    "$work/bert/bert_model.c" "$work/bert/bert_layer.c" -lm >"$log" 2>&1
result $? "packing alone links"
edit '0,/^w_q/ s/^w_q.*/w_q = "other" out_in/'
check "names that differ in more are refused" refuses "in more than the layer's number" "$work/bert/edited.layers"
edit 's/^vocab.*/vocab = 0/'
check "a size of 0 is refused" refuses "vocab is missing or no size" "$work/bert/edited.layers"
edit 's/^word\(.*\)"$/word\1/'
check "a name without its end is refused" refuses "a name in quotes has no end" "$work/bert/edited.layers"
edit 's/^word\(.*\)"$/word\1\\"/'
check "so is a backslash in it" refuses "is not plain ASCII" "$work/bert/edited.layers"
edit 's/^family.*/family = *\//'
check "a family that could end a comment is refused" refuses "is no NAME.layers" "$work/bert/edited.layers"
edit 's/^name.*/name = 1x/'
check "a name that C does not have is refused" refuses "no name that is a C identifier" "$work/bert/edited.layers"
head -c 200 /dev/urandom >"$work/bert/edited.layers"
check "noise is refused" refuses "error:" "$work/bert/edited.layers"
tally
