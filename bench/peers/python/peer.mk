# SPDX-License-Identifier: MIT

PYTHON ?= python3

$(eval $(call offer,python,ring counters pingpong create memory,$(shell $(PYTHON) \
	--version 2>/dev/null),python3))

# -B: Python writes nothing beside the sources.
$(P)/python-%: python/%.py python/peer.py python/peer.mk
	$(call script,exec $(PYTHON) -B '$(abspath $<)' "$$@")
