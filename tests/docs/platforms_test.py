"""Shows that docs/platforms-table.md is a table that tools/platforms.py writes, and that other tables are refused."""
import glob
import os
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TOOL = os.path.join(ROOT, "tools", "platforms.py")
PLACE = "<!-- platforms: %s of what tools/platforms.py writes -->"
EMPTY = "# Where\n\n%s\n\n%s\n\nThe end.\n" % (PLACE % "begin", PLACE % "end")
JUNIT = """<?xml version="1.0" encoding="UTF-8"?>
<testsuite name="all">
  <testcase name="unit_core.Slab.One" status="run"/>
  <testcase name="unit_os.Lock.Two" status="fail"><failure message=""/></testcase>
  <testcase name="musl_static.stress.forks" status="run"/>
  <testcase name="musl_static.stress.churn" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/></testcase>
  <testcase name="unit_mem_NOT_BUILT" status="notrun"><skipped message="Unable to find executable"/></testcase>
</testsuite>
"""
ROWS = ["| x86-64, glibc, gcc | unit | 1 | 1 | 0 | 1 | 0123456789ab | 2026-01-02 |",
        "| x86-64, musl, static | stress | 1 | 0 | 1 | 0 | 0123456789ab | 2026-01-02 |"]


class Platforms(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.page = self.write("page.md", EMPTY)
        self.junit = self.write("junit.xml", JUNIT)

    def write(self, name, text):
        path = os.path.join(self.folder.name, name)
        with open(path, "w") as file:
            file.write(text)
        return path

    def read(self):
        with open(self.page) as file:
            return file.read()

    def tool(self, *words):
        done = subprocess.run([sys.executable, TOOL, "--page", self.page, *words], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    def fill(self, preset="release", commit="0123456789ab"):
        return self.tool("--commit", commit, "--date", "2026-01-02", "%s=%s" % (preset, self.junit))

    def test_results_are_counted_by_platform_and_group(self):
        self.assertEqual(self.fill(), (0, ""))
        self.assertEqual([line for line in self.read().split("\n") if line.startswith("| x")], ROWS)
        self.assertEqual(self.tool("--check"), (0, ""))

    def test_what_was_seen_before_stays_until_it_is_seen_again(self):
        self.fill()
        self.write("junit.xml", JUNIT.replace('status="fail"><failure message=""/></testcase>', 'status="run"/>')
                   .replace("musl_static.stress", "musl_dynamic.stress"))
        self.fill(commit="ba9876543210")
        text = self.read()
        self.assertIn(ROWS[1], text)
        self.assertNotIn(ROWS[0], text)
        self.assertIn("| x86-64, glibc, gcc | unit | 2 | 0 | 0 | 1 | ba9876543210 | 2026-01-02 |", text)

    def test_a_test_that_was_run_again_counts_as_it_ended_then(self):
        fixed = JUNIT.replace('status="fail"><failure message=""/></testcase>', 'status="run"/>')
        again = self.write("again.xml", fixed)
        self.tool("--commit", "0123456789ab", "--date", "2026-01-02", "release=" + self.junit, "release=" + again)
        self.assertIn("| x86-64, glibc, gcc | unit | 2 | 0 | 0 | 1 |", self.read())

    def test_a_preset_that_is_not_known_is_refused(self):
        self.assertEqual(self.fill(preset="vax")[0], 1)
        self.assertEqual(self.read(), EMPTY)

    def test_a_table_by_hand_is_refused(self):
        self.assertIn("no row", self.tool("--check")[1])
        self.fill()
        good = self.read()
        for old, new, words in (("| 1 | 1 | 0 | 1 |", "| 1 | all | 0 | 1 |", "four counts"),
                                ("| 1 | 0 | 1 | 0 |", "| 0 | 0 | 0 | 0 |", "counts no test"),
                                ("x86-64, musl", "vax, musl", "no platform"),
                                ("0123456789ab", "later", "which commit"),
                                ("| x86-64, musl", "|  x86-64, musl", "not laid out")):
            with self.subTest(new):
                self.write("page.md", good.replace(old, new))
                code, said = self.tool("--check")
                self.assertEqual(code, 1)
                self.assertIn(words, said)

    def test_what_is_skipped_on_the_emulator_are_tests(self):
        # Seen to fail with a letter left out of a test's name.
        sources = glob.glob(os.path.join(ROOT, "tests", "unit", "**", "*_test.cpp"), recursive=True)
        tests = set()
        for source in sources:
            with open(source) as file:
                found = re.findall(r"^TEST(?:_F)?\((\w+), (\w+)\)", file.read(), re.M)
            tests.update("%s.%s" % words for words in found)
        with open(os.path.join(ROOT, "tests", "support", "emulated.cpp")) as file:
            skipped = set(re.findall(r'\{"(\w+\.\w+)", \w+', file.read()))
        self.assertGreater(len(skipped), 20)
        self.assertEqual(skipped - tests, set())

    def test_the_page_is_one_that_the_script_writes(self):
        done = subprocess.run([sys.executable, TOOL, "--check"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (0, ""))


if __name__ == "__main__":
    unittest.main()
