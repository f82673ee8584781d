# CalmFlags: three interface targets that carry every compiler flag.
#
#   calm_warnings      warnings, errors with CALM_WERROR; for our own C and C++, tests included
#   calm_instrument    sanitizers and coverage; empty in a plain build
#   calm_library_flags how the allocator itself is compiled

add_library(calm_warnings INTERFACE)
set(calm_warnings_both -Wall -Wextra -Wpedantic -Wshadow -Wcast-qual -Wpointer-arith -Wundef -Wwrite-strings
    -Wformat=2 -Wvla -Wimplicit-fallthrough -Wdouble-promotion)
if(CALM_WERROR)
    list(APPEND calm_warnings_both -Werror)
endif()
set(calm_warnings_c -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition -Wmissing-declarations)
if(NOT CALM_SANITIZE) # gcc warns of conversions that its sanitizers add
    list(APPEND calm_warnings_c -Wconversion -Wsign-conversion)
endif()
target_compile_options(calm_warnings INTERFACE ${calm_warnings_both} $<$<COMPILE_LANGUAGE:C>:${calm_warnings_c}>)

add_library(calm_instrument INTERFACE)
if(CALM_SANITIZE)
    set(calm_sanitize_flags -fsanitize=${CALM_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_compile_options(calm_instrument INTERFACE ${calm_sanitize_flags})
    target_link_options(calm_instrument INTERFACE ${calm_sanitize_flags})
endif()
if(CALM_FUZZ)
    if(NOT CMAKE_C_COMPILER_ID STREQUAL "Clang")
        message(FATAL_ERROR "CALM_FUZZ needs clang: use the preset 'fuzz'.")
    endif()
    target_compile_options(calm_instrument INTERFACE -fsanitize=fuzzer-no-link)
endif()
if(CALM_COVERAGE)
    target_compile_options(calm_instrument INTERFACE --coverage)
    target_link_options(calm_instrument INTERFACE --coverage)
endif()

# A compiler that knows what malloc does may turn our own calloc, a malloc and a memset, into a call of calloc.
# Only these names are taken from it: memcpy and memset of constant size still become moves.
add_library(calm_library_flags INTERFACE)
foreach(name malloc calloc realloc free reallocarray aligned_alloc posix_memalign memalign valloc pvalloc)
    target_compile_options(calm_library_flags INTERFACE -fno-builtin-${name})
endforeach()
target_compile_options(calm_library_flags INTERFACE -fvisibility=hidden -fno-plt -ftls-model=initial-exec
    -fno-semantic-interposition)
# A loop stays a loop: memcpy, memset and strlen may be another library's, and ask for memory while a lock is held.
if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
    target_compile_options(calm_library_flags INTERFACE -fno-tree-loop-distribute-patterns)
endif()
