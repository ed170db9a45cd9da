# SPDX-License-Identifier: MIT

ucontext_flags   := -O3 -std=gnu11 -Wall -Wextra
ucontext_version := $(shell $(CC) --version >/dev/null 2>&1 && \
	getconf GNU_LIBC_VERSION 2>/dev/null)

$(eval $(call offer,ucontext,pingpong create memory,$(ucontext_version),libc6-dev))

$(P)/ucontext-%: ucontext/%.c ucontext/context.h c/peer.h
	@mkdir -p $(@D)
	$(CC) $(ucontext_flags) -o $@ $<
