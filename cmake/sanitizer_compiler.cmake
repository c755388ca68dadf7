# The compiler of the preset `sanitize`, where neither CXX nor CMAKE_CXX_COMPILER names one: clang, with which these tests
# build in half of GCC's time and which checks more (indices of arrays behind pointers, conversions of floats). A clang that
# cannot build such a program here is passed over; then it is GCC.
if(NOT CMAKE_CXX_COMPILER AND NOT DEFINED ENV{CXX} AND NOT sanitizer_compiler_sought)  # CMake reads this file twice
  set(sanitizer_compiler_sought TRUE)
  include(${CMAKE_CURRENT_LIST_DIR}/find_clang.cmake)
  tilewright_find_clang(clang -fopenmp=libomp -fsanitize=address,undefined)
  if(clang)
    set(CMAKE_CXX_COMPILER ${clang})
  else()
    message(STATUS "Sanitizers: no clang that builds C++20 with OpenMP and sanitizers; the default compiler takes twice as long")
  endif()
endif()
