# SPDX-License-Identifier: MIT
#
# libusched-tls, which needs OpenSSL. The Makefile includes this.

tls       := $(B)/libusched-tls.a $(B)/libusched-tls.so.$(version)
tls_parts := $(B)/tls/utls.o $(B)/tls/utls_context.o

ifeq ($(TLS),1)
headers   += tls/utls.h
libraries += $(tls)
names     += libusched-tls
else
pages     := $(filter-out $(B)/doc/utls.3,$(pages))
endif

tls: $(tls)

$(B)/libusched-tls.a: $(tls_parts)

# It needs libusched or libusched-check, which the program has.
$(B)/libusched-tls.so.$(version): $(tls_parts:.o=.lo)
	$(link) -shared -Wl,-soname,$(@F:.so.$(version)=.so.$(abi)) -Wl,-z,now -lssl -lcrypto $(libs)

$(B)/tls/test_utls: $(B)/tls/test_utls.o $(tls_parts) $(library) \
		$(patsubst %,$(B)/tests/help/%.o,test over net)
	$(link) -lcmocka -lssl -lcrypto -lm $(libs)

$(B)/examples/10-https: $(tls_parts)
