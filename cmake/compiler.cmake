# Flags that every target shares, as the interface target tilewright_compiler_flags.
add_library(tilewright_compiler_flags INTERFACE)
# Every fma is written out where it is meant: a contracted one would change bits (docs/numerics.md).
target_compile_options(tilewright_compiler_flags INTERFACE -Wall -Wextra -ffp-contract=off)
# Precompiled headers contain glibc_compat.h: GCC uses them only where nothing is included before.
set(glibc_compat ${PROJECT_SOURCE_DIR}/cmake/glibc_compat.h)
target_compile_options(tilewright_compiler_flags INTERFACE
                       $<$<NOT:$<BOOL:$<TARGET_PROPERTY:TILEWRIGHT_PRECOMPILED>>>:SHELL:-include ${glibc_compat}>)
# In a joint file (below) a name of one file's anonymous namespace looks global to the next file, and each file looks included.
set(joint $<BOOL:$<TARGET_PROPERTY:UNITY_BUILD>>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(tilewright_compiler_flags INTERFACE $<IF:${joint},-Wshadow=local,-Wshadow> $<${joint}:-Wno-subobject-linkage>)
  # A note per kernel: GCC 4.6 changed how parameters of 64 bytes' alignment are passed. Nothing here was built with an older one.
  target_compile_options(tilewright_compiler_flags INTERFACE -Wno-psabi)
else()
  target_compile_options(tilewright_compiler_flags INTERFACE $<$<NOT:${joint}>:-Wshadow>)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(tilewright_compiler_flags INTERFACE -Wno-restrict)  # GCC bug 105651: false alarms on std::string
endif()
if(TILEWRIGHT_SANITIZE)
  # Line numbers are an eighth of the compiler's time. Reports name the functions; `-D CMAKE_CXX_FLAGS=-g1` shows the lines.
  target_compile_options(tilewright_compiler_flags INTERFACE -fsanitize=${TILEWRIGHT_SANITIZE}
                         -fno-sanitize-recover=all -fno-omit-frame-pointer)
  # What AddressSanitizer sees when the memory is used; checked before each access it takes an eighth of the compiler's time.
  target_compile_options(tilewright_compiler_flags INTERFACE -fno-sanitize=null,object-size,pointer-overflow,vptr)
  target_link_options(tilewright_compiler_flags INTERFACE -fsanitize=${TILEWRIGHT_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    # The drivers' functions, opened at run time, are called with this project's names for their pointers.
    target_compile_options(tilewright_compiler_flags INTERFACE -fno-sanitize=function)
  endif()
endif()

# For tests: what clang's OpenMP leaks is no finding (tests/leaks.supp says why two frames).
set(sanitizer_environment "")
if(TILEWRIGHT_SANITIZE AND CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  set(sanitizer_environment LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/leaks.supp:print_suppressions=0
      ASAN_OPTIONS=malloc_context_size=2)
endif()

# For code that runs for moments: the compiler would take longer to optimise it than it takes to run. -O1 takes a third
# less time than -O3 (a file with JSON 15 s instead of 22), -O0 half of it, but that shares its inline functions with
# the library.
add_library(tilewright_runs_briefly INTERFACE)
if(TILEWRIGHT_SANITIZE)
  target_compile_options(tilewright_runs_briefly INTERFACE -O0)
else()
  target_compile_options(tilewright_runs_briefly INTERFACE $<$<CONFIG:Release>:-O1>)
endif()

# The headers of the standard library, fmt, GoogleTest and JSON are parsed once for all files with the same flags. Each file
# still includes what it uses: clang-tidy reads it without these. ccache hits less with them, so not where it is used.
option(TILEWRIGHT_PRECOMPILE "Parse large headers once for many files" OFF)
set(precompiled_library ${glibc_compat} <algorithm> <array> <cmath> <cstdint> <cstring> <functional> <limits> <map> <optional> <set> <span>
    <stdexcept> <string> <string_view> <utility> <vector> <fmt/format.h>)
set(precompiled_test ${precompiled_library} <chrono> <fstream> <memory> <random> <gtest/gtest.h>)
set(precompiled_json ${precompiled_library} <chrono> <fstream> <memory> <nlohmann/json.hpp>)

# For files that use the same headers: the compiler works on several of them as on one, and so on the headers' code once. The
# program's 18 files, which include CLI11 and JSON, take 29 CPU seconds instead of 103, and an edited one about 15 instead of 1
# to 13; the library's take half. Names in their anonymous namespaces must then differ. Not with ccache, which would compile all
# of them for each change.
# tilewright_compile_together(targets): some eight files at a time, so that all cores have work.
# tilewright_compile_as_one(target): all of its files. For targets whose headers cost more than their code: safetensors takes 33
# CPU seconds in one file and 60 in four.
function(tilewright_compile_together)
  if(TILEWRIGHT_SANITIZE OR (TILEWRIGHT_PRECOMPILE AND NOT CMAKE_CXX_COMPILER_LAUNCHER))
    set_target_properties(${ARGN} PROPERTIES UNITY_BUILD ON)
  endif()
endfunction()
function(tilewright_compile_as_one target)
  tilewright_compile_together(${target})
  set_target_properties(${target} PROPERTIES UNITY_BUILD_BATCH_SIZE 0)
endfunction()

# tilewright_precompile(target FROM other): with the same flags as `other`, which has called
# tilewright_precompile(other HEADERS library|test|json).
function(tilewright_precompile target kind value)
  if(NOT TILEWRIGHT_PRECOMPILE OR CMAKE_CXX_COMPILER_LAUNCHER)
    return()
  endif()
  set_target_properties(${target} PROPERTIES TILEWRIGHT_PRECOMPILED ON)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # False alarms on std::string as in bug 105651, here only. GCC 13, and 12 without such headers, go on warning.
    target_compile_options(${target} PRIVATE -Wno-stringop-overflow -Wno-array-bounds)
  endif()
  if(kind STREQUAL FROM)
    target_precompile_headers(${target} REUSE_FROM ${value})
  else()
    target_precompile_headers(${target} PRIVATE ${precompiled_${value}})
  endif()
endfunction()
