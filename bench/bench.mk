# SPDX-License-Identifier: MIT
# Benchmarks, a part of the Makefile. `make bench-help` lists them with their settings.

.PHONY: bench-help bench-plain bench-flat bench-features bench-beside bench-size bench-tune bench-peers bench-drawn \
        bench-decode bench-chunks bench-train bench-types bench-models bench-minilm bench-states

bench-help:
	@echo 'make bench-plain  tiny, kws and transformer_base beside plain C at -O3 -march=native'
	@echo 'make bench-flat  share of peak against d_k, n, d_model, h and batch, beside the expected one; needs gnuplot'
	@echo '                (FLAT="dk n" of them; FLAT_POINTS="16 17 32"; FLAT_ROUNDS=5; more in bench/flat/flat.sh)'
	@echo 'make bench-features  what each feature costs beside what its arithmetic predicts'
	@echo '                (FEATURES="bias causal" of them; more in bench/features/features.sh)'
	@echo 'make bench-beside  score terms beside expressions, documents, padded rows, block-sparse masks: tables in Markdown'
	@echo '                (BESIDE_ISA="avx2 avx512", BESIDE_SECONDS=30, BESIDE_TABLES="terms documents padded sparse")'
	@echo 'make bench-size  bytes of code and time of every example, --size fast beside small: a table in Markdown'
	@echo '                (SIZE_LAYERS="tiny kws" of them; SIZE_ROUNDS=5; more in bench/size/size.sh)'
	@echo 'make bench-tune  what attnrun tune gains on ten examples'
	@echo '                (TUNE_SHAPES="tiny gpt2", TUNE_BUDGET=120, TUNE_ISA=avx2; more in bench/tune/tune.sh)'
	@echo 'make deps-peers  install what bench-peers needs besides what it installs into $(BUILD)/'
	@echo 'make bench-peers  every example beside PyTorch, ONNX Runtime and others, which it installs into $(BUILD)/: PEERS_SHAPES,'
	@echo '                PEERS_SYSTEMS, PEERS_ROUNDS, PEERS_THREADS, PEERS_CORES, PEERS_BEFORE=another attngen; PEERS_LIST=1'
	@echo '                lists what there is'
	@echo 'make bench-drawn  DRAWN=100 random layers of DRAWN_SEED=1 beside PyTorch and ONNX Runtime; PEERS_ROUNDS, PEERS_CORES'
	@echo 'make bench-decode  steps and chunks behind a cache, beside the same libraries: PEERS_SHAPES, PEERS_SYSTEMS, PEERS_ROUNDS,'
	@echo '                PEERS_CORES, PEERS_LIST=1; and by two threads and in a ring: DECODE_ISA="avx512 avx2", DECODE_SECONDS'
	@echo 'make bench-chunks  calls of n tokens behind a cache: none may take longer than one of more tokens, or two of half;'
	@echo '                (CHUNKS="16 17", CHUNKS_PAST=1024; more in bench/decode/chunks.sh)'
	@echo 'make bench-train  forward and backward of six layers beside PyTorch, compiled too: the same variables'
	@echo '                by torch.compile as well, and ours by AVX2 and clang'
	@echo 'make bench-types  layers whose weights and operands have fewer bits, beside the same libraries in whole numbers; likewise'
	@echo 'make bench-states  recurrent layers beside what $$(STATES_PYTHON) has of transformers and ONNX Runtime (STATES_ARGS)'
	@echo 'make bench-models  whole models (MiniLM, ViT, GPT-2, a Llama of 110 M) beside ONNX Runtime, OpenVINO, PyTorch and'
	@echo '                llama.cpp: MODELS_CASES="vit, step at 64", MODELS_SYSTEMS, MODELS_ROUNDS, MODELS_THREADS=1,2,'
	@echo '                PEERS_CORES=0,1, MODELS_ISA=avx2, MODELS=DIR of the models, MODELS_LIST=1; make bench-minilm: MiniLM'
	@echo '                alone; MODELS_UNTIMED=1: only errors, next tokens and embeddings that agree, in one table'

# a layer beside plain C, both by this compiler at -O3 -march=native: NAME and whether it has biases
plain_layers := tiny/0 kws/1 transformer_base/0
bench-plain: $(BUILD)/attngen
	@mkdir -p $(BUILD)/bench
	@for layer in $(plain_layers); do \
	    name=$${layer%/*}; prefix=$$(printf %s $$name | tr a-z A-Z); \
	    $(BUILD)/attngen -o $(BUILD)/bench examples/$$name.layer && \
	    $(CC) -std=gnu11 -O3 -march=native -I$(BUILD)/bench -DNAME=$$name -DPREFIX=$$prefix -DHEADER="\"$$name.h\"" \
	        -DBIAS=$${layer#*/} -o $(BUILD)/bench/plain_$$name bench/plain.c $(BUILD)/bench/$$name.c -lm && \
	    $(BUILD)/bench/plain_$$name || exit; \
	done

# share of peak over every dimension, beside the expected share: a table, a CSV and plots
bench-flat: all
	@ATTNGEN='$(BUILD)/attngen' ATTNRUN='$(BUILD)/attnrun' bench/flat/flat.sh '$(BUILD)/flat'

# calls of n tokens behind a cache, over n: a table
bench-chunks: all
	@ATTNGEN='$(BUILD)/attngen' ATTNRUN='$(BUILD)/attnrun' bench/decode/chunks.sh '$(BUILD)/chunks'

# one feature at a time over two base layers, timed in turns with the base: a table in Markdown, a CSV
bench-features: all
	@ATTNGEN='$(BUILD)/attngen' ATTNRUN='$(BUILD)/attnrun' bench/features/features.sh '$(BUILD)/features'

# layers side by side in one process: score terms beside expressions, documents, padded rows, block-sparse masks
$(BUILD)/beside: $(BUILD)/bench/features/beside.o $(run_objects) $(shared)
	$(link) -o $@ $^ $(run_libs)

bench-beside: all $(BUILD)/beside
	@ATTNGEN='$(BUILD)/attngen' BESIDE='$(BUILD)/beside' bench/features/beside.sh '$(BUILD)/features'

# bytes of code and time, fast beside small: a table in Markdown
bench-size: all
	@ATTNGEN='$(BUILD)/attngen' ATTNRUN='$(BUILD)/attnrun' CC='$(CC)' bench/size/size.sh '$(BUILD)/size'

# the default plan beside a tuned one
bench-tune: all
	@ATTNGEN='$(BUILD)/attngen' ATTNRUN='$(BUILD)/attnrun' bench/tune/tune.sh '$(BUILD)/tune'

# layers beside other libraries, see bench/peers/README.md; empty: all shapes, all systems, the default number of rounds
PEERS_SHAPES  ?=
PEERS_SYSTEMS ?=
PEERS_ROUNDS  ?=
PEERS_THREADS ?= 1 2
PEERS_CORES   ?=
PEERS_BEFORE  ?=
PEERS_LIST    ?=
PYTHON        ?= python3
peers_venv     = $(BUILD)/peers-venv
bench-peers: $(BUILD)/attngen | $(installers)
	@bench/peers/install.sh $(peers_venv) $(PYTHON) $(if $(PEERS_LIST),base,$(PEERS_SYSTEMS))
	@$(peers_venv)/bin/python -B bench/peers/bench.py --attngen $(BUILD)/attngen --out $(BUILD)/bench-peers \
	    --shapes='$(PEERS_SHAPES)' --systems='$(PEERS_SYSTEMS)' --threads='$(PEERS_THREADS)' \
	    $(if $(PEERS_ROUNDS),--rounds=$(PEERS_ROUNDS)) $(if $(PEERS_CORES),--cores='$(PEERS_CORES)') \
	    $(if $(PEERS_BEFORE),--before='$(PEERS_BEFORE)') \
	    $(if $(PEERS_LIST),--list) --command="make bench-peers $(strip $(foreach v,SHAPES SYSTEMS ROUNDS THREADS CORES BEFORE,\
	    $(if $(PEERS_$v),PEERS_$v='$(PEERS_$v)')))"

# drawn layers beside ONNX Runtime and PyTorch, on one core
DRAWN      ?= 100
DRAWN_SEED ?= 1
DRAWN_SYSTEMS = ours/gcc torch/sdpa onnxruntime
bench-drawn: $(BUILD)/attngen | $(installers)
	@bench/peers/install.sh $(peers_venv) $(PYTHON) $(DRAWN_SYSTEMS)
	@mkdir -p $(BUILD)/bench-drawn
	@$(peers_venv)/bin/python -B bench/peers/drawn.py $(DRAWN_SEED) $(DRAWN) $(BUILD)/bench-drawn/drawn.txt
	@$(peers_venv)/bin/python -B bench/peers/bench.py --attngen $(BUILD)/attngen --out $(BUILD)/bench-drawn \
	    --examples= --table=$(BUILD)/bench-drawn/drawn.txt --threads=1 --systems='$(DRAWN_SYSTEMS)' \
	    $(if $(PEERS_ROUNDS),--rounds=$(PEERS_ROUNDS)) $(if $(PEERS_CORES),--cores='$(PEERS_CORES)') \
	    --command='make bench-drawn DRAWN=$(DRAWN) DRAWN_SEED=$(DRAWN_SEED)'

# layers with a cache beside other libraries: the same, on one core; then DECODE_ISA, DECODE_SECONDS of bench/decode/decode.sh
DECODE_SYSTEMS = ours/gcc ours/gcc-avx2 onnxruntime/cached torch/static torch/static-repeated torch/static-folded \
                 openvino/stateful ggml bound
bench-decode: $(BUILD)/attngen | $(installers)
	@bench/peers/install.sh $(peers_venv) $(PYTHON) $(if $(PEERS_LIST),base,$(or $(PEERS_SYSTEMS),$(DECODE_SYSTEMS)))
	@$(peers_venv)/bin/python -B bench/peers/bench.py --attngen $(BUILD)/attngen --out $(BUILD)/bench-decode \
	    --examples= --table=bench/peers/decode.txt --threads=1 --shapes='$(PEERS_SHAPES)' \
	    --systems='$(or $(PEERS_SYSTEMS),$(DECODE_SYSTEMS))' \
	    $(if $(PEERS_ROUNDS),--rounds=$(PEERS_ROUNDS)) $(if $(PEERS_CORES),--cores='$(PEERS_CORES)') \
	    $(if $(PEERS_LIST),--list) --command="make bench-decode $(strip $(foreach v,SHAPES SYSTEMS ROUNDS CORES,\
	    $(if $(PEERS_$v),PEERS_$v='$(PEERS_$v)')))"
ifeq ($(PEERS_LIST)$(PEERS_SHAPES),)
	@ATTNGEN='$(BUILD)/attngen' CC='$(CC)' PEERS_CORES='$(PEERS_CORES)' bench/decode/decode.sh '$(BUILD)/bench-decode/decode'
endif

# steps of training, forward and backward; torch/compiled takes a minute for each layer the first time
TRAIN_SYSTEMS = ours/gcc torch/module torch/sdpa torch/compiled
bench-train: $(BUILD)/attngen | $(installers)
	@bench/peers/install.sh $(peers_venv) $(PYTHON) $(if $(PEERS_LIST),base,$(or $(PEERS_SYSTEMS),$(TRAIN_SYSTEMS)))
	@$(peers_venv)/bin/python -B bench/peers/bench.py --attngen $(BUILD)/attngen --out $(BUILD)/bench-train \
	    --examples= --table=bench/peers/train.txt --shapes='$(PEERS_SHAPES)' --threads='$(PEERS_THREADS)' \
	    --systems='$(or $(PEERS_SYSTEMS),$(TRAIN_SYSTEMS))' \
	    $(if $(PEERS_ROUNDS),--rounds=$(PEERS_ROUNDS)) $(if $(PEERS_CORES),--cores='$(PEERS_CORES)') \
	    $(if $(PEERS_BEFORE),--before='$(PEERS_BEFORE)') \
	    $(if $(PEERS_LIST),--list) --command="make bench-train $(strip $(foreach v,SHAPES SYSTEMS ROUNDS THREADS CORES BEFORE,\
	    $(if $(PEERS_$v),PEERS_$v='$(PEERS_$v)')))"

# weights and operands of fewer bits, each system with its error beside double precision; PEERS_SHAPES …
bench-types: $(BUILD)/attngen | $(installers)
	@bench/peers/install.sh $(peers_venv) $(PYTHON) \
	    $(if $(PEERS_LIST),base,$(or $(PEERS_SYSTEMS),onnxruntime openvino torch ggml))
	@$(peers_venv)/bin/python -B bench/peers/bench.py --types --attngen $(BUILD)/attngen --out $(BUILD)/bench-types \
	    --examples= --table=bench/peers/types.txt --threads=1 --shapes='$(PEERS_SHAPES)' --systems='$(PEERS_SYSTEMS)' \
	    $(if $(PEERS_ROUNDS),--rounds=$(PEERS_ROUNDS)) $(if $(PEERS_CORES),--cores='$(PEERS_CORES)') \
	    $(if $(PEERS_LIST),--list) --command="make bench-types $(strip $(foreach v,SHAPES SYSTEMS ROUNDS CORES,\
	    $(if $(PEERS_$v),PEERS_$v='$(PEERS_$v)')))"

# whole models beside other libraries, see bench/models/models.py. MODELS=DIR: a folder for each of minilm, vit, gpt2 and llama
# with config.json and model.safetensors; where it is missing, minilm is fetched and the others are drawn
MODELS         ?= $(BUILD)/models
MODELS_CASES   ?=
MODELS_SYSTEMS ?=
MODELS_ROUNDS  ?=
MODELS_THREADS ?=
MODELS_LIST    ?=
# ours for this set, and libraries held to it where they can be
MODELS_ISA     ?=
# 1: how far outputs are off, next tokens and embeddings, in one table; nothing is timed
MODELS_UNTIMED ?=
bench-models: $(BUILD)/attngen | $(installers)
	@bench/peers/install.sh $(peers_venv) $(PYTHON) $(if $(MODELS_LIST),base,'onnxruntime openvino torch ggml models')
	@$(peers_venv)/bin/python -B bench/models/models.py --attngen $(BUILD)/attngen --models '$(MODELS)' \
	    --out $(BUILD)/bench-models --cases='$(MODELS_CASES)' --systems='$(MODELS_SYSTEMS)' \
	    $(if $(MODELS_ROUNDS),--rounds=$(MODELS_ROUNDS)) $(if $(MODELS_THREADS),--threads='$(MODELS_THREADS)') \
	    $(if $(PEERS_CORES),--cores='$(PEERS_CORES)') $(if $(MODELS_LIST),--list) \
	    $(if $(MODELS_ISA),--isa='$(MODELS_ISA)') $(if $(MODELS_UNTIMED),--untimed) --command="make bench-models $(strip \
	    $(foreach v,MODELS MODELS_CASES MODELS_SYSTEMS MODELS_ROUNDS MODELS_THREADS MODELS_ISA PEERS_CORES,$(if $(filter file \
	    undefined,$(origin $v)),,$(if $($v),$v='$($v)'))))"

# MiniLM alone
bench-minilm:
	@$(MAKE) --no-print-directory bench-models MODELS_CASES=minilm

STATES_PYTHON ?= python3
bench-states: $(BUILD)/attngen
	@$(STATES_PYTHON) -B bench/peers/states.py $(BUILD)/attngen $(STATES_ARGS)
