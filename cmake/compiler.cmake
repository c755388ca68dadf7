# Flags that every target shares, as the interface target tilewright_compiler_flags.
add_library(tilewright_compiler_flags INTERFACE)
# Every fma is written out where it is meant: a contracted one would change bits (docs/numerics.md).
target_compile_options(tilewright_compiler_flags INTERFACE -Wall -Wextra -Wshadow -ffp-contract=off)
target_compile_options(tilewright_compiler_flags INTERFACE -include ${PROJECT_SOURCE_DIR}/cmake/glibc_compat.h)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(tilewright_compiler_flags INTERFACE -Wno-restrict)  # GCC bug 105651: false alarms on std::string
endif()
if(TILEWRIGHT_SANITIZE)
  target_compile_options(tilewright_compiler_flags INTERFACE -fsanitize=${TILEWRIGHT_SANITIZE}
                         -fno-sanitize-recover=all -fno-omit-frame-pointer -g1)
  target_link_options(tilewright_compiler_flags INTERFACE -fsanitize=${TILEWRIGHT_SANITIZE})
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

# For many files that use few big headers: under sanitizers the compiler works on several of them as on one, and so on the
# headers' code once. Names in their anonymous namespaces must then differ.
function(tilewright_compile_together)
  if(TILEWRIGHT_SANITIZE)
    set_target_properties(${ARGN} PROPERTIES UNITY_BUILD ON)
  endif()
endfunction()
