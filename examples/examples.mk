# SPDX-License-Identifier: MIT
#
# The examples. Included by the Makefile at the top.

# Examples that need a library: NAME:HEADERS:OPTIONS, commas for spaces. The others need C.
needy := 05-httpd:http_parser.h:-lhttp_parser \
	06-kv:hiredis/hiredis.h,uthash.h,sodium.h:-lhiredis,-lsodium \
	08-cpp:exception:-lstdc++ 10-https:openssl/core.h:-lssl,-lcrypto \
	11-crawler:curl/curl.h:-lcurl 13-generator:exception:-lstdc++ 15-libuv:uv.h:-luv \
	16-libevent:event2/event.h:-levent_core
part      = $(subst $(comma), ,$(word $2,$(subst :, ,$1)))
comma    := ,
hash     := \#
# links NEEDY: nothing, or `yes' if a program with its header and its libraries links.
links     = $(shell t=$$(mktemp) && \
	printf '%s\n' '$(hash)include <stdio.h>' \
	$(foreach header,$(call part,$1,2),'$(hash)include <$(header)>') 'int main(void) { return 0; }' | \
	$(CC) $(CPPFLAGS) $(CFLAGS) -x $(if $(findstring stdc++,$1),c++,c) - -x none $(LDFLAGS) -o $$t \
		$(call part,$1,3) >/dev/null 2>&1 && echo yes; rm -f $$t)
examples := $(patsubst examples/%,$(B)/examples/%,$(basename $(wildcard examples/*.c examples/*.cc)))
# What cannot be built is left out of `make examples', which says so.
ifneq ($(filter examples,$(MAKECMDGOALS)),)
without  := $(foreach need,$(needy),$(if $(call links,$(need)),,$(need)))
examples := $(filter-out $(foreach need,$(without),$(B)/examples/$(call part,$(need),1)),$(examples))
endif

examples: $(examples)
	@$(foreach need,$(without),echo 'make examples: without $(call part,$(need),1): no program with <$(call part,$(need),2)> and $(call part,$(need),3) builds';) :

$(B)/examples/%.o: c_flags += -I.
$(B)/examples/05-httpd.o: c_flags += -DUSCHED_DEBUG
$(B)/examples/10-https.o: c_flags += -DUSCHED_TLS

$(foreach need,$(needy),$(eval $(B)/examples/$(call part,$(need),1): libs += $(call part,$(need),3)))

$(B)/examples/%: $(B)/examples/%.o $(static)
	$(link) $(static) $(libs)
