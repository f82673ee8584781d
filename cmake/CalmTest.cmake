# CalmTest: what test directories use to register themselves.
#
#   calm_add_gtest(NAME name LABEL label SOURCES files... [LIBRARIES targets...] [ENVIRONMENT settings...])
#       a GoogleTest program; every TEST in it becomes one ctest entry `name.Suite.Test`. The target tests_<label>
#       builds all programs of a label.
#   calm_add_program(NAME name SOURCES files... [LIBRARIES targets...])
#       a plain C or C++ program; the caller adds tests that run it.
#   calm_add_script(NAME name LABEL label SCRIPT file [ARGS ...])
#       a Python script that passes by exiting 0; exit code 77 means skipped, with the reason printed.
#   calm_write_products()
#       called last: writes the list by which `calm test FILTER` knows what to build. A test needs the targets whose
#       files its command and its environment name. Where a script finds a file by itself, the test's property
#       REQUIRED_FILES names that file.

set(calm_googletest /usr/src/googletest) # Debian's sources, for another processor than this one
if(CMAKE_CROSSCOMPILING AND EXISTS ${calm_googletest})
    set(INSTALL_GTEST OFF)
    add_subdirectory(${calm_googletest} ${CMAKE_BINARY_DIR}/googletest EXCLUDE_FROM_ALL)
    set(GTest_FOUND ON)
else()
    find_package(GTest)
endif()
find_package(Python3 3.9 REQUIRED COMPONENTS Interpreter)
if(NOT GTest_FOUND)
    message(FATAL_ERROR "The tests need GoogleTest: apt-get install libgtest-dev. Without them: -DCALM_TESTS=OFF.")
endif()
include(GoogleTest)

set(CALM_TEST_TIMEOUT_S 900)

# GoogleTest's own programs are most of what a build compiles, and take half as long so. What they test is compiled as
# ever.
set(calm_gtest_options $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-Og;-g1>)

# C++ tests read our C17 headers: a few keywords are spelled differently there, and atomics come from
# tests/support/cpp. The headers count as system headers, so that only the tests' own lines are judged as C++.
add_library(calm_c_in_cpp INTERFACE)
target_include_directories(calm_c_in_cpp SYSTEM INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:${CMAKE_CURRENT_SOURCE_DIR}/tests/support/cpp>)
target_compile_definitions(calm_c_in_cpp INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:_Static_assert=static_assert;_Alignas=alignas;_Noreturn=>)

function(calm_add_program)
    cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME" "SOURCES;LIBRARIES")
    add_executable(${arg_NAME} ${arg_SOURCES})
    target_link_libraries(${arg_NAME} PRIVATE
        ${arg_LIBRARIES} calm_c_in_cpp calm_warnings calm_instrument Threads::Threads)
endfunction()

function(calm_add_gtest)
    cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME;LABEL;ENVIRONMENT" "SOURCES;LIBRARIES")
    set(environment)
    if(arg_ENVIRONMENT)
        set(environment ENVIRONMENT ${arg_ENVIRONMENT})
    endif()
    calm_add_program(NAME ${arg_NAME} SOURCES ${arg_SOURCES} ${PROJECT_SOURCE_DIR}/tests/support/apart_main.cpp
        LIBRARIES ${arg_LIBRARIES} GTest::gtest)
    target_compile_options(${arg_NAME} PRIVATE "${calm_gtest_options}")
    if(CMAKE_CROSSCOMPILING)
        target_sources(${arg_NAME} PRIVATE ${PROJECT_SOURCE_DIR}/tests/support/emulated.cpp)
    endif()
    if(NOT TARGET tests_${arg_LABEL})
        add_custom_target(tests_${arg_LABEL})
    endif()
    add_dependencies(tests_${arg_LABEL} ${arg_NAME})
    gtest_discover_tests(${arg_NAME} TEST_PREFIX ${arg_NAME}. DISCOVERY_MODE PRE_TEST
        PROPERTIES LABELS ${arg_LABEL} TIMEOUT ${CALM_TEST_TIMEOUT_S} ${environment})
    list(TRANSFORM arg_SOURCES PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/ REGEX "^[^/]")
    set_target_properties(${arg_NAME} PROPERTIES CALM_TESTS_IN "${arg_SOURCES}" CALM_TESTS_LABEL ${arg_LABEL})
endfunction()

function(calm_add_script)
    cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME;LABEL;SCRIPT" "ARGS")
    add_test(NAME ${arg_NAME} COMMAND Python3::Interpreter ${arg_SCRIPT} ${arg_ARGS})
    set_tests_properties(${arg_NAME} PROPERTIES LABELS ${arg_LABEL} TIMEOUT ${CALM_TEST_TIMEOUT_S}
        SKIP_RETURN_CODE 77)
endfunction()

function(calm_collect_targets folder found)
    get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
    get_property(folders DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
    foreach(below ${folders})
        calm_collect_targets(${below} more)
        list(APPEND targets ${more})
    endforeach()
    set(${found} ${targets} PARENT_SCOPE)
endfunction()

# A line for each target: its name, its file and, of a GoogleTest program, its label and its sources.
function(calm_write_products)
    calm_collect_targets(${PROJECT_SOURCE_DIR} targets)
    set(lines)
    foreach(target ${targets})
        get_target_property(type ${target} TYPE)
        if(type MATCHES "^(EXECUTABLE|(SHARED|STATIC|MODULE)_LIBRARY)$")
            string(APPEND lines "${target}|$<TARGET_FILE:${target}>")
            get_target_property(sources ${target} CALM_TESTS_IN)
            if(sources)
                get_target_property(label ${target} CALM_TESTS_LABEL)
                list(JOIN sources "|" sources)
                string(APPEND lines "|${label}|${sources}")
            endif()
            string(APPEND lines "\n")
        endif()
    endforeach()
    file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/calm-products.txt CONTENT "${lines}")
endfunction()
