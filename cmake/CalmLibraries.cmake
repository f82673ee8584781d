# CalmLibraries: sources by layer, and the five libraries made of them. Those that are installed have, here as after
# find_package, the names calmalloc::calmalloc, calmalloc::static, calmalloc::pool and calmalloc::exec.

find_package(Threads REQUIRED)

set(calm_src ${CMAKE_CURRENT_SOURCE_DIR}/src)
file(GLOB calm_sources_core CONFIGURE_DEPENDS ${calm_src}/base/*.c ${calm_src}/os/*.c ${calm_src}/mem/*.c
    ${calm_src}/core/*.c ${calm_src}/site/*.c ${calm_src}/front/*.c)
file(GLOB calm_sources_pool CONFIGURE_DEPENDS ${calm_src}/pool/*.c)
list(APPEND calm_sources_core ${calm_sources_pool})
file(GLOB calm_sources_linux CONFIGURE_DEPENDS ${calm_src}/os/linux/*.c)
list(FILTER calm_sources_linux EXCLUDE REGEX "/worker\\.c$") # the executor's
file(GLOB calm_sources_sim CONFIGURE_DEPENDS ${calm_src}/os/sim/*.c)
file(GLOB calm_sources_libc CONFIGURE_DEPENDS ${calm_src}/libc/*.c)
# First, where it lies beside what every program calls (calm_sources_usual).
list(REMOVE_ITEM calm_sources_libc ${calm_src}/libc/malloc.c)
list(PREPEND calm_sources_libc ${calm_src}/libc/malloc.c)
include(CheckSymbolExists)
check_symbol_exists(__GLIBC__ features.h CALM_HAS_GLIBC)
if(NOT CALM_HAS_GLIBC)
    list(FILTER calm_sources_libc EXCLUDE REGEX "/glibc\\.c$")
endif()

# A stack protector calls the C library when it fails, and its looks would count in the pools' bound.
set_source_files_properties(${calm_sources_pool} PROPERTIES COMPILE_OPTIONS -fno-stack-protector)

# Link-time optimisation does not know the names that assembly outside functions defines and uses.
set_source_files_properties(${calm_src}/libc/children.c PROPERTIES COMPILE_OPTIONS -fno-lto)

# calm_objects(NAME CHECKS SOURCES...): objects compiled the way the allocator is.
function(calm_objects name checks)
    set(empty ${CMAKE_CURRENT_BINARY_DIR}/empty.c)
    file(WRITE ${empty} "typedef int calm_empty;\n") # a layer without sources is still a target
    add_library(${name} OBJECT ${ARGN} ${empty})
    target_link_libraries(${name} PRIVATE calm_warnings calm_library_flags calm_hardening calm_instrument)
    calm_interface(${name} ${checks})
    set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
endfunction()

# calm_interface(NAME CHECKS): what whoever compiles against our sources needs to see.
function(calm_interface name checks)
    target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/include ${calm_src})
    target_include_directories(${name} SYSTEM INTERFACE ${PROJECT_SOURCE_DIR}/include ${calm_src})
    target_compile_definitions(${name} PUBLIC CALM_CHECKS=${checks})
endfunction()

# What sealing needs to know of how the objects were compiled: it makes machine code of them, whatever they are. By the
# compiler's own linker, since mold 1.10 stops at -r of gcc's; but lld reads clang's without a plugin.
string(REGEX MATCHALL "-flto[^ ]*" calm_seal_flags "${CMAKE_C_FLAGS}")
if(CMAKE_INTERPROCEDURAL_OPTIMIZATION)
    list(APPEND calm_seal_flags ${CMAKE_C_COMPILE_OPTIONS_IPO})
endif()
if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
    list(APPEND calm_seal_flags -flinker-output=nolto-rel)
elseif("${CMAKE_C_FLAGS} ${CMAKE_SHARED_LINKER_FLAGS}" MATCHES "-fuse-ld=lld[^ ]*")
    list(APPEND calm_seal_flags ${CMAKE_MATCH_0})
endif()

# calm_sealed(NAME FROM targets... [EXCEPT regex] [SHARED names...]): one object made of theirs, ${NAME}_objects in the
# caller, of which other files see the public names alone: a static program may name its functions as ours are named
# inside. SHARED are names that our own libraries need of each other: they become calm_NAME, still hidden. Instrumented
# objects stay as they are, because their compilers' own names must meet at the link.
set(calm_shared_names pools_used pools_find_slow pool_look)
function(calm_sealed name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "EXCEPT" "FROM;SHARED")
    if(NOT arg_EXCEPT)
        set(arg_EXCEPT "^$")
    endif()
    set(objects)
    foreach(target ${arg_FROM})
        list(APPEND objects $<FILTER:$<TARGET_OBJECTS:${target}>,EXCLUDE,${arg_EXCEPT}>)
    endforeach()
    if(CALM_SANITIZE OR CALM_FUZZ OR CALM_COVERAGE)
        set(${name}_objects ${objects} PARENT_SCOPE)
        add_custom_target(${name})
        return()
    endif()
    set(sealed ${CMAKE_CURRENT_BINARY_DIR}/sealed/${name}.o)
    list(TRANSFORM calm_shared_names REPLACE "(.+)" "--redefine-sym=\\1=calm_\\1" OUTPUT_VARIABLE renamed)
    list(TRANSFORM arg_SHARED REPLACE "(.+)" "--globalize-symbol=calm_\\1" OUTPUT_VARIABLE kept)
    file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/sealed)
    # The probes' base is one for the whole program, whoever else has probes.
    add_custom_command(OUTPUT ${sealed}
        COMMAND ${CMAKE_C_COMPILER} ${calm_seal_flags} -r -nostdlib ${objects} -o ${sealed}
        COMMAND ${CMAKE_OBJCOPY} --localize-hidden ${renamed} ${sealed}
        COMMAND ${CMAKE_OBJCOPY} --globalize-symbol=_.stapsdt.base ${kept} ${sealed}
        DEPENDS ${objects} COMMAND_EXPAND_LISTS VERBATIM COMMENT "Sealing ${name}.o")
    set_source_files_properties(${sealed} PROPERTIES GENERATED ON EXTERNAL_OBJECT ON)
    add_custom_target(${name} DEPENDS ${sealed}) # who makes it when several libraries have it
    add_dependencies(${name} ${arg_FROM})
    set(${name}_objects ${sealed} PARENT_SCOPE)
endfunction()

# What a small program never calls comes last, and so lies in pages that the kernel does not map.
set(calm_sources_rare ${calm_sources_core} ${calm_sources_linux})
list(FILTER calm_sources_rare INCLUDE REGEX "/(site|pool)/|/front/(api|cohorts|sites|stats|watch)|/cache_mend\\.c$\
|/core/(compact|misuse|misuse_search|sampled|sampled_small|deferred|depot_mend)\\.c$\
|/mem/cold\\.c$|/linux/(dump|loader|modules|stack|swap)")
list(FILTER calm_sources_rare EXCLUDE REGEX "/site/(intern|learned|second|site|wrapper)\\.c$")
set(calm_sources_usual ${calm_sources_core} ${calm_sources_linux})
list(REMOVE_ITEM calm_sources_usual ${calm_sources_rare})
calm_objects(calm_core_objects ${CALM_CHECKS} ${calm_sources_usual} ${calm_sources_rare})

# calm_stamp(TARGET): the worst cases of its pools' operations go into the finished file, for calm_pool_bound; where
# they cannot be computed, as without Python or objdump or with other optimisations, it says that nobody did.
find_package(Python3 3.9 QUIET COMPONENTS Interpreter)
function(calm_stamp target)
    if(Python3_FOUND AND NOT CALM_SANITIZE AND NOT CALM_FUZZ AND NOT CALM_COVERAGE)
        add_custom_command(TARGET ${target} POST_BUILD VERBATIM
            COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/tools/bound --stamp $<TARGET_FILE:${target}>
                || ${CMAKE_COMMAND} -E true)
    endif()
endfunction()

add_library(calmalloc_core STATIC $<TARGET_OBJECTS:calm_core_objects>)
calm_interface(calmalloc_core ${CALM_CHECKS})
target_link_libraries(calmalloc_core PUBLIC Threads::Threads $<BUILD_INTERFACE:calm_instrument>)
set_target_properties(calmalloc_core PROPERTIES LINKER_LANGUAGE C)
calm_stamp(calmalloc_core)

# The pools by themselves: freestanding, nothing of the C library but memset and memcpy.
calm_objects(calm_pool_objects ${CALM_CHECKS} ${calm_sources_pool} ${calm_src}/os/linux/claim.c)
add_library(calm_freestanding INTERFACE)
target_compile_options(calm_freestanding INTERFACE -ffreestanding -fno-stack-protector)
target_link_libraries(calm_pool_objects PRIVATE calm_freestanding)
calm_sealed(calm_sealed_pool FROM calm_pool_objects SHARED ${calm_shared_names})
add_library(calmpool STATIC ${calm_sealed_pool_objects})
add_dependencies(calmpool calm_sealed_pool)
add_library(calmalloc::pool ALIAS calmpool)
set_target_properties(calmpool PROPERTIES EXPORT_NAME pool LINKER_LANGUAGE C)
calm_stamp(calmpool)
target_include_directories(calmpool INTERFACE $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/include>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(calmpool PRIVATE $<BUILD_INTERFACE:calm_instrument>)

# The executor, on the pools and on a few words of the kernel's; without its own files the policies (CalmSimulator).
file(GLOB calm_sources_exec CONFIGURE_DEPENDS ${calm_src}/exec/*.c)
set(calm_executor_files "exec|exec_stats|dispatch|worker|inbox|ring|running")
calm_objects(calm_exec_objects ${CALM_CHECKS} ${calm_sources_exec} ${calm_src}/os/linux/worker.c
    ${calm_src}/os/linux/wait.c ${calm_src}/os/linux/claim.c)
calm_sealed(calm_sealed_exec FROM calm_exec_objects)
add_library(calmexec STATIC ${calm_sealed_exec_objects})
add_dependencies(calmexec calm_sealed_exec)
add_library(calmalloc::exec ALIAS calmexec)
set_target_properties(calmexec PROPERTIES EXPORT_NAME exec LINKER_LANGUAGE C)
target_include_directories(calmexec INTERFACE $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/include>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(calmexec PUBLIC calmpool Threads::Threads PRIVATE $<BUILD_INTERFACE:calm_instrument>)

# The same with the names inside, for its unit tests.
add_library(calmexec_core STATIC EXCLUDE_FROM_ALL $<TARGET_OBJECTS:calm_exec_objects>)
target_link_libraries(calmexec_core PUBLIC calmpool Threads::Threads $<BUILD_INTERFACE:calm_instrument>)
set_target_properties(calmexec_core PROPERTIES LINKER_LANGUAGE C)

calm_objects(calm_sim_objects ${CALM_CHECKS} EXCLUDE_FROM_ALL ${calm_sources_core} ${calm_sources_sim})
add_library(calmalloc_sim STATIC EXCLUDE_FROM_ALL $<TARGET_OBJECTS:calm_sim_objects>)
calm_interface(calmalloc_sim ${CALM_CHECKS})
target_link_libraries(calmalloc_sim PUBLIC Threads::Threads $<BUILD_INTERFACE:calm_instrument>)
set_target_properties(calmalloc_sim PROPERTIES LINKER_LANGUAGE C)

# The interposers do not exist in instrumented builds: a sanitizer brings a malloc of its own.
if(CALM_SANITIZE OR CALM_FUZZ)
    return()
endif()

calm_objects(calm_libc_objects ${CALM_CHECKS} ${calm_sources_libc})

# calm_shared_library(NAME OBJECTS...): linked the way libcalmalloc.so is.
function(calm_shared_library name)
    add_library(${name} SHARED ${ARGN})
    set(map ${calm_src}/libc/calmalloc.map)
    target_link_options(${name} PRIVATE -Wl,--version-script=${map} -Wl,-z,now -Wl,-z,relro -Wl,-z,nodelete -Wl,-z,defs
        -Wl,--as-needed -Wl,--hash-style=gnu)
    set_target_properties(${name} PROPERTIES LINK_DEPENDS ${map} LINKER_LANGUAGE C)
    target_link_libraries(${name} PRIVATE calm_instrument Threads::Threads)
endfunction()

# Here, too, what is rare comes last.
calm_shared_library(calmalloc $<FILTER:$<TARGET_OBJECTS:calm_libc_objects>,EXCLUDE,/alloc_token[.]c>
    $<TARGET_OBJECTS:calm_core_objects> $<FILTER:$<TARGET_OBJECTS:calm_libc_objects>,INCLUDE,/alloc_token[.]c>)
add_library(calmalloc::calmalloc ALIAS calmalloc)
calm_stamp(calmalloc)
set_target_properties(calmalloc PROPERTIES SOVERSION 0 VERSION ${PROJECT_VERSION})
target_include_directories(calmalloc INTERFACE $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/include>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

# The same with caches of a fixed size, as the lab compares them (bench/harness/libraries.py): the sources that look at
# it compiled once more, the others as they are. golden.fixed says whether these are still the sources that do.
set(calm_sized_sources "core/(cache|cache_arrays|registry)[.]c")
foreach(blocks 255 1023)
    calm_objects(calm_fixed_${blocks}_objects ${CALM_CHECKS} EXCLUDE_FROM_ALL ${calm_src}/core/cache.c
        ${calm_src}/core/cache_arrays.c ${calm_src}/core/registry.c)
    target_compile_definitions(calm_fixed_${blocks}_objects PRIVATE CALM_CACHE_BLOCKS=${blocks})
    calm_shared_library(calmalloc_fixed_${blocks} EXCLUDE_FROM_ALL $<TARGET_OBJECTS:calm_fixed_${blocks}_objects>
        $<FILTER:$<TARGET_OBJECTS:calm_core_objects>,EXCLUDE,${calm_sized_sources}> $<TARGET_OBJECTS:calm_libc_objects>)
endforeach()

# Its pools are the very object of libcalmpool.a, so that a program may link both.
calm_sealed(calm_sealed_heap FROM calm_core_objects calm_libc_objects EXCEPT /src/pool/)
add_library(calmalloc_static STATIC ${calm_sealed_heap_objects} ${calm_sealed_pool_objects})
add_dependencies(calmalloc_static calm_sealed_heap calm_sealed_pool)
add_library(calmalloc::static ALIAS calmalloc_static)
calm_stamp(calmalloc_static)
set_target_properties(calmalloc_static PROPERTIES OUTPUT_NAME calmalloc EXPORT_NAME static LINKER_LANGUAGE C)
target_include_directories(calmalloc_static INTERFACE $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/include>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(calmalloc_static PUBLIC Threads::Threads PRIVATE $<BUILD_INTERFACE:calm_instrument>)

# What `calm run` starts programs from.
add_executable(calm_launch ${CMAKE_CURRENT_SOURCE_DIR}/tools/launch/calm_launch.c)
target_link_libraries(calm_launch PRIVATE calm_warnings calm_hardening)
target_link_options(calm_launch PRIVATE -Wl,-z,now -Wl,-z,relro)

# What `calm run --sizes` puts in front of the library.
add_library(calm_sizes SHARED ${CMAKE_CURRENT_SOURCE_DIR}/tools/launch/calm_sizes.c)
target_link_libraries(calm_sizes PRIVATE calm_warnings calm_hardening Threads::Threads ${CMAKE_DL_LIBS})
target_link_options(calm_sizes PRIVATE -Wl,-z,now -Wl,-z,relro)
target_compile_options(calm_sizes PRIVATE -fno-builtin -fexceptions)
