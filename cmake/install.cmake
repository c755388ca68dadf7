# `cmake --install`: headers, the static library, the program, and a package for find_package(tilewright).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

if(TILEWRIGHT_QUICK_RUN)
  install(CODE "message(FATAL_ERROR \"This build is for `make run` and has no precompiled kernels. Run `make build` first.\")")
endif()
install(DIRECTORY include/tilewright DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS tilewright EXPORT tilewright_targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT tilewright_targets NAMESPACE tilewright:: FILE tilewright-targets.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tilewright)
configure_package_config_file(cmake/tilewright-config.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/tilewright-config.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tilewright)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/tilewright-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/tilewright-config.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/tilewright-config-version.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tilewright)
if(TARGET tilewright_program)
  install(TARGETS tilewright_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
