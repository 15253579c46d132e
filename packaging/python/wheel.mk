# SPDX-License-Identifier: MIT
# The Python package, a part of the Makefile: docs/python.md. Lua comes with its source, so this system needs none.

.PHONY: wheel test-python
wheel_made := $(addprefix $(BUILD)/,gen/emit/names.h gen/embedded.c runtime/embedded.c wheel/sources)
wheel: LUA := packed
wheel: $(wheel_made)
	@$(or $(PYTHON),python3) -B packaging/python/backend.py --made '$(BUILD)' --out '$(BUILD)/wheel' \
	    $(if $(ZIG),--zig '$(ZIG)') $(if $(LUPA),--lua '$(LUPA)') $(addprefix --target ,$(WHEELS))

# sources of each program, a line each
$(BUILD)/wheel/sources: always
	@mkdir -p $(@D)
	@echo attngen gen/main.c $(gen_sources) gen/embedded.c > $@
	@echo attnrun runtime/attnrun.c $(run_sources) $(shared:$(BUILD)/%.o=%.c) runtime/embedded.c >> $@

# the module's tests where they have numpy and torch: those of PYTHON, which make test does not need
test-python: all
	@BUILD='$(BUILD)' ATTNGEN='$(BUILD)/attngen' ATTNRUN='$(BUILD)/attnrun' CC='$(CC)' PYTHON='$(or $(PYTHON),python3)' \
	    tests/python/test_python.sh
