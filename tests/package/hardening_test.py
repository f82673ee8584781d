"""The libraries are built as distributions harden theirs, where that costs the fast paths nothing.

    hardening_test.py LIBCALMALLOC_SO LIBCALMALLOC_A LIBCALMPOOL_A PROGRAM...
"""
import re
import sys
import unittest

from support import run

SHARED, HEAP, POOL, *PROGRAMS = sys.argv[1:]
FAST = ("malloc", "free", "calloc", "_Znwm", "_ZdlPv", "_ZdlPvm")


def undefined(archive):
    return {line.split()[-1] for line in run("nm", "--undefined-only", archive).stdout.splitlines() if " U " in line}


def disassembly(path, name):
    text = run("objdump", "-d", "--no-show-raw-insn", "--disassemble=" + name, path).stdout
    return text if "<%s>:" % name in text else ""


class Hardening(unittest.TestCase):
    def test_tables_of_the_linker_are_read_only(self):
        for path in (SHARED, *PROGRAMS):
            with self.subTest(path):
                self.assertIn("GNU_RELRO", run("readelf", "-lW", path).stdout)
                self.assertRegex(run("readelf", "-dW", path).stdout, r"BIND_NOW|FLAGS_1.*NOW")

    def test_no_stack_is_executable(self):
        for path in (SHARED, *PROGRAMS):
            with self.subTest(path):
                self.assertRegex(run("readelf", "-lW", path).stdout, r"GNU_STACK .* RW ")

    def test_functions_with_arrays_look_after_their_frames(self):
        self.assertIn("__stack_chk_fail", undefined(HEAP))
        self.assertIn("__stack_chk_fail", run("nm", "-D", "--undefined-only", SHARED).stdout)

    def test_the_fast_paths_have_no_frames_to_look_after(self):
        for name in FAST:
            with self.subTest(name):
                code = disassembly(SHARED, name)
                self.assertNotEqual(code, "")
                self.assertIsNone(re.search(r"%fs:0x28|__stack_chk", code))

    def test_the_pools_stay_free_of_the_c_library(self):
        self.assertEqual(undefined(POOL) - {"memset", "memcpy", "_GLOBAL_OFFSET_TABLE_"}, set())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
