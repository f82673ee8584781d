"""The Zig package on one Zig: its own tests, with and without libc, and what a program that has no libc is like.

    zig_test.py VERSION      one of bindings/zig/versions.txt, which is installed if it is not there
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from support import ROOT, run, skip

sys.path.insert(0, os.path.join(ROOT, "tools"))

import zig  # noqa: E402

PACKAGE = os.path.join(ROOT, "bindings", "zig")
WORDS = '12 words, "the" 4 times\n'


def build(version, *words):
    """Runs `zig build` on the package, its caches beside the compilers."""
    caches = os.path.join(os.path.dirname(zig.folder_of(version)), "cache", version)
    environment = dict(os.environ, ZIG_GLOBAL_CACHE_DIR=caches, ZIG_LOCAL_CACHE_DIR=caches)
    return run(zig.compiler(version), "build", *words, cwd=PACKAGE, env=environment)


class Package(unittest.TestCase):
    version = None

    def test_the_tests_of_the_binding_and_of_the_standard_library_pass(self):
        build(self.version, "test", "-Doptimize=ReleaseSafe")

    def test_so_they_do_with_libc(self):
        if self.version != zig.versions()[0]:
            self.skipTest("the newest Zig's stands for all")
        build(self.version, "test", "-Doptimize=ReleaseSafe", "-Dlibc=true")

    def test_the_drop_in_example_is_static_and_runs(self):
        folder = tempfile.mkdtemp(prefix="calm-zig-")
        self.addCleanup(shutil.rmtree, folder)
        build(self.version, "examples", "-Doptimize=ReleaseFast", "--prefix", folder)
        program = os.path.join(folder, "bin", "drop_in")
        done = subprocess.run([program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, WORDS))
        headers = run("readelf", "-lW", program).stdout
        self.assertIsNone(re.search(r"INTERP|DYNAMIC", headers), headers)


if __name__ == "__main__":
    Package.version = sys.argv[1]
    try:
        zig.compiler(Package.version)
    except zig.Trouble as trouble:
        skip(str(trouble))
    unittest.main(argv=sys.argv[:1])
