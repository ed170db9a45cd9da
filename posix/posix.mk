# SPDX-License-Identifier: MIT
#
# libusched-posix, by which programs are run that were not written for usched. Its own calls
# of what it stands for are libc's. The Makefile includes this.

posix       := $(B)/libusched-posix.a $(B)/libusched-posix.so.$(version)
posix_parts := $(patsubst %.c,$(B)/%.o,$(filter-out posix/uposix_load.c $(wildcard posix/test_*.c),$(wildcard posix/*.c)))
posix_plain = $(shell sed -n 's/^[NL]A[MT]ER*(\(.*\))$$/\1/p' posix/uposix_names.h)
posix_names = $(posix_plain) $(shell sed -n '/^KEPT/s/[()A-Z]/ /gp' posix/uposix_names.h)
posix_looks = $(shell sed -n '/^LOOKS\|^SEES/s/[()A-Z]/ /gp' posix/uposix_names.h)
posix_aliases = $(shell sed -n '/^[USA][NTL][DRI]/{s/UNDER./__/g;s/STREAM./_IO_/g;s/ALIAS.\([^,]*\), [a-z_]*/\1/g;s/[^a-zA-Z0-9_ ]//gp;}' \
	posix/uposix_names.h)
posix_refused := io_uring_queue_init io_uring_queue_init_params io_uring_queue_init_mem io_setup \
	io_queue_init
posix_define := $(B)/posix/uposix_define.h
posix_flags  := -D_GNU_SOURCE -fexceptions -I$(B)/posix
ifeq ($(POSIX),1)
headers   += posix/uposix.h
made      := $(posix_define)
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

# The names of the list in C: declarations of what uposix.h does not declare itself, and of
# C11's if <threads.h> came before, which otherwise declares them by these names; and macros.
# There is a struct flock, and an attribute printf: only their calls are meant.
posix_own = $(shell sed -n 's/^[a-z].*uposix_\([a-z0-9_]*\).*/\1/p' posix/uposix.h)
posix_c11 = $(filter thrd_% mtx_% cnd_% tss_% call_once,$(posix_plain))
declare   = printf 'extern __typeof__(%s) uposix_%s;\n' $(foreach name,$1,$(name) $(name))

$(posix_define): posix/uposix_names.h posix/uposix.h posix/posix.mk
	@mkdir -p $(@D)
	{ echo '/* SPDX-License-Identifier: MIT */'; echo '/* For uposix.h, of uposix_names.h. */'; \
		echo '#pragma GCC system_header'; \
		$(call declare,$(filter-out $(posix_c11) $(posix_own),$(posix_plain))); \
		echo '#ifdef _THREADS_H'; $(call declare,$(posix_c11)); echo '#endif'; \
		echo '#ifndef UPOSIX_PLAIN'; \
		printf '#define %s uposix_%s\n' $(foreach name,$(posix_plain),$(name) $(name)) | \
			sed 's/ \(flock\|printf\) .*/ \1(...) uposix_\1(__VA_ARGS__)/'; \
		echo '#endif'; } >$@

$(B)/libusched-posix.a: $(posix_parts)

# What it exports is in the file of its machine; see there.
$(B)/libusched-posix.so.$(version): $(posix_parts:.o=.lo) $(B)/posix/uposix_load.lo \
		$(B)/posix/$(machine).lo $(library:.o=.lo)
	{ echo '{ global:'; printf '%s;\n' $(posix_names) $(posix_looks) $(posix_aliases) $(posix_refused) __gmon_start__; echo 'local: *; };'; } >$@.map
	$(link) -shared -Wl,-soname,$(@F:.so.$(version)=.so.$(abi)) -Wl,-z,nodelete,-z,now \
		-Wl,--version-script=$@.map $(posix_names:%=-Wl,--wrap=%) $(posix_looks:%=-Wl,--wrap=%) \
		-ldl $(libs)
	ln -sf $(@F) $(@D)/libusched-posix.so

# Tests as programs that are compiled with it, and plain ones, to be run by preload.
posix_tests := $(patsubst %.c,$(B)/%,$(wildcard posix/test_*.c))

posix-tests: $(posix_tests) $(posix_tests:%=%.plain) $(posix)

$(posix_tests): %: %.o $(posix_parts) $(library) $(B)/tests/help/test.o
	$(link) $(wrapped:%=-Wl,--wrap=%) -lcmocka -lm $(libs)

$(B)/posix/test_uposix_io: wrapped := poll syscall calloc

$(posix_tests:%=%.plain): %.plain: %.plain.o $(library) $(B)/tests/help/test.o
	$(link) -lcmocka -lm -ldl -lrt $(libs)

$(B)/posix/test_%.plain.o: posix/test_%.c $(B)/flags
	@mkdir -p $(@D)
	$(compile) $(c_flags) -c -o $@ $<

# As most programs in C are; those that can be unwound have other clean-up handlers.
$(posix_tests:%=%.o) $(posix_tests:%=%.plain.o): c_flags += -fno-exceptions
$(posix_tests:%=%.o): c_flags += -include posix/uposix.h

$(B)/posix/%.o $(B)/posix/%.lo: c_flags += $(posix_flags)
$(posix_parts) $(posix_parts:.o=.lo) $(B)/posix/uposix_load.lo $(posix_tests:%=%.o): $(posix_define)
