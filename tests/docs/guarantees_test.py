"""Shows that docs/guarantees.md names tests that exist, and that each rule of guarantees_check.py can fail.

guarantees_test.py [BUILD]      a release build's folder; without one, the tree is configured in a folder of its own
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BUILD = ""
sys.dont_write_bytecode = True
sys.path.insert(0, HERE)

import guarantees_check as checks  # noqa: E402

ROW = "| Blocks are apart; `calm_one()`. | None. | %s |\n"
TABLE = "| promise | limits | held by |\n|---|---|---|\n"
TESTS = "`unit.one`, `One.IsOne`, `test_one`, `model.one`, `slow.one` (full)"


def page(rows=ROW % TESTS, tail="", last="\n## Promised, and held by no test\n\n- Nothing.\n"):
    """Each part has the rows; the last one `tail`, too."""
    parts = "".join("## %s\n\n%s%s\n" % (part, TABLE, rows) for part in checks.PARTS)
    return "# Promises\n\nSee [one](design/one.md#about-one) and `calm::one`.\n\n" + parts + tail + last


CLEAN = {
    "docs/guarantees.md": page(),
    "docs/mechanisms.md": "# Why\n\n| `mem/one.c` | `unit.one`, `One.*` |\n",
    "docs/design/one.md": "# One\n\n## About `one`\n",
    "docs/protocols/one.md": "# One\n\n**Not covered**: two.\n\nModel: `tests/model/one_model.c`.\n",
    "include/calmalloc/one.h": "/* calm_two(). */\n#define CALM_THREE() \\\n    calm_three()\nint calm_one(void);\n",
    "include/calmalloc/one.hpp": "namespace detail\n{\nclass inner\n{\n};\n} // namespace detail\n\nclass one\n{\n};\n",
    "tests/model/one_model.c": "/* one_model.c: one.   Not covered: two. */\n",
    "tests/model/two.pml": "/* Not covered: two. */\n",
    "tests/proof/one_test.py": '"""Not covered: two."""\n',
    "tests/unit/one_test.cpp": "TEST(One, IsOne)\n",
    "tests/unit/one_test.py": "    def test_one(self):\n",
}
LISTED = {"unit.one": ["unit"], "model.one": ["model"], "slow.one": ["full"]}


def extra(row):
    return {"docs/guarantees.md": page(tail="\n" + TABLE + row)}


# name: (what is different of CLEAN, words of the finding)
BROKEN = {
    "a test of ctest that is gone": (extra(ROW % "`unit.two`"), "no test unit.two"),
    "a case of GoogleTest that is gone": (extra(ROW % "`One.IsTwo`"), "no test One.IsTwo"),
    "a case of Python that is gone": (extra(ROW % "`test_two`"), "no test test_two"),
    "a test of a mechanism that is gone": ({"docs/mechanisms.md": "| `One.IsTwo` |\n"}, "no test One.IsTwo"),
    "a pattern that no test has": (extra(ROW % "`unit.t*`"), "no test unit.t*"),
    "a slow test that is not said to be": (extra(ROW % "`slow.one`"), "is (full)"),
    "a test that is said to be slow": (extra(ROW % "`unit.one` (full)"), "is not (full)"),
    "a row without a test": (extra("| One. | None. | it is plain |\n"), "held by no test"),
    "a row without limits": (extra("| One. | - | `unit.one` |\n"), "no limits"),
    "a row without a promise": (extra("| | None. | `unit.one` |\n"), "no more and no less"),
    "a row of two cells": (extra("| One. | `unit.one` |\n"), "no more and no less"),
    "a table of other columns": ({"docs/guarantees.md": page(tail="\n| test |\n|---|\n")}, "columns"),
    "a part without promises": ({"docs/guarantees.md": page().replace("## Pools", "## Ponds")}, "the part Pools"),
    "no list of what no test holds": ({"docs/guarantees.md": page(last="")}, "held by no test"),
    "a function of which nothing is said": ({"include/calmalloc/two.h": "int calm_two(void);\n"}, "said of calm_two()"),
    "a group of which nothing is said": (
        {"include/calmalloc/one.h": "int calm_one(void);\nint calm_too(void);\n\nint calm_two(void);\n"},
        "calm_two()",
    ),
    "a class of which nothing is said": ({"include/calmalloc/two.hpp": "class two\n{\n};\n"}, "calm::two"),
    "a function that no header has": (extra("| `calm_two()` | None. | `unit.one` |\n"), "declares calm_two()"),
    "a model without its limits": ({"tests/model/one_model.c": "/* one */\n"}, "not covered"),
    "a model in Promela without its limits": (
        {"tests/model/two.pml": "\n" * 30 + "/* Not covered */\n"},
        "not covered",
    ),
    "a proof without its limits": ({"tests/proof/one_test.py": '"""One."""\n'}, "not covered"),
    "a protocol with a model without its limits": (
        {"docs/protocols/one.md": CLEAN["docs/protocols/one.md"].replace("\n\n", "\n\nText.\n\n" * 3, 1)},
        "not covered",
    ),
    "a page of a proof without its limits": ({"docs/design/two-proof.md": "# Two\n"}, "not covered"),
    "a link that leads nowhere": ({"docs/guarantees.md": page(tail="[two](two.md)\n")}, "leads nowhere"),
    "a link to a heading that is gone": (
        {"docs/guarantees.md": page(tail="[two](design/one.md#about-two)\n")},
        "no heading about-two",
    ),
}


def listing(tests):
    """As ctest shows tests."""
    return {
        "tests": [{"name": name, "properties": [{"name": "LABELS", "value": labels}]} for name, labels in tests.items()]
    }


class Rules(unittest.TestCase):
    def findings(self, files, tests):
        with tempfile.TemporaryDirectory() as root:
            for path, text in files.items():
                os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
                with open(os.path.join(root, path), "w") as file:
                    file.write(text)
            return checks.Checker(root, listing(tests)).run()

    def test_a_clean_tree_has_no_finding(self):
        self.assertEqual(self.findings(CLEAN, LISTED), [])

    def test_each_break_is_found_once(self):
        for name, (files, words) in BROKEN.items():
            with self.subTest(name):
                found = self.findings({**CLEAN, **files}, LISTED)
                self.assertEqual(len(found), 1, found)
                self.assertIn(words, found[0])

    def test_a_model_and_a_proof_that_hold_nothing_are_found(self):
        for test in ("model.two", "proof.two"):
            found = self.findings(CLEAN, {**LISTED, test: ["model"]})
            self.assertEqual(found, ["docs/guarantees.md: nothing is held by %s." % test])


class Page(unittest.TestCase):
    def test_it_names_tests_that_exist_and_all_that_is_promised(self):
        with tempfile.TemporaryDirectory() as folder:
            build = BUILD
            if not build:
                build = folder
                subprocess.run(
                    ["cmake", "-S", ROOT, "-B", build, "-DCMAKE_BUILD_TYPE=Release"],
                    check=True,
                    stdout=subprocess.DEVNULL,
                )
            shown = subprocess.run(
                ["ctest", "--test-dir", build, "--show-only=json-v1"], check=True, capture_output=True, text=True
            )
        checker = checks.Checker(ROOT, json.loads(shown.stdout))
        self.assertEqual(checker.run(), [])
        self.assertGreater(len(checker.named), 300)


if __name__ == "__main__":
    if len(sys.argv) > 1 and os.path.isdir(sys.argv[1]):
        BUILD = sys.argv.pop(1)
    unittest.main()
