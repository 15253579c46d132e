# SPDX-License-Identifier: MIT
# Of the examples that are programs around a model: $(OUT)/of says which model the C is of. Another MODEL, or another
# config.json, and what depends on it is made anew.
.PHONY: FORCE
$(OUT)/of: FORCE
	@test -f '$(MODEL)/config.json' || { echo '$(MODEL): no config.json; "make model" gets a model' >&2; exit 1; }
	@mkdir -p $(OUT) && { echo '$(MODEL)'; cat '$(MODEL)/config.json'; } > $@.new
	@if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi
