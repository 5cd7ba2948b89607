# What every target of this project shares: flags, the precompiled header, and two functions,
# rt_library and rt_binary, so that a folder's CMakeLists.txt is a list of its sources.
include(GNUInstallDirs)

option(RT_PCH "Precompile the standard headers" ON)
set(RT_SANITIZE "" CACHE STRING "Sanitizers, as for -fsanitize=")

# Several sources of one target are compiled as one, which takes a third of the time. A change of one
# source compiles its neighbours again: who works on the code turns it off. Names in anonymous
# namespaces must be unique within a folder.
option(RT_UNITY "Compile several sources of a target as one" ON)
set(CMAKE_UNITY_BUILD ${RT_UNITY})
set(CMAKE_UNITY_BUILD_BATCH_SIZE 10)

find_program(RT_CCACHE ccache)
if(RT_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR}
      CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      ${RT_CCACHE})
endif()
find_program(RT_MOLD mold)
if(RT_MOLD)
  add_link_options(-fuse-ld=mold)
endif()
if(RT_SANITIZE)
  add_compile_options(-fsanitize=${RT_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${RT_SANITIZE})
endif()
# Beside ASan, which stops the program as well at a null pointer or outside of an object, these
# checks of UBSan found nothing here; they are a quarter of the build of the preset dev.
option(RT_UBSAN_ALL "All checks of UBSan" OFF)
if(RT_SANITIZE MATCHES undefined AND NOT RT_UBSAN_ALL)
  add_compile_options(-fno-sanitize=null,alignment,vptr,object-size)
endif()

# gRPC, Protocol Buffers and Abseil are 45 shared objects; finding and relocating them is most of
# what a short command takes. Where mold links, which does not mind the order of archives, their
# archives go into our binaries. OpenSSL stays shared: other libraries bring it along.
option(RT_ARCHIVES "Link gRPC, Protocol Buffers and Abseil statically" ON)
function(rt_prefer_archives)
  if(NOT RT_ARCHIVES OR NOT RT_MOLD OR RT_SANITIZE)
    return()
  endif()
  get_directory_property(targets IMPORTED_TARGETS)
  list(FILTER targets INCLUDE REGEX "^(gRPC|absl|protobuf|re2)::")
  foreach(target IN LISTS targets)
    get_target_property(type ${target} TYPE)
    if(NOT type MATCHES "SHARED_LIBRARY|UNKNOWN_LIBRARY")
      continue()
    endif()
    foreach(property IMPORTED_LOCATION IMPORTED_LOCATION_NONE IMPORTED_LOCATION_RELEASE)
      get_target_property(location ${target} ${property})
      if(NOT location)
        continue()
      endif()
      string(REGEX REPLACE "\\.so[0-9.]*$" ".a" archive "${location}")
      if(EXISTS "${archive}")
        set_target_properties(${target} PROPERTIES ${property} "${archive}")
      endif()
    endforeach()
  endforeach()
endfunction()

find_package(Threads REQUIRED)
find_package(absl REQUIRED)
rt_prefer_archives()
# RE2, whose package on Debian 12 has no CMake files. A target of this name is the one that gRPC
# takes as well, so that a program never holds two copies of it.
find_package(re2 CONFIG QUIET)
if(TARGET re2::re2)
  rt_prefer_archives()
else()
  set(names re2)
  if(RT_ARCHIVES AND RT_MOLD AND NOT RT_SANITIZE)
    list(PREPEND names libre2.a)
  endif()
  find_library(RT_RE2 NAMES ${names} REQUIRED)
  add_library(re2::re2 UNKNOWN IMPORTED)
  set_target_properties(re2::re2 PROPERTIES
      IMPORTED_LOCATION ${RT_RE2} INTERFACE_LINK_LIBRARIES Threads::Threads)
endif()
find_package(OpenSSL REQUIRED)
find_package(SQLite3 REQUIRED)

# g++ collects garbage from 128 MiB on, again and again; without it our larger sources take a tenth
# less time, and a fifth with TSan, for up to 1.3 GiB of memory instead of 1.1.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options(--param=ggc-min-expand=400 --param=ggc-min-heapsize=700000)
endif()

add_library(rt_flags INTERFACE)
target_include_directories(rt_flags INTERFACE ${CMAKE_SOURCE_DIR})
# -pthread everywhere: gRPC's targets bring it, and the precompiled header must agree.
target_compile_options(rt_flags INTERFACE -pthread
    -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wswitch-enum -Werror
    -Wno-error=maybe-uninitialized -Wno-error=stringop-overflow -Wno-error=array-bounds
    -Wno-error=restrict -Wno-missing-field-initializers -fstack-protector-strong)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")  # Preset dev. Warnings are errors with g++ only.
  target_compile_options(rt_flags INTERFACE -Wno-unknown-warning-option -Wno-error)
  target_compile_options(rt_flags INTERFACE
      -fsanitize-ignorelist=${CMAKE_SOURCE_DIR}/tests/fuzz/ignored.txt)
endif()
target_compile_definitions(rt_flags INTERFACE RT_VERSION="${PROJECT_VERSION}")
target_link_libraries(rt_flags INTERFACE Threads::Threads)

# rt_precompiled(NAME [HEADERS …]): the library whose precompiled header other targets with the
# same flags reuse. HEADERS come on top of those that nearly every source reads.
function(rt_precompiled name)
  cmake_parse_arguments(ARG "" "" "HEADERS" ${ARGN})
  add_library(${name} STATIC ${CMAKE_SOURCE_DIR}/cmake/pch.cc)
  target_link_libraries(${name} PRIVATE rt_flags absl::status absl::statusor absl::strings)
  if(RT_PCH)
    target_precompile_headers(${name} PRIVATE
        <algorithm> <cstdint> <functional> <map> <memory> <optional> <set> <string> <string_view>
        <tuple> <utility> <variant> <vector> <absl/status/status.h> <absl/status/statusor.h>
        ${ARG_HEADERS})
  endif()
  # It knows our headers (#pragma once) by their paths and times, so that ccache must not give it to
  # another checkout.
  if(ARG_HEADERS)
    set_target_properties(${name} PROPERTIES CXX_COMPILER_LAUNCHER "")
  endif()
endfunction()
rt_precompiled(rt_pch)

# rt_use_pch(TARGET [FROM]): FROM is rt_pch, another library of rt_precompiled, or `none` for a target
# whose flags differ.
function(rt_use_pch target)
  set(from rt_pch)
  if(ARGC GREATER 1)
    set(from ${ARGV1})
  endif()
  if(RT_PCH AND NOT from STREQUAL "none")
    target_precompile_headers(${target} REUSE_FROM ${from})
  endif()
endfunction()

# What a build with sanitizers compiles without them is the same as in a build of the preset release,
# so that it takes those libraries from there: a tenth of what it would compile.
set(RT_RELEASED "" CACHE PATH "A build of the preset release; its libraries stand in for those without sanitizers")
if(RT_RELEASED AND NOT EXISTS ${RT_RELEASED}/CMakeCache.txt)
  message(FATAL_ERROR "${RT_RELEASED} is no build: run `cmake --preset release` first, or leave RT_RELEASED out")
endif()
# rt_is_released(VARIABLE SANITIZER…): whether code that these sanitizers leave out is taken from
# RT_RELEASED.
function(rt_is_released variable)
  set(${variable} OFF PARENT_SCOPE)
  list(JOIN ARGN "|" kinds)
  if(RT_RELEASED AND RT_SANITIZE MATCHES "${kinds}")
    set(${variable} ON PARENT_SCOPE)
  endif()
endfunction()

# rt_released(NAME): the library NAME of this folder links the one in RT_RELEASED.
function(rt_released name)
  file(RELATIVE_PATH folder ${CMAKE_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  set(archive ${RT_RELEASED}/${folder}/lib${name}.a)
  add_library(${name} STATIC ${CMAKE_SOURCE_DIR}/cmake/pch.cc)
  set_target_properties(${name} PROPERTIES DISABLE_PRECOMPILE_HEADERS ON)
  target_link_libraries(${name} INTERFACE ${archive})
  add_dependencies(${name} rt_released)
  set_property(GLOBAL APPEND PROPERTY RT_RELEASED_NAMES ${name})
  set_property(GLOBAL APPEND PROPERTY RT_RELEASED_ARCHIVES ${archive})
endfunction()

# rt_build_released(): brings what rt_released named up to date. The last line of the tree's
# CMakeLists.txt.
function(rt_build_released)
  get_property(names GLOBAL PROPERTY RT_RELEASED_NAMES)
  get_property(archives GLOBAL PROPERTY RT_RELEASED_ARCHIVES)
  if(names)
    add_custom_target(rt_released
        COMMAND ${CMAKE_COMMAND} --build ${RT_RELEASED} --parallel 2 --target ${names}
        BYPRODUCTS ${archives} VERBATIM)
  endif()
endfunction()

# rt_library(NAME SOURCES a.cc … DEPS targets … [PRIVATE_DEPS targets …] [PCH library] [UNTHREADED])
# UNTHREADED: what only one thread computes at a time has nothing for TSan to find.
function(rt_library name)
  cmake_parse_arguments(ARG "UNTHREADED" "PCH" "SOURCES;DEPS;PRIVATE_DEPS" ${ARGN})
  rt_is_released(is_released thread)
  if(ARG_UNTHREADED AND is_released)
    rt_released(${name})
  else()
    add_library(${name} STATIC ${ARG_SOURCES})
    rt_use_pch(${name} ${ARG_PCH})
    if(ARG_UNTHREADED AND RT_SANITIZE MATCHES thread)
      target_compile_options(${name} PRIVATE -fno-sanitize=thread)
    endif()
  endif()
  target_link_libraries(${name} PUBLIC rt_flags absl::status absl::statusor absl::strings
      ${ARG_DEPS} PRIVATE ${ARG_PRIVATE_DEPS})
endfunction()

# rt_plantable(TARGET): those of its sources that have a planted bug are compiled by themselves, because
# tests/sim/mutants.sh compiles changed copies of them; not in a build with sanitizers, where it does
# not.
file(GLOB_RECURSE RT_PLANTED CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/sim/planted/*.patch)
foreach(patch IN LISTS RT_PLANTED)
  file(STRINGS ${patch} changed LIMIT_COUNT 1 REGEX "^[+][+][+] b/")
  string(SUBSTRING "${changed}" 6 -1 changed)
  list(APPEND RT_PLANTED_SOURCES "${CMAKE_SOURCE_DIR}/${changed}")
endforeach()
function(rt_plantable target)
  if(RT_SANITIZE)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    if("${CMAKE_CURRENT_SOURCE_DIR}/${source}" IN_LIST RT_PLANTED_SOURCES)
      set_source_files_properties(${source} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    endif()
  endforeach()
endfunction()

# rt_binary(NAME SOURCES … DEPS …): a program people run; it is installed.
function(rt_binary name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE rt_flags ${ARG_DEPS})
  rt_use_pch(${name})
  # A wheel brings the libraries along, there. An RPATH, because a RUNPATH would not hold for the
  # libraries that they need in turn.
  set_target_properties(${name} PROPERTIES
      BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "\$ORIGIN/../lib/rt")
  target_link_options(${name} PRIVATE LINKER:--disable-new-dtags)
  install(TARGETS ${name} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endfunction()
