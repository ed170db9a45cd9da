# SPDX-License-Identifier: MIT
#
# The version, of the file for pkg-config. Until 1.0.0 another minor version is another ABI.

file(STRINGS "${CMAKE_CURRENT_LIST_DIR}/../../pkgconfig/usched.pc" PACKAGE_VERSION
     REGEX "^Version: ")
string(REPLACE "Version: " "" PACKAGE_VERSION "${PACKAGE_VERSION}")
string(REGEX MATCH "^(0\\.)?[0-9]+" _usched_abi "${PACKAGE_VERSION}")
if(PACKAGE_FIND_VERSION VERSION_EQUAL PACKAGE_VERSION)
  set(PACKAGE_VERSION_EXACT TRUE)
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
elseif(PACKAGE_FIND_VERSION VERSION_LESS PACKAGE_VERSION
       AND "${PACKAGE_FIND_VERSION}." MATCHES "^${_usched_abi}\\.")
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
endif()
