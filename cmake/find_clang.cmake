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
