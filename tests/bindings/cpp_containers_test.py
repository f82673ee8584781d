"""Abseil's and Boost's containers on calm::allocator: apt-get install libabsl-dev libboost-dev."""
import itertools
import os
import shutil
import sys
import tempfile
import unittest

from support import HERE, ROOT, needs, run

NEEDED = {"libabsl-dev": "/usr/include/absl/container/btree_map.h",
          "libboost-dev": "/usr/include/boost/container/stable_vector.hpp"}
BOOSTS = ("-Wno-deprecated-declarations",)  # its map calls what C++20 deprecates of polymorphic allocators


class Containers(unittest.TestCase):
    def test_they_hold_what_they_are_given(self):
        missing = [package for package, header in NEEDED.items() if not os.path.exists(header)]
        if missing:
            needs.lacking("%s missing; `./calm test --setup --full` brings it." % " and ".join(missing))
        folder = tempfile.mkdtemp(prefix="calm-containers-")
        self.addCleanup(shutil.rmtree, folder)
        run(sys.executable, os.path.join(ROOT, "tools", "amalgamate.py"), "--out", folder)
        library = os.path.join(folder, "calmalloc.o")
        absl = run("pkg-config", "--cflags", "--libs", "absl_flat_hash_map", "absl_node_hash_map", "absl_btree",
                   "absl_inlined_vector").stdout.split()
        run("gcc", "-O2", "-c", os.path.join(folder, "calmalloc.c"), "-o", library)
        compilers = ("g++", "clang++-19")
        for compiler, standard in itertools.product(compilers, ("c++17", "c++20")):
            with self.subTest(compiler + " " + standard):
                needs.here(compiler)
                program = os.path.join(folder, "containers")
                run(compiler, "-std=" + standard, "-O1", "-Wall", "-Wextra", "-Werror", *BOOSTS, "-I",
                    folder, os.path.join(HERE, "containers.cpp"), library, "-o", program, *absl, "-pthread")
                self.assertEqual(run(program).stdout, "all hold\n")


if __name__ == "__main__":
    needs.main()
