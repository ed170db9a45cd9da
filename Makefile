# SPDX-License-Identifier: MIT
#
# make             the library, static and shared
# make checked     libusched-check as well, which checks itself and arguments of programs
# make programs    the benchmark programs
# make bench       runs the quick benchmark, draws it and prints the tables; installs
#                  missing packages that it needs. WORKLOAD=all runs all benchmarks,
#                  FULL=1 their long forms, DIR=my-results sets the directory;
#                  see scripts/report.sh
# make check       builds and runs the tests; installs missing packages that they need.
#                  ONLY='peers serve' runs these of tests/scripts/ alone
# make quick       builds and runs the test programs alone, in their shortest form
# make tests       builds the test programs
# make tls         builds libusched-tls, which needs OpenSSL 3: see tls/utls.h
# make posix       builds libusched-posix: POSIX threads for programs that were not written
#                  for usched, see posix/uposix.h; glibc on x86-64 and AArch64
# make posix-tests builds it, and its test programs
# make sim         builds libusched-sim, with a scheduler that repeats: sim/sim.h; where
#                  libusched-posix can be built
# make sim-tests   builds it, and programs that are run in it
# make sim-bugs    finds known bugs of real programs in the simulation, with sources of
#                  Debian: tests/bugs/bugs.sh; ONLY='xz-*' finds some
# make one         writes the library as one file of C and one header, usched-all.c and
#                  usched-all.h in $(B)/one, and says how programs are compiled with them
# make locks       builds $(B)/ulocks.so alone, to be preloaded: it finds threads that block
#                  with a lock of pthread.h held; see debug/ulocks.c
# make matrix      the tests under many compilers and options; ROWS='gcc *' runs some,
#                  see scripts/matrix.sh
# make examples    builds those of examples/ whose libraries are installed, and names the
#                  others
# make peers       builds the benchmark programs of the other systems installed here
# make pages       makes the manual pages, in $(B)/doc
# make install     installs the library, the headers and the manual pages
# make uninstall   removes them
# make site        makes a site of the documents, the manual and the benchmarks' results,
#                  $(B)/site/index.html; needs mandoc, and installs MkDocs in $(B)
# make dist        packs the last commit: usched-<version>.tar.gz and .sha256, in $(B), and
#                  there in packaging/ what Meson, vcpkg and Homebrew need of it
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
#   TLS=                      1: libusched-tls is built and installed with the library
#   POSIX=                    1: libusched-posix and usched-run likewise
#   SIM=                      1: libusched-sim, too; with POSIX=1
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
SIM       ?=
SWITCH    ?= $(if $(wildcard arch/$(machine).S),$(machine),setjmp)

prefix     ?= /usr/local
libdir     ?= $(prefix)/lib
includedir ?= $(prefix)/include
bindir     ?= $(prefix)/bin
datadir    ?= $(prefix)/share
mandir     ?= $(datadir)/man
DESTDIR    ?=

target  := $(shell $(CC) -dumpmachine 2>/dev/null)
# i386 has the names i486 to i686, arm armv7l and the like, and aarch64 arm64.
machine := $(patsubst armv%,arm,$(patsubst i%86,i386,$(firstword $(subst -, ,$(target)))))
machine := $(patsubst arm64,aarch64,$(machine))
ifneq ($(filter -m32,$(CC) $(CFLAGS)),)
machine := $(patsubst x86_64,i386,$(machine))
endif
version := $(shell sed -n 's/^.define USCHED_VERSION "\(.*\)"/\1/p' usched.h)
# Programs inline layouts, so until 1.0.0 a new minor version is a new ABI.
abi     := $(if $(filter 0.%,$(version)),$(basename $(version)),$(firstword $(subst ., ,$(version))))

# What a server compiles in, and what looks on from outside. Headers lie in the same folders
# where they are installed.
core    := $(basename $(wildcard u*.c src/*/*.c) rr.c ll.c)
modules := $(core) $(basename $(filter-out debug/ulocks.c,$(wildcard debug/*.c)))
headers := $(wildcard u*.h) uco.hh rr.h ll.h $(wildcard arch/u*.h) $(wildcard debug/u*.h)
manual  := $(wildcard doc/*.[17]) $(patsubst %.in,$(B)/%,$(wildcard doc/*.3.in))
pages   := $(manual)

switch  := $(basename $(wildcard arch/$(SWITCH).S arch/$(SWITCH).c))

library  := $(modules:%=$(B)/%.o) $(switch:%=$(B)/%.o)
checks   := $(modules:%=$(B)/checked/%.lo) $(switch:%=$(B)/%.lo)
static   := $(B)/libusched.a
shared   := $(B)/libusched.so.$(version)
# Installed; the last two check themselves, and the arguments of programs.
libraries := $(static) $(shared) $(B)/libusched-check.a $(B)/libusched-check.so.$(version)
names     := libusched libusched-check

ifeq ($(switch),)
$(error arch/ has no $(SWITCH).S and no $(SWITCH).c: SWITCH must be one of its files)
endif

# It moves frames to its own stacks, which are not copied.
ifneq ($(findstring -fsplit-stack,$(CC) $(CFLAGS)),)
$(error -fsplit-stack cannot be used with threads whose stacks are copied: leave it out)
endif

libs := -pthread
ifeq ($(SWITCH),setjmp)
libs += -lm
endif

compile = $(CC) -MMD -MP -MF $@.d $(CPPFLAGS) $(CFLAGS) -pthread
c_flags = -std=c11 -D_DEFAULT_SOURCE $(WARNINGS)
# In C++ a struct and a function of one name are a case of -Wshadow.
cc_flags = -std=c++14 $(filter-out -Wshadow -Wmissing-prototypes,$(WARNINGS))
link    = $(CC) $(CFLAGS) $(LDFLAGS) -o $@ $(filter %.o %.lo,$^)
quote   = '$(subst ','\'',$1)'

settings = { printf '%s\n' $(call quote,CC=$(CC)) $(call quote,CFLAGS=$(CFLAGS)) \
	$(call quote,CPPFLAGS=$(CPPFLAGS)) $(call quote,LDFLAGS=$(LDFLAGS)) \
	$(call quote,WARNINGS=$(WARNINGS)) $(call quote,SWITCH=$(SWITCH)); \
	$(CC) --version 2>&1 | sed 's/^/VERSION=/; q'; }
changed := $(shell $(settings) | cmp -s - $(B)/flags || echo force)

# Libraries apart, which are installed with TLS=1 and POSIX=1.
include tls/tls.mk posix/posix.mk sim/sim.mk

.DEFAULT_GOAL := all
all: $(static) $(shared) locks

checked: $(libraries)

# The library as one file of C and one header.
one       := $(B)/one/usched-all.c $(B)/one/usched-all.h $(B)/one/uco.hh
one_parts := $(modules:%=%.c) $(tls_parts:$(B)/%.o=%.c) \
	usched-all.h uco.hh

include bench/bench.mk examples/examples.mk tests/tests.mk scripts/install.mk

tests: $(tests)

locks: $(B)/ulocks.so

one: $(one)

$(filter-out %.c,$(one)): $(B)/one/usched-all.c
$(B)/one/usched-all.c: scripts/one.py $(one_parts) \
		$(wildcard *.h arch/* src/*/*.h debug/*.h debug/watch/*.h tls/*.h)
	@CC=$(call quote,$(CC)) scripts/install.sh one
	@scripts/one.py $(@D) $(version) $(one_parts)
	@echo 'cc -O2 server.c $@ -I$(@D) -pthread -o server'

$(B)/one/usched-all.o: $(one) $(B)/flags
	$(compile) $(c_flags) -DUSCHED_DEBUG -c -o $@ $<

$(B)/ulocks.so: $(B)/debug/ulocks.lo
	$(link) -shared -ldl $(libs)

$(static): $(library)
# Of the objects of the shared one: they need not be fast.
$(B)/libusched-check.a: $(checks)
$(sort $(filter %.a,$(libraries) $(tls) $(posix))):
	rm -f $@
	$(AR) rcs $@ $^

# Never unloaded: it has the destructors of thread-specific keys.
$(shared): $(library:.o=.lo)
$(B)/libusched-check.so.$(version): $(checks)
$(shared) $(B)/libusched-check.so.$(version):
	$(link) -shared -Wl,-soname,$(@F:.so.$(version)=.so.$(abi)) -Wl,-z,nodelete,-z,now $(libs)

$(B)/%.o: %.c $(B)/flags
	@mkdir -p $(@D)
	$(compile) $(c_flags) -c -o $@ $<

$(B)/%.o: %.cc $(B)/flags
	@mkdir -p $(@D)
	$(compile) $(cc_flags) -I. -c -o $@ $<

$(B)/%.lo: %.c $(B)/flags
	@mkdir -p $(@D)
	$(compile) $(c_flags) -fPIC -c -o $@ $<

$(B)/checked/%.lo: %.c $(B)/flags
	@mkdir -p $(@D)
	$(compile) $(c_flags) -DUSCHED_CHECK -DUSCHED_WHOLE -fPIC -c -o $@ $<

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

-include $(wildcard $(B)/*.d $(B)/*/*.d $(B)/*/*/*.d $(B)/*/*/*/*.d)

check: export ONLY := $(ONLY)
check:
	@CC=$(call quote,$(CC)) scripts/install.sh check
	+@MAKE=$(call quote,$(MAKE)) B=$(call quote,$(B)) scripts/check.sh

quick:
	@CC=$(call quote,$(CC)) scripts/install.sh quick
	+@MAKE=$(call quote,$(MAKE)) B=$(call quote,$(B)) QUICK=1 scripts/check.sh

matrix:
	@CC=$(call quote,$(CC)) ROWS=$(call quote,$(ROWS)) scripts/install.sh matrix
	+@MAKE=$(call quote,$(MAKE)) B=$(call quote,$(B)) ROWS=$(call quote,$(ROWS)) \
		scripts/matrix.sh

sim-bugs: posix sim
	@CC=$(call quote,$(CC)) B=$(call quote,$(B)) tests/bugs/bugs.sh

site: $(manual)
	@B=$(call quote,$(B)) scripts/install.sh site
	@$(B)/mkdocs/venv/bin/python3 doc/site/site.py $(B)/mkdocs $(B)/site $(manual)
	@echo $(B)/site/index.html

dist:
	@B=$(call quote,$(B)) VERSION=$(version) scripts/dist.sh

deb:
	@B=$(call quote,$(B)) VERSION=$(version) scripts/deb.sh

clean:
	rm -rf $(B)

help:
	@sed -n '3,/^$$/ { /^$$/q; s/^# \{0,1\}//; p; }' $(firstword $(MAKEFILE_LIST))

.PHONY: all one checked pages programs examples tests tls posix sim sim-tests sim-bugs posix-tests locks \
	check quick bench peers matrix install uninstall site dist deb clean help force
.DELETE_ON_ERROR:
