# SPDX-License-Identifier: MIT

REDIS_SERVER ?= redis-server
redis_version := $(shell '$(REDIS_SERVER)' --version 2>/dev/null | \
	sed -n 's/.* v=\([^ ]*\).*/redis-server \1/p')

$(eval $(call offer,redis,redis,$(redis_version),redis-server))

$(P)/redis-redis: redis/redis.sh server.sh redis/peer.mk
	$(call script,REDIS_SERVER='$(REDIS_SERVER)' exec sh '$(abspath $<)' "$$@")
