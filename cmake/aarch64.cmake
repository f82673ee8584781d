# aarch64: Debian's cross compiler, and qemu's user mode to run what it makes.
#
#   apt-get install gcc-aarch64-linux-gnu g++-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)

# The C library for aarch64: the emulator's programs find it there.
set(calm_aarch64_root /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH ${calm_aarch64_root})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)

# 4 GiB of addresses: the emulator has a table with an entry for each page that a program reserves.
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -R 0x100000000 -L ${calm_aarch64_root}
    CACHE STRING "what runs programs for aarch64")
