# SPDX-License-Identifier: MIT
#
# Generators, and greenlets by python3, or by the system's if only that has greenlet.

PYTHON ?= python3
greenlet_tell := import greenlet, platform; print("greenlet", greenlet.__version__, "on Python", platform.python_version())
GREENLET_PYTHON ?= $(firstword $(foreach p,python3 /usr/bin/python3,\
	$(if $(shell $p -c '$(greenlet_tell)' 2>/dev/null),$p)))
greenlet_version := $(if $(GREENLET_PYTHON),$(shell $(GREENLET_PYTHON) -c '$(greenlet_tell)' 2>/dev/null))
python_programs := ring counters pingpong create memory

$(eval $(call offer,python,$(python_programs),$(shell $(PYTHON) --version 2>/dev/null),python3))
$(eval $(call offer,greenlet,$(python_programs),$(greenlet_version),python3-greenlet))

# -B: Python writes nothing beside the sources.
$(P)/python-%: python/generators.py python/peer.py python/peer.mk
	$(call script,exec $(PYTHON) -B '$(abspath $<)' $* "$$@")

$(P)/greenlet-%: python/greenlets.py python/peer.py python/peer.mk
	$(call script,exec $(GREENLET_PYTHON) -B '$(abspath $<)' $* "$$@")
