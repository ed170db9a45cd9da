# SPDX-License-Identifier: MIT
#
# libusched-posix, by which programs are run that were not written for usched. Its own calls
# of what it stands for are libc's. The Makefile includes this.

posix       := $(B)/libusched-posix.a $(B)/libusched-posix.so.$(version)
posix_parts := $(patsubst %.c,$(B)/%.o,$(filter-out posix/uposix_load.c $(wildcard posix/test_*.c),$(wildcard posix/*.c)))
posix_names = $(shell sed -n -e 's/^[NL]A[MT]ER*(\(.*\))$$/\1/p' -e '/^KEPT/s/[()A-Z]/ /gp' posix/uposix_names.h)
posix_aliases = $(shell sed -n '/^[USA][NTL][DRI]/{s/UNDER./__/g;s/STREAM./_IO_/g;s/ALIAS.\([^,]*\), [a-z_]*/\1/g;s/[^a-zA-Z0-9_ ]//gp;}' \
	posix/uposix_names.h)
ifeq ($(POSIX),1)
headers   += posix/uposix.h posix/uposix_define.h
libraries += $(posix)
names     += libusched-posix
run       := usched-run
install_run  = sed -e '/^built=/d; /^. make install puts/d' -e 's|^LIB=.*|LIB=$${USCHED_POSIX:-$(libdir)/libusched-posix.so.$(abi)}|' \
	-e 's|^SIM_LIB=.*|SIM_LIB=$${USCHED_SIM_LIBRARY:-$(libdir)/libusched-sim.so.$(abi)}|' posix/$(run) | \
	install -m 755 /dev/stdin $(DESTDIR)$(bindir)/$(run)
else
pages     := $(filter-out doc/uposix.7 doc/usched-run.1,$(pages))
endif

posix: $(posix)

$(B)/libusched-posix.a: $(posix_parts)

# What it exports is in the file of its machine; see there.
$(B)/libusched-posix.so.$(version): $(posix_parts:.o=.lo) $(B)/posix/uposix_load.lo \
		$(B)/posix/$(machine).lo $(library:.o=.lo)
	{ echo '{ global:'; printf '%s;\n' $(posix_names) $(posix_aliases) __gmon_start__; echo 'local: *; };'; } >$@.map
	$(link) -shared -Wl,-soname,$(@F:.so.$(version)=.so.$(abi)) -Wl,-z,nodelete,-z,now \
		-Wl,--version-script=$@.map $(posix_names:%=-Wl,--wrap=%) -ldl $(libs)
	ln -sf $(@F) $(@D)/libusched-posix.so

# Tests as programs that are compiled with it, and plain ones, to be run by preload.
posix_tests := $(patsubst %.c,$(B)/%,$(wildcard posix/test_*.c))

posix-tests: $(posix_tests) $(posix_tests:%=%.plain) $(posix)

$(posix_tests): %: %.o $(posix_parts) $(library) $(patsubst %,$(B)/tests/%.o,test)
	$(link) $(wrapped:%=-Wl,--wrap=%) -lcmocka -lm $(libs)

$(B)/posix/test_uposix_io: wrapped := poll syscall calloc

$(posix_tests:%=%.plain): %.plain: %.plain.o $(library) $(B)/tests/test.o
	$(link) -lcmocka -lm $(libs)

$(B)/posix/test_%.plain.o: posix/test_%.c $(B)/flags
	@mkdir -p $(@D)
	$(compile) $(c_flags) -c -o $@ $<

# As most programs in C are; those that can be unwound have other clean-up handlers.
$(posix_tests:%=%.o) $(posix_tests:%=%.plain.o): c_flags += -fno-exceptions
$(posix_tests:%=%.o): c_flags += -include posix/uposix.h

$(B)/posix/%.o $(B)/posix/%.lo: c_flags += -D_GNU_SOURCE -fexceptions
