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

# tilewright_clang_objects(variable files...): objects of generated files, compiled by clang without optimisation, in a
# directory whose compiler is GCC. The files themselves where there is no clang, where it compiles the directory anyway,
# and under sanitizers, which GCC must then see.
function(tilewright_clang_objects variable)
  set(${variable} ${ARGN} PARENT_SCOPE)
  if(TILEWRIGHT_SANITIZE OR NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    return()
  endif()
  tilewright_find_clang(clang)
  if(NOT clang)
    return()
  endif()
  set(objects "")
  foreach(file ${ARGN})
    add_custom_command(OUTPUT ${file}.o
                       COMMAND ${clang} -std=c++20 -O0 -fPIE -DTILEWRIGHT_SANITIZES=0 -ffp-contract=off -Wall -Wextra -Wno-pass-failed
                               -mllvm -pragma-unroll-threshold=1 -I${PROJECT_SOURCE_DIR}/src -I${PROJECT_SOURCE_DIR}/include
                               -I${PROJECT_SOURCE_DIR}/tests -MD -MF ${file}.d -c ${file} -o ${file}.o
                       DEPENDS ${file} DEPFILE ${file}.d VERBATIM COMMENT "Building ${file}.o with ${clang}")
    list(APPEND objects ${file}.o)
  endforeach()
  set_source_files_properties(${objects} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
  set(${variable} ${objects} PARENT_SCOPE)
endfunction()
