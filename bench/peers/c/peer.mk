# SPDX-License-Identifier: MIT
#
# C and C++. What is bound lazily takes kilobytes of the calling thread's stack, so all is
# bound when a program starts.

CARGO ?= cargo
PIP   ?= python3 -m pip
CXX23 ?= $(or $(shell for c in clang++-22 clang++-19; do command -v $$c && break; done),clang++)

c_hash    := \#
c_headers := $(wildcard c/*.h c/*.hpp)
c_flags   := -O3 -Wall -Wextra -pthread -Wl,-z,now
cxx_flags := $(c_flags) -std=c++20

# asked NAME,HEADERS,MACROS,PREPROCESSOR: the version that the macros have, if it is there.
asked = $(shell printf '%s\n' $(foreach h,$2,'$(c_hash)include <$h>') 'version $3' | \
	$4 -E -P - 2>/dev/null | tr -d '"' | sed -n 's/[ _]\([0-9]\)/.\1/g; s/^ *version\./$1 /p')

c_version     := $(shell $(CC) --version 2>/dev/null | sed 1q)
cxx_version   := $(shell $(CXX) --version 2>/dev/null | sed 1q)
libc_version  := $(if $(c_version),$(shell getconf GNU_LIBC_VERSION 2>/dev/null))
cxx20_version := $(shell printf '%s\n' '$(c_hash)include <coroutine>' | \
	$(CXX) -std=c++20 -fsyntax-only -x c++ - 2>/dev/null && echo '$(cxx_version)')
boost_version := $(call asked,Boost,boost/fiber/all.hpp boost/coroutine2/coroutine.hpp \
	boost/version.hpp,BOOST_LIB_VERSION,$(CXX) -std=c++20 -x c++)
http_version  := $(call asked,http_parser,http_parser.h,HTTP_PARSER_VERSION_MAJOR \
	HTTP_PARSER_VERSION_MINOR HTTP_PARSER_VERSION_PATCH,$(CC) -x c)
st_version    := $(call asked,State Threads,st.h,ST_VERSION,$(CC) -x c)

# minicoro: one header. No distribution has a package of it; a crate for Rust has the
# header, and cargo fetches that.
minicoro_crate   := $(shell sed -n 's/^\(minicoro-sys\) = .*"=\([0-9.]*\)".*/\1 \2/p' rust/Cargo.toml)
new_cargo        := $(shell $(CARGO) --version 2>/dev/null | \
	awk '{ split($$2, v, "."); if (v[1] > 1 || v[2] >= 85) print }')
minicoro_version := $(if $(and $(cxx_version),$(new_cargo)),$(minicoro_crate))

# Photon. No distribution has a package of it; one for Python has all of its source, and pip
# fetches that. pip asks the package's build system what it is, which needs cargo. What the
# threads need is compiled with the options of Photon's own release build.
photon_package := lustr==0.1.0 \
	--hash=sha256:92c94451008afa5b465b01acfaf79d853fa5cdf5c5701793304be7fe30d58da6
photon_sources := $(addsuffix .cpp,thread/thread thread/stack-allocator thread/arch \
	thread/thread-key common/alog common/iovector io/epoll io/reset_handle)
photon_flags   := -std=c++17 -O2 -DNDEBUG -fno-omit-frame-pointer
photon_version := $(if $(and $(filter x86_64 aarch64,$(shell uname -m)),$(cxx_version),$(new_cargo)),\
	$(shell $(PIP) --version >/dev/null 2>&1 && echo 'Photon as in lustr 0.1.0, $(cxx_version)'))

# std::generator of C++23, which libstdc++ has from version 14 on, and libc++ 22 has not.
# If the compiler has no such library, CXX23 does it with the headers of a later Debian's:
# the generator is in headers only. headers.sh fetches them.
cxx23_test   := printf '%s\n' '$(c_hash)include <generator>' 'std::generator<int> *g;' |
cxx23_flags  := -std=c++23
ifeq ($(shell $(cxx23_test) $(CXX) -std=c++23 -fsyntax-only -x c++ - 2>/dev/null && echo yes),yes)
cxx23_compiler := $(CXX)
cxx23_version  := $(cxx_version)
else
# clang; from 17 on it reads these headers. gcc reads those of its version only.
cxx23_compiler := $(CXX23)
cxx23_version  := $(shell command -v apt-get >/dev/null && $(CXX23) --version 2>/dev/null | \
	awk -F 'version ' '/clang version/ && $$2 + 0 >= 17 { print $$0, "with the headers of libstdc++ 14" }')
cxx23_headers  := $(P)/cxx23-headers
cxx23_flags    += -nostdinc++ -isystem '$(cxx23_headers)/c++/14' \
	-isystem '$(cxx23_headers)/machine/c++/14'
endif

boost_packages := g++ libboost-fiber-dev libboost-context-dev
$(eval $(call offer,calls,counters walk,$(cxx_version),g++))
$(eval $(call offer,macros,counters pingpong create memory,$(cxx_version),g++))
$(eval $(call offer,macros,ring ring-worst,$(c_version),gcc))
$(eval $(call offer,ucontext,pingpong create memory,$(if $(cxx_version),$(libc_version)),g++))
$(eval $(call offer,posix,cycle ring ring-semaphores alternate memory,$(libc_version),gcc))
$(eval $(call offer,cxx20,cycle-fifo cycle-lifo ring counters pingpong create memory,$(cxx20_version),g++))
$(eval $(call offer,cxx23,pingpong create walk,$(cxx23_version),g++ 14 or clang 17 or newer))
$(eval $(call offer,minicoro,pingpong create walk,$(minicoro_version),g++ and cargo-web (1.85 or newer)))
$(eval $(call offer,photon,ring memory,$(photon_version),g++ python3-pip and cargo-web (1.85 or newer),half a minute))
$(eval $(call offer,boost,counters pingpong pingpong-fp create memory,$(boost_version),$(boost_packages)))
$(eval $(call offer,coroutine2,counters pingpong create walk,$(boost_version),$(boost_packages)))
$(eval $(call offer,fiber,ring memory,$(boost_version),$(boost_packages)))
$(eval $(call offer,epoll,echo,$(c_version),gcc))
$(eval $(call offer,epoll,http,$(http_version),gcc libhttp-parser-dev))
$(eval $(call offer,st,ring memory echo,$(st_version),gcc libst-dev))
$(eval $(call offer,st,http,$(and $(http_version),$(st_version)),gcc libst-dev libhttp-parser-dev))

define compile_c
@mkdir -p $(@D)
$(CC) -std=gnu11 $(c_flags) -D_GNU_SOURCE $(options) -o $@ $< $(libraries)
endef

# compile_cxx WORKLOAD
define compile_cxx
@mkdir -p $(@D)
$(or $(compiler),$(CXX)) $(cxx_flags) -DWORKLOAD=$1 -DWORKLOAD_$1 $(options) -o $@ $< $(libraries)
endef

$(P)/%-http: options = -DHTTP
$(P)/%-http: libraries = -lhttp_parser
$(P)/st-%: libraries = -lst
$(P)/st-http: libraries = -lst -lhttp_parser
$(P)/macros-ring-worst: options = -DWORST
$(P)/posix-ring-semaphores: options = -DSEMAPHORE
$(P)/cxx20-cycle-fifo: options = -DFIFO
$(P)/boost-pingpong-fp: options = -DDIFFER
$(P)/coroutine2-%: options = -Wno-maybe-uninitialized
$(addprefix $(P)/,boost-% coroutine2-% fiber-%): \
	libraries = -Wl,-Bstatic -lboost_fiber -lboost_context -Wl,-Bdynamic

$(P)/posix-ring $(P)/posix-ring-semaphores: c/posix-ring.c $(c_headers)
	$(compile_c)
$(P)/macros-ring $(P)/macros-ring-worst: c/macros-ring.c $(c_headers)
	$(compile_c)
$(P)/epoll-echo $(P)/epoll-http: c/epoll.c $(c_headers)
	$(compile_c)
$(P)/st-echo $(P)/st-http: c/st.c $(c_headers)
	$(compile_c)
$(P)/posix-%: c/posix-%.c $(c_headers)
	$(compile_c)
$(P)/st-%: c/st-%.c $(c_headers)
	$(compile_c)

$(P)/cxx20-cycle-fifo $(P)/cxx20-cycle-lifo: c/cycle.cc $(c_headers)
	$(call compile_cxx,cycle)
$(P)/cxx20-ring: c/ring20.cc $(c_headers)
	$(call compile_cxx,ring)
$(P)/boost-pingpong-fp: c/context.cc $(c_headers)
	$(call compile_cxx,pingpong)
$(P)/boost-%: c/context.cc $(c_headers)
	$(call compile_cxx,$*)

define giving
$(P)/$1-%: c/$1.cc $(c_headers)
	$$(call compile_cxx,$$*)
endef
$(foreach system,calls macros ucontext cxx20 cxx23 minicoro photon coroutine2 fiber,\
	$(eval $(call giving,$(system))))

$(P)/cxx23-%: compiler = $(cxx23_compiler)
$(P)/cxx23-%: options = $(cxx23_flags)
$(addprefix $(P)/cxx23-,pingpong create walk): $(cxx23_headers)
$(P)/cxx23-headers: c/headers.sh | $(call say,cxx23,pingpong)
	c/headers.sh '$@'

$(P)/minicoro-%: options = -isystem '$(P)/minicoro'
$(addprefix $(P)/minicoro-,pingpong create walk): $(P)/minicoro/minicoro.h
$(P)/minicoro/minicoro.h: rust/Cargo.toml rust/Cargo.lock | $(call say,minicoro,pingpong)
	@mkdir -p $(@D)
	cp -f "$$($(CARGO) metadata --quiet --locked --all-features --format-version 1 \
		--manifest-path rust/Cargo.toml | \
		sed 's|.*"manifest_path":"\([^"]*/minicoro-sys-[^"/]*\)/Cargo.toml".*|\1|')/minicoro.h" $@

$(P)/photon-%: options = -DNDEBUG -isystem '$(P)/photon/include'
$(P)/photon-%: libraries = '$(P)/photon/photon.a'
$(addprefix $(P)/photon-,ring memory): $(P)/photon/photon.a
$(P)/photon/photon.a: c/peer.mk | $(call say,photon,ring)
	@mkdir -p $(@D)
	echo '$(photon_package)' >$(@D)/package
	$(PIP) download -q --no-deps --require-hashes -r $(@D)/package -d $(@D)
	tar -xzf $(@D)/lustr-*.tar.gz -C $(@D) --strip-components=3 --wildcards '*/vendor/PhotonLibOS'
	cd $(@D) && $(CXX) $(photon_flags) -Iinclude -c $(photon_sources) && ar rcs $(@F) *.o
