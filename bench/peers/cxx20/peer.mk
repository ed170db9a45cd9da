# SPDX-License-Identifier: MIT
#
# C++20 coroutines: skipped if the compiler or its library is too old for them.

cxx20_flags   := -O3 -std=c++20 -Wall -Wextra -pthread
cxx20_hash    := \#
cxx20_version := $(shell printf '%s\n' '$(cxx20_hash)include <coroutine>' \
	'$(cxx20_hash)include <latch>' 'std::coroutine_handle<> handle;' | \
	$(CXX) -std=c++20 -fsyntax-only -x c++ - 2>/dev/null && $(CXX) --version | sed 1q)

$(eval $(call offer,cxx20,cycle-fifo cycle-lifo cycle-pool counters pingpong create ring \
	memory,$(cxx20_version),g++))

define build_cxx20
@mkdir -p $(@D)
$(CXX) $(cxx20_flags) -o $@ $<
endef

$(P)/cxx20-cycle-fifo: cxx20_flags += -DFIFO
$(P)/cxx20-cycle-fifo $(P)/cxx20-cycle-lifo: cxx20/cycle.cpp cxx20/cycle.hpp c/peer.h
	$(build_cxx20)

$(P)/cxx20-cycle-pool: cxx20_flags += -DPOOL
$(P)/cxx20-cycle-pool: cxx20/pool.cpp cxx20/cycle.hpp c/peer.h
	$(build_cxx20)

$(P)/cxx20-%: cxx20/%.cpp cxx20/generator.hpp c/peer.h
	$(build_cxx20)
