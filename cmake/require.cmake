# tilewright_require(PACKAGE HOW [VERSION] [COMPONENTS ...]): find_package, which ends with one sentence where there is none.
macro(tilewright_require package how)
  find_package(${package} ${ARGN} QUIET)
  if(NOT ${package}_FOUND)
    message(FATAL_ERROR "Tilewright needs ${package}, which is not on this system: ${how}, or run tools/setup")
  endif()
endmacro()
