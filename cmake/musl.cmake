# musl: another C library, by the wrapper around this machine's compiler that Debian has. C only.
#
#   apt-get install musl-tools
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ${CMAKE_HOST_SYSTEM_PROCESSOR})
set(CMAKE_C_COMPILER musl-gcc)
