# SPDX-License-Identifier: MIT
# attngen and attnrun. `make help` lists what can be made.
#
# Yours to set: CC, CFLAGS, LDFLAGS, BUILD (the folder of all products), SANITIZE (as in
# `make BUILD=build-asan SANITIZE=address,undefined test`), HOST_CC (for what runs while building, where CC is for
# another machine).

BUILD    ?= build
CFLAGS   ?= -O2
SANITIZE ?=
HOST_CC  ?= $(CC)

# Where `make install` puts things; DESTDIR goes before all of them.
PREFIX   ?= /usr/local
bindir   ?= $(PREFIX)/bin
libdir   ?= $(PREFIX)/lib
datadir  ?= $(PREFIX)/share
mandir   ?= $(datadir)/man
docdir   ?= $(datadir)/doc/attngen

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SUFFIXES:
.PHONY: all help lint deps deps-test deps-peers test test-programs test-targets test-avx512 test-avxvnni test-amx test-compilers \
        test-vectors test-mutants test-emitted test-portable test-keys test-drawn same sweep fuzz fuzzers bare demo \
        install clean

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

# What each program is made of, and what both share (attnrun tune plans as attngen does, without templates).
gen_sources := $(filter-out gen/main.c gen/emit/embed.c,$(wildcard gen/*.c gen/*/*.c))
run_sources := $(filter-out runtime/attnrun.c,$(wildcard runtime/*.c runtime/*/*.c))
gen_objects := $(gen_sources:%.c=$(BUILD)/%.o) $(BUILD)/gen/embedded.o
run_objects := $(run_sources:%.c=$(BUILD)/%.o) $(BUILD)/runtime/embedded.o
shared      := $(patsubst %.c,$(BUILD)/%.o,$(wildcard $(addsuffix /*.c,$(addprefix gen/,base expression spec plan))))
embedded    := $(wildcard templates/*/*.in gen/*/*.lua gen/model/families/*.lua)
carried     := runtime/commands/selftest.in runtime/commands/packer.in runtime/inputs/draw.h $(wildcard runtime/reports/page/*)
run_libs    := -ldl -lm -lpthread

unit_tests   := $(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/unit/test_*.c))
# what takes longest comes first, so that the last to end is a short one
long_names   := targets emitted vectors mutants model fuzz expressions sweep split heads compilers onnx size \
                attnrun_sweep cached models build pack selftest dispatch
long_tests   := $(foreach name,$(long_names),$(wildcard tests/*/test_$(name).sh))
# what mostly waits, beside the others
waiting      := faults tune cluster
script_tests := $(long_tests) $(filter-out $(long_tests),$(wildcard tests/test_*.sh tests/*/test_*.sh))

all: $(BUILD)/attngen $(BUILD)/attnrun

help:
	@echo 'make            attngen and attnrun, in $(BUILD)/'
	@echo 'make deps       install what building and the demo need (Debian packages; elsewhere: says which)'
	@echo 'make demo       the attention layers of MiniLM and GPT-2: generated, compiled, checked, timed'
	@echo 'make deps-test  install what the tests need as well'
	@echo 'make test       every test'
	@echo 'make test-vectors, test-mutants, test-emitted  everything with everything (test: variants, levels and instruction'
	@echo '                sets by turns), JOBS=2 at a time'
	@echo 'make test-portable  exact = portable: each drawn layer by every compiler and on every emulated machine'
	@echo 'make test-compilers  gcc 11 and 12, clang 14 and 19: each level, standard and LTO with each (test has a sample)'
	@echo 'make test-keys  import beside transformers: every key of config.json off its default; PYTHON= one that has the package'
	@echo '                (KEYS_FAMILIES="bert t5" of them; an hour of one core)'
	@echo 'make test-drawn  import beside transformers: drawn checkpoints, compiled and run; DRAWN=4 of each family (DRAWN_FAMILIES="bert t5")'
	@echo 'make bench-help  benchmarks, and their settings'
	@echo 'make test-targets  every vector and example on AArch64, RISC-V and WebAssembly, under qemu and Node.js (test: a few)'
	@echo 'make test-avx512  every vector through the avx512 kernels, emulated: for machines without AVX-512'
	@echo 'make test-avxvnni  more of test_avxvnni.sh: the avxvnni kernels on any machine with AVX2'
	@echo 'make test-amx   more of test_amx.sh: the amx kernels on any machine with AVX-512 and VNNI'
	@echo 'make lint       clang-tidy and cppcheck over the tools and the pairs of LINT_LAYERS'
	@echo 'make same BEFORE=REV  emit every example, vector and imported model as the revision REV does, and compare the texts'
	@echo 'make sweep      SWEEP=2000 random layers of SEED=1, JOBS=2 at a time'
	@echo 'make fuzz       FUZZ="spec tensors" of tests/fuzz, all if not given, each FUZZ_SECONDS=600 from SEED=1, JOBS=2 at a'
	@echo '                time; needs clang with libFuzzer. Its own corpora grow in $(BUILD)/fuzz'
	@echo 'make bare       what every example asks for when it is compiled freestanding at -O0, -O2, -Os; examples/bare'
	@echo 'make install    programs, man pages, completions, CMake and pkg-config packages, examples, below $(PREFIX)'
	@echo '                (PREFIX, DESTDIR; bindir, libdir, datadir, mandir, docdir); make uninstall removes them'
	@echo 'make wheel      the Python package: wheels of WHEELS="manylinux_2_28_x86_64" (default: all four) and a source'
	@echo '                distribution in $(BUILD)/wheel/; the first time downloads zig and the source of Lua (ZIG=, LUPA=)'
	@echo 'make test-python  the module beside numpy and torch: PYTHON= one that has them'
	@echo 'make deb        the Debian source package and the package, in $(BUILD)/deb/ (DEB=-S: the source alone)'
	@echo 'make clean      remove $(BUILD)/'

# ---- the programs ----

$(BUILD)/attngen: $(BUILD)/gen/main.o $(gen_objects)
	$(link) -o $@ $^ $(LUA_LIBS) -lm

$(BUILD)/attnrun: $(BUILD)/runtime/attnrun.o $(run_objects) $(shared)
	$(link) -o $@ $^ $(run_libs)

$(BUILD)/%.o: %.c | lua
	@mkdir -p $(@D)
	$(compile) -Igen -Iruntime -Itemplates -I$(BUILD)/gen $(LUA_CFLAGS) -c -o $@ $<

# The names by which templates see the fields of these headers' structs
named := $(addprefix gen/,plan/isa.h plan/tiles.h spec/layer.h \
             $(addprefix plan/,layouts.h panels.h rule.h conv.h cached.h back.h \
                 steps.h plan.h))
$(BUILD)/gen/emit/context.o: $(BUILD)/gen/emit/names.h
$(BUILD)/gen/emit/names.h: gen/emit/names.awk $(named)
	@mkdir -p $(@D)
	awk -f gen/emit/names.awk $(named) > $@

# Files as byte arrays: templates and Lua files; the texts of attnrun. The list is written down so that a file that is
# gone is noticed.
$(BUILD)/gen/embedded.c: files := embedded_files $(embedded)
$(BUILD)/gen/embedded.c: $(embedded)
$(BUILD)/runtime/embedded.c: files := runtime_files $(carried)
$(BUILD)/runtime/embedded.c: $(carried)

embeds := $(BUILD)/gen/embedded $(BUILD)/runtime/embedded
$(embeds:=.c): %.c: $(BUILD)/gen/embed %.list
	@echo '$(BUILD)/gen/embed $@ ...'
	@$(BUILD)/gen/embed $@ $(files)

$(embeds:=.o): %.o: %.c
	$(compile) -Igen -c -o $@ $<

$(BUILD)/gen/embedded.list: files := $(embedded)
$(BUILD)/runtime/embedded.list: files := $(carried)
$(embeds:=.list): always
	@mkdir -p $(@D)
	@echo '$(files)' | cmp -s - $@ || echo '$(files)' > $@

$(BUILD)/gen/embed: gen/emit/embed.c | lua
	@mkdir -p $(@D)
	$(HOST_CC) -std=c11 -Wall -Wextra -D_GNU_SOURCE -MMD -MP -o $@ $<

.PHONY: always lua
lua: | $(installers)
	@$(if $(LUA),:,echo 'Lua 5.4 is not here (pkg-config knows no lua5.4, lua-5.4, lua54, lua); run: make deps' >&2; exit 3)

# ---- what building needs ----

deps:
	@tests/deps.sh build

deps-test: | $(filter deps,$(installers))
	@tests/deps.sh build test extra

deps-peers: | $(filter deps deps-test,$(installers))
	@tests/deps.sh build peers

# ---- tests: every tests/unit/test_*.c is a program, every test_*.sh a script; tests/ROOM/ ----

$(unit_tests): $(BUILD)/tests/%: $(BUILD)/tests/%.o $(gen_objects) $(run_objects)
	$(link) -o $@ $^ $(LUA_LIBS) -lcmocka $(run_libs)

$(BUILD)/tests/unit/%.o: CFLAGS += -Wno-unused-parameter # few tests of cmocka read their state

# Random layers: 24 of them in `make test`, as many as SWEEP says here.
SWEEP ?= 2000
SEED  ?= 1
JOBS  ?= 2
sweepers  = $(CC) $(if $(shell command -v clang),clang)

$(BUILD)/sweep: $(addprefix $(BUILD)/tests/kernels/,sweep.o draw_expression.o) $(addprefix $(BUILD)/runtime/,system/process.o system/sha256.o system/clock.o) $(shared)
	$(link) -o $@ $^ -lm

# weights as others store them, for test_pack.sh
$(BUILD)/recast: $(BUILD)/tests/commands/recast.o $(addprefix $(BUILD)/runtime/,system/process.o system/sha256.o system/clock.o) $(shared)
	$(link) -o $@ $^ -lm

sweep: all $(BUILD)/sweep
	$(BUILD)/sweep --attnrun $(BUILD)/attnrun --keep $(BUILD)/sweep-failures --seed $(SEED) --count $(SWEEP) \
	    --jobs $(JOBS) $(addprefix --cc ,$(sweepers))

# clang-tidy and cppcheck; what is deliberate stands in .clang-tidy and .cppcheck
LINT_LAYERS ?= examples/tiny.layer tests/vectors/every_mask.layer tests/vectors/conv_cross_padding.layer
lint: all
	@BUILD='$(BUILD)' ATTNGEN='$(BUILD)/attngen' CC='$(CC)' tests/lint.sh $(LINT_LAYERS)

# the avxvnni kernels on a machine without AVX-VNNI: another assembler, which takes its instructions away
test-avxvnni: all test-programs
	@BUILD='$(BUILD)' CC='$(CC)' JOBS=$(JOBS) tests/targets/test_avxvnni.sh all

# the amx kernels on a machine without AMX: tile registers emulated
test-amx: all test-programs
	@BUILD='$(BUILD)' CC='$(CC)' JOBS=$(JOBS) tests/targets/test_amx.sh all

# the avx512 kernels on a machine without AVX-512: every vector, built from portable versions of the intrinsics
test-avx512: all
	@BUILD='$(BUILD)' ATTNRUN='$(BUILD)/attnrun' CC='$(CC)' JOBS=$(JOBS) tests/targets/test_avx512.sh all

# Fuzzers: tests/fuzz/NAME.c each. tests/fuzz/test_fuzz.sh runs them, and makes the programs by a make of its own, whose
# folder, compiler and level are theirs. `make test` gives each 4 s of search.
FUZZ         ?=
FUZZ_SECONDS ?= 600
fuzzers      := $(patsubst tests/fuzz/%.c,$(BUILD)/fuzz_%,$(filter-out tests/fuzz/fuzz.c,$(wildcard tests/fuzz/*.c)))
fuzz_pairs   := masks cross conv given rows ring paged
fuzz_masks   := tests/vectors/every_mask.layer
fuzz_cross   := tests/vectors/grouped_cross.layer
fuzz_conv    := --set mask=padding --set bias=false --set plan.size=small tests/vectors/split_conv_cross_out_in.layer
fuzz_given   := tests/fuzz/given.layer
fuzz_rows    := tests/fuzz/rows.layer
fuzz_ring    := tests/fuzz/ring.layer
fuzz_paged   := tests/fuzz/paged.layer

fuzz:
	@BUILD='$(BUILD)' JOBS='$(JOBS)' SEED='$(SEED)' FUZZ_SECONDS='$(FUZZ_SECONDS)' FUZZ_LEVEL=-O1 \
	    tests/fuzz/test_fuzz.sh $(FUZZ)

fuzzers: $(fuzzers)
$(fuzzers): $(BUILD)/fuzz_%: $(BUILD)/tests/fuzz/%.o $(BUILD)/tests/fuzz/fuzz.o $(gen_objects) $(run_objects)
	$(link) -fsanitize=fuzzer -o $@ $^ $(LUA_LIBS) $(run_libs)

# what the fuzzer of calls calls
pairs        := $(fuzz_pairs:%=$(BUILD)/pairs/%)
$(BUILD)/fuzz_calls: $(pairs:=.o) $(pairs:=_shim.o)
$(BUILD)/tests/fuzz/calls.o: CPPFLAGS += -I$(BUILD)/pairs
$(BUILD)/tests/fuzz/calls.o: $(pairs:=.c)
$(pairs:=.c): $(BUILD)/pairs/%.c: $(BUILD)/attngen
	$(BUILD)/attngen -o $(@D) --isa avx2,neon --shim --set name=$* $(fuzz_$*)
$(pairs:=_shim.c): %_shim.c: %.c
$(pairs:=.o) $(pairs:=_shim.o): CFLAGS += -O0 # at -O1 clang takes five times as long, under the sanitizers
$(pairs:=.o) $(pairs:=_shim.o): %.o: %.c
	$(compile) -c -o $@ $<
# and that of models
models       := $(BUILD)/pairs/models
$(BUILD)/fuzz_models: $(models).o
$(BUILD)/tests/fuzz/models.o: CPPFLAGS += -I$(models)
$(BUILD)/tests/fuzz/models.o: $(models).o
$(models).o: CFLAGS += -O0
$(models).o: $(BUILD)/attngen
	rm -rf $(models)
	for model in bert gpt2; do \
	    $(BUILD)/attngen import -o $(models) --isa avx2 tests/models/imports/$$model && \
	    for file in $(models)/$$model*.c; do $(compile) -c -o $$file.o $$file || exit; done || exit; \
	done
	$(LD) -r -o $@ $(models)/*.o

# every example freestanding, with every compiler at every level
bare: all
	@BUILD='$(BUILD)' tests/targets/test_bare.sh $(patsubst examples/%.layer,%,$(wildcard examples/*.layer))

# benchmarks
include bench/bench.mk

# wheels
include packaging/python/wheel.mk

# With -j these are made together; the tests themselves want none, as run.sh shares out the cores.
test-programs: all $(unit_tests) $(BUILD)/sweep $(BUILD)/recast

test: test-programs
	@BUILD='$(BUILD)' ATTNGEN='$(BUILD)/attngen' ATTNRUN='$(BUILD)/attnrun' CC='$(CC)' \
	    WAITING='$(waiting)' tests/run.sh $(script_tests) $(unit_tests)

# every vector and example on other machines; `make test` does a few
test-targets: all
	@BUILD='$(BUILD)' ATTNGEN='$(BUILD)/attngen' ATTNRUN='$(BUILD)/attnrun' CC='$(CC)' JOBS='$(JOBS)' EVERYTHING=1 \
	    tests/targets/test_targets.sh

# every variant of every vector, every instruction set of every mutant, every level of every pair; `make test` takes turns
every_of_vectors = kernels/test_vectors onnx/test_onnx models/test_models
every_of_mutants = kernels/test_mutants
every_of_emitted = kernels/test_emitted
test-vectors test-mutants test-emitted: test-%: all
	@for test in $(every_of_$*); do \
	    BUILD='$(BUILD)' ATTNGEN='$(BUILD)/attngen' ATTNRUN='$(BUILD)/attnrun' CC='$(CC)' JOBS='$(JOBS)' \
	        tests/$$test.sh all || exit; \
	done

# layers with exact = portable by every compiler, on every emulated machine; 10^9 multiply-adds; `make test` does a few
test-portable: all
	@BUILD='$(BUILD)' ATTNGEN='$(BUILD)/attngen' ATTNRUN='$(BUILD)/attnrun' CC='$(CC)' JOBS='$(JOBS)' EVERYTHING=1 \
	    tests/kernels/test_portable.sh

# every key of config.json of every family and class off its default, beside transformers; needs tests/models/requirements.txt
test-keys: $(BUILD)/attngen
	@$(PYTHON) -B tests/models/check_keys.py '$(BUILD)/attngen' $(KEYS_FAMILIES)

# drawn checkpoints as C beside transformers
test-drawn: $(BUILD)/attngen
	@CC='$(CC)' $(PYTHON) -B tests/models/check_drawn.py '$(BUILD)/attngen' $(or $(DRAWN),4) $(DRAWN_FAMILIES)

# every emitted text beside that of another revision, and --explain
same: $(BUILD)/attngen
	@BUILD='$(BUILD)' ATTNGEN='$(BUILD)/attngen' JOBS='$(JOBS)' tests/same.sh $(BEFORE)

# every compiler with every level, standard and LTO; `make test` does a sample of it
test-compilers: all
	@BUILD='$(BUILD)' ATTNGEN='$(BUILD)/attngen' ATTNRUN='$(BUILD)/attnrun' CC='$(CC)' tests/targets/test_compilers.sh all
	@BUILD='$(BUILD)' ATTNGEN='$(BUILD)/attngen' CC='$(CC)' COMPILERS='gcc-11 clang-19' tests/kernels/test_size.sh all

demo: all
	@ATTNGEN='$(BUILD)/attngen' ATTNRUN='$(BUILD)/attnrun' BUILD='$(BUILD)' CC='$(CC)' examples/demo.sh

# ---- what goes along with the programs: pages and completions made of their tables, packages for build systems ----

pages       := attngen.1 attnrun.1 attngen-layer.5
packages    := attngen-config.cmake attngen-config-version.cmake attngen.pc
completions := attngen.bash attngen.fish attnrun.fish _attngen
share       := $(BUILD)/share
version      = $(shell sed -n 's/.*ATTNGEN_VERSION "\(.*\)".*/\1/p' gen/base/version.h)

.PHONY: shared-files uninstall
shared-files: $(addprefix $(share)/,$(pages) $(packages) $(completions))

tables := gen/arguments.c gen/plan/isa.c runtime/options/options.c runtime/timing/peak.c runtime/system/clock.c \
          $(wildcard gen/base/*.c)
$(BUILD)/pages: packaging/pages.c $(tables) $(wildcard gen/*.h gen/*/*.h runtime/*/*.h)
	@mkdir -p $(share)
	$(HOST_CC) -std=c11 -Wall -Wextra -D_GNU_SOURCE -Igen -Iruntime -Itemplates -o $@ packaging/pages.c $(tables)

described := docs/spec.md docs/block.md docs/types.md
$(share)/section: $(described) packaging/section.awk
	@mkdir -p $(@D)
	awk -f packaging/section.awk $(described) > $@

$(addprefix $(share)/,$(pages)): $(share)/%: packaging/%.in $(BUILD)/pages $(share)/section
	$(BUILD)/pages man $< $(share)/section > $@

$(share)/attngen.bash: $(BUILD)/pages
	$< bash > $@

$(share)/%.fish: $(BUILD)/pages
	$< fish $* > $@

$(share)/_attngen: $(BUILD)/pages
	$< zsh > $@

# They hold the folders of the installation, so they are made anew each time.
$(addprefix $(share)/,$(packages)): $(share)/%: packaging/%.in packaging/fill.awk always
	@mkdir -p $(@D)
	@awk -f packaging/fill.awk -v version='$(version)' -v bindir='$(bindir)' -v cmakedir='$(libdir)/cmake/attngen' \
	    -v pcdir='$(datadir)/pkgconfig' $< > $@

.PHONY: deb
deb:
	@packaging/deb.sh '$(BUILD)/deb' $(DEB)

install: all shared-files
install uninstall:
	@BUILD='$(BUILD)' DESTDIR='$(DESTDIR)' bindir='$(bindir)' libdir='$(libdir)' datadir='$(datadir)' mandir='$(mandir)' \
	    docdir='$(docdir)' packaging/install.sh $@

clean:
	rm -rf '$(BUILD)'

-include $(wildcard $(patsubst %,$(BUILD)/%*.d,/ */ */*/))
