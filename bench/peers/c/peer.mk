# SPDX-License-Identifier: MIT
#
# Function calls, switch macros, and state machines over epoll. They need a C compiler
# and, for HTTP, http_parser.

c_flags   := -O3 -std=gnu11 -Wall -Wextra
c_version := $(shell $(CC) --version 2>/dev/null | sed 1q)

# The requirements of HTTP servers in C.
http_hash    := \#
http_version := $(shell printf '%s\n' '$(http_hash)include <http_parser.h>' 'version \
	HTTP_PARSER_VERSION_MAJOR HTTP_PARSER_VERSION_MINOR HTTP_PARSER_VERSION_PATCH' | \
	$(CC) -E -P -x c - 2>/dev/null | sed -n 's/^ *version \(.*\)/http_parser \1/p' | \
	sed 's/\([0-9]\) /\1./g')
server_headers := c/server.h c/peer.h
http_headers   := c/http.h $(server_headers)

$(eval $(call offer,c,counters-calls walk-calls counters-macros ring-best ring-worst \
	pingpong-macros create-macros memory-macros epoll-echo,$(c_version),gcc))
$(eval $(call offer,c,epoll-http,$(http_version),gcc libhttp-parser-dev))

define build_c
@mkdir -p $(@D)
$(CC) $(c_flags) -o $@ $< $(c_libs)
endef

$(P)/c-ring-best: c_flags += -DBEST
$(P)/c-ring-best $(P)/c-ring-worst: c/ring.c c/macros.h c/peer.h
	$(build_c)

$(P)/c-epoll-http: c_libs := -lhttp_parser
$(P)/c-epoll-echo $(P)/c-epoll-http: c_flags += -D_GNU_SOURCE
$(P)/c-epoll-echo $(P)/c-epoll-http: $(P)/c-epoll-%: c/epoll-%.c c/epoll.h $(http_headers)
	$(build_c)

$(P)/c-%: c/%.c c/macros.h c/tree.h c/peer.h
	$(build_c)
