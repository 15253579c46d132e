# attngen and attnrun. `make help` lists what can be made.
#
# Yours to set: CC, CFLAGS, LDFLAGS, BUILD (the folder of all products), SANITIZE (as in
# `make BUILD=build-asan SANITIZE=address,undefined test`).

BUILD    ?= build
CFLAGS   ?= -O2 -g
SANITIZE ?=
PREFIX   ?= /usr/local

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SUFFIXES:
.PHONY: all help deps deps-test deps-peers test sweep bench-plain bench-flat bench-features bench-peers demo install clean

# The name under which this system's pkg-config knows Lua 5.4; empty if it does not. Asked for once, but not before a
# recipe wants to know: in `make deps all` that is after the packages are there.
find_lua = $(firstword $(foreach name,lua5.4 lua-5.4 lua54 lua,$(shell \
               pkg-config --exists '$(name) >= 5.4' '$(name) < 5.5' 2>/dev/null && echo $(name))))
LUA        = $(eval LUA := $(find_lua))$(LUA)
LUA_CFLAGS = $(eval LUA_CFLAGS := $(shell pkg-config --cflags $(LUA)))$(LUA_CFLAGS)
LUA_LIBS   = $(eval LUA_LIBS := $(shell pkg-config --libs $(LUA)))$(LUA_LIBS)

sanitize := $(if $(SANITIZE),-fsanitize=$(SANITIZE) -fno-omit-frame-pointer -fno-sanitize-recover=all)
compile   = $(CC) -std=c11 -Wall -Wextra -D_GNU_SOURCE -MMD -MP $(CPPFLAGS) $(CFLAGS) $(sanitize)
link      = $(CC) $(CFLAGS) $(sanitize) $(LDFLAGS)

# Where packages are to be installed as well, everything waits for that, also with -j.
installers := $(filter deps deps-test deps-peers,$(MAKECMDGOALS))

# What both programs share, and what each is made of.
gen_sources := $(filter-out gen/main.c gen/embed.c,$(wildcard gen/*.c))
run_sources := $(filter-out runtime/attnrun.c,$(wildcard runtime/*.c))
gen_objects := $(gen_sources:%.c=$(BUILD)/%.o) $(BUILD)/gen/embedded.o
run_objects := $(run_sources:%.c=$(BUILD)/%.o)
shared      := $(addprefix $(BUILD)/gen/,layer.o diag.o isa.o)
embedded    := $(wildcard templates/*.in gen/*.lua)
run_libs    := -ldl -lm -lpthread

unit_tests   := $(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/test_*.c))
script_tests := $(wildcard tests/test_*.sh)

all: $(BUILD)/attngen $(BUILD)/attnrun

help:
	@echo 'make            attngen and attnrun, in $(BUILD)/'
	@echo 'make deps       install what building and the demo need (Debian packages; elsewhere: says which)'
	@echo 'make demo       the attention layers of MiniLM and GPT-2: generated, compiled, checked, timed'
	@echo 'make deps-test  install what the tests need as well'
	@echo 'make test       every test'
	@echo 'make bench-plain  tiny, kws and transformer_base beside plain C at -O3 -march=native'
	@echo 'make bench-flat  share of peak against d_k, n, d_model, h and batch, beside the expected one; needs gnuplot'
	@echo '                (FLAT="dk n" of them; FLAT_POINTS="16 17 32"; FLAT_ROUNDS=5; more in bench/flat/flat.sh)'
	@echo 'make bench-features  what each feature costs beside what its arithmetic predicts'
	@echo '                (FEATURES="bias causal" of them; more in bench/features/features.sh)'
	@echo 'make deps-peers  install what bench-peers needs besides what it installs into $(BUILD)/'
	@echo 'make bench-peers  every example beside PyTorch, ONNX Runtime and others, which it installs into $(BUILD)/: PEERS_SHAPES,'
	@echo '                PEERS_SYSTEMS, PEERS_ROUNDS, PEERS_THREADS, PEERS_CORES; PEERS_LIST=1 lists what there is'
	@echo 'make sweep      SWEEP=2000 random layers of SEED=1, JOBS=2 at a time'
	@echo 'make install    the programs into $(PREFIX)/bin (PREFIX, DESTDIR)'
	@echo 'make clean      remove $(BUILD)/'

# ---- the programs ----

$(BUILD)/attngen: $(BUILD)/gen/main.o $(gen_objects)
	$(link) -o $@ $^ $(LUA_LIBS) -lm

$(BUILD)/attnrun: $(BUILD)/runtime/attnrun.o $(run_objects) $(shared)
	$(link) -o $@ $^ $(run_libs)

$(BUILD)/%.o: %.c | lua
	@mkdir -p $(@D)
	$(compile) -Igen -Iruntime $(LUA_CFLAGS) -c -o $@ $<

# Templates and Lua files, as byte arrays. The list is written down so that a file that is gone is noticed.
$(BUILD)/gen/embedded.c: $(BUILD)/embed $(BUILD)/gen/embedded.list $(embedded)
	$(BUILD)/embed $@ $(embedded)

$(BUILD)/gen/embedded.o: $(BUILD)/gen/embedded.c
	$(compile) -Igen -c -o $@ $<

$(BUILD)/gen/embedded.list: always
	@mkdir -p $(@D)
	@echo '$(embedded)' | cmp -s - $@ || echo '$(embedded)' > $@

$(BUILD)/embed: gen/embed.c | lua
	@mkdir -p $(@D)
	$(compile) $(LDFLAGS) -o $@ $<

.PHONY: always lua
lua: | $(installers)
	@$(if $(LUA),:,echo 'Lua 5.4 is not here (pkg-config knows no lua5.4, lua-5.4, lua54, lua); run: make deps' >&2; exit 3)

# ---- what building needs ----

deps:
	@tests/deps.sh build

deps-test: | $(filter deps,$(installers))
	@tests/deps.sh build test

deps-peers: | $(filter deps deps-test,$(installers))
	@tests/deps.sh build peers

# ---- tests: every tests/test_*.c is a program, every tests/test_*.sh a script ----

$(unit_tests): $(BUILD)/tests/%: $(BUILD)/tests/%.o $(gen_objects) $(run_objects)
	$(link) -o $@ $^ $(LUA_LIBS) -lcmocka $(run_libs)

# Random layers: 150 of them in `make test`, as many as SWEEP says here.
SWEEP ?= 2000
SEED  ?= 1
JOBS  ?= 2
sweepers  = $(CC) $(if $(shell command -v clang),clang)

$(BUILD)/sweep: $(BUILD)/tests/sweep.o $(BUILD)/runtime/process.o $(shared)
	$(link) -o $@ $^ -lm

sweep: all $(BUILD)/sweep
	$(BUILD)/sweep --attnrun $(BUILD)/attnrun --keep $(BUILD)/sweep-failures --seed $(SEED) --count $(SWEEP) \
	    --jobs $(JOBS) $(addprefix --cc ,$(sweepers))

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

# one feature at a time over two base layers, timed in turns with the base: a table in Markdown, a CSV
bench-features: all
	@ATTNGEN='$(BUILD)/attngen' ATTNRUN='$(BUILD)/attnrun' bench/features/features.sh '$(BUILD)/features'

# layers beside other libraries, see bench/peers/README.md; empty: all shapes, all systems, the default number of rounds
PEERS_SHAPES  ?=
PEERS_SYSTEMS ?=
PEERS_ROUNDS  ?=
PEERS_THREADS ?= 1 2
PEERS_CORES   ?=
PEERS_LIST    ?=
PYTHON        ?= python3
peers_venv     = $(BUILD)/peers-venv
bench-peers: $(BUILD)/attngen | $(installers)
	@bench/peers/install.sh $(peers_venv) $(PYTHON) $(if $(PEERS_LIST),base,$(PEERS_SYSTEMS))
	@$(peers_venv)/bin/python -B bench/peers/bench.py --attngen $(BUILD)/attngen --out $(BUILD)/bench-peers \
	    --shapes='$(PEERS_SHAPES)' --systems='$(PEERS_SYSTEMS)' --threads='$(PEERS_THREADS)' \
	    $(if $(PEERS_ROUNDS),--rounds=$(PEERS_ROUNDS)) $(if $(PEERS_CORES),--cores='$(PEERS_CORES)') \
	    $(if $(PEERS_LIST),--list) --command="make bench-peers $(strip $(foreach v,SHAPES SYSTEMS ROUNDS THREADS CORES,\
	    $(if $(PEERS_$v),PEERS_$v='$(PEERS_$v)')))"

test: all $(unit_tests) $(BUILD)/sweep
	@BUILD='$(BUILD)' ATTNGEN='$(BUILD)/attngen' ATTNRUN='$(BUILD)/attnrun' CC='$(CC)' \
	    tests/run.sh $(unit_tests) $(script_tests)

demo: all
	@ATTNGEN='$(BUILD)/attngen' ATTNRUN='$(BUILD)/attnrun' BUILD='$(BUILD)' CC='$(CC)' examples/demo.sh

install: all
	mkdir -p '$(DESTDIR)$(PREFIX)/bin'
	cp $(BUILD)/attngen $(BUILD)/attnrun '$(DESTDIR)$(PREFIX)/bin/'

clean:
	rm -rf '$(BUILD)'

-include $(wildcard $(BUILD)/*.d $(BUILD)/*/*.d)
