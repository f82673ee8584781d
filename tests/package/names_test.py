"""The names of tests that `calm test` takes from sources are those that the built programs say they have.

    names_test.py BUILD_FOLDER

Seen to fail: with a pattern that knows no TEST_P.
"""
import os
import sys
import unittest

from support import ROOT, run

sys.path.insert(0, os.path.join(ROOT, "tools", "calm"))

import test_names  # noqa: E402


class Names(unittest.TestCase):
    def test_sources_and_programs_agree(self):
        checked = 0
        for product in test_names.products(sys.argv[1]):
            if product.sources and os.path.exists(product.path):
                checked += 1
                built, suite = set(), ""
                for line in run(product.path, "--gtest_list_tests").stdout.splitlines():
                    name = line.split("#")[0].strip()
                    if line[:1] != " ":
                        suite = name
                    elif "/" in suite:
                        built.add("%s.%s%s/*" % (product.target, suite, name.split("/")[0]))
                    else:
                        built.add("%s.%s%s" % (product.target, suite, name))
                self.assertEqual(set(product.names()), built, product.target)
        self.assertGreater(checked, 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
