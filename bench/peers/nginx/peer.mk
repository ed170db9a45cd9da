# SPDX-License-Identifier: MIT
#
# Debian's nginx is in a directory that is not in the PATH of users.

NGINX ?= nginx
nginx         := $(shell PATH="$$PATH:/usr/sbin"; command -v '$(NGINX)')
nginx_version := $(if $(nginx),$(shell '$(nginx)' -v 2>&1 | \
	sed -n 's/^nginx version: //p'))

$(eval $(call offer,nginx,http,$(nginx_version),nginx-light))

$(P)/nginx-http: nginx/http.sh server.sh nginx/peer.mk
	$(call script,NGINX_PROGRAM='$(nginx)' exec sh '$(abspath $<)' "$$@")
