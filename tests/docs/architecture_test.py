"""The picture of the architecture is what tools/architecture.py draws of the sources, and the script says when it is
not: each change to a copy of them gives its sentence.

    architecture_test.py ROOT
"""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.abspath(sys.argv.pop())
SCRIPT = os.path.join(ROOT, "tools", "architecture.py")
PICTURE = "docs/images/architecture.svg"
SLAB = '#include "core/slab.h"'

# name: (file, words, what stands there then, what the script says)
BROKEN = {
    "an old picture": (PICTURE, "depot_refill", "depot_took", "is not what tools/architecture.py draws"),
    "an include more": ("src/core/slab.c", SLAB, SLAB + '\n#include "core/misuse.h"',
                        "is not what tools/architecture.py draws"),
    "an include upwards": ("src/core/slab.c", SLAB, SLAB + '\n#include "core/depot.h"',
                           "slabs includes depots, which is above it"),
    "a function that has gone": ("src/core/depot.c", "size_t depot_refill(", "size_t depot_taken(",
                                 "depot_refill() is not defined in depots"),
    "a function in another row": ("src/mem/span.c", "struct span span_acquire(", "struct span span_acquired(",
                                  "span_acquire() is not defined in mem"),
    "a call that has gone": ("src/core/depot.c", "slab_carve(bin)", "slab_cut(bin)",
                             "depots does not call slab_carve()"),
    "a call that is not in the table": ("src/core/heap.c", ".purge = purge_some", ".purge = 0",
                                        "purge_some() is not in the table of core/above.h"),
}


class Architecture(unittest.TestCase):
    def run_check(self, root):
        done = subprocess.run([sys.executable, SCRIPT, "--check", "--root", root], capture_output=True, text=True)
        self.assertEqual(done.stderr, "")
        return done.returncode, done.stdout

    def test_the_picture_is_current(self):
        self.assertEqual(self.run_check(ROOT), (0, ""))

    def test_what_no_longer_holds_is_said(self):
        with tempfile.TemporaryDirectory() as copy:
            for folder in ("src", "docs/images"):
                shutil.copytree(os.path.join(ROOT, folder), os.path.join(copy, folder))
            for name, (path, words, instead, sentence) in BROKEN.items():
                with self.subTest(name):
                    with open(os.path.join(copy, path), encoding="utf-8") as file:
                        text = file.read()
                    self.assertIn(words, text)
                    with open(os.path.join(copy, path), "w", encoding="utf-8") as file:
                        file.write(text.replace(words, instead))
                    code, said = self.run_check(copy)
                    self.assertEqual(code, 1)
                    self.assertIn(sentence, said)
                    with open(os.path.join(copy, path), "w", encoding="utf-8") as file:
                        file.write(text)


if __name__ == "__main__":
    unittest.main()
