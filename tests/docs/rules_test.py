"""Shows that tests/unit/tour_check.py can fail: a clean small tree has no finding, each break has exactly one."""
import os
import subprocess
import sys
import tempfile
import unittest

CHECKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "unit", "tour_check.py")

CLEAN = {
    "src/mem/span.c": "/*\n * Design: docs/design/spans.md\n */\nenum { EXACT_MAX };\n"
                      "int span_take(int a) { return a; }\n",
    "docs/design/spans.md": "# Spans\n\n`span_take()` in `mem/span.c` has `EXACT_MAX` lists; "
                            "see [the tour](../../TOUR.md).\n",
    "TOUR.md": "# Tour\n\n`malloc(48)` calls `span_take()` in `src/mem/span.c`.\n",
}

# name: (file, its text, words of the finding)
BROKEN = {
    "a function that is gone": ("TOUR.md", "`span_put_all()`\n", "no function span_put_all()"),
    "a file that is gone": ("TOUR.md", "`mem/spans.c`\n", "no file mem/spans.c"),
    "a folder that is gone": ("TOUR.md", "`src/memory/`\n", "no folder src/memory/"),
    "a constant that is gone": ("docs/design/spans.md", "`EXACT_MIN`\n", "no EXACT_MIN"),
    "a link that leads nowhere": ("docs/design/spans.md", "[tour](../TOUR.md)\n", "leads nowhere"),
    "a link of a page of another folder": ("docs/decisions/runs.md", "[spans](../design/span.md)\n", "leads nowhere"),
    "a decision that a source names": ("src/mem/span.c", CLEAN["src/mem/span.c"] + "/* docs/decisions/runs.md */\n",
                                       "no page docs/decisions/runs.md"),
    "a page that a source names": ("src/mem/span.c", CLEAN["src/mem/span.c"].replace("spans.md", "runs.md"),
                                   "no page docs/design/runs.md"),
    "a page that is too long": ("docs/design/spans.md", "word " * 951 + "\n", "951 words"),
}


class TourCheck(unittest.TestCase):
    def findings(self, files):
        with tempfile.TemporaryDirectory() as root:
            for path, text in files.items():
                os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
                with open(os.path.join(root, path), "w") as file:
                    file.write(text)
            done = subprocess.run([sys.executable, CHECKER, root], capture_output=True, text=True)
            lines = done.stdout.splitlines()
            self.assertTrue(lines and lines[-1].startswith("tour_check: "), done.stdout + done.stderr)
            self.assertEqual(done.returncode, 1 if lines[:-1] else 0)
            return lines[:-1]

    def test_a_clean_tree_has_no_finding(self):
        self.assertEqual(self.findings(CLEAN), [])

    def test_a_tree_without_a_tour_is_an_error(self):
        self.assertEqual(len(self.findings({key: text for key, text in CLEAN.items()
                                            if key != "TOUR.md"} | {"docs/design/spans.md": "# Spans\n"})), 1)

    def test_each_break_is_found_once(self):
        for name, (path, text, words) in BROKEN.items():
            with self.subTest(name):
                found = self.findings({**CLEAN, path: text})
                self.assertEqual(len(found), 1, found)
                self.assertIn(words, found[0])


if __name__ == "__main__":
    unittest.main()
