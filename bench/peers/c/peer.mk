# SPDX-License-Identifier: MIT
#
# Plain calls, and switch macros; both need nothing but a C compiler.

c_flags := -O3 -std=gnu11 -Wall -Wextra

$(eval $(call offer,c,counters-calls counters-macros ring-best ring-worst \
	pingpong-macros create-macros memory-macros,$(shell $(CC) --version 2>/dev/null | \
	sed 1q),gcc))

define build_c
@mkdir -p $(@D)
$(CC) $(c_flags) -o $@ $<
endef

$(P)/c-ring-best: c_flags += -DBEST
$(P)/c-ring-best $(P)/c-ring-worst: c/ring.c c/macros.h c/peer.h
	$(build_c)

$(P)/c-%: c/%.c c/macros.h c/peer.h
	$(build_c)
