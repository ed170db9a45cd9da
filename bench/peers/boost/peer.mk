# SPDX-License-Identifier: MIT
#
# Boost.Fiber, and Boost.Context and Boost.Coroutine2 below it. Linked statically. Other
# libraries are bound when the program starts: lazy binding takes kilobytes of the calling
# fiber's stack.

boost_flags   := -O3 -std=c++17 -Wall -Wextra -pthread -Wl,-z,now
boost_libs    := -Wl,-Bstatic -lboost_fiber -lboost_context -Wl,-Bdynamic
boost_hash    := \#
boost_version := $(shell printf '%s\n' '$(boost_hash)include <boost/fiber/all.hpp>' \
	'$(boost_hash)include <boost/coroutine2/coroutine.hpp>' \
	'$(boost_hash)include <boost/version.hpp>' 'version BOOST_LIB_VERSION' | \
	$(CXX) -std=c++17 -E -P -x c++ - 2>/dev/null | sed -n 's/_/./g; s/^version "\(.*\)"/Boost \1/p')
boost_version += $(if $(boost_version),($(shell $(CXX) --version | sed 1q)))

$(eval $(call offer,boost,cycle counters counters-context create memory memory-context ring walk pingpong-same \
	pingpong-differ pingpong-coroutine2 create-coroutine2,$(boost_version),g++ libboost-fiber-dev libboost-context-dev))

define boost
@mkdir -p $(@D)
$(CXX) $(boost_flags) -o $@ $< $(boost_libs)
endef

$(P)/boost-pingpong-same:   boost_flags += -DDIFFER=false
$(P)/boost-pingpong-differ: boost_flags += -DDIFFER=true
$(P)/boost-pingpong-same $(P)/boost-pingpong-differ: boost/pingpong.cc boost/peer.h
	$(boost)

$(P)/boost-pingpong-coroutine2 $(P)/boost-create-coroutine2: \
	$(P)/boost-%-coroutine2: boost/%2.cc boost/peer.h
	$(boost)

$(P)/boost-%: boost/%.cc boost/peer.h
	$(boost)
