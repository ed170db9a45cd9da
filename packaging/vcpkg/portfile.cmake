# SPDX-License-Identifier: MIT
#
# A port for vcpkg. The Makefile builds and installs. The file for find_package() finds the
# library by its own place, so it stays below lib.

set(VCPKG_POLICY_SKIP_LIB_CMAKE_MERGE_CHECK enabled)
vcpkg_download_distfile(archive
  URLS "https://example.org/usched/usched-@version@.tar.gz"
  FILENAME "usched-@version@.tar.gz"
  SHA512 @sha512@)
vcpkg_extract_source_archive(source ARCHIVE "${archive}")
vcpkg_cmake_get_vars(variables)
include("${variables}")
find_program(MAKE NAMES gmake make REQUIRED)

# build(KIND FLAGS ROOT)
function(build kind flags root)
  vcpkg_execute_build_process(
    COMMAND "${MAKE}" -s "-j${VCPKG_CONCURRENCY}" install "CC=${VCPKG_DETECTED_CMAKE_C_COMPILER}"
      "CFLAGS=${flags}" "B=${CURRENT_BUILDTREES_DIR}/${TARGET_TRIPLET}-${kind}" "prefix=${root}"
      "libdir=${root}/lib" "includedir=${root}/include" "bindir=${root}/tools/usched"
      "datadir=${root}/share" "mandir=${root}/share/man" "DESTDIR=" "TLS=" "POSIX=" "SIM="
    WORKING_DIRECTORY "${source}"
    LOGNAME "install-${kind}")
  if(VCPKG_LIBRARY_LINKAGE STREQUAL "static")
    file(GLOB other "${root}/lib/libusched*.so*")
  else()
    file(GLOB other "${root}/lib/libusched*.a")
  endif()
  file(REMOVE ${other})
endfunction()

if(NOT VCPKG_BUILD_TYPE STREQUAL "debug")
  build(rel "${VCPKG_COMBINED_C_FLAGS_RELEASE}" "${CURRENT_PACKAGES_DIR}")
endif()
if(NOT VCPKG_BUILD_TYPE STREQUAL "release")
  build(dbg "${VCPKG_COMBINED_C_FLAGS_DEBUG}" "${CURRENT_PACKAGES_DIR}/debug")
  file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share"
    "${CURRENT_PACKAGES_DIR}/debug/tools" "${CURRENT_PACKAGES_DIR}/debug/lib/cmake")
endif()
vcpkg_fixup_pkgconfig()
vcpkg_install_copyright(FILE_LIST "${source}/LICENSE")
