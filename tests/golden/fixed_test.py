"""Shows that the libraries of fixed caches, which the lab compares ours with, have caches of that size.

    fixed_test.py LIBRARY FIXED_255 FIXED_1023

By instructions an operation: what a cache holds costs neither refill nor flush. `batch` has 1000 blocks alive and frees
them all, which 1023 hold and 255 do not; `pairs` needs one block and costs the same with all.
"""
import pathlib
import sys
import unittest

import rows_test
from rows_test import needs

LIBRARIES = dict(zip(("ours", "255", "1023"), sys.argv[1:4]))
SIZED = {"cache.c", "cache.h", "cache_arrays.c", "cache_sizes.h", "registry.c"}  # see cmake/CalmLibraries.cmake
ROOMY = "cache_kb=1048576"  # as in bench/harness/base.py
SOURCES = pathlib.Path(__file__).resolve().parents[2] / "src"


class Fixed(unittest.TestCase):
    def test_they_hold_what_their_names_say(self):
        if rows_test.why_not():
            needs.lacking(rows_test.why_not())
        counts = {name: rows_test.count(path, ROOMY, "batch|pairs-64") for name, path in LIBRARIES.items()}
        pairs, batches = ({name: each[row] for name, each in counts.items()} for row in ("pairs-64", "batch"))
        for name in ("255", "1023"):
            self.assertAlmostEqual(pairs[name] / pairs["ours"], 1, delta=0.02, msg=name)
        self.assertAlmostEqual(batches["1023"] / batches["ours"], 1, delta=0.06)
        self.assertGreater(batches["255"] / batches["1023"], 1.1)

    def test_no_other_source_looks_at_the_size(self):
        words = ("BLOCKS_FIXED", "CACHE_BYTES")
        found = {path.name for path in (SOURCES / "core").glob("*.[ch]") if any(map(path.read_text().count, words))}
        self.assertEqual(found - SIZED, set())


if __name__ == "__main__":
    needs.main(argv=sys.argv[:1], verbosity=2)
