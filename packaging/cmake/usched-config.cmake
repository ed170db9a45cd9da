# SPDX-License-Identifier: MIT
#
# find_package(usched 0.1 [COMPONENTS check tls posix sim]): targets usched::usched,
# usched::check, usched::tls, usched::posix and usched::sim, as far as they are installed.
# A program links one of usched, check and sim, and any of tls and posix besides. Libraries
# are shared, or with usched_USE_STATIC_LIBS static; posix is static, sim is shared.
#
# What a target needs is read from the files for pkg-config, so it is said once. Places are
# relative to this file: the directory of the installation can be moved.

get_filename_component(_usched_lib "${CMAKE_CURRENT_LIST_DIR}/../.." REALPATH)

# _usched_read(FILE KEY VARIABLE): what FILE has for KEY.
function(_usched_read file key variable)
  set(value "")
  file(STRINGS "${file}" lines REGEX "^${key}[:=]")
  if(lines)
    string(REGEX REPLACE "^[^:=]*[:=] *" "" value "${lines}")
  endif()
  set(${variable} "${value}" PARENT_SCOPE)
endfunction()

# The file of the library NAME, of the kind that is asked for, if there is one.
function(_usched_library name variable)
  set(${variable} "${_usched_lib}/lib${name}.so" PARENT_SCOPE)
  if(EXISTS "${_usched_lib}/lib${name}.a"
     AND (usched_USE_STATIC_LIBS OR name STREQUAL "usched-posix"
          OR NOT EXISTS "${_usched_lib}/lib${name}.so"))
    set(${variable} "${_usched_lib}/lib${name}.a" PARENT_SCOPE)
  endif()
endfunction()

# _usched_target(TARGET NAME): by the file for pkg-config of NAME.
function(_usched_target target name)
  set(pc "${_usched_lib}/pkgconfig/${name}.pc")
  foreach(key prefix libdir includedir Cflags Libs Libs.private)
    _usched_read("${pc}" ${key} ${key})
    string(REPLACE "\${prefix}" "${prefix}" ${key} "${${key}}")
  endforeach()
  file(RELATIVE_PATH relative "${libdir}" "${includedir}")
  get_filename_component(include "${_usched_lib}/${relative}" ABSOLUTE)
  string(REPLACE "\${includedir}" "${include}" flags "${Cflags}")
  string(REGEX REPLACE "-I[^ ]* *" "" flags "${flags}")
  _usched_library(${name} file)
  set(libs "${file}")
  if(file MATCHES "\\.a$")
    separate_arguments(private UNIX_COMMAND "${Libs.private}")
    list(APPEND libs ${private})
  endif()
  if(name STREQUAL "usched-tls")
    include(CMakeFindDependencyMacro)
    find_dependency(OpenSSL 3)
    list(APPEND libs OpenSSL::SSL OpenSSL::Crypto)
  endif()
  add_library(${target} INTERFACE IMPORTED)
  set_target_properties(${target} PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${include}"
    INTERFACE_COMPILE_OPTIONS "SHELL:${flags}"
    INTERFACE_LINK_LIBRARIES "${libs};-pthread")
endfunction()

foreach(_usched_part usched check tls posix sim)
  set(_usched_name usched-${_usched_part})
  if(_usched_part STREQUAL "usched")
    set(_usched_name usched)
  endif()
  set(usched_${_usched_part}_FOUND FALSE)
  if(EXISTS "${_usched_lib}/pkgconfig/${_usched_name}.pc")
    set(usched_${_usched_part}_FOUND TRUE)
    if(NOT TARGET usched::${_usched_part})
      _usched_target(usched::${_usched_part} ${_usched_name})
    endif()
  endif()
endforeach()

foreach(_usched_part ${usched_FIND_COMPONENTS})
  if(usched_FIND_REQUIRED_${_usched_part} AND NOT usched_${_usched_part}_FOUND)
    set(usched_FOUND FALSE)
    set(usched_NOT_FOUND_MESSAGE "usched is installed without ${_usched_part}")
  endif()
endforeach()
