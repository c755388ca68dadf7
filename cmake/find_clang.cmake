# tilewright_find_clang(variable options...): a clang that builds C++20 programs with this system's standard library and
# these options, or nothing. Version 14 cannot with libstdc++ 13; a sanitizer's runtime may be missing.
function(tilewright_find_clang variable)
  set(probe ${CMAKE_BINARY_DIR}/clang_probe)
  file(WRITE ${probe}.cpp
       "#include <chrono>\n#include <memory>\n#include <ranges>\n#include <string>\n#ifdef _OPENMP\n#include <omp.h>\n#endif\n"
       "int main(int count, char**) { return count - 1; }\n")
  foreach(clang clang++-14 clang++)
    execute_process(COMMAND ${clang} -std=c++20 ${ARGN} ${probe}.cpp -o ${probe} RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
    if(NOT failed)
      set(${variable} ${clang} PARENT_SCOPE)
      return()
    endif()
  endforeach()
  set(${variable} "" PARENT_SCOPE)
endfunction()

# tilewright_compile_with_clang(targets...): clang compiles them without optimisation, in a directory whose compiler is GCC.
# Not under sanitizers, which GCC must then see, and not with ccache.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT TILEWRIGHT_SANITIZE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  tilewright_find_clang(clang_of_tests)
endif()
function(tilewright_compile_with_clang)
  if(clang_of_tests)
    set_target_properties(${ARGN} PROPERTIES CXX_COMPILER_LAUNCHER "${PROJECT_SOURCE_DIR}/cmake/clang_instead;${clang_of_tests}")
  endif()
endfunction()
