# SPDX-License-Identifier: MIT
#
# python3, or the system's if only that has greenlet.

greenlet_tell := import greenlet, platform; print("greenlet", greenlet.__version__, "on Python", platform.python_version())
GREENLET_PYTHON ?= $(firstword $(foreach p,python3 /usr/bin/python3,\
	$(if $(shell $p -c '$(greenlet_tell)' 2>/dev/null),$p)))
greenlet_version := $(if $(GREENLET_PYTHON),$(shell $(GREENLET_PYTHON) -c '$(greenlet_tell)' 2>/dev/null))

$(eval $(call offer,greenlet,ring counters pingpong create memory,$(greenlet_version),python3-greenlet))

$(P)/greenlet-%: greenlet/%.py python/peer.py greenlet/peer.mk
	$(call script,PYTHONPATH='$(abspath python)' exec $(GREENLET_PYTHON) -B '$(abspath $<)' "$$@")
