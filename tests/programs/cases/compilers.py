"""Compilers and build tools: what they make must be the same to the byte, and must itself run on the library."""

import hashlib
import re

from cases import case
from harness import SCRIPTS, find_program

PROJECT = """\
cmake_minimum_required(VERSION 3.13)
project(tour LANGUAGES C CXX)
include(CheckCXXSourceCompiles)
include(CheckIncludeFile)
check_include_file(stdlib.h HAVE_STDLIB)
check_cxx_source_compiles("#include <vector>\\nint main() { return int(std::vector<int>(3).size()) - 3; }" HAVE_VECTOR)
find_package(Threads REQUIRED)
foreach(i RANGE 400)
    string(SHA256 hash "${hash}${i}")
    list(APPEND hashes ${hash})
    string(REPLACE "a" "bc" text "${hashes}")
    file(WRITE ${CMAKE_BINARY_DIR}/unit${i}.c "const char *unit${i}(void) { return \\"${hash}\\"; }\\n")
endforeach()
list(SORT hashes)
list(REMOVE_DUPLICATES hashes)
list(LENGTH hashes count)
string(SHA256 all "${text}${hashes}")
message(STATUS "${count} ${all} ${HAVE_STDLIB} ${HAVE_VECTOR}")
add_executable(main main.cpp ${CMAKE_BINARY_DIR}/unit7.c ${CMAKE_BINARY_DIR}/unit9.c)
target_link_libraries(main Threads::Threads)
enable_testing()
add_test(NAME main COMMAND main)
"""
MAIN = """\
#include <iostream>
#include <string>
extern "C" const char *unit7(void);
extern "C" const char *unit9(void);
int main() { std::cout << std::string(unit7()) + unit9() << std::endl; }
"""
WRONG = """\
#include <map>
#include <string>
template <class T> struct wrapped { typename T::missing member; };
int main() { std::map<std::string, wrapped<int>> map; return map["x"] + undeclared; }
"""


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def compile_and_run(world, compiler, options):
    """One seed, for symbol names would otherwise be random; errors are compared as well as what compiles."""
    world.run(
        compiler,
        "-std=c++17",
        "-O2",
        "-g",
        "-pthread",
        "-frandom-seed=1",
        *options,
        "-c",
        SCRIPTS / "tour.cpp",
        "-o",
        "tour.o"
    )
    world.state("object file", digest(world.work / "tour.o"))
    world.run(compiler, "-pthread", *options, "tour.o", "-o", "tour")
    world.run("./tour")
    (world.work / "wrong.cpp").write_text(WRONG)
    step = world.run(compiler, "-std=c++17", "-c", "wrong.cpp", expect=1)
    world.state("messages", step.stderr)


@case("gcc", "programs", ("g++",), 150, must_see=("cc1plus", "cc1", r".*\bas", r".*\bld(\.bfd)?", "tour"))
def gcc(world):
    compile_and_run(world, find_program("g++"), [])
    (world.work / "a.c").write_text("int twice(int n) { return 2 * n; }\n")
    (world.work / "b.c").write_text("int twice(int n);\nint main(void) { return twice(21); }\n")
    world.run(find_program("gcc"), "-O3", "-flto", "-frandom-seed=1", "a.c", "b.c", "-o", "linked")
    world.run("./linked", expect=42)


@case("clang", "full", ("clang-19",), 240, must_see=("clang.*", "tour"))
def clang(world):
    compile_and_run(world, find_program("clang++-19", "clang++", "clang++-14"), [])


@case("cmake", "programs", ("cmake", "g++", "make"), 120, must_see=("cmake", "cc1plus", "make|gmake", "ctest", "main"))
def cmake(world):
    (world.work / "CMakeLists.txt").write_text(PROJECT)
    (world.work / "main.cpp").write_text(MAIN)
    find_program("make")
    seconds = re.compile(rb"\([0-9.]+s\)")
    world.run(
        find_program("cmake"), "-G", "Unix Makefiles", "-B", "build", normalise=lambda text: seconds.sub(b"", text)
    )
    world.run(find_program("cmake"), "--build", "build", "-j2", compare=False)
    world.run("build/main")
    world.run(find_program("ctest"), "--test-dir", "build", compare=False)
    world.state("cache", b"\n".join(sorted((world.work / "build" / "CMakeCache.txt").read_bytes().splitlines())))
