#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# attngen import: each model of imports/ gives the files of its .expected, of which check_import.py shows that they
# are right, and attngen takes the specs; what it cannot map is refused by name; hostile folders neither crash it nor
# leave anything behind.
#
#     tests/models/test_import.sh [MODEL…]           ATTNGEN=build/attngen
#     UPDATE=1 tests/models/test_import.sh           writes the .expected anew, to be read before they are committed
#
# Left out on purpose: numbers (check_import.py, which needs Python), and what specs compute.
set -u
cd "$(dirname "$0")/../.." || exit 3
. tests/checks.sh
models=$root/tests/models/imports
cd "$work" || exit 3

# every file of a folder, with its name before it
all_of() { (cd "$1" && for file in *; do echo "==> $file <=="; cat "$file"; done); }

# takes FOLDER: attngen explains and generates every spec of it
takes() { "$attngen" --explain "$1"/*.layer >explained && "$attngen" -o pairs --isa scalar "$1"/*.layer; }

[ $# -gt 0 ] || set -- "$models"/*/
for folder; do
    name=$(basename "$folder")
    check "$name" "$attngen" import --specs "$models/$name" -o "$name"
    [ "${UPDATE-}" = 1 ] && all_of "$name" >"$models/$name.expected"
    check "$name: its files" diff -u "$models/$name.expected" <(all_of "$name")
    check "$name: attngen takes its specs" takes "$name"
done
check "a model with a / behind it" "$attngen" import --specs "$models/bert/" -o again
check "the same command gives the same bytes" diff -r bert again
check "without --specs the C too" "$attngen" import "$models/bert" -o made_at_once --isa scalar
check "which is that of attngen model" eval '"$attngen" model bert/bert.layers -o bert_c --isa scalar &&
    cp bert/* bert_c && diff -r bert_c made_at_once'
check "--size reaches the C" eval '"$attngen" import "$models/bert" -o sized --isa scalar --size small &&
    grep -qF "attngen --isa scalar --set plan.size=small bert_layer.layer" sized/bert_layer.c &&
    test $(wc -c <sized/bert_layer.c) -lt $(wc -c <made_at_once/bert_layer.c)'
check "as of attngen model" eval '"$attngen" model sized/bert.layers -o sized_c --isa scalar --size small &&
    cp sized/*.layer* sized_c && diff -r sized sized_c'
for option in "--size small" --split; do
    ends 2 "$attngen" import "$models/bert" -o none --specs $option; says "--specs writes no C, which ${option%% *} is for"
done
for option in "--size small" "--isa scalar" --split "--deps none" --specs; do
    ends 2 "$attngen" import --list "$models/bert" $option; says "--list writes nothing, which --"
done
ends 0 "$attngen" import "$models/llama" --specs -o large --cache-len 40000000
says "large/llama.layers: note: about 0.0 GB of packed weights (--weight-type bf16: 0.0, i8: 0.0, i4: 0.0); \
0.0 GB of memory to pack them; 5.1 GB of cache for each sequence (--cache-len and --cache-type make that less)"
check "of a small one nothing is said" test -z "$("$attngen" import "$models/llama" --specs -o large 2>&1)"
check "the rules name what was read" eval '"$attngen" import "$models/llama" -o ruled --isa scalar --deps ruled.d &&
    grep -qF "ruled/llama_model.c ruled/llama_model.h: $models/llama/config.json $models/llama/model.safetensors.index.json \
$models/llama/model-00001-of-00003.safetensors" ruled.d && grep -q "^ruled/.*layer.*ruled/llama.layers: " ruled.d'
printf 'ruled/llama_model.c ruled/llama.layers:\n\t@echo "again $@"\ninclude ruled.d\n' >rules
touch -d 2100-01-01 ruled/* && check "make finds all of it" eval 'make -rf rules ruled/llama_model.c 2>&1 | grep -q "up to date"'
touch -d 2001-01-01 ruled/llama.layers
check "also of the list" eval 'make -rf rules ruled/llama.layers 2>&1 | grep -qx "again ruled/llama.layers"'
check "the model's rule names all specs" eval '"$attngen" model bert/bert.layers -o bert_r --isa scalar --deps bert.d &&
    grep -qx "bert_r/bert_model.c bert_r/bert_model.h: bert/bert.layers bert/bert_layer.layer bert/bert_pooler.layer" bert.d'
check "and so does each pair's" grep -qx "bert_r/bert_pooler.c bert_r/bert_pooler.h: bert/bert.layers bert/bert_layer.layer \
bert/bert_pooler.layer" bert.d
check "another name" eval '"$attngen" import --specs "$models/bert" -o named --name minilm && diff <(sed "s/bert_\([lp]\)/minilm_\1/
    s/^name *= bert$/name    = minilm/" bert/bert.layers) named/minilm.layers && test -f named/minilm_layer.layer'
check "into the current folder" eval '(mkdir here && cd here && "$attngen" import --specs "$models/bert" && test -f bert.layers)'
check "by links, as in a cache" eval 'mkdir -p blobs links && cp "$models"/bert/* blobs/ &&
    ln -s ../blobs/config.json ../blobs/model.safetensors links/ && "$attngen" import --specs links -o linked && diff -r bert linked'

# ---- what may be asked for ----

import() { rm -rf made && "$attngen" import --specs "$models/$1" -o made "${@:2}"; }
says_line() { check "$1" grep -Eqx "$1" "$2"; }
check "ring: of the layers with a window" import gemma2 --cache ring --seq-len 10
says_line 'cache +=.* rows' made/gemma2_full.layer
says_line 'cache +=.* ring' made/gemma2_window.layer
says_line 'cache_len +=.* 14 .*' made/gemma2_window.layer
check "and attngen takes them" takes made
check "paged" import llama --cache paged --cache-len 33 --seq-len 8
says_line 'page_len +=.* 16 .*' made/llama_layer.layer
check "and attngen takes it" takes made
check "a cache of i8" import llama --cache-type i8 --cache-len 33 --seq-len 8
says_line 'cache_type +=.* i8 .*' made/llama_layer.layer
check "and attngen takes a cache of i8" takes made
check "products of whole numbers" import gpt2 --precision i8
says_line 'precision += i8 .*' made/gpt2_layer.layer
says_line 'precision += i8 .*' made/gpt2_logits.layer
check "and attngen takes them" takes made
check "no cache" import whisper --cache none
check "then no past is needed" eval 'grep -q "^needs .*= ids lengths source" made/whisper.layers && ! grep -q cache made/*.layer'
check "fewer tokens" import t5 --seq-len 7
says_line 'source_len +=.* 7 .*' made/t5_decoder_cross.layer

# ---- what is refused ----

# model NAME: a copy that may be changed, m
model() { rm -rf m made && mkdir m && cp "$models/$1"/* m/ && chmod u+w m/*; }
# config SED: changes its config.json, each line of which is a key
config() { sed -i -E "$1" m/config.json; }
# add KEY: VALUE to it
add() { sed -i "1s/.*/{ $1,/" m/config.json; }

# refused STATUS TEXT [OPTION…]: m is refused with that status and a message that has the text, and nothing is written
refused() {
    local status=$1 text=$2
    shift 2
    ends "$status" "$attngen" import --specs m -o made "$@"
    says "$text"
    check "nothing is written" test ! -e made
}

# modules of sentence-transformers that are not built; the good ones are in test_model.sh
modules() { # MODULES CONFIG TEXT [MODEL]: modules.json, the pooling's config.json, what must be said
    model "${4-bert}" && mkdir m/1_Pooling && echo "$1" >m/modules.json && echo "$2" >m/1_Pooling/config.json
    refused 2 "$3"
}
first='{"path": "", "type": "sentence_transformers.models.Transformer"}' pooling='{"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}'
cls='{"pooling_mode_cls_token": true}'
dense='{"path": "2_Dense", "type": "sentence_transformers.models.Dense"}'
modules "[$first, $pooling, $dense, $dense, $dense]" "$cls" 'has a module Dense in place 5'
modules "[$first, $pooling, {\"path\": \"../m\", \"type\": \"sentence_transformers.models.Dense\"}]" "$cls" 'has a module Dense in place 3'
modules "[$first, $pooling, $dense]" "$cls" 'the Dense module 2_Dense lacks config.json'
mkdir m/2_Dense; echo '{"in_features": 15, "out_features": 3, "activation_function": "torch.nn.Softsign", "mine": 1}' >m/2_Dense/config.json
refused 2 'the Dense module 2_Dense lacks model.safetensors'
cp m/model.safetensors m/2_Dense
refused 2 '2_Dense/config.json: activation_function is "torch.nn.Softsign"'
sed -i 's/nn.Softsign/nn.modules.activation.Tanh/' m/2_Dense/config.json
refused 2 '2_Dense/config.json: in_features is 15; its rows are 16 wide'
sed -i 's/15/16/' m/2_Dense/config.json
refused 2 '2_Dense/config.json: mine is not known of bert models'
sed -i 's/"mine": 1/"module_input_name": "token_embeddings", "use_residual": true/' m/2_Dense/config.json
refused 2 '2_Dense/config.json: module_input_name is "token_embeddings", which attngen does not know; it must be "sentence_embedding"'
says '2_Dense/config.json: use_residual is true, which attngen does not know; it must be false'
sed -i 's/"module_input.*/"module_input_name": "sentence_embedding", "mine": 1}/' m/2_Dense/config.json
sed -i 's/, "mine": 1//' m/2_Dense/config.json
refused 2 'no tensor "2_Dense/linear.weight"; [3][16] of bert is needed'
modules "[$first, {\"path\": \"../m\", \"type\": \"sentence_transformers.models.Pooling\"}]" "$cls" 'has a module Pooling in place 2'
modules "[$pooling]" "$cls" 'has a module Pooling in place 1'
modules "[${first/sentence_transformers.models/custom_st}, $pooling]" "$cls" 'has a module custom_st.Transformer in place 1'
modules "[$first, $pooling]" '{"pooling_mode_weightedmean_tokens": true}' 'asks for weightedmean_tokens; one of'
modules "[$first, $pooling]" '{"pooling_mode_cls_token": true, "pooling_mode_max_tokens": true}' 'asks for cls_token and max_tokens; one of'
modules "[$first, $pooling]" '{"pooling_mode_cls_token": false}' 'asks for no mode'
modules "[$first, $pooling]" '{"pooling_mode_cls_token": true, "include_prompt": false}' 'has include_prompt'
modules "[$first, $pooling]" '{"pooling_mode_cls_token": true, "word_embedding_dimension": 17}' \
    'has word_embedding_dimension = 17 beside rows of 16'
rm m/1_Pooling/config.json
refused 2 '1_Pooling/config.json is not there, which modules.json names'
modules '{}' "$cls" 'modules.json is no list of modules'
modules "[$first, $pooling]" "$cls" 'pools all rows of a text by cls, and a decoder with a cache may bring a text in pieces; give --cache none' qwen3
modules "[$first, $pooling]" "$cls" 'pools rows, which is built for one stack of tokens' t5
modules "[$first, $pooling]" '{"pooling_mode": "lasttoken"}' 'pools rows of opt, which is not built' opt
modules "[$first, $pooling]" '{"pooling_mode": ["cls", "max"]}' 'asks for'
# as sentence-transformers 6 writes it
model bert && mkdir m/1_Pooling m/2_N && echo "[$first, $pooling, {\"path\": \"2_N\", \"type\": \"sentence_transformers.models.Normalize\"}]" >m/modules.json
echo '{"embedding_dimension": 16, "pooling_mode": ["cls"], "include_prompt": true}' >m/1_Pooling/config.json
echo '{"module_input_name": "sentence_embedding", "module_output_name": null}' >m/2_N/config.json
check "a list of one mode" "$attngen" import --specs m -o listed
says_line 'kind += cls' listed/bert.layers
echo '{"module_input_name": "token_embeddings"}' >m/2_N/config.json
refused 2 '2_N/config.json: module_input_name is "token_embeddings", which attngen does not know'
model bert && mkdir m/1_Pooling && echo "[$first, $pooling]" >m/modules.json && echo "$cls" >m/1_Pooling/config.json
echo '{"prompts": {"query": "Query: ", "*/ x": "a\n*/ ??/ \u00e9", "none": ""}}' >m/config_sentence_transformers.json
check "prompts" "$attngen" import m -o prompts --isa scalar --name p
says_line '0 = "%2A/ x: a%0A%2A/ %3F%3F/ %C3%A9"' prompts/p.layers
says_line ' \* %2A/ x: a%0A%2A/ %3F%3F/ %C3%A9' prompts/p_model.h
says_line ' \* query: Query: ' prompts/p_model.h
model bert && echo '{"max_seq_length": 7, "do_lower_case": false}' >m/sentence_bert_config.json
check "texts are cut" "$attngen" import --specs m -o cut
says_line 'seq_len +=.* 7 +# max_seq_length of sentence_bert_config.json' cut/bert_layer.layer
check "or are not" "$attngen" import --specs m -o uncut --seq-len 12
says_line 'seq_len +=.* 12 .*' uncut/bert_layer.layer
model bert && mkdir m/1_Pooling && echo "[$first, $pooling]" >m/modules.json && echo "$cls" >m/1_Pooling/config.json
check "the rules name the files of modules" eval '"$attngen" import m -o pooled --isa scalar --deps pooled.d &&
    grep -q "m/modules.json.* m/1_Pooling/config.json" pooled.d'
model bert && echo '{"eos_token_id": 3}' >m/generation_config.json &&
    echo '{}' | tee m/sentence_bert_config.json >m/config_sentence_transformers.json
check "and all else that is read" "$attngen" import m -o read --isa scalar --deps read.d
for file in generation_config.json sentence_bert_config.json config_sentence_transformers.json model.safetensors; do
    check "which is $file" grep -q "^read/bert_layer.c .* m/$file" read.d
done

# wrong MODEL SED TEXT: the model with its config changed so
wrong() {
    model "$1"
    config "$2"
    cmp -s m/config.json "$models/$1/config.json" && result 1 "$2 changes nothing of config.json of $1"
    refused 2 "$3"
}
number='[0-9.e-]+'
wrong bert 's/("hidden_act": )"gelu"/\1"mish"/' 'config.json: error: hidden_act is "mish", which attngen does not know; gelu,'
wrong kimi_linear 's/("first_k_dense_replace": )2/\11/' 'first_k_dense_replace gives layer 2 of 2 experts, which are not built'
wrong llama 's/("hidden_act": )"silu"/\1"mish"/' 'hidden_act is "mish", which attngen does not know'
wrong bert 's/("model_type": )"bert"/\1"mamba"/' 'model_type is "mamba"; attngen knows '
wrong bert 's/"model_type": "bert"/"gone": 1/' 'model_type is missing'
wrong bert 's/("model_type": )"bert"/\1"a\\n\\u0007\\"b"/' 'model_type is "a\x0a\x07"b"'
wrong bert 's/("is_decoder": )false/\1true/' 'is_decoder is true, which attngen does not know; it must be false'
wrong gpt2 's/("scale_attn_by_inverse_layer_idx": )false/\1true/' 'scale_attn_by_inverse_layer_idx is true'
wrong qwen2 's/("layer_types": )\[/\1["chunked_attention"],"x":[/' 'layer_types is a list; a list of 2 kinds is needed'
wrong qwen2 's/"full_attention",/"chunked_attention",/' 'layer_types has "chunked_attention"'
wrong qwen2 's/"full_attention",/"sliding_attention",/' 'layer_types has sliding_attention in layer 0, and the keys of windows say otherwise'
wrong qwen2 's/"rope_type": "default"/"rope_type": "longrope"/' 'rope_parameters.short_factor is no list of 2 numbers above 0'
wrong qwen2 's/"rope_type": "default"/"rope_type": "longrope", "short_factor": [1, 0]/' 'rope_parameters.short_factor is no list of 2 numbers above 0'
wrong llama 's/"rope_type": "llama3"/"rope_type": "proportional"/' 'rope_scaling.rope_type is "proportional"'
wrong llama 's/("max_position_embeddings": 40)/\1, "original_max_position_embeddings": 7/' 'rope_scaling.original_max_position_embeddings is 20, and beside the object it is 7'
wrong llama 's/("attention_bias": )false/\1true/' 'no tensor "model.layers.0.self_attn.q_proj.bias"; [16] of llama is needed'
wrong gemma2 's/("sliding_window": )5/\1null/' 'sliding_window is null'
wrong whisper 's/("scale_embedding": )false/\1true/' 'scale_embedding is true'
wrong t5 's/("feed_forward_proj": )"relu"/\1"gated-mish"/' 'feed_forward_proj is "gated-mish"'
wrong bert 's/("num_hidden_layers": )2/\11/' 'tensor "encoder.layer.1.attention.output.LayerNorm.bias" [16] is not known'
wrong bert 's/("num_hidden_layers": )2/\13/' 'no tensor "encoder.layer.2.attention.self.query.weight"; [16][16] of bert is'
wrong bert 's/("num_hidden_layers": )2/\12000000000/' 'num_hidden_layers is 2000000000; at most 1000 layers are read'
wrong bert 's/("num_hidden_layers": )2/\11e400/' 'a number that no double holds'
wrong bert 's/("hidden_size": )16/\11e30/' 'hidden_size is 1e+30; a whole number'
wrong bert 's/("hidden_size": )16/\199999999999999999999/' 'hidden_size is 1e+20; a whole number'
wrong bert 's/("hidden_size": )16/\1-16/' 'hidden_size is -16; a whole number'
wrong bert 's/("hidden_size": )16/\1"16"/' 'hidden_size is "16"; a whole number'
wrong bert 's/("hidden_size": )16/\1null/' 'hidden_size is missing'
wrong bert 's/("hidden_size": )16/\1{}/' 'hidden_size is an object; a whole number'
wrong bert 's/("hidden_size": )16/\118/' 'tensor "embeddings.LayerNorm.bias" is [16]; [18] is needed'
wrong bert 's/("vocab_size": )19/\12147483647/' '"embeddings.word_embeddings.weight" is [19][16]; [2147483647][16] is needed'
wrong bert 's/("num_attention_heads": )2/\13/' 'h = 3 does not divide d_model = 16'
wrong bert "s/(\"layer_norm_eps\": )$number/\\10/" 'layer_norm_eps is 0; a number above 0'
wrong bert "s/(\"layer_norm_eps\": )$number/\\11.5/" 'layer_norm_eps is 1.5; a number above 0 and below 1 is needed'
wrong llama "s/(\"rms_norm_eps\": )$number/\\11/" 'rms_norm_eps is 1; a number above 0 and below 1 is needed'
wrong llama "s/(\"rope_theta\": )$number/\\1true/" 'rope_theta is true; a number above 0'
wrong mistral 's/("head_dim": )6/\17/' 'd_k = 7 is odd'
wrong mistral 's/("sliding_window": )[0-9]+/\10/' 'sliding_window is 0; a whole number'
wrong bert 's/("hidden_size": 16)/\1, "hidden_size": 16/' 'a key occurs twice in an object'
wrong bert 's/("hidden_size": 16),/\1/' "'}' expected"
wrong bert '$s/$/ x/' 'something follows the value'
model bert; add '"quantization_config": {"quant_method": "gptq"}'; refused 2 'quantization_config is there; quantised weights are not read'
model bert; add '"_model_name_or_path": "of a GGUF"'; check "a name that is kept" "$attngen" import --specs m -o kept
model bert; add '"no_such_key": 1'; refused 2 'no_such_key is not known of bert models'
model bert; add '"no_%d%_key%": 1'; refused 2 'no_%d%_key% is not known of bert models'
model llama; add '"partial_rotary_factor": 1e30'; refused 2 'partial_rotary_factor is 1e+30, which attngen does not know; it must be 1: the family rotates all columns'
model bert; add '"position_embedding_type": "relative_key"'; refused 2 'position_embedding_type is "relative_key"'
model bert; add '"pruned_heads": {"0": [1]}'; refused 2 'pruned_heads is not empty'
model llama; add '"rope_parameters": {"rope_type": "default"}'; refused 2 'rope_parameters.rope_type is "default", and rope_scaling.rope_type is "llama3"; leave one of the two'
model bert; echo '[]' >m/config.json; refused 2 'is no JSON object'
model bert; : >m/config.json; refused 2 'the text ends before the value does'
model bert; printf '{"a": 1\0}' >m/config.json; refused 2 "config.json: error: byte"
model bert; printf '{"a":%0100000d}' 0 | tr 0 '[' >m/config.json; refused 2 'nested more than 64 deep'
model bert; { printf '{"a":"'; head -c 16800000 /dev/zero | tr '\0' x; printf '"}'; } >m/config.json; refused 2 'longer than 16 MiB'

model gpt2
refused 2 '--seq-len 13 is more than the 12 positions that the model has learned' --seq-len 13
refused 2 '--seq-len 6 is more than the 5 tokens of the cache' --seq-len 6 --cache-len 5
refused 2 '--cache ring is for layers with a window, and this model has none' --cache ring
refused 2 '--cache-len is for a cache' --cache none --cache-len 3
refused 2 '--cache-type is for a cache' --cache none --cache-type bf16
refused 2 "--cache cannot be 'all'; write rows, ring, paged or none" --cache all
refused 2 "--precision cannot be 'f16'; write f32, i16, i8 or bf16" --precision f16
refused 2 "--name 'for' is a keyword" --name for
refused 2 "--name '../x' is not a C identifier" --name ../x
model bert
refused 2 '--cache is for models that decode' --cache rows
model vit
refused 2 '--seq-len is not for images' --seq-len 5

# ---- which heads a model has: its class says it ----

# has MODEL ARCHITECTURES HEADS: of the model with this list of classes, these heads are read and no others
has() {
    model "$1"
    tr -d '\n' <m/config.json | sed -E "s/\"architectures\": \[[^]]*\],/$2/" >m/other && mv m/other m/config.json
    check "$1 with $2" "$attngen" import --specs m -o made --name m
    check "has heads $3" test "$(sed -n 's/^\[head \(.*\)\]/\1/p' made/m.layers | xargs)" = "$3"
}
# class MODEL ARCHITECTURES TEXT: it is refused so
class() {
    model "$1"
    tr -d '\n' <m/config.json | sed -E "s/\"architectures\": \[[^]]*\],/$2/" >m/other && mv m/other m/config.json
    refused 2 "$3"
}
is() { echo "\"architectures\": [\"$1\"],"; }
has bert_classes "$(is BertForSequenceClassification)" 'pooler classifier'
has bert_classes "$(is BertForTokenClassification)" classifier
says_line 'from = encoder' made/m.layers
says_line 'rows = all' made/m.layers
has bert_classes "$(is BertModel)" pooler
has bert_words "$(is BertForMaskedLM)" 'transform logits'
has bert_words "$(is BertForNextSentencePrediction)" 'pooler seq_relationship'
has bert "" pooler
has bert '"architectures": ["BertModel", "BertModel"],' pooler
has roberta_classes "$(is RobertaModel)" ''
has distilbert "$(is DistilBertModel)" ''
has vit "$(is ViTModel)" ''
has llama "$(is LlamaModel)" ''
has gpt2 "$(is GPT2Model)" ''
has t5 "$(is T5Model)" ''
has t5 "$(is T5WithLMHeadModel)" logits
has t5 "$(is T5EncoderModel)" ''
check "without a decoder" eval '! grep -q decoder made/m.layers'
has whisper "$(is WhisperModel)" ''
class bert "$(is BertForFun)" 'architectures has "BertForFun", which attngen does not know; BertForMaskedLM, BertForMultipleChoice,'
class bert "$(is RobertaModel)" 'architectures has "RobertaModel", which attngen does not know'
class bert "$(is BertForMaskedLM)" 'no tensor "cls.predictions.transform.dense.weight"; [16][16] of bert is needed'
class bert_classes "$(is BertForMultipleChoice)" 'tensor "classifier.weight" is [3][16]; [1][16] is needed'
class bert_classes "$(is BertForQuestionAnswering)" 'no tensor "qa_outputs.weight"; [2][16] of bert is needed'
class bert '"architectures": ["BertModel", "BertForMaskedLM"],' 'architectures has "BertModel" and "BertForMaskedLM"; write the one'
class bert '"architectures": "BertModel",' 'architectures is "BertModel"; a list of one class is needed'
class bert_classes '' 'architectures is missing, and tensor "classifier.bias" is that of a head'
class gpt2 '' "architectures is missing; write the model's class, which is one of GPT2ForQuestionAnswering, GPT2ForSequenceClassification"
class gpt2 "$(is GPT2DoubleHeadsModel)" 'architectures has "GPT2DoubleHeadsModel"'
wrong bert_classes 's/"id2label": \{/"num_labels": 2, "id2label": {/' 'id2label has 3 classes, and num_labels is 2'
wrong bert_classes 's/"id2label"/"gone2"/' 'num_labels is 2, by itself, by id2label or by default, and tensor "classifier.weight" is [3]'
wrong gpt2 's/("tie_word_embeddings": )true/\1false/' 'no tensor "lm_head.weight"; [19][16] of gpt2 is needed, or tie_word_embeddings = true'

# ---- keys that transformers reads so ----

# reads MODEL SED SPEC LINE: the model with its config changed so has that line in that spec
reads() {
    model "$1"
    config "$2"
    check "$1 $2" "$attngen" import --specs m -o made --name m
    says_line "$4" "made/m_$3.layer"
}
# of another type than a list, an object: joined MODEL SED, of its config in one line
joined() { model "$1"; tr -d '\n' <m/config.json | sed -E "$2" >m/other && mv m/other m/config.json; }
joined modernbert 's/"id2label": \{[^}]*\}/"id2label": "relu"/'; refused 2 'id2label has 0 classes'
joined mamba2 's/"time_step_limit": \[[^]]*\]/"time_step_limit": -1e308/'
refused 2 'time_step_limit is no list of two numbers'
model gemma; add '"mine": 1, "more": 2'; echo 1e400 >m/sentence_bert_config.json
refused 2 'sentence_bert_config.json: error: byte 5: a number that no double holds' --cache none
check "which is said once" test "$(grep -c 'no double holds' err)" -eq 1

reads t5 's/("dense_act_fn": )"relu"/\1"gelu"/' encoder 'ffn +=.* gelu .*'
reads t5_gated 's/("dense_act_fn": )"gelu_new"/\1"silu"/' decoder_cross 'ffn +=.* swiglu .*'
reads t5 's/("tie_word_embeddings": )true/\1null/' encoder 'd_k += 6 .*'
reads qwen2_window 's/("sliding_window": )5/\1null/; s/sliding_attention/full_attention/' layer 'mask += causal.padding'
reads llama 's/"rope_type": "llama3"/"rope_type": "linear"/; /(low|high)_freq_factor/d' layer 'rope_scaling += linear .*'
reads llama 's/"rope_type": "llama3"/"rope_type": "dynamic"/; /(low|high)_freq_factor/d' layer 'rope_len += 40 .*'
ends 0 "$attngen" import --specs m -o made; check "of the model's length nothing is said" test ! -s err
ends 0 "$attngen" import --specs m -o made --cache-len 41
says 'note: rotation is that of sequences of 41 tokens, and transformers has another one for those of up to 40; --cache-len 40'
reads llama 's/"hidden_act"/"is_causal": false, "hidden_act"/' layer 'mask += padding'
reads qwen2_window 's/"hidden_act"/"is_causal": false, "hidden_act"/' window 'window_right += 5 .*'
wrong nomic_bert 's/"hidden_act": "silu"/"activation_function": "relu"/' 'activation_function is "relu"'
wrong llama 's/LlamaForCausalLM/LlamaForSequenceClassification/; s/"hidden_act"/"is_causal": false, "hidden_act"/' 'and is_causal = false makes an encoder'
wrong gpt2 's/"n_head"/"is_causal": false, "n_head"/' 'is_causal is false, which attngen does not know; it must be true'
wrong llama 's/("max_position_embeddings": )40/\1null/' 'max_position_embeddings is missing'
wrong bert 's/("hidden_act": )"gelu"/\1null/' 'hidden_act is null; write a value, or remove it for "gelu"'
wrong mistral 's/("sliding_window": )6/\1null, "layer_types": ["sliding_attention", "full_attention"]/' 'layer_types has sliding_attention in layer 0'
wrong mistral 's/("sliding_window": )6/\16, "layer_types": ["sliding_attention", "full_attention"]/' 'layer_types has full_attention in layer 1'
wrong t5 's/("is_encoder_decoder": )true/\1false/' 'is_encoder_decoder is false'
wrong whisper 's/("encoder_layers": )2/\12, "num_hidden_layers": 3/' 'num_hidden_layers is 3, which attngen does not know; it must be 2'
wrong llama_bias 's/"rope_type": "yarn"/"rope_type": "yarn", "attn_factor": 2/' 'rope_parameters.attn_factor is 2, which attngen does not know'
wrong llama_bias 's/"rope_type": "yarn"/"rope_type": "yarn", "truncate": null/' 'rope_parameters.truncate is null'

# ---- keys that nothing reads ----

# Keys of published models, which change nothing.
for key in '"sbert_ce_default_activation_function": "torch.nn.modules.linear.Identity"' '"_num_labels": 5' \
    '"sentence_transformers": {"activation_fn": "torch.nn.modules.activation.Sigmoid", "version": "4.1.0"}' \
    '"_attn_implementation_autoset": true' '"is_llama_config": true' '"rope_interleaved": false' '"use_mrope": false' \
    '"transformers.js_config": {"dtype": "q4"}' '"unsloth_version": "2024.9"' '"eos_token_ids": 0' '"xla_device": true' \
    '"is_encoder_decoder": false' '"tie_encoder_decoder": false' '"predict_special_tokens": true' '"_flash_attn_2_enabled": true' \
    '"language": "english", "name": "Bert"' '"max_sequence_length": 2048' '"cache_implementation": "hybrid"' '"rope_scaling": null' '"quantization_config": null'; do
    model bert; add "$key"; check "$key" "$attngen" import --specs m -o made
done
model llama; add '"rope_interleaved": true'; refused 2 'rope_interleaved is true, which attngen does not know; it must be false'
model gemma2; add '"sliding_window_size": 5'; check "another name of sliding_window" "$attngen" import --specs m -o made
model gemma2; add '"sliding_window_size": 6'; refused 2 'sliding_window_size is 6, which attngen does not know; it must be 5'
model bert; add '"mine": 1, "its": {"a": 2}'
refused 2 'mine is not known of bert models; add --ignore mine if it changes nothing' --ignore its
check "both ignored" "$attngen" import --specs m -o made --ignore mine --ignore=its
check "which changes nothing" diff -r bert made
model llama_bias; config 's/"rope_type": "yarn"/"rope_type": "yarn", "mine": 1/'
check "a key of an object" "$attngen" import --specs m -o made --ignore rope_parameters.mine
model bert
refused 2 '--ignore hidden_act: config.json has no such key that attngen does not know' --ignore hidden_act
refused 2 '--ignore mine: config.json has no such key' --ignore mine
add '"original_max_position_embeddings": 7'
refused 2 'original_max_position_embeddings is 7' --ignore original_max_position_embeddings
add '"use_mrope": true'; refused 2 'use_mrope is true' --ignore use_mrope

rm -rf m && mkdir m
sets=0 taken=0
while IFS=: read -r name said; do
    [[ $name = \#* || ! $name ]] && continue
    while read -r line && [ "$line" ]; do echo "$line"; done >m/config.json
    sets=$((sets + 1))
    if [ "$said" ]; then
        check "$name is refused:$said" eval '! "$attngen" import --list m >out 2>&1 && grep -qF "${said# }" out'
    else
        taken=$((taken + 1))
        check "$name" eval '"$attngen" import --list m >out 2>&1'
    fi
done <"$models/../published.txt"
check "published keys: 67 sets, 64 of them are taken" test "$sets $taken" = "67 64"

# ---- folders ----

rm -rf m made
refused 3 'm: error: cannot be read'
: >m; refused 2 'is no folder'
rm m; mkdir m; refused 2 'has no config.json'
mkdir m/config.json; refused 3 'config.json: error: is a directory'
model bert; rm m/config.json; mkfifo m/config.json; refused 3 'config.json: error: is a device, a pipe'
model bert; rm m/model.safetensors; mkfifo m/model.safetensors; refused 3 'model.safetensors: error: is a device, a pipe'
model bert; echo '{}' >m/adapter_config.json; refused 2 'm/adapter_config.json: error: is there: transformers adds an adapter'
model bert; rm m/model.safetensors; refused 2 'has neither model.safetensors nor model.safetensors.index.json'
: >m/model.gguf; refused 2 'model.gguf is a model of llama.cpp, which is not read: load it with'
: >m/model.onnx; : >m/pytorch_model.bin; refused 2 'pytorch_model.bin is weights of PyTorch, which is not read: load the model'
model bert; ln -sf model.safetensors m/model.safetensors; refused 3 'model.safetensors: error: cannot be read'
ends 2 "$attngen" import; says 'import needs one folder of a model; see attngen help import'
ends 2 "$attngen" import --specs m m; says 'import needs one folder of a model'
model vit
refused 2 '--isa: error: avx2: no dot product of bf16 there' --precision bf16 --isa avx2
refused 2 "unknown instruction set 'avx3'" --isa avx3
ends 2 "$attngen" import --specs m --plan x; says "unknown option '--plan'"
ends 0 "$attngen" help import; prints '--cache-len N'
ends 0 "$attngen" import --specs --help; prints 'usage: attngen import DIR'

ends 0 "$attngen" import --list; prints 'bert             BertForMaskedLM BertForMultipleChoice'
prints 'T5Model T5WithLMHeadModel (published name)'
prints 'marian           MarianMTModel MarianModel'
check "each row of the table has classes" eval '! "$attngen" import --list | grep -v "^[a-z0-9_-]*  *[A-Z].*Model"'

# ---- headers ----

# header TEXT [BYTES]: a model.safetensors of this header and so many bytes of data
header() {
    local length=${#1}
    { printf '%b' "$(printf '\\x%02x' $((length & 255)) $((length >> 8 & 255)) 0 0 0 0 0 0)"; printf %s "$1"
      head -c "${2-0}" /dev/zero; } >m/model.safetensors
}
model bert
header '{}'; refused 2 'no tensor "bert.embeddings.word_embeddings.weight"; is this a model of the family bert?'
header '{"embeddings.word_embeddings.weight":{"dtype":"I32","shape":[19,16],"data_offsets":[0,1216]}}' 1216
refused 2 'tensor "embeddings.word_embeddings.weight" is of I32; F32, F16 or BF16 is needed'
header '{"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}}'; refused 2 'its shape overflows'
header '{"a":{"dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,0]}}'; refused 2 'the number is too large'
header '{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'; refused 2 'lie outside the 0 bytes of data'
header '{"a":{"dtype":"F4","shape":[1],"data_offsets":[0,4]}}' 4; refused 2 'dtype "F4" is not supported'
header '{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}}' 12
refused 2 'an overlap between the tensors at byte 4'
header '{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}' 8; refused 2 'a hole between the tensors at byte 4'
header '{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}' 8
refused 2 'tensor "a" occurs twice'
header '{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}' 4; refused 2 'safetensors: error'
header '{"a":{"dtype":"F\n/etc/x: error: \u001b[1m","shape":[1],"data_offsets":[0,4]}}' 4
refused 2 'dtype "F?/etc/x: error: ?[1m" is not supported' # a name's lines are none of the message's
header '{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}}' 4; refused 2 'lie outside'
for length in '\0\0\0\0\0\0\0\200' '\377\377\377\377\377\377\377\377' '\377\377\377\377\377\377\377\177' '\0\0\0\0\1\0\0\0'; do
    printf "$length{}%01000d" 0 >m/model.safetensors; refused 2 'm/model.safetensors: error: '
done
model bert; truncate -s 100 m/model.safetensors; refused 2 'not a safetensors file'
model bert; truncate -s 5 m/model.safetensors; refused 2 'not a safetensors file'
model bert; truncate -s -4 m/model.safetensors; refused 2 'lie outside'

# more TENSOR [MODEL SHAPE BYTES]: bert's file with a tensor of this name, as JSON writes it, behind the others
more() {
    local length old=$models/${2-bert}/model.safetensors text
    length=$(od -An -N8 -tu8 "$old" | tr -d ' ')
    text=$(tail -c +9 "$old" | head -c "$length" | sed 's/ *$//')
    local data=$(($(stat -c %s "$old") - 8 - length))
    header "${text%\}},\"$1\":{\"dtype\":\"F32\",\"shape\":[${3-1}],\"data_offsets\":[$data,$((data + ${4-4}))]}}" \
        $((data + ${4-4}))
}
more x; refused 2 'tensor "x" [1] is not known of bert models; what it does would be left out'
more 'a\"\n[head x]\nw = \"b'; refused 2 'tensor "a"\x0a[head x]\x0aw = "b" [1] is not known'
more '\u0085\u202e'; refused 2 'tensor "\xc2\x85\xe2\x80\xae" [1] is not known'
more encoder.layer.0.attention.self.query.lora_A; refused 2 'query.lora_A" [1] is not known'

# ---- names of classes ----

model bert_classes
text=$(<m/config.json)
text=${text/'"LABEL_0",'/'"*/ int x; /*??/\n\u00e9%d \\\"",'}
text=${text/'"LABEL_1",'/'"B-PER",'}
printf '%s\n' "${text/'"LABEL_2"'/"\"$(printf %0500d 0)\""}" >m/config.json
check "labels" "$attngen" import m -o labels --isa scalar --name l
says_line '0 = "%2A/ int x; /%2A%3F%3F/%0A%C3%A9%25d %5C%22"' labels/l.layers
says_line ' \* 0 %2A/ int x; /%2A%3F%3F/%0A%C3%A9%25d %5C%22' labels/l_model.h
says_line ' \* 1 B-PER' labels/l_model.h
says_line ' \* 2 0{77}\.\.\.' labels/l_model.h
says_line '#define L_LABELS 3 .*' labels/l_model.h
check "which a compiler takes" eval '$CC $strict -fsyntax-only labels/l_model.c'
sed -i 's/^1 = "B-PER"/1 = "*\/ int x;"/' labels/l.layers
ends 2 "$attngen" model labels/l.layers -o labels_c; says '[labels] has a line for each, from 0 on'
sed -i '/^1 = /d' labels/l.layers
ends 2 "$attngen" model labels/l.layers -o labels_c; says '[labels] has a line for each, from 0 on'
check "labels that transformers makes are left out" eval '! grep -q "labels" bert_classes/*.layers'

# ---- a table of one folder ----

rm -rf made
ends 0 "$attngen" import --list "$models/llama" -o made; prints 'class       LlamaForCausalLM  known'; prints 'all are known'
model llama; add '"mine": 1, "sliding_window_size": 3'
ends 2 "$attngen" import m --list -o made; says 'm: error: cannot be imported as it is; the table has 2 reasons'
prints 'mine                 is not known of llama models; add --ignore mine'
prints 'sliding_window_size  is not known of llama models (known of gemma or gemma2)'
prints 'tensors     21'
config 's/llama3/mine/'; rm m/*.safetensors m/*.index.json
ends 2 "$attngen" import --list m --ignore mine -o made; prints 'rope_scaling.rope_type  is "mine", which attngen does not know'
prints 'tensors                             not looked at: the folder has none'
config 's/("model_type": ")llama/\1no_%d%_\\u001b/'
ends 2 "$attngen" import --list m -o made; prints 'model_type  no_%d%_\x1b'; says 'model_type is not known'
model bert; more x; ends 2 "$attngen" import --list m -o made; prints 'tensor      x          tensor "x" [1] is not known of bert'
model bert; config 's/("num_attention_heads": )2/\13/'
ends 2 "$attngen" import --list m -o made; prints 'not looked at: specs of these keys are refused'; says 'h = 3 does not divide'
rm -rf m; ends 3 "$attngen" import --list m; says 'm: error: cannot be read'
check "nothing is written" test ! -e made

# a matrix of logits that is not tied has a bias of its own beside it, which is the one that transformers adds
model bert_words; config 's/("tie_word_embeddings": )true/\1false/'
refused 2 'no tensor "cls.predictions.decoder.weight"; [19][16] of bert is needed'
more cls.predictions.decoder.weight bert_words 19,16 1216
check "logits that are not tied" "$attngen" import m -o untied --name untied
says_line 'b += "cls.predictions.decoder.bias"' untied/untied.layers

# ---- shards ----

index=model.safetensors.index.json
# wrong_index SED TEXT: llama with its index changed so
wrong_index() {
    model llama
    sed -i -E "$1" m/$index
    refused "${3-2}" "$2"
}
wrong_index 's/model-00001-of-00003/model-00009-of-00003/' 'model-00009-of-00003.safetensors: error: cannot be read' 3
wrong_index 's/"model-00001-of-00003.safetensors"/"..\/m\/model-00001-of-00003.safetensors"/' "a shard's name is a file of this folder"
wrong_index 's/"model-00001-of-00003.safetensors"/"\/etc\/passwd"/' "a shard's name is a file of this folder"
wrong_index 's/"model-00001-of-00003.safetensors"/"a\\"b"/' "a shard's name is a file of this folder"
wrong_index 's/"model.norm.weight"/"model.other.weight"/' 'tensor "model.norm.weight" is nowhere by the index'
wrong_index 's/"model.norm.weight"/"lm_head.weight"/' 'a key occurs twice in an object'
wrong_index 's/"weight_map": \{/"weight_map": {"more": "model-00001-of-00003.safetensors",/' 'tensor "more" is not in model-00001'
wrong_index 's/"weight_map"/"weights"/' 'weight_map is missing'
model llama; for map in '[]' '{}' '"a"' 'null'; do
    echo "{\"weight_map\": $map}" >m/$index; refused 2 'weight_map is missing, or empty'
done
model llama; cp m/model-00001-of-00003.safetensors m/model-00002-of-00003.safetensors
refused 2 'is in model-00001-of-00003.safetensors by the index'
model llama; printf '{"metadata":%0100000d}' 0 | tr 0 '[' >m/$index; refused 2 'nested more than 64 deep'
model llama; truncate -s 200 m/$index; refused 2 'index.json: error: byte'

# ---- where it is written ----

: >file
ends 3 "$attngen" import --specs "$models/bert" -o file; says 'file: error: is a file; name a folder'
check "the file is left" test -f file
mkdir target && ln -s target link
check "a link to a folder" eval '"$attngen" import --specs "$models/bert" -o link && diff -r bert target'
mkdir -p full/bert.layers
ends 3 "$attngen" import --specs "$models/bert" -o full
check "where one file cannot be written, none is" test "$(ls full)" = bert.layers
mkdir -p full_c/bert_layer.c
ends 3 "$attngen" import "$models/bert" -o full_c; says "full_c/bert_layer.c: error: cannot be written"
check "where the C cannot be written, no spec is" test "$(ls full_c)" = bert_layer.c
cp -a made_at_once over && rm over/bert_model.h && mkdir over/bert_model.h && cp -a over over.old
ends 3 "$attngen" import "$models/bert" -o over --isa scalar --seq-len 8
check "an older output stays whole" diff -r over over.old
# whenever it is ended, by a signal that may leave files of other names or by one that may not; and several at once
cp -a made_at_once old && "$attngen" import "$models/bert" -o new --isa scalar --seq-len 8
same() { for file in new/*; do cmp -s "$file" "cut/${file#*/}" || return 1; done; }
whole() { same || { for file in old/*; do cmp "$file" "cut/${file#*/}" || return 1; done; }; }
for delay in 0.02 0.05 0.1 0.15 0.2 0.25 0.3 0.4 0.6; do
    for signal in TERM KILL; do
        rm -rf cut && cp -a old cut
        { timeout -s $signal $delay "$attngen" import "$models/bert" -o cut --isa scalar --seq-len 8 >out; } 2>err
        check "$signal after $delay s: all old or all new" whole
        [ $signal = KILL ] || check "and no other" test "$(ls cut | xargs)" = "$(ls old | xargs)"
    done
done
for length in 8 8 12 8; do "$attngen" import "$models/bert" -o cut --isa scalar --seq-len $length & done >out 2>err
wait
"$attngen" import "$models/bert" -o old --isa scalar --seq-len 12
check "four at once: the files of one" whole
if [ "$(id -u)" -ne 0 ]; then
    mkdir shut && chmod a-w shut
    ends 3 "$attngen" import --specs "$models/bert" -o shut
    check "nothing in it" test -z "$(ls shut)"
fi
for kib in 20000 30000; do # too little for Lua or for the texts, on some machines
    (ulimit -v $kib; "$attngen" --version >/dev/null 2>&1) || continue
    rm -rf nomem
    (ulimit -v $kib; "$attngen" import --specs "$models/llama" -o nomem >out 2>err)
    status=$?
    check "with $kib KiB: all or nothing" eval '{ [ $status -eq 0 ] && [ -e nomem/llama.layers ]; } ||
        { [ $status -eq 3 ] && [ ! -e nomem ]; }'
done
tally
