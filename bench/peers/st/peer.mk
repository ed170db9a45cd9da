# SPDX-License-Identifier: MIT
#
# State Threads. Bound when the program starts: lazy binding takes kilobytes of the
# calling thread's stack. c/peer.mk has http_version.

st_flags   := -O3 -std=gnu11 -D_GNU_SOURCE -Wall -Wextra -Wl,-z,now
st_hash    := \#
st_version := $(shell printf '%s\n' '$(st_hash)include <st.h>' 'version ST_VERSION' | \
	$(CC) -E -P -x c - 2>/dev/null | sed -n 's/^version "\(.*\)"/State Threads \1/p')

$(eval $(call offer,st,ring memory echo,$(st_version),gcc libst-dev))
$(eval $(call offer,st,http,$(if $(http_version),$(st_version)),gcc libst-dev \
	libhttp-parser-dev))

$(P)/st-http: st_libs := -lhttp_parser
$(P)/st-%: st/%.c st/st.h c/peer.h $(http_headers) st/peer.mk
	@mkdir -p $(@D)
	$(CC) $(st_flags) -o $@ $< -lst $(st_libs)
