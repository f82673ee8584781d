"""The instructions that the Zig adapter adds to C's calls, counted as they run: at most two.

    zig_fast_path_test.py STEP

One program has C's functions and the adapter, compiled together. Its allocator is known to the compiler (direct), or
reached over a table (table).
"""
import json
import os
import re
import shutil
import sys
import tempfile
import unittest

from support import ROOT, run, skip
from zig_test import build, zig

STEP = sys.argv[1]
ADDED_MAX = 2


def functions_of(path):
    """The program's instructions by offset in its image, and the function that each is in."""
    starts = re.findall(r"^ +LOAD +\S+ (0x[0-9a-f]+)", run("readelf", "-lW", path).stdout, flags=re.M)
    base = min(int(start, 16) for start in starts)
    found, function = {}, None
    for line in run("objdump", "-d", "--no-show-raw-insn", path).stdout.splitlines():
        head = re.match(r"^[0-9a-f]+ <(.*)>:$", line)
        body = re.match(r"^\s+([0-9a-f]+):\s", line)
        if head:
            function = head.group(1)
        elif body:
            found[int(body.group(1), 16) - base] = function
    return found


class FastPath(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.mkdtemp(prefix="calm-zig-")
        cls.addClassCleanup(shutil.rmtree, folder)
        build(zig.versions()[0], "pair", "-Doptimize=ReleaseFast", "-Dcpu=baseline", "--prefix", folder)
        program = os.path.join(folder, "bin", "pair")
        functions = functions_of(program)
        cls.counts = {}
        for which in ("c", "direct", "table"):
            done = run(STEP, program, which, check=False)
            if done.returncode == 77:
                skip(done.stderr.strip())
            steps = json.loads(done.stdout)
            for step in ("alloc", "free"):
                caller = functions[steps[step][0]]
                cls.counts[which, step] = sum(functions[offset] != caller for offset in steps[step])
        print(cls.counts)

    def test_the_adapter_adds_at_most_two_instructions(self):
        for step in ("alloc", "free"):
            self.assertGreater(self.counts["c", step], 10)
            for which in ("direct", "table"):
                with self.subTest(which + " " + step):
                    self.assertLessEqual(self.counts[which, step], self.counts["c", step] + ADDED_MAX)

    def test_a_sized_free_takes_fewer_than_an_unsized_one(self):
        self.assertLess(self.counts["direct", "free"], self.counts["c", "free"])


if __name__ == "__main__":
    if not os.path.exists(zig.installed(zig.versions()[0])):
        skip("Zig is not installed; python3 tools/zig.py brings it.")
    unittest.main(argv=sys.argv[:1])
