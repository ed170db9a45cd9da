# SPDX-License-Identifier: MIT
#
# std::generator of C++23, which libstdc++ has from version 14 on, and libc++ 22 has not.
# If the compiler has no such library, CXX23 does it with the headers of a later Debian's:
# the generator is in headers only. headers.sh fetches them.

CXX23 ?= $(or $(shell for c in clang++-22 clang++-19; do command -v $$c && break; done),clang++)

cxx23_flags  := -O3 -std=c++23 -Wall -Wextra
cxx23_hash   := \#
cxx23_test   := printf '%s\n' '$(cxx23_hash)include <generator>' 'std::generator<int> *g;' |
cxx23_native := $(shell $(cxx23_test) $(CXX) -std=c++23 -fsyntax-only -x c++ - 2>/dev/null && echo yes)
cxx23_major  := $(shell $(CXX23) -dumpversion 2>/dev/null | sed 's/[.].*//')

ifeq ($(cxx23_native),yes)
cxx23_compiler := $(CXX)
cxx23_version  := $(shell $(CXX) --version | sed 1q)
else
cxx23_compiler := $(CXX23)
# clang; from 17 on it reads these headers. gcc reads those of its version only.
cxx23_version  := $(shell command -v apt-get >/dev/null && $(CXX23) --version 2>/dev/null | \
	awk '/clang version/ && $(or $(cxx23_major),0) >= 17 { print }')
cxx23_headers  := $(P)/cxx23-headers/built
cxx23_flags    += -nostdinc++ -isystem '$(P)/cxx23-headers/c++/14' \
	-isystem '$(P)/cxx23-headers/machine/c++/14'
cxx23_version  += $(if $(cxx23_version),with the headers of libstdc++ 14)
endif

$(eval $(call offer,cxx23,pingpong create walk,$(cxx23_version),g++ 14 or clang 17 or newer))

$(P)/cxx23-headers/built: cxx23/headers.sh | $(call say,cxx23,pingpong)
	cxx23/headers.sh '$(@D)'
	touch $@

$(P)/cxx23-%: cxx23/%.cpp c/peer.h $(cxx23_headers)
	@mkdir -p $(@D)
	$(cxx23_compiler) $(cxx23_flags) -o $@ $<
