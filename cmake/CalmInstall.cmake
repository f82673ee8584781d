# CalmInstall: headers, libraries, CMake package and pkg-config file. The tree may be moved after installing.
if(NOT TARGET calmalloc)
    return()
endif()
