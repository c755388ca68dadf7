# The compiler of the preset `sanitize`, where neither CXX nor CMAKE_CXX_COMPILER names one: clang, with which these tests
# build in half of GCC's time and which checks more (indices of arrays behind pointers, conversions of floats). A clang that
# cannot build such a program here (version 14 with libstdc++ 13, a missing runtime) is passed over; then it is GCC.
if(NOT CMAKE_CXX_COMPILER AND NOT DEFINED ENV{CXX} AND NOT DEFINED sanitizer_probe)  # CMake reads this file twice
  set(sanitizer_probe ${CMAKE_BINARY_DIR}/sanitizer_probe)
  file(WRITE ${sanitizer_probe}.cpp
       "#include <omp.h>\n#include <chrono>\n#include <memory>\n#include <ranges>\n#include <string>\n"
       "int main(int count, char**) { return omp_get_max_threads() > 0 ? count - 1 : 1; }\n")
  foreach(clang clang++-14 clang++)
    execute_process(COMMAND ${clang} -std=c++20 -fopenmp=libomp -fsanitize=address,undefined ${sanitizer_probe}.cpp
                    -o ${sanitizer_probe} RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
    if(NOT failed)
      set(CMAKE_CXX_COMPILER ${clang})
      break()
    endif()
  endforeach()
  if(NOT CMAKE_CXX_COMPILER)
    message(STATUS "Sanitizers: no clang that builds C++20 with OpenMP and sanitizers; the default compiler takes twice as long")
  endif()
endif()
