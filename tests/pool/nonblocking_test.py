#!/usr/bin/env python3
"""The operations of pools neither block nor call what might: clang's own diagnostics of `nonblocking` functions say so.

They need clang 20. Where there is none, the clang inside of Zig is asked, which tools/zig.py installs.
"""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tools"))

import zig  # noqa: E402

FLAGS = ["-std=c17", "-O2", "-DCALM_CHECKS=1", "-Wfunction-effects", "-Werror=function-effects",
         "-I" + os.path.join(ROOT, "src"), "-I" + os.path.join(ROOT, "include"), "-c"]
SOURCES = ("pool.c", "region.c", "bounded.c")


def compiler():
    for name in ("clang-20", "clang-21"):
        if shutil.which(name):
            return [name]
    return [zig.compiler(zig.versions()[0]), "cc"]


class Diagnostics(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="calm-nonblocking-")
        cls.addClassCleanup(cls.folder.cleanup)
        cls.environment = dict(os.environ, ZIG_GLOBAL_CACHE_DIR=cls.folder.name, ZIG_LOCAL_CACHE_DIR=cls.folder.name)
        cls.compiler = compiler()

    def compiled(self, source):
        return subprocess.run([*self.compiler, *FLAGS, source, "-o", os.path.join(self.folder.name, "out.o")],
                              capture_output=True, text=True, env=self.environment)

    def written(self, text):
        path = os.path.join(self.folder.name, "written.c")
        with open(path, "w") as file:
            file.write(text)
        return path

    def test_the_operations_are_accepted(self):
        for name in SOURCES:
            done = self.compiled(os.path.join(ROOT, "src", "pool", name))
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_an_operation_that_calls_what_may_block_is_refused(self):
        with open(os.path.join(ROOT, "src", "pool", "pool.c")) as file:
            text = file.read()
        old = "    pool->failed++;\n"
        self.assertEqual(text.count(old), 1)
        changed = text.replace(old, old + '    puts("no");\n')
        done = self.compiled(self.written("int puts(const char *text);\n" + changed))
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("puts", done.stderr)

    def test_a_program_may_call_pools_where_it_may_not_call_malloc(self):
        program = ("#include <calmalloc/pool.h>\n#include <stdlib.h>\n"
                   "void tick(calm_pool *pool) __attribute__((nonblocking)) { %s; }\n")
        done = self.compiled(self.written(program % "calm_pool_free(pool, calm_pool_alloc(pool, 64))"))
        self.assertEqual(done.returncode, 0, done.stderr)
        done = self.compiled(self.written(program % "(void)pool; free(malloc(64))"))
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("malloc", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
