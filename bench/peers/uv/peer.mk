# SPDX-License-Identifier: MIT
#
# libuv. c/peer.mk has http_version.

uv_flags   := -O3 -std=gnu11 -D_GNU_SOURCE -Wall -Wextra
uv_hash    := \#
uv_version := $(shell printf '%s\n' '$(uv_hash)include <uv.h>' 'version \
	UV_VERSION_MAJOR UV_VERSION_MINOR UV_VERSION_PATCH' | \
	$(CC) -E -P -x c - 2>/dev/null | sed -n 's/^ *version \(.*\)/libuv \1/p' | \
	sed 's/\([0-9]\) /\1./g')

$(eval $(call offer,uv,echo,$(uv_version),gcc libuv1-dev))
$(eval $(call offer,uv,http,$(if $(http_version),$(uv_version)),gcc libuv1-dev \
	libhttp-parser-dev))

$(P)/uv-http: uv_libs := -lhttp_parser
$(P)/uv-%: uv/%.c uv/uv.h $(http_headers) uv/peer.mk
	@mkdir -p $(@D)
	$(CC) $(uv_flags) -o $@ $< -luv $(uv_libs)
