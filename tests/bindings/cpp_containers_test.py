"""Abseil's and Boost's containers on calm::allocator: apt-get install libabsl-dev libboost-dev."""
import os
import shutil
import sys
import tempfile
import unittest

from support import HERE, ROOT, run

NEEDED = {"libabsl-dev": "/usr/include/absl/container/btree_map.h",
          "libboost-dev": "/usr/include/boost/container/stable_vector.hpp"}


class Containers(unittest.TestCase):
    def test_they_hold_what_they_are_given(self):
        missing = [package for package, header in NEEDED.items() if not os.path.exists(header)]
        self.assertEqual(missing, [], "apt-get install " + " ".join(missing))
        folder = tempfile.mkdtemp(prefix="calm-containers-")
        self.addCleanup(shutil.rmtree, folder)
        run(sys.executable, os.path.join(ROOT, "tools", "amalgamate.py"), "--out", folder)
        program, library = os.path.join(folder, "containers"), os.path.join(folder, "calmalloc.o")
        absl = run("pkg-config", "--cflags", "--libs", "absl_flat_hash_map", "absl_node_hash_map", "absl_btree",
                   "absl_inlined_vector").stdout.split()
        run("gcc", "-O2", "-c", os.path.join(folder, "calmalloc.c"), "-o", library)
        run("g++", "-std=c++17", "-O1", "-I", folder, os.path.join(HERE, "containers.cpp"), library, "-o", program,
            *absl, "-pthread")
        self.assertEqual(run(program).stdout, "all hold\n")


if __name__ == "__main__":
    unittest.main()
