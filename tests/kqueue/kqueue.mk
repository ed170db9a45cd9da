# SPDX-License-Identifier: MIT
#
# kqueue.mk: what EVENTS=kqueue is tested over on Linux: libkqueue, if pkg-config finds it,
# or kqueue.c of this directory. STAND_IN=1 takes that in any case.

libkqueue := $(if $(STAND_IN),,$(shell pkg-config --silence-errors --cflags --libs libkqueue))
ifneq ($(libkqueue),)
kqueue_flags := $(filter-out -l%,$(libkqueue))
kqueue_libs  := $(filter -l% -L%,$(libkqueue))
else
kqueue_flags := -Itests/kqueue
core         += tests/kqueue/kqueue
endif
