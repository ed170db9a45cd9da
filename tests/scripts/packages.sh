#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Projects that build the library as a part of theirs, and recipes of package managers, with
# a checkout of the tree as it is now, and without a network:
#
#  - CMake, by FetchContent: usched::usched and usched::check;
#  - Meson, by the wrap that make dist writes, with the tar file in the cache;
#  - vcpkg: the port with stand-ins for vcpkg's functions, of which those that build do so;
#  - Homebrew: the syntax of the formula, by ruby.
#
#   LONG=1   Conan besides, from PyPI unless a conan is installed: conan create
#   CC       default cc
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/scripts/test.lib

tested=
need git
. tests/scripts/checkout.lib
make_checkout || exit 1
$MAKE -s --no-print-directory -C "$dir/tree" B=build dist >"$dir/log" 2>&1 ||
	die "make dist fails: $(cat "$dir/log")"
name=usched-$(version)
filled=$dir/tree/build/packaging
program=packaging/conan/test_package/program.c
# The inner make has no settings of the outer one.
unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES CFLAGS CPPFLAGS LDFLAGS SWITCH B DESTDIR
export CC

# there WHAT PROGRAM: else it is left out.
there() {
	command -v "$2" >/dev/null && return
	tested="$tested, no $1, as there is no $2"
	return 1
}

# passes WHAT COMMAND...: what it says is in $dir/log.
passes() {
	what=$1
	shift
	limited "$@" >"$dir/log" 2>&1 && return
	fail "$what: $(tail -n 30 "$dir/log")"
	return 1
}

test_fetch() {
	there FetchContent cmake || return
	mkdir "$dir/fetch"
	cp "$program" "$dir/fetch/program.c"
	cat >"$dir/fetch/CMakeLists.txt" <<-END
	cmake_minimum_required(VERSION 3.14)
	project(user C)
	include(FetchContent)
	FetchContent_Declare(usched URL "$dir/tree/build/$name.tar.gz")
	FetchContent_MakeAvailable(usched)
	foreach(part usched check)
	  add_executable(with_\${part} program.c)
	  target_link_libraries(with_\${part} usched::\${part})
	endforeach()
	END
	passes FetchContent cmake -S "$dir/fetch" -B "$dir/fetch/build" -DCMAKE_BUILD_TYPE=Debug &&
		passes FetchContent cmake --build "$dir/fetch/build" || return
	for part in usched check; do
		passes "FetchContent, $part" "$dir/fetch/build/with_$part"
	done
	tested="$tested, FetchContent"
}

test_wrap() {
	there 'Meson wrap' meson || return
	mkdir -p "$dir/meson/subprojects/packagecache"
	cp "$program" "$dir/meson/program.c"
	cp -r "$filled/meson/." "$dir/meson/subprojects"
	cp "$dir/tree/build/$name.tar.gz" "$dir/meson/subprojects/packagecache"
	cat >"$dir/meson/meson.build" <<-'END'
	project('user', 'c')
	foreach part : ['usched', 'usched-check']
	  test(part, executable(part + '-user', 'program.c', dependencies: dependency(part)))
	endforeach
	END
	passes 'Meson wrap' meson setup --wrap-mode=forcefallback "$dir/meson/build" "$dir/meson" &&
		passes 'Meson wrap' meson test -C "$dir/meson/build" || return
	has '^Ok: *2' "$dir/log"
	tested="$tested, Meson wrap"
}

# The functions of vcpkg that the port calls.
test_vcpkg() {
	if there vcpkg.json python3; then
		passes vcpkg.json python3 -m json.tool "$filled/vcpkg/vcpkg.json"
	fi
	there vcpkg cmake || return
	cat >"$dir/port.cmake" <<-END
	set(CURRENT_BUILDTREES_DIR "$dir/vcpkg/trees")
	set(CURRENT_PACKAGES_DIR "$dir/vcpkg/root")
	set(TARGET_TRIPLET here)
	set(VCPKG_CONCURRENCY 2)
	set(VCPKG_LIBRARY_LINKAGE static)
	set(VCPKG_BUILD_TYPE release)
	set(VCPKG_COMBINED_C_FLAGS_RELEASE -O0)
	function(vcpkg_download_distfile result)
	  cmake_parse_arguments(PARSE_ARGV 1 arg "" "URLS;FILENAME;SHA512" "")
	  set(file "$dir/tree/build/\${arg_FILENAME}")
	  file(SHA512 "\${file}" sum)
	  if(NOT sum STREQUAL arg_SHA512)
	    message(FATAL_ERROR "the checksum does not fit")
	  endif()
	  set(\${result} "\${file}" PARENT_SCOPE)
	endfunction()
	function(vcpkg_extract_source_archive result)
	  cmake_parse_arguments(PARSE_ARGV 1 arg "" "ARCHIVE" "")
	  file(ARCHIVE_EXTRACT INPUT "\${arg_ARCHIVE}" DESTINATION "$dir/vcpkg/source")
	  set(\${result} "$dir/vcpkg/source/$name" PARENT_SCOPE)
	endfunction()
	function(vcpkg_cmake_get_vars result)
	  file(WRITE "$dir/vcpkg/vars.cmake" "set(VCPKG_DETECTED_CMAKE_C_COMPILER $CC)")
	  set(\${result} "$dir/vcpkg/vars.cmake" PARENT_SCOPE)
	endfunction()
	function(vcpkg_execute_build_process)
	  cmake_parse_arguments(arg "" "WORKING_DIRECTORY;LOGNAME" "COMMAND" \${ARGN})
	  execute_process(COMMAND \${arg_COMMAND} WORKING_DIRECTORY "\${arg_WORKING_DIRECTORY}"
	    RESULT_VARIABLE failed)
	  if(failed)
	    message(FATAL_ERROR "\${failed}")
	  endif()
	endfunction()
	function(vcpkg_fixup_pkgconfig)
	endfunction()
	function(vcpkg_install_copyright)
	  cmake_parse_arguments(arg "" "" "FILE_LIST" \${ARGN})
	  file(COPY \${arg_FILE_LIST} DESTINATION "\${CURRENT_PACKAGES_DIR}/share")
	endfunction()
	include("$filled/vcpkg/portfile.cmake")
	END
	passes vcpkg cmake -P "$dir/port.cmake" || return
	root=$dir/vcpkg/root
	for file in include/usched/rr.h lib/libusched.a lib/pkgconfig/usched.pc share/LICENSE; do
		[ -f "$root/$file" ] || fail "vcpkg: there is no $file"
	done
	[ ! -e "$root/lib/libusched.so" ] || fail 'vcpkg: there is a shared library'
	passes 'vcpkg, a program' "$CC" "$program" "-I$root/include" "$root/lib/libusched.a" \
		-pthread -lm -o "$dir/program" && passes 'vcpkg, a program' "$dir/program"
	tested="$tested, vcpkg"
}

test_brew() {
	there Homebrew ruby || return
	passes Homebrew ruby -wc "$filled/homebrew/usched.rb"
	tested="$tested, Homebrew"
}

test_conan() {
	[ "${LONG-}" = 1 ] || return
	conan=conan
	if ! command -v conan >/dev/null; then
		python3 -m venv "$dir/venv" >"$dir/log" 2>&1 &&
			"$dir/venv/bin/pip" install -q 'conan>=2,<3' >"$dir/log" 2>&1
		conan=$dir/venv/bin/conan
	fi
	there Conan "$conan" || return
	export CONAN_HOME="$dir/conan"
	[ "$CC" != cc ] || unset CC     # Conan tells gcc from clang by the name
	passes Conan "$conan" profile detect || return
	for shared in False True; do
		passes "Conan, shared $shared" "$conan" create "$dir/tree/packaging/conan" \
			--no-remote -o "usched/*:shared=$shared"
	done
	tested="$tested, Conan"
}

test_fetch
test_wrap
test_vcpkg
test_brew
test_conan
conclude "${tested#, }"
