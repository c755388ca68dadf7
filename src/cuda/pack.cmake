# The kernel pack: compiled by a program of this build where NVRTC is present, embedded as one read-only block.
option(TILEWRIGHT_KERNEL_PACK "Compile the kernels of src/plan/shipped_kernels.cpp into the library, if NVRTC is found" ON)
set(TILEWRIGHT_KERNEL_CACHE "${PROJECT_BINARY_DIR}/kernels" CACHE PATH "Where compiled kernels of the pack are kept")

set(TILEWRIGHT_TOOLKITS "/usr/local/cuda*" CACHE STRING "Folders of CUDA toolkits, in which NVRTC is looked for")

# As tests/hopper/test_device_code.py finds it: a Python environment's package, then a CUDA toolkit.
file(GLOB nvrtc_files
  $ENV{VIRTUAL_ENV}/lib/python3*/site-packages/nvidia/*/lib/libnvrtc.so.*
  ${PROJECT_SOURCE_DIR}/build/venv/lib/python3*/site-packages/nvidia/*/lib/libnvrtc.so.*
  ${TILEWRIGHT_TOOLKITS}/lib64/libnvrtc.so.*
  ${TILEWRIGHT_TOOLKITS}/targets/*/lib/libnvrtc.so.*)
list(FILTER nvrtc_files EXCLUDE REGEX "\\.alt\\.")
set(nvrtc_found "")
if(nvrtc_files)
  list(GET nvrtc_files 0 nvrtc_found)
endif()
set(TILEWRIGHT_NVRTC "${nvrtc_found}" CACHE FILEPATH "libnvrtc.so that compiles the kernel pack")

add_executable(tilewright_build_pack EXCLUDE_FROM_ALL build_pack.cpp ptxas_log.cpp
  $<TARGET_OBJECTS:tilewright_kernels> ${fmt_once})
target_include_directories(tilewright_build_pack PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(tilewright_build_pack PRIVATE tilewright_compiler_flags tilewright_runs_briefly ${TILEWRIGHT_FMT} ${CMAKE_DL_LIBS})

if(TILEWRIGHT_QUICK_RUN)
  message(STATUS "Kernel pack: none (TILEWRIGHT_QUICK_RUN); kernels are compiled on first use")
elseif(TILEWRIGHT_KERNEL_PACK AND TILEWRIGHT_NVRTC)
  message(STATUS "Kernel pack: compiled with ${TILEWRIGHT_NVRTC}")
  set(pack_file ${CMAKE_CURRENT_BINARY_DIR}/kernels.pack)
  add_custom_command(
    OUTPUT ${pack_file}
    COMMAND tilewright_build_pack ${TILEWRIGHT_NVRTC} ${TILEWRIGHT_KERNEL_CACHE} ${pack_file}
    DEPENDS tilewright_build_pack
    COMMENT "Compiling the kernels that the library ships (some 4 minutes on two cores; kept in ${TILEWRIGHT_KERNEL_CACHE})"
    VERBATIM)
else()
  message(STATUS "Kernel pack: none (NVRTC was not found, or TILEWRIGHT_KERNEL_PACK is off)")
endif()
if(NOT pack_file)
  set(pack_file ${CMAKE_CURRENT_BINARY_DIR}/empty.pack)
  file(WRITE ${pack_file} "")
endif()

enable_language(ASM)
add_library(tilewright_embedded_pack OBJECT embedded_pack.S)
target_compile_definitions(tilewright_embedded_pack PRIVATE TILEWRIGHT_PACK_FILE="${pack_file}")
set_source_files_properties(embedded_pack.S PROPERTIES OBJECT_DEPENDS ${pack_file})
target_sources(tilewright PRIVATE $<TARGET_OBJECTS:tilewright_embedded_pack> embedded_pack.cpp)
