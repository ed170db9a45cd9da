# SPDX-License-Identifier: MIT
#
# make             the library, static and shared, with and without checks
# make programs    the benchmark programs
# make bench       runs the quick benchmark, draws it and prints the tables; installs
#                  missing packages that it needs. WORKLOAD=all runs all benchmarks,
#                  FULL=1 their long forms, DIR=results sets the directory;
#                  see scripts/report.sh
# make check       builds and runs the tests; installs missing packages that they need.
#                  ONLY='peers serve' runs these scripts of tests/ alone
# make quick       builds and runs the test programs alone, in their shortest form
# make tests       builds the test programs
# make tls         builds libusched-tls, which needs OpenSSL 3: see tls/utls.h
# make posix       builds libusched-posix: POSIX threads for programs that were not written
#                  for usched, see posix/uposix.h; glibc on x86-64 and AArch64
# make posix-tests builds it, and its test programs
# make locks       builds $(B)/ulocks.so alone, to be preloaded: it finds threads that block
#                  with a lock of pthread.h held; see debug/ulocks.c
# make matrix      the tests under many compilers and options; ROWS='gcc *' runs some,
#                  see scripts/matrix.sh
# make examples    builds those of examples/ whose libraries are installed, and names the
#                  others
# make peers       builds the benchmark programs of the other systems installed here
# make install     installs the library, the headers and the manual pages
# make uninstall   removes them
# make dist        packs the last commit: usched-<version>.tar.gz and .sha256, in $(B)
# make deb         builds Debian packages of it, in $(B)/deb
# make clean       removes $(B)
# make help        prints this text
#
# Variables, with their defaults:
#
#   B=build                   the build directory
#   CC=cc, AR=ar              the compiler; with -flto, AR=gcc-ar or AR=llvm-ar
#   CFLAGS='-O2 -g', CPPFLAGS=, LDFLAGS=
#   WARNINGS='-Wall ...'      options for warnings
#   SWITCH=<machine>          the switch: a file of arch/: x86_64, aarch64, riscv64, i386,
#                             arm, or setjmp, which is the default on other machines
#   EVENTS=<poller>           what finds descriptors that are ready: epoll, or poll, which
#                             is the default on systems other than Linux
#   TLS=                      1: libusched-tls is built and installed with the library
#   POSIX=                    1: libusched-posix and usched-run likewise
#   prefix=/usr/local         the directory to install in, and its parts
#   libdir=$(prefix)/lib, includedir=$(prefix)/include, bindir=$(prefix)/bin,
#   datadir=$(prefix)/share, mandir=$(datadir)/man
#   DESTDIR=                  a directory to put before these, for packages
#
# A variable can be set on the command line, in config.mak, or in the environment. The
# first of these that sets it counts. All objects depend on $(B)/flags, so a change of
# compiler or options builds them again.

-include config.mak

B         ?= build
CFLAGS    ?= -O2 -g
CPPFLAGS  ?=
LDFLAGS   ?=
WARNINGS  ?= -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wmissing-prototypes
TLS       ?=
POSIX     ?=
EVENTS    ?= $(if $(findstring linux,$(target)),epoll,poll)
SWITCH    ?= $(if $(wildcard arch/$(machine).S),$(machine),setjmp)

prefix     ?= /usr/local
libdir     ?= $(prefix)/lib
includedir ?= $(prefix)/include
bindir     ?= $(prefix)/bin
datadir    ?= $(prefix)/share
mandir     ?= $(datadir)/man
DESTDIR    ?=

target  := $(shell $(CC) -dumpmachine 2>/dev/null)
# i386 has the names i486 to i686, and arm armv7l and the like.
machine := $(patsubst armv%,arm,$(patsubst i%86,i386,$(firstword $(subst -, ,$(target)))))
ifneq ($(filter -m32,$(CC) $(CFLAGS)),)
machine := $(patsubst x86_64,i386,$(machine))
endif
version := $(shell sed -n 's/^.define USCHED_VERSION "\(.*\)"/\1/p' usched.h)
# Programs inline layouts, so until 1.0.0 a new minor version is a new ABI.
abi     := $(if $(filter 0.%,$(version)),$(basename $(version)),$(firstword $(subst ., ,$(version))))

# What a server compiles in, and what looks on from outside. Headers lie in the same folders
# where they are installed.
core    := $(basename $(wildcard u*.c) rr.c ll.c)
modules := $(core) $(basename $(filter-out debug/ulocks.c,$(wildcard debug/*.c)))
headers := $(wildcard u*.h) uco.hh rr.h ll.h arch/uhere.h arch/uswitch.h $(wildcard debug/u*.h)
pages   := $(wildcard doc/*.[17]) $(patsubst %.in,$(B)/%,$(wildcard doc/*.3.in))
viewer  := $(wildcard tools/usched_view/*.py)

switch  := $(basename $(wildcard arch/$(SWITCH).S arch/$(SWITCH).c))

library  := $(modules:%=$(B)/%.o) $(switch:%=$(B)/%.o)
checked  := $(modules:%=$(B)/checked/%.o) $(switch:%=$(B)/%.o)
static   := $(B)/libusched.a
shared   := $(B)/libusched.so.$(version)
# Installed; the last two check themselves, and the arguments of programs.
libraries := $(static) $(shared) $(B)/libusched-check.a $(B)/libusched-check.so.$(version)
names     := libusched libusched-check
programs := $(B)/rmain $(B)/rmain.1t $(B)/rmain.readme $(B)/lmain $(B)/lmain.setjmp
workloads := ring counters pingpong create alternate memory
programs += $(foreach over,rr ll direct,$(workloads:%=$(B)/bench/%-$(over)))
coroutines := pingpong create walk clone
single   := coroutine uneven requests channel simulate
programs += $(B)/bench/requests-steal $(B)/bench/requests-slice
programs += $(coroutines:%=$(B)/bench/%-co) $(B)/bench/measure
programs += $(single:%=$(B)/bench/%) $(patsubst %.c,$(B)/%,$(wildcard bench/*-load.c))

# Examples that need a library: NAME:HEADER:OPTIONS, commas for spaces. The others need C.
needy := 05-httpd:http_parser.h:-lhttp_parser 06-kv:hiredis/hiredis.h:-lhiredis \
	08-cpp:exception:-lstdc++ 10-https:openssl/core.h:-lssl,-lcrypto \
	11-crawler:curl/curl.h:-lcurl 13-generator:exception:-lstdc++ 15-libuv:uv.h:-luv \
	16-libevent:event2/event.h:-levent_core
part      = $(subst $(comma), ,$(word $2,$(subst :, ,$1)))
comma    := ,
hash     := \#
# links NEEDY: nothing, or `yes' if a program with its header and its libraries links.
links     = $(shell t=$$(mktemp) && \
	printf '%s\n' '$(hash)include <stdio.h>' \
	'$(hash)include <$(call part,$1,2)>' 'int main(void) { return 0; }' | \
	$(CC) $(CPPFLAGS) $(CFLAGS) -x $(if $(findstring stdc++,$1),c++,c) - -x none $(LDFLAGS) -o $$t \
		$(call part,$1,3) >/dev/null 2>&1 && echo yes; rm -f $$t)
examples := $(patsubst examples/%,$(B)/examples/%,$(basename $(wildcard examples/*.c examples/*.cc)))
# What cannot be built is left out of `make examples', which says so.
ifneq ($(filter examples,$(MAKECMDGOALS)),)
without  := $(foreach need,$(needy),$(if $(call links,$(need)),,$(need)))
examples := $(filter-out $(foreach need,$(without),$(B)/examples/$(call part,$(need),1)),$(examples))
endif

ifeq ($(switch),)
$(error arch/ has no $(SWITCH).S and no $(SWITCH).c: SWITCH must be one of its files)
endif

ifeq ($(wildcard uevents_$(EVENTS).c),)
$(error there is no uevents_$(EVENTS).c: EVENTS must be epoll or poll)
endif

# It moves frames to its own stacks, which are not copied.
ifneq ($(findstring -fsplit-stack,$(CC) $(CFLAGS)),)
$(error -fsplit-stack cannot be used with threads whose stacks are copied: leave it out)
endif

poller := $(if $(filter poll,$(EVENTS)),-DUSCHED_POLL)

libs := -pthread
ifeq ($(SWITCH),setjmp)
libs += -lm
endif

compile = $(CC) -MMD -MP -MF $@.d $(CPPFLAGS) $(CFLAGS) -pthread
c_flags = -std=c11 -D_DEFAULT_SOURCE $(WARNINGS) $(poller)
# In C++ a struct and a function of one name are a case of -Wshadow.
cc_flags = -std=c++14 $(filter-out -Wshadow -Wmissing-prototypes,$(WARNINGS))
link    = $(CC) $(CFLAGS) $(LDFLAGS) -o $@ $(filter %.o %.lo,$^)
quote   = '$(subst ','\'',$1)'

settings = { printf '%s\n' $(call quote,CC=$(CC)) $(call quote,CFLAGS=$(CFLAGS)) \
	$(call quote,CPPFLAGS=$(CPPFLAGS)) $(call quote,LDFLAGS=$(LDFLAGS)) \
	$(call quote,WARNINGS=$(WARNINGS)) $(call quote,SWITCH=$(SWITCH)) \
	$(call quote,EVENTS=$(EVENTS)); \
	$(CC) --version 2>&1 | sed 's/^/VERSION=/; q'; }
changed := $(shell $(settings) | cmp -s - $(B)/flags || echo force)

# Libraries apart, which are installed with TLS=1 and POSIX=1.
include tls/tls.mk posix/posix.mk

.DEFAULT_GOAL := all
all: $(libraries) locks

include tests/tests.mk

programs: $(programs)

examples: $(examples)
	@$(foreach need,$(without),echo 'make examples: without $(call part,$(need),1): no program with <$(call part,$(need),2)> and $(call part,$(need),3) builds';) :

tests: $(tests)

locks: $(B)/ulocks.so

$(B)/ulocks.so: $(B)/debug/ulocks.lo
	$(link) -shared $(libs)

$(static): $(library)
$(B)/libusched-check.a: $(checked)
$(sort $(filter %.a,$(libraries) $(tls) $(posix))):
	rm -f $@
	$(AR) rcs $@ $^

# Never unloaded: it has the destructors of thread-specific keys.
$(shared): $(library:.o=.lo)
$(B)/libusched-check.so.$(version): $(checked:.o=.lo)
$(shared) $(B)/libusched-check.so.$(version):
	$(link) -shared -Wl,-soname,$(@F:.so.$(version)=.so.$(abi)) -Wl,-z,nodelete,-z,now $(libs)

$(B)/rmain: $(B)/rmain.o $(library)
	$(link) $(libs)

$(B)/lmain: $(B)/lmain.o $(library)
	$(link) $(libs)

# The same over the portable switch, whatever SWITCH is.
$(B)/lmain.setjmp: $(patsubst %,$(B)/%.o,lmain $(modules) arch/setjmp)
	$(link) $(libs) -lm

$(B)/rmain.1t: $(patsubst %,$(B)/1t/%.o,rmain $(filter-out ll,$(core))) $(switch:%=$(B)/%.o)
	$(link) $(libs)

# With the library compiled in by README's command line, not by CFLAGS.
readme = $(shell sed -n 's/^cc \(.* arch.x86_64\.S .*\) -o server$$/\1/p' README.md)
$(B)/rmain.readme: $(B)/rmain.o $(library) README.md
	$(CC) $(patsubst server.c,rmain.c,$(patsubst arch/x86_64.S,$(wildcard arch/$(SWITCH).[cS]),$(readme))) \
		$(filter -m%,$(CFLAGS)) $(poller) $(LDFLAGS) -o $@ $(libs)

# Each workload over rr, ll and the dispatcher alone; see bench/thread.h.
define over
$(B)/bench/%-$(1): bench/%.c $(library) $(B)/flags
	@mkdir -p $$(@D)
	$$(compile) $$(c_flags) -D$(2) $$(LDFLAGS) -o $$@ $$< $$(filter %.o,$$^) $$(libs)
endef
$(eval $(call over,rr,BENCH_RR))
$(eval $(call over,ll,BENCH_LL))
$(eval $(call over,direct,BENCH_DIRECT))

$(B)/examples/%.o: c_flags += -I.

$(foreach need,$(needy),$(eval $(B)/examples/$(call part,$(need),1): libs += $(call part,$(need),3)))

$(B)/examples/%: $(B)/examples/%.o $(static)
	$(link) $(static) $(libs)

$(addprefix $(B)/bench/,uneven requests-load simulate): libs += -lm

# The server with threads that move, and with slices of time besides.
$(B)/bench/requests-steal: c_flags += -DSTEAL=1
$(B)/bench/requests-slice: c_flags += -DSTEAL=1 -DSLICE=250
$(B)/bench/requests-steal $(B)/bench/requests-slice: bench/requests.c $(static) $(B)/flags
	@mkdir -p $(@D)
	$(compile) $(c_flags) $(LDFLAGS) -o $@ $< $(static) $(libs)

# One workload of it each, with the arguments of the workload.
$(coroutines:%=$(B)/bench/%-co): $(B)/bench/%-co: bench/coroutine.c $(static) $(B)/flags
	@mkdir -p $(@D)
	$(compile) $(c_flags) -DWORKLOAD=$* $(LDFLAGS) -o $@ $< $(static) $(libs)

$(B)/bench/measure: $(B)/bench/measure.o $(B)/bench/measure_many.o $(static)
	$(link) $(static) $(libs)

$(filter $(single:%=$(B)/bench/%) %-load,$(programs)): $(B)/bench/%: bench/%.c $(static) $(B)/flags
	@mkdir -p $(@D)
	$(compile) $(c_flags) $(LDFLAGS) -o $@ $< $(static) $(libs)

$(B)/%.o: %.c $(B)/flags
	@mkdir -p $(@D)
	$(compile) $(c_flags) -c -o $@ $<

$(B)/%.o: %.cc $(B)/flags
	@mkdir -p $(@D)
	$(compile) $(cc_flags) -I. -c -o $@ $<

$(B)/%.lo: %.c $(B)/flags
	@mkdir -p $(@D)
	$(compile) $(c_flags) -fPIC -c -o $@ $<

$(B)/checked/%.o: %.c $(B)/flags
	@mkdir -p $(@D)
	$(compile) $(c_flags) -DUSCHED_CHECK -DUSCHED_WHOLE -c -o $@ $<

$(B)/checked/%.lo: %.c $(B)/flags
	@mkdir -p $(@D)
	$(compile) $(c_flags) -DUSCHED_CHECK -fPIC -c -o $@ $<

$(B)/1t/%.o: %.c $(B)/flags
	@mkdir -p $(@D)
	$(compile) $(c_flags) -DSINGLE_THREAD -c -o $@ $<

$(B)/%.o: %.S $(B)/flags
	@mkdir -p $(@D)
	$(compile) -c -o $@ $<

$(B)/%.lo: %.S $(B)/flags
	@mkdir -p $(@D)
	$(compile) -c -o $@ $<

$(B)/flags: $(changed)
	@mkdir -p $(@D)
	@$(settings) >$@

-include $(wildcard $(B)/*.d $(B)/*/*.d $(B)/*/*/*.d)

check: export ONLY := $(ONLY)
check:
	@CC=$(call quote,$(CC)) scripts/install.sh check
	+@MAKE=$(call quote,$(MAKE)) B=$(call quote,$(B)) scripts/check.sh

quick:
	@CC=$(call quote,$(CC)) scripts/install.sh quick
	+@MAKE=$(call quote,$(MAKE)) B=$(call quote,$(B)) QUICK=1 scripts/check.sh

bench: export WORKLOAD := $(WORKLOAD)
bench: export FULL := $(FULL)
bench: export DIR := $(DIR)
bench:
	@CC=$(call quote,$(CC)) scripts/install.sh bench
	+@$(MAKE) -s --no-print-directory programs
	@B=$(call quote,$(B)) scripts/report.sh

peers:
	+@$(MAKE) --no-print-directory -C bench/peers B=$(call quote,$(abspath $(B)))

matrix:
	@CC=$(call quote,$(CC)) ROWS=$(call quote,$(ROWS)) scripts/install.sh matrix
	+@MAKE=$(call quote,$(MAKE)) B=$(call quote,$(B)) ROWS=$(call quote,$(ROWS)) \
		scripts/matrix.sh

# Section 3 of the manual, from the comments in the headers.
man_page = @mkdir -p $(@D) && awk -f scripts/man.awk $< $(filter %.in,$^) >$@

$(B)/doc/%.3: %.h doc/%.3.in scripts/man.awk
	$(man_page)

$(B)/doc/%.3: debug/%.h doc/%.3.in scripts/man.awk
	$(man_page)

$(B)/doc/%.3: tls/%.h doc/%.3.in scripts/man.awk
	$(man_page)

# The other names in a manual page: each gets a link to the page.
aliases = awk '/^\.Sh/ { on = $$2 == "NAME" || $$2 == "SYNOPSIS" } \
	on && /^\.(Nm|Fn|Fo) [a-z]/ && !seen[$$2]++ { print $$2 }'
# for_aliases COMMAND: runs it with $$page, $$section and $$alias set.
for_aliases = for page in $(pages); do \
		names=$$($(aliases) $$page); \
		section=$${page\#\#*.} page=$${page\#\#*/}; \
		for alias in $$names; do \
			[ $$alias.$$section = $$page ] || $1 || exit 1; done; done

# Where gdb looks for what goes with a library, if $(datadir) is its own.
auto_load = $(datadir)/gdb/auto-load$(libdir)

folders = $(sort $(filter-out .,$(patsubst %/,%,$(dir $(headers)))))

install: $(libraries) locks $(pages)
	mkdir -p $(DESTDIR)$(libdir)/pkgconfig $(DESTDIR)$(libdir)/usched \
		$(addprefix $(DESTDIR)$(includedir)/usched/,. $(folders)) \
		$(DESTDIR)$(mandir)/man1 $(DESTDIR)$(mandir)/man3 $(DESTDIR)$(mandir)/man7 \
		$(DESTDIR)$(bindir) $(DESTDIR)$(datadir)/usched/usched_view \
		$(DESTDIR)$(auto_load)
	install -m 644 $(libraries) $(DESTDIR)$(libdir)
	install -m 644 $(B)/ulocks.so $(DESTDIR)$(libdir)/usched
	for name in $(names); do \
		ln -sf $$name.so.$(version) $(DESTDIR)$(libdir)/$$name.so.$(abi) && \
		ln -sf $$name.so.$(abi) $(DESTDIR)$(libdir)/$$name.so && \
		sed -e 's|@prefix@|$(prefix)|' -e 's|@libdir@|$(libdir)|' \
			-e 's|@includedir@|$(includedir)|' -e 's|@version@|$(version)|' \
			-e 's|@libs@|$(libs)|' -e "s|@name@|$${name#lib}|" \
			$$(case $$name in *-tls) echo tls/;; *-posix) echo posix/;; esac)usched.pc.in | \
			install -m 644 /dev/stdin $(DESTDIR)$(libdir)/pkgconfig/$${name#lib}.pc || \
			exit 1; done
	for header in $(headers); do \
		install -m 644 $$header $(DESTDIR)$(includedir)/usched/$$header || exit 1; done
	sed 's|^DATA = .*|DATA = "$(datadir)/usched"|' tools/uthreads | \
		install -m 755 /dev/stdin $(DESTDIR)$(bindir)/uthreads
	$(install_run)
	install -m 644 $(viewer) $(DESTDIR)$(datadir)/usched/usched_view
	install -m 644 tools/usched-gdb.py $(DESTDIR)$(datadir)/usched
	for name in $(filter-out %-tls %-posix,$(names)); do \
		ln -sf $(datadir)/usched/usched-gdb.py \
			$(DESTDIR)$(auto_load)/$$name.so.$(version)-gdb.py || exit 1; done
	for page in $(pages); do \
		install -m 644 $$page $(DESTDIR)$(mandir)/man$${page##*.} || exit 1; done
	$(call for_aliases,ln -sf $$page $(DESTDIR)$(mandir)/man$$section/$$alias.$$section)

uninstall: $(pages)
	rm -f $(addprefix $(DESTDIR)$(libdir)/,$(notdir $(libraries)) \
		$(names:%=%.so.$(abi)) $(names:%=%.so) \
		$(names:lib%=pkgconfig/%.pc) usched/ulocks.so)
	rm -f $(addprefix $(DESTDIR)$(includedir)/usched/,$(headers))
	$(call for_aliases,rm -f $(DESTDIR)$(mandir)/man$$section/$$alias.$$section)
	rm -f $(foreach page,$(notdir $(pages)),$(DESTDIR)$(mandir)/man$(subst .,,$(suffix $(page)))/$(page))
	rm -f $(DESTDIR)$(bindir)/uthreads $(run:%=$(DESTDIR)$(bindir)/%) $(DESTDIR)$(datadir)/usched/usched-gdb.py \
		$(viewer:tools/%=$(DESTDIR)$(datadir)/usched/%) \
		$(names:%=$(DESTDIR)$(auto_load)/%.so.$(version)-gdb.py)
	for directory in usched/usched_view usched; do \
		if [ -d $(DESTDIR)$(datadir)/$$directory ]; then \
			rmdir $(DESTDIR)$(datadir)/$$directory || exit 1; fi; done
	for folder in $(folders); do \
		if [ -d $(DESTDIR)$(includedir)/usched/$$folder ]; then \
			rmdir $(DESTDIR)$(includedir)/usched/$$folder || exit 1; fi; done
	for directory in $(libdir) $(includedir); do \
		if [ -d $(DESTDIR)$$directory/usched ]; then \
			rmdir $(DESTDIR)$$directory/usched || exit 1; fi; done

dist:
	@B=$(call quote,$(B)) VERSION=$(version) scripts/dist.sh

deb: dist
	@B=$(call quote,$(B)) VERSION=$(version) scripts/deb.sh

clean:
	rm -rf $(B)

help:
	@sed -n '3,/^$$/ { /^$$/q; s/^# \{0,1\}//; p; }' $(firstword $(MAKEFILE_LIST))

.PHONY: all programs examples tests tls posix posix-tests locks check quick bench peers matrix install uninstall dist deb clean \
	help force
.DELETE_ON_ERROR:
