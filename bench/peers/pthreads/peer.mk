# SPDX-License-Identifier: MIT

pthreads_flags   := -O3 -std=gnu11 -Wall -Wextra -pthread
pthreads_version := $(shell version=$$($(CC) --version 2>/dev/null) && \
	echo "$$version" | sed 1q && getconf GNU_LIBC_VERSION 2>/dev/null)

$(eval $(call offer,pthreads,cycle ring ring-semaphores alternate memory,\
	$(pthreads_version),gcc))

define build_pthreads
@mkdir -p $(@D)
$(CC) $(pthreads_flags) -o $@ $<
endef

$(P)/pthreads-ring-semaphores: pthreads_flags += -DSEMAPHORE
$(P)/pthreads-ring-semaphores: pthreads/ring.c pthreads/threads.h c/peer.h
	$(build_pthreads)

$(P)/pthreads-%: pthreads/%.c pthreads/threads.h c/peer.h
	$(build_pthreads)
