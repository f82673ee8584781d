# CalmFlags: four interface targets that carry every compiler flag.
#
#   calm_warnings      warnings, errors with CALM_WERROR; for our own C and C++, tests included
#   calm_instrument    sanitizers and coverage; empty in a plain build
#   calm_hardening     what distributions harden their packages by; empty in an instrumented build
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

# No look of these is in malloc's or free's fast path. Not -fcf-protection: it begins every function with an instruction
# more; who builds with it in CMAKE_C_FLAGS gets it. A choice made there about _FORTIFY_SOURCE stays.
include(CheckCCompilerFlag)
include(CheckCSourceCompiles)
add_library(calm_hardening INTERFACE)
if(NOT CALM_SANITIZE AND NOT CALM_FUZZ AND NOT CALM_COVERAGE)
    set(calm_hardening_flags -fstack-protector-strong -fstack-clash-protection)
    if(CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64")
        list(APPEND calm_hardening_flags -mbranch-protection=standard)
    endif()
    foreach(flag ${calm_hardening_flags})
        string(MAKE_C_IDENTIFIER "CALM_HAS${flag}" has_flag)
        check_c_compiler_flag(${flag} ${has_flag})
        if(${has_flag})
            target_compile_options(calm_hardening INTERFACE ${flag})
        endif()
    endforeach()
    check_c_source_compiles("
#ifdef _FORTIFY_SOURCE
#error chosen
#endif
int main(void) { return 0; }" CALM_FORTIFY_IS_FREE)
    if(CALM_FORTIFY_IS_FREE AND NOT CMAKE_BUILD_TYPE STREQUAL "Debug") # it needs an optimising compiler
        target_compile_definitions(calm_hardening INTERFACE _FORTIFY_SOURCE=2)
    endif()
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
