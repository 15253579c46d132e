#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# attngen model: the C of imported models gives what transformers answered (answers/, by make_answers.py), and keeps its
# promises, under sanitizers. attngen model itself: what it refuses, and that it writes all or nothing.
#
#   tests/models/test_model.sh      ATTNGEN=build/attngen  CC=gcc  CLANG=clang
set -u
cd "$(dirname "$0")/../.." || exit 3
. tests/checks.sh

verdict() { # STATUS TEXT: of a job, which ends where it fails
    [ "$1" -eq 0 ] || fail "$name: $2"
    echo "passed: $name: $2"
}

# Imports a model, generates it, compiles a program around it, and says what that says.
one_model() { # NAME MODEL PROGRAM ISA OPTION,… FLAG…
    local name=$1 model=$2 program=$3 isa=$4 options=${5//,/ } of=$work/$1 said compiler sanitizers from=tests/models/imports/$2
    log=$work/$1.log
    shift 5
    if [ "${name#pooled_}" != "$name" ]; then # with the modules of sentence-transformers behind it
        mkdir -p "$of.in/1_Pooling" && cp "$from"/* "$of.in" && from=$of.in
        echo "{\"pooling_mode_${name#pooled_}\": true, \"pooling_mode_weightedmean_tokens\": false}" >"$from/1_Pooling/config.json"
        printf '[{"path": "", "type": "%s.Transformer"}, {"path": "1_Pooling", "type": "%s.Pooling"}, ' \
            sentence_transformers.models{,} >"$from/modules.json"
        echo '{"path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}]' >>"$from/modules.json"
    fi
    # shellcheck disable=SC2086 # several options
    "$ATTNGEN" import --specs "$from" -o "$of" --name "$name" ${options/#none/} >"$log" 2>&1
    verdict $? "is imported"
    [ "${name%_pages*}" = "$name" ] || sed -i 's/^page_len.*/page_len = 5/' "$of"/*.layer # so that a sequence has several
    [ "${name%_bf16_states}" = "$name" ] || sed -i 's/^seq_len/cache_type = bf16\nseq_len/' "$of"/*_recurrent.layer
    "$ATTNGEN" model "$of/$name.layers" -o "$of" --isa "$isa" --deps "$of/deps" >"$log" 2>&1
    verdict $? "becomes C"
    narrow "$of/${name}_model.c" "$of/${name}_model.h" >"$log" 2>&1
    verdict $? "no line is long"
    for compiler in $compilers; do
        # shellcheck disable=SC2086 # several flags
        "$compiler" $strict -O0 -c -o "$of/model.o" "$of/${name}_model.c" >"$log" 2>&1
        verdict $? "$compiler finds nothing"
    done
    grep -q '_TYPES ' "$of/${name}_model.h" && set -- "$@" -DTYPES
    case $* in
    *-DTHREADED*) sanitizers=thread ;;
    *) sanitizers=address,undefined ;;
    esac
    "${CC:-gcc}" -std=c11 -O0 -g1 "-fsanitize=$sanitizers" -fno-sanitize-recover=all -DNAME="$name" \
        -DPREFIX="${name^^}" -DHEADER="\"${name}_model.h\"" -I"$of" "$@" -o "$of/program" "tests/models/$program.c" \
        "$of/$name"_*.c -lm >"$log" 2>&1
    verdict $? "is compiled"
    "$of/program" "tests/models/answers/$model" "tests/models/imports/$model"/*.safetensors >"$log" 2>&1
    local status=$?
    sed -n "s/^ok /passed: $name: /p; s/^not /FAILED: $name: /p" "$log"
    grep -q '^not ' "$log" || verdict $status "runs to its end"
}
if [ "${1-}" = --one ]; then
    shift 2
    one_model "$@"
    exit 0
fi

log=$work/log
words='HEAD(transform,N,16)HEAD(logits,N,19)'
job bert bert model_program avx2 none "-DHEADS=HEAD(pooler,1,16)"
job pooled_cls_token bert model_program scalar none "-DHEADS=HEAD(pooler,1,16)" -DPOOLED=first
job pooled_lasttoken bert model_program scalar none "-DHEADS=HEAD(pooler,1,16)" -DPOOLED=last
job pooled_max_tokens bert model_program scalar none "-DHEADS=HEAD(pooler,1,16)" -DPOOLED=largest
job pooled_mean_tokens bert model_program scalar none "-DHEADS=HEAD(pooler,1,16)" "-DPOOLED=sum/(float)n"
job pooled_mean_sqrt_len_tokens bert model_program scalar none "-DHEADS=HEAD(pooler,1,16)" "-DPOOLED=sum/sqrtf((float)n)"
job bert_words bert_words model_program scalar none "-DHEADS=HEAD(pooler,1,16)${words}HEAD(seq_relationship,1,2)"
job bert_classes bert_classes model_program scalar none "-DHEADS=HEAD(pooler,1,16)HEAD(classifier,1,3)"
job bert_tokens bert_tokens model_program scalar none "-DHEADS=HEAD(classifier,N,3)"
job roberta roberta model_program scalar none "-DHEADS=$words"
job roberta_classes roberta_classes model_program scalar none "-DHEADS=HEAD(dense,1,16)HEAD(classifier,1,3)"
job distilbert distilbert model_program scalar none "-DHEADS=$words"
job vit vit model_program avx2 none -DPIXELS=432 "-DHEADS=HEAD(classifier,1,3)"
job gpt2 gpt2 decoder_program avx2 none -DFIRST=_layer_isa -DPAST=12
job gpt2_i8 gpt2 decoder_program avx2 --weight-type,i8 -DFIRST=_layer_isa -DPAST=12 -DANSWERED=0.08f
job llama_bf16 llama decoder_program scalar --weight-type,bf16 -DFIRST=_layer_isa -DPAST=40
job gpt2_cache_i8 gpt2 decoder_program avx2 --cache-type,i8 -DFIRST=_layer_isa -DPAST=12 -DANSWERED=0.08f
job llama_cache_bf16 llama decoder_program avx2 --cache-type,bf16 -DFIRST=_layer_isa -DPAST=40 -DANSWERED=0.08f
job gpt2_pages_f16 gpt2 decoder_program scalar --cache,paged,--cache-type,f16 -DFIRST=_layer_isa -DPAST=12 -DPAGED \
    -DANSWERED=0.01f
job gpt2_pages_i8 gpt2 decoder_program scalar --cache,paged,--cache-type,i8 -DFIRST=_layer_isa -DPAST=12 -DPAGED \
    -DANSWERED=0.08f
job mistral_ring_i8 mistral decoder_program scalar --cache,ring,--seq-len,9,--cache-type,i8 -DFIRST=_layer_isa \
    -DPAST=INT32_MAX -DANSWERED=0.08f
job gpt2_whole_i16 gpt2 decoder_program avx2 --precision,i16 -DFIRST=_layer_isa -DPAST=12 -DANSWERED=0.002f
job bert_f16 bert model_program scalar --weight-type,f16 -DANSWERED=0.002f "-DHEADS=HEAD(pooler,1,16)"
job gpt2_pages gpt2 decoder_program scalar --cache,paged -DFIRST=_layer_isa -DPAST=12 -DPAGED
echo 'int main(void) { return 0; }' >"$work/probe.c"
if "${CC:-gcc}" -fsanitize=thread -o "$work/probe" "$work/probe.c" 2>/dev/null && "$work/probe"; then # three threads share each phase, and two run one model at once
    job gpt2_threads gpt2 decoder_program avx2 none -DFIRST=_layer_isa -DPAST=12 -DTHREADED -pthread
    job t5_threads t5 decoder_program scalar --seq-len,20,--cache-len,24 -DFIRST=_encoder_isa -DPAST=24 -DENCODER=1 -DTHREADED \
        -pthread
else
    skip "a model with threads: ${CC:-gcc} has no ThreadSanitizer here"
fi
for name in llama llama_bias mistral qwen2 qwen3; do
    job $name $name decoder_program scalar none -DFIRST=_layer_isa -DPAST=40
done
for name in phi granite gpt_neox bloom opt cohere stablelm_normed; do # what is in no family above: see make_imports.py
    job $name $name decoder_program scalar --seq-len,9,--cache-len,12 -DFIRST=_layer_isa -DPAST=12
done
for name in minicpm3 deepseek_v2 deepseek_v3; do # latent attention
    job $name $name decoder_program scalar --seq-len,9,--cache-len,12 -DFIRST=_layer_isa -DPAST=12
done
job minicpm3_bf16 minicpm3 decoder_program scalar --weight-type,bf16,--seq-len,9,--cache-len,12 -DFIRST=_layer_isa -DPAST=12 -DANSWERED=0.02f
job minicpm3_pages minicpm3 decoder_program avx2 --cache,paged,--cache-type,i8 -DPAGED -DANSWERED=0.08f -DFIRST=_layer_isa \
    -DPAST=40
for name in qwen3_5_text qwen3_next olmo_hybrid kimi_linear; do
    job $name $name states_program scalar none
done
job mamba2 mamba2 states_program scalar none -DALONE
job qwen3_next_bf16_states qwen3_next states_program scalar none -DCLOSE=0.08f -DANSWERED=0.08f
job qwen3_5_text_pages qwen3_5_text states_program avx2 --cache,paged,--weight-type,bf16 -DPAGED -DANSWERED=0.08f
job mpnet mpnet model_program scalar none "-DHEADS=HEAD(pooler,1,16)"
job albert albert model_program scalar none "-DHEADS=HEAD(classifier,N,3)"
job deberta deberta-v2 model_program scalar none "-DHEADS=HEAD(pooler,1,16)HEAD(classifier,1,2)"
job eurobert_mean eurobert_mean model_program scalar none "-DHEADS=HEAD(dense,1,16)HEAD(classifier,1,3)"
job deit deit model_program scalar none -DPIXELS=192 "-DHEADS=HEAD(classifier,1,3)"
job siglip_vision siglip_vision_model model_program scalar none -DPIXELS=432 "-DHEADS=HEAD(embedding,1,16)"
job dinov2 dinov2_with_registers model_program scalar none -DPIXELS=432 "-DHEADS=HEAD(classifier,1,3)"
job marian marian decoder_program scalar none -DFIRST=_encoder_isa -DPAST=12 -DENCODER=1
job mistral_ring mistral decoder_program scalar --cache,ring,--seq-len,9 -DFIRST=_layer_isa -DPAST=INT32_MAX
job qwen2_window qwen2_window decoder_program scalar none -DFIRST=_full_isa -DPAST=40
job gemma2 gemma2 decoder_program scalar none -DFIRST=_window_isa -DPAST=40
job t5 t5 decoder_program scalar --seq-len,20,--cache-len,24 -DFIRST=_encoder_isa -DPAST=24 -DENCODER=1
job t5_tables t5_tables decoder_program scalar none -DFIRST=_encoder_isa -DPAST=512 -DENCODER=1
job t5_gated t5_gated decoder_program scalar none -DFIRST=_encoder_isa -DPAST=512 -DENCODER=1
job whisper whisper decoder_program scalar none -DFIRST=_encoder_isa -DPAST=12 -DENCODER=2 -DFRAMES=100
job serve_llama llama serving_program avx2 --seq-len,9 -DENDS=1
job serve_minicpm3 minicpm3 serving_program scalar --seq-len,9
job serve_gpt2_i8 gpt2 serving_program scalar --cache-type,i8,--seq-len,9
job serve_gpt2_pages gpt2 serving_program scalar --cache,paged,--cache-type,i8,--seq-len,9 -DPAGED
job serve_gemma2_ring gemma2 serving_program avx2 --cache,ring,--cache-type,bf16,--seq-len,4
job serve_gemma2_f16 gemma2 serving_program scalar --cache,ring,--cache-type,f16,--seq-len,4
job serve_gemma2_rows gemma2 serving_program scalar --cache-type,bf16,--seq-len,4
job serve_qwen3_5_text qwen3_5_text serving_program avx2 --seq-len,9 -DWITH_STATES
job serve_olmo_hybrid_pages olmo_hybrid serving_program scalar --cache,paged,--seq-len,9 -DWITH_STATES -DPAGED
run_jobs
check "what one model saves is no other's, of another type or place of rows" test -z \
    "$(sed -n 's/^saved //p' "$work"/serve_gemma2_*.log | sort | uniq -d)"
check "the rule names the specs" grep -q "bert_model.c.*bert_model.h: .*bert.layers .*bert_layer.layer" "$work/bert/deps"

# the example, around another model of the same build
checkpoint=$root/tests/models/imports/bert
check "examples/minilm builds" make -s -C examples/minilm ATTNGEN="$ATTNGEN" OUT="$work/example" MODEL="$checkpoint" \
    CFLAGS="-O0 -Wpedantic -Werror" all
printf '2 3 4\n2 3 4\n5 6 7 8\n' | "$work/example/embed" "$checkpoint/model.safetensors" >"$work/text" 2>"$log"
result $? "it embeds"
check "a sentence is like itself" test "$(grep -c '^[01]: 3 tokens, cosine 1.0000' "$work/text")" -eq 2
check "and less like another one" grep -q '^2: 4 tokens, cosine 0\.' "$work/text"
"$work/example/embed" "$checkpoint/config.json" </dev/null >"$work/text" 2>&1
check "no checkpoint is an error" grep -q 'no safetensors' "$work/text"
echo '2 three' | "$work/example/embed" "$checkpoint/model.safetensors" >"$work/text" 2>&1
check "neither is a word an id" grep -q '^line 1: three is no id of a token' "$work/text"
mkdir "$work/other" && sed 's/"num_attention_heads": *[0-9]*/"num_attention_heads": 1/' "$checkpoint/config.json" \
    >"$work/other/config.json" && cp "$checkpoint"/*.safetensors "$work/other" && touch -d 2001-01-01 "$work/other/config.json"
check "another model, however old, is imported anew" make -s -C examples/minilm ATTNGEN="$ATTNGEN" OUT="$work/example" \
    MODEL="$work/other" CFLAGS="-O0 -Wpedantic -Werror" all
check "it has its own heads" grep -q '^h *= 1\b' "$work/example/minilm_layer.layer"
check "a folder without a model is an error" sh -c '! make -s -C examples/minilm ATTNGEN="$1" OUT="$2/none" MODEL="$2" 2>"$2/told" &&
    grep -q "no config.json" "$2/told"' - "$ATTNGEN" "$work"

example() { # NAME MODEL OUT: builds one
    make -s -C "examples/$1" ATTNGEN="$ATTNGEN" ATTNRUN="$ATTNRUN" OUT="$3" MODEL="$root/tests/models/imports/$2" \
        ISA=scalar CFLAGS="-O0 -Wpedantic -Werror" "${@:4}" all
}
check "examples/gpt2 builds" example gpt2 gpt2 "$work/example_gpt2"
generate() { "$work/example_gpt2/generate" "$root/tests/models/imports/gpt2/model.safetensors" "$@" 2>"$work/error"; }
echo 3 4 5 6 | generate 4 >"$work/four"
result $? "it generates"
check "as many tokens as asked for" test "$(wc -l <"$work/four")" -eq 4
(echo 3 4 5 6; head -n 2 "$work/four") | generate 2 >"$work/two"
check "which follow from a longer prompt too" cmp "$work/two" <(tail -n 2 "$work/four")
echo 3 4 5 6 | generate 40 >"$work/text"
check "more than the model has positions for are an error" grep -q 'above the 12 tokens of the cache' "$work/error"
if command -v tcc >/dev/null; then
    CC=tcc check "examples/gpt2 builds with tcc" example gpt2 gpt2 "$work/example_tcc" CC=tcc CFLAGS=
    echo 3 4 5 6 | "$work/example_tcc/generate" "$root/tests/models/imports/gpt2/model.safetensors" 4 >"$work/text" 2>"$log"
    check "and says the same" cmp "$work/text" "$work/four"
    for name in serve_llama serve_qwen3_5_text; do
        check "$name builds with tcc" tcc -D_GNU_SOURCE -DNAME=$name -DPREFIX=${name^^} \
            -DHEADER="\"${name}_model.h\"" $([ $name = serve_llama ] || echo -DWITH_STATES) -I"$work/$name" \
            -o "$work/tcc" tests/models/serving_program.c "$work/$name/$name"_*.c -lm
        check "and runs" eval '"$work/tcc" none tests/models/imports/${name#serve_}/*.safetensors >"$log" && ! grep "^not" "$log" &&
            test "$(grep -c "^ok" "$log")" -gt 40'
    done
    # models broken on purpose
    broken() { # TEXT EXPRESSION: of sed, on the model's C; the program of its tests says no, or does not end
        rm -rf "$work/broken" && cp -R "$work/serve_llama" "$work/broken"
        sed "$2" "$work/serve_llama/serve_llama_model.c" >"$work/broken/serve_llama_model.c"
        ! cmp -s "$work/serve_llama/serve_llama_model.c" "$work/broken/serve_llama_model.c" &&
            tcc -D_GNU_SOURCE -DNAME=serve_llama -DPREFIX=SERVE_LLAMA -DHEADER='"serve_llama_model.h"' -I"$work/broken" \
                -o "$work/tcc" tests/models/serving_program.c "$work/broken"/serve_llama_*.c -lm >"$log" 2>&1 &&
            { ! timeout 60 "$work/tcc" none tests/models/imports/llama/*.safetensors >"$log" 2>&1 || grep -q "^not" "$log"; }
    }
    while IFS=: read -r text expression; do
        check "broken on purpose: $text" broken "$text" "$expression"
    done <<'END'
NaN is the likeliest:s/(logits\[i\] == logits\[i\] && logits\[best\] != logits\[best\])/logits[best] != logits[best]/
of equal logits the last is first:s/&& a < b);/\&\& a > b);/
heat cools:s/(double)most) \/ (double)temperature/(double)most) * (double)temperature/
top_p takes one more:s/kept < (double)top_p \* all/kept <= (double)top_p * all/
top_p counts shares of all:s/^        all = kept;$//
random bits are cut off:s/(random >> 11) \* 0x1p-53/(random >> 43) * 0x1p-21/
a child of the heap is forgotten:s/child + 1 < count && is_before/child + 2 < count \&\& is_before/
sequences have the places of their rows:s/\.slots = run->slots,/.slots = NULL,/
later sequences have the first ones' places:s/args->slots + run\.first;/args->slots;/
a place twice is not seen:s/a->slots\[other\] == a->slots\[s\]/0/
END
else
    skip "a model with tcc: it is not here" 16
fi
check "examples/llama builds" example llama llama_bias "$work/example_llama"
generate() { "$work/example_llama/generate" "$work/example_llama/llama.packed" "$@" 2>"$work/error"; }
printf '3 4 5 6\n7\n8 9\n' | generate 5 >"$work/together"
result $? "it generates for three prompts"
for prompt in '3 4 5 6' 7 '8 9'; do echo "$prompt" | generate 5; done >"$work/alone"
check "which have the same tokens alone" cmp "$work/alone" "$work/together"
check "examples/llama builds around a model with states" example llama qwen3_5_text "$work/example_llama"
printf '3 4 5 6\n7\n8 9\n' | generate 5 >"$work/together"
result $? "it generates for three prompts"
for prompt in '3 4 5 6' 7 '8 9'; do echo "$prompt" | generate 5; done >"$work/alone"
check "which have the same tokens alone" cmp "$work/alone" "$work/together"

# examples/bge: a folder with modules and a reranker
mkdir -p "$work/bge/1_Pooling" && cp "$checkpoint"/* "$work/bge" && echo '{"pooling_mode_cls_token": true}' >"$work/bge/1_Pooling/config.json"
echo '[{"path": "", "type": "sentence_transformers.models.Transformer"}, {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}, {"path": "2", "type": "sentence_transformers.models.Normalize"}]' \
    >"$work/bge/modules.json"
check "examples/bge builds" make -s -C examples/bge ATTNGEN="$ATTNGEN" OUT="$work/example_bge" MODEL="$work/bge" IMPORT="--isa scalar" \
    RERANKER="$root/tests/models/imports/roberta_classes" CFLAGS="-O0 -Wpedantic -Werror" all
bge() { "$work/example_bge/bge" "$@" >"$work/text" 2>"$work/error"; }
printf '2 3 4\n2 5 6 7 8\n9\n2 3 4\n' >"$work/texts"
bge embed "$work/bge/model.safetensors" <"$work/texts"
result $? "it embeds texts"
check "all but one unlike the first" test "$(grep -c 'cosine 1.0000' "$work/text")" -eq 2
check "in their order" test "$(cut -d: -f1 "$work/text" | tr -d '\n')" = 0123
bge rerank tests/models/imports/roberta_classes/model.safetensors <"$work/texts"
result $? "it ranks them"
check "the best one first, of equal ones each" eval 'sort -k3,3gr -s "$work/text" | cut -d" " -f3 | cmp - <(cut -d" " -f3 "$work/text") &&
    test "$(cut -d" " -f3 "$work/text" | uniq | wc -l)" -eq 3'
echo '2 three' | bge embed "$work/bge/model.safetensors"
check "a word is no id" grep -q 'three is no id of a token' "$work/error"

# examples/chat: what is drawn does not depend on places and threads
many() { # OUT MODEL FLAGS: chat's answers to prompts that are more than its places, sorted
    make -s -C examples/chat ATTNGEN="$ATTNGEN" ATTNRUN="$ATTNRUN" OUT="$work/$1" MODEL="$root/tests/models/imports/$2" ISA=scalar \
        CFLAGS="-O0 -Wpedantic -Werror $3" all >"$log" 2>&1 || return 1
    printf '%s\n' '3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 3 4 5 6' 7 '8 9' '1 5 9 3' '' '4 4 4 4 4 4' '11 12' |
        "$work/$1/chat" "$work/$1/chat.packed" 12 0.9 10 0.95 7 2>"$work/error" | sort
}
many chat_four llama "" >"$work/four"
result "${PIPESTATUS[0]}" "examples/chat serves four at once, on two threads"
check "six answers" test "$(grep -c ': [0-9]' "$work/four")" -eq 6
check "with the ends of the checkpoint" eval '! grep " 2 " "$work/four"'
check "one place and one thread give the same" cmp <(many chat_one llama "-DPLACES=1 -DTHREADS=1") "$work/four"
check "so do two places, under a tool that sees races" cmp <(many chat_two llama "-DPLACES=2 -fsanitize=thread -g1") "$work/four"
check "of a model with states too" cmp <(many chat_states qwen3_5_text "") <(many chat_alone qwen3_5_text "-DPLACES=1 -DTHREADS=1")
check "which says something" grep -q '^0: [0-9]' <(many chat_states qwen3_5_text "")
seq 30 | sed 's/.*/5/' | tr '\n' ' ' | "$work/chat_one/chat" "$work/chat_one/chat.packed" 12 1 0 1 7 2>"$work/error"
check "a prompt that is too long is an error" grep -q 'prompt 0: too long for 40 tokens' "$work/error"

# refused, by name, and nothing is written
refuses() { # TEXT FILE: attngen model ends with 2, says so, and writes nothing
    rm -rf "$work/none"
    "$ATTNGEN" model "$2" -o "$work/none" >"$log" 2>&1
    [ $? = 2 ] && grep -qF -- "$1" "$log" && [ ! -e "$work/none" ]
}
layers=$work/bert/bert.layers
edit() { sed "$1" "$layers" >"$work/bert/edited.layers"; }
edit 's/^format.*/format = 1/'
check "another format is refused" refuses "is no NAME.layers of format 2" "$work/bert/edited.layers"
edit '/layer 1\]/,$ s/^w_q.*//'
check "a tensor that is missing is named" refuses "no tensor w_q; write" "$work/bert/edited.layers"
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
edit 's/^rows.*/rows = last/'
check "rows of a head that are neither are refused" refuses "rows is one of: all first" "$work/bert/edited.layers"
edit 's/^from .*/from = head other/'
check "a head of none is refused" refuses "from is one of" "$work/bert/edited.layers"
edit 's/^\[head pooler\]/[pooler]/'
check "a section that is not known is refused" refuses "[pooler] is no section" "$work/bert/edited.layers"
edit 's/^vocab.*/&\nwords = 3/'
check "a key that is not known is refused" refuses "'words' is not known here" "$work/bert/edited.layers"
edit 's/^b_q\(.*\)"$/b_q\1" columns 0..9/'
check "columns that are not those of a bias are refused" refuses "columns 0..9 are not those" "$work/bert/edited.layers"
sed 's/^rows.*/rows = first/' "$work/gpt2/gpt2.layers" >"$work/gpt2/edited.layers"
check "first rows of a decoder are refused" refuses "rows = first is for encoders" "$work/gpt2/edited.layers"
sed 's/^source.*//' "$work/whisper/whisper.layers" >"$work/whisper/edited.layers"
check "a layer of cross-attention without source is refused" refuses "needs source = encoder" \
    "$work/whisper/edited.layers"
sed '/decoder layer 1\]/,/decoder norm/ s/^spec.*/spec = gpt2_other.layer/' "$work/gpt2/gpt2.layers" >"$work/gpt2/edited.layers"
sed '/^cache/d; s/^name.*/name = gpt2_other/' "$work/gpt2/gpt2_layer.layer" >"$work/gpt2/gpt2_other.layer"
check "layers with and without a cache are refused" refuses "some layers have a cache" "$work/gpt2/edited.layers"
"$ATTNGEN" model "$layers" -o "$work/none" --set pad_rows=computed >"$work/text" 2>&1
check "rows of padding that are computed are refused" grep -q 'pad_rows = skipped' "$work/text"
"$ATTNGEN" model "$layers" -o "$work/none" --set name=bert_model >"$work/text" 2>&1
check "a pair that has the model's names is refused" grep -q 'would share files or macros' "$work/text"
check "and nothing is written" test ! -e "$work/none"
"${CC:-gcc}" -std=c11 -O0 -DBERT_MODEL_PACK_ONLY -DBERT_LAYER_PACK_ONLY -DBERT_POOLER_PACK_ONLY -I"$work/bert" -shared -fPIC -Wl,-z,defs -o "$work/pack.so" \
    "$work/bert"/bert_*.c -lm >"$log" 2>&1
result $? "packing alone links"

grep -oE '^#define BERT_MODEL_[A-Z_]*BYTES[^ ]* ' "$work/bert/bert_model.h" |
    sed '1s/^/#include "bert_model.h"\n/; s/#define \(.*\) /static_assert(\1 > 0, "");/; s/(\(workers\|isas\))/(2)/' >"$work/h.cc"
check "the header as C++, with sizes that are no casts" "${CXX:-g++}" -Wall -Wextra -Wpedantic -Wold-style-cast -Werror \
    -I"$work/bert" -fsyntax-only "$work/h.cc"
check "the model as C++ is refused" eval '! "${CXX:-g++}" -x c++ -I"$work/bert" -fsyntax-only "$work/bert/bert_model.c" 2>"$log" &&
    grep -m 1 error: "$log" | grep -q "is C11"'

# attnrun pack --all, for sets that this machine need not have
packed() { "$ATTNRUN" pack --all "$@" >"$work/text" 2>&1; }
refused_weights() { # TEXT [STATUS]: those of odd/ are, and nothing is written
    CFLAGS=-O0 timeout 60 "$ATTNRUN" pack --all "$layers" --weights "$work/odd" --isa scalar -o "$work/none" >"$work/text" 2>&1
    [ $? = "${2-2}" ] && grep -q "$1" "$work/text" && [ ! -e "$work/none" ]
}
mkfifo "$work/own" && ln -s own "$work/device" # a device of its own: /dev/null is everybody's
cat "$work/own" >"$work/read" &
CFLAGS=-O0 check "a model is packed" packed "$work/llama/llama.layers" --weights tests/models/imports/llama \
    --isa scalar,neon -o "$work/llama.packed"
check "as many bytes as it says" grep -q "llama for scalar,neon: .*, $(stat -c %s "$work/llama.packed") bytes" "$work/text"
packed "$work/llama/llama.layers" --weights tests/models/imports/bert/model.safetensors --isa scalar \
    -o "$work/none"
check "another model's weights are refused, by a tensor's name" grep -q 'tensor "model.norm.weight" is missing.*file$' "$work/text"
packed "$work/llama/llama.layers" --weights tests/models/imports/bert/model.safetensors --isa scalar -o "$work/none"
check "and with 2" test $? -eq 2 -a ! -e "$work/none" -a ! -e "$work/none.part"
packed "$work/llama/llama.layers" --weights "$work/nowhere" --isa scalar -o "$work/none"
check "no weights are an error" grep -q "give the folder of config.json" "$work/text"
packed "$work/llama/llama.layers" --weights "$work/llama/llama.layers" --isa scalar -o "$work/none"
check "a file of another kind is named" grep -q "llama.layers: error: is a model's NAME.layers; " "$work/text"
mkdir "$work/pointer" && echo "version https://git-lfs.github.com/spec/v1" >"$work/pointer/model.safetensors"
packed "$work/llama/llama.layers" --weights "$work/pointer" --isa scalar -o "$work/none"
check "in a folder too" grep -q "model.safetensors: error: is a git-lfs pointer" "$work/text"
for option in "--prefix a." --zero-bias --norm-plus-one "--plan $work/none"; do
    packed "$work/llama/llama.layers" --weights tests/models/imports/llama --isa scalar -o "$work/none" $option
    check "$option is for a layer" grep -q "are for a single layer" "$work/text"
done
check "of all these nothing is written" test ! -e "$work/none"
foreign=neon
[ "$(uname -m)" = aarch64 ] && foreign=avx2
cat >"$work/foreign.c" <<'END'
#include "bert_model.h"
#include <stdio.h>
static _Alignas(64) unsigned char file[1 << 20];
int main(int argc, char **argv)
{
    FILE *from = fopen(argv[argc - 1], "rb");
    bert_model model;
    const int error = from == NULL ? 0 : bert_model_open(&model, file, fread(file, 1, sizeof file, from));
    return puts(bert_model_strerror(error)) < 0 || error != BERT_MODEL_ERROR_ISA;
}
END
CFLAGS=-O0 check "a model is packed for a set that this machine lacks" packed "$layers" --weights tests/models/imports/bert \
    --isa $foreign -o "$work/foreign.packed"
check "a program opens it" "${CC:-gcc}" -std=c11 -O0 -I"$work/bert" -o "$work/foreign" "$work/foreign.c" "$work/bert"/bert_*.c -lm
check "and is told ERROR_ISA" "$work/foreign" "$work/foreign.packed"
mkdir -p "$work/hand" "$work/odd"
cp "$work"/llama/*.layer "$work/hand"
(grep -v -e '^\[weights\]' -e '^file' "$work/llama/llama.layers"; sed -n 's/^file = /  file=/p' "$work/llama/llama.layers" |
    sed '1s/^/[weights]\n/; s/$/\r/') >"$work/hand/llama.layers"
ln -s hand.packed "$work/link.packed"
CFLAGS=-O0 check "weights named last, in another hand, packed through a link" packed "$work/hand/llama.layers" \
    --weights tests/models/imports/llama --isa scalar,neon -o "$work/link.packed"
check "to where it leads" cmp "$work/hand.packed" "$work/llama.packed"
check "which stays a link" test -L "$work/link.packed"
mkfifo "$work/odd/model.safetensors"
check "weights that are a pipe are refused" refused_weights "is a device, a pipe or a socket" 3
rm "$work/odd/model.safetensors" && : >"$work/odd/model.safetensors"
check "so is an empty file" refused_weights "not a safetensors file: 0 bytes"
# shapes of a tensor in the header, as many bytes as before
shaped() { # NAME FROM TO TEXT: refused by this text
    LC_ALL=C sed "s/\"$1\":{\"dtype\":\"F32\",\"shape\":$2/\"$1\":{\"dtype\":\"F32\",\"shape\":$3/" \
        tests/models/imports/bert/model.safetensors >"$work/odd/model.safetensors"
    packed "$layers" --weights "$work/odd/model.safetensors" --isa scalar -o "$work/none"
    [ $? = 2 ] && grep -qF "tensor \"$1\" $4" "$work/text" && [ ! -e "$work/none" ]
}
CFLAGS=-O0 check "a table that lies the other way is named, with both shapes" shaped embeddings.word_embeddings.weight \
    '\[19,16\]' '[16,19]' "is [16][19], and [19][16] is needed"
CFLAGS=-O0 check "so is a layer's matrix" shaped encoder.layer.1.intermediate.dense.weight '\[20,16\]' '[16,20]' \
    "is [16][20], and [20][16] is needed"
edit 's/^vocab.*/vocab = 25/'
CFLAGS=-O0 check "and a table of fewer rows" eval '! packed "$work/bert/edited.layers" --weights tests/models/imports/bert \
    --isa scalar -o "$work/none" && grep -qF "is [19][16], and [25][16] is needed" "$work/text"'
packed "$layers" --weights tests/models/imports/bert --isa scalar -o "$work/odd"
check "a folder is not written to" grep -q "odd: error: cannot be written: Is a directory" "$work/text"
check "a device is written as it is" packed "$layers" --weights tests/models/imports/bert --isa scalar -o "$work/device"
check "and stays" test -L "$work/device" -a -p "$work/own"
wait $!
check "with all bytes" test "$(stat -c %s "$work/read")" = "$(sed -n 's/.*, \([0-9]*\) bytes.*/\1/p' "$work/text")"
(ulimit -f 30 && CFLAGS='-O0 -s' packed "$layers" --weights tests/models/imports/bert --isa scalar,avx2 -o "$work/llama.packed")
check "where a file cannot be written the old one stays" test $? -ne 0 -a "$(stat -c %s "$work/llama.packed")" = \
    "$(stat -c %s "$work/hand.packed")"
check "and nothing is left beside it" eval '! ls "$work" | grep -q "packed\.."'
edit '0,/^w_q/ s/^w_q.*/w_q = "other" out_in/'
check "names that differ in more are refused" refuses "in more than a number" "$work/bert/edited.layers"
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
for name in int class hidden batch Pooler; do
    sed "s/^\[head transform\]/[head $name]/; s/= head transform/= head $name/" "$work/bert_words/bert_words.layers" \
        >"$work/bert_words/edited.layers"
    check "a head that is called $name is refused" refuses "error: " "$work/bert_words/edited.layers"
done
check "by the name of what it collides with" refuses "[head pooler] has a field or a macro of the name 'Pooler'" \
    "$work/bert_words/edited.layers"
for name in pack all encoder_embed; do
    sed "s/^name.*/name = $name/" "$work/bert/bert_pooler.layer" >"$work/bert/other.layer"
    edit 's/bert_pooler/other/'
    check "a pair that is called $name is refused" refuses "is called '$name'" "$work/bert/edited.layers"
done
sed 's/^seq_len.*/&\nmask = padding/' "$work/bert/bert_pooler.layer" >"$work/bert/other.layer"
edit 's/bert_pooler/other/'
check "a product with lengths is refused" refuses "brings lengths, which products do not need" "$work/bert/edited.layers"
sed '/^pad_rows/d; s/^mask.*/mask = none/; s/^name.*/name = other/' "$work/bert/bert_layer.layer" >"$work/bert/other.layer"
edit '/layer 1\]/,$ s/bert_layer/other/'
check "layers with padding and without are refused" refuses "unlike the layers before" "$work/bert/edited.layers"
edit 's/^position.*/& from 99999999999999999999/'
check "a row that no table has is refused" refuses "no table has a row" "$work/bert/edited.layers"
edit 's/layer\.1\./layer.70000./'
check "a number that no layer has is refused" refuses "no layer has the number 70000" "$work/bert/edited.layers"
edit "s/^position.*/position = \"$(printf %600s | tr ' ' x)\"/"
check "a name that is too long is refused" refuses "a tensor's name has 600 characters" "$work/bert/edited.layers"
edit 's/^file.*/file = "..\/other.safetensors"/'
check "weights of another folder are refused" refuses "files of the model's folder" "$work/bert/edited.layers"
sed 's/^norm_eps.*/norm_eps = 1.5/' "$layers" >"$work/bert/edited.layers"
check "an eps that no norm has is refused" refuses "norm_eps is below 1" "$work/bert/edited.layers"
sed 's/^scale.*/scale = 1e300/' "$work/t5/t5.layers" >"$work/t5/edited.layers"
check "a scale that f32 does not have is refused" refuses "scale is no number above 0 that f32 has" "$work/t5/edited.layers"
sed 's/^cache_len.*/cache_len = 24/' "$work/gpt2_pages/gpt2_pages_layer.layer" >"$work/gpt2_pages/other.layer"
sed -i 's/^name.*/name = other/' "$work/gpt2_pages/other.layer"
sed '/decoder layer 1\]/,/decoder norm/ s/^spec.*/spec = other.layer/' "$work/gpt2_pages/gpt2_pages.layers" \
    >"$work/gpt2_pages/edited.layers"
check "pages of another table are refused" refuses "has other pages than the layers before" "$work/gpt2_pages/edited.layers"
head -c 200 /dev/urandom >"$work/bert/edited.layers"
check "noise is refused" refuses "error:" "$work/bert/edited.layers"
tally
