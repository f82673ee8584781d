# CalmInstall: headers, libraries, CMake package, pkg-config files, man pages. The tree may be moved after installing.
if(NOT TARGET calmalloc)
    return()
endif()
include(CMakePackageConfigHelpers)

set(calm_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/calmalloc)
install(FILES include/calmalloc.hpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY include/calmalloc DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h"
    PATTERN "*.hpp")
install(TARGETS calmalloc calmalloc_static calmpool calmexec EXPORT calmalloc_targets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT calmalloc_targets NAMESPACE calmalloc:: FILE calmalloc-targets.cmake DESTINATION ${calm_package_dir})

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/calmalloc-config.cmake.in
    ${CMAKE_CURRENT_BINARY_DIR}/calmalloc-config.cmake INSTALL_DESTINATION ${calm_package_dir})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/calmalloc-config-version.cmake
    COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/calmalloc-config.cmake
    ${CMAKE_CURRENT_BINARY_DIR}/calmalloc-config-version.cmake DESTINATION ${calm_package_dir})

# The .pc files find their prefix from where they lie.
file(RELATIVE_PATH calm_pc_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" calm_pc_prefix "${calm_pc_prefix}")
foreach(name calmalloc calmpool calmexec)
    configure_file(${CMAKE_CURRENT_LIST_DIR}/${name}.pc.in ${CMAKE_CURRENT_BINARY_DIR}/${name}.pc @ONLY)
    install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()

# The manual is written when it is installed: a build of the libraries alone waits for no Python.
find_program(CALM_PYTHON python3 DOC "writes the man pages at installation")
if(CALM_PYTHON)
    install(CODE "execute_process(COMMAND \"${CALM_PYTHON}\" \"${CMAKE_CURRENT_SOURCE_DIR}/tools/make_man.py\"
        --out \"${CMAKE_CURRENT_BINARY_DIR}/man\" COMMAND_ERROR_IS_FATAL ANY)")
    install(DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR})
else()
    install(CODE "message(STATUS \"No man pages: python3, which writes them, is missing.\")")
endif()

# The command, for `calm install`; packages have a layout of their own.
if(TARGET calm_launch AND TARGET calm_simulator AND TARGET calmq)
    set(calm_share ${CMAKE_INSTALL_DATADIR}/calmalloc)
    file(RELATIVE_PATH calm_library_from_share /${calm_share}/lib
        /${CMAKE_INSTALL_LIBDIR}/libcalmalloc.so.${PROJECT_VERSION_MAJOR})
    file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/installed)
    file(CREATE_LINK ${calm_library_from_share} ${CMAKE_CURRENT_BINARY_DIR}/installed/library SYMBOLIC)
    install(PROGRAMS ${CMAKE_CURRENT_LIST_DIR}/calm-installed.sh DESTINATION ${CMAKE_INSTALL_BINDIR} RENAME calm
        COMPONENT calm EXCLUDE_FROM_ALL)
    install(DIRECTORY tools/calm DESTINATION ${calm_share}/tools COMPONENT calm EXCLUDE_FROM_ALL
        PATTERN __pycache__ EXCLUDE)
    install(FILES include/calmalloc/calmalloc.h DESTINATION ${calm_share}/include/calmalloc
        COMPONENT calm EXCLUDE_FROM_ALL)
    install(FILES src/front/options.def DESTINATION ${calm_share}/src/front COMPONENT calm EXCLUDE_FROM_ALL)
    install(FILES ${CMAKE_CURRENT_BINARY_DIR}/installed/library RENAME libcalmalloc.so
        DESTINATION ${calm_share}/lib COMPONENT calm EXCLUDE_FROM_ALL)
    install(FILES $<TARGET_FILE:calm_sizes>
        DESTINATION ${calm_share}/lib COMPONENT calm EXCLUDE_FROM_ALL)
    install(PROGRAMS $<TARGET_FILE:calm_launch> $<TARGET_FILE:calm_simulator> $<TARGET_FILE:calm_pool_measure>
        $<TARGET_FILE:calmq> DESTINATION ${calm_share}/lib COMPONENT calm EXCLUDE_FROM_ALL)
endif()
