"""What a newcomer meets first is right: versions, the workflow and the container; and CONTRIBUTING.md's change works.

first_hour_test.py [--build]    with --build makes that change in a copy of the tree, builds it and runs its test
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
STEP = re.compile(r"^In `([^`]+)`, (at the end|after `([^`]+)`, inside):\n\n```\w+\n(.*?)^```$", re.M | re.S)
TEST = "OptionsTest.GoodbyeIsSaidAtExitWhereItWasAskedFor"


def read(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


def steps():
    """(file, line of a function's head or nothing, text) of each step of the change, in order."""
    return [(path, head, text) for path, _, head, text in STEP.findall(read("CONTRIBUTING.md"))]


class Files(unittest.TestCase):
    def test_the_change_log_begins_with_the_version_of_the_header(self):
        numbers = re.findall(r"^#define CALM_VERSION_\w+ (\d+)$", read("include", "calmalloc", "calmalloc.h"), re.M)
        newest = re.search(r"^## (\S+?),? ", read("CHANGELOG.md"), re.M).group(1)
        self.assertEqual(newest, ".".join(numbers[:3]))

    def test_the_workflow_runs_what_everybody_can_run(self):
        self.assertRegex(read(".github", "workflows", "ci.yml"), r"(?m)^      - run: \.ci/run$")
        self.assertTrue(os.access(os.path.join(ROOT, ".ci", "run"), os.X_OK))

    def test_the_container_is_the_workflows(self):
        image = json.loads(read(".devcontainer", "devcontainer.json"))["image"]
        self.assertIn("    container: %s #" % image, read(".github", "workflows", "ci.yml"))

    def test_editors_find_the_commands_of_the_build_that_calm_makes(self):
        self.assertIn("CompilationDatabase: build/release\n", read(".clangd"))
        self.assertIn("set(CMAKE_EXPORT_COMPILE_COMMANDS ON)\n", read("CMakeLists.txt"))

    def test_the_change_has_an_option_what_it_does_and_a_test(self):
        self.assertEqual(
            [path for path, _, _ in steps()],
            ["src/front/options.def", "src/front/front.c", "tests/unit/front/options_test.cpp"],
        )


class Newcomer(unittest.TestCase):
    """As CONTRIBUTING.md tells it."""

    def setUp(self):
        self.copy = tempfile.mkdtemp(prefix="calm-newcomer-")
        self.addCleanup(shutil.rmtree, self.copy)
        self.tree = os.path.join(self.copy, "tree")
        shutil.copytree(ROOT, self.tree, ignore=shutil.ignore_patterns("build", ".git", "target", "__pycache__"))
        self.build = os.path.join(self.copy, "build")
        subprocess.run(
            ["cmake", "-S", self.tree, "-B", self.build, "-DCMAKE_BUILD_TYPE=Release"],
            check=True,
            stdout=subprocess.DEVNULL,
        )

    def change(self, path, head, text):
        path = os.path.join(self.tree, path)
        with open(path, encoding="utf-8") as file:
            before = file.read()
        at = before.index(head + "\n{\n") + len(head) + 3 if head else len(before)
        with open(path, "w", encoding="utf-8") as file:
            file.write(before[:at] + text + before[at:])

    def passes(self):
        subprocess.run(
            ["cmake", "--build", self.build, "--target", "unit_front"], check=True, stdout=subprocess.DEVNULL
        )
        done = subprocess.run(
            [os.path.join(self.build, "tests", "unit", "unit_front"), "--gtest_filter=" + TEST],
            capture_output=True,
            text=True,
        )
        self.assertIn("[ RUN      ] " + TEST, done.stdout)
        return done.returncode == 0

    def test_its_test_fails_without_the_second_step_and_passes_with_it(self):
        option, code, test = steps()
        self.change(*option)
        self.change(*test)
        self.assertFalse(self.passes())
        self.change(*code)
        self.assertTrue(self.passes())


if __name__ == "__main__":
    is_build = "--build" in sys.argv[1:]
    if is_build:
        sys.argv.remove("--build")
    del globals()["Files" if is_build else "Newcomer"]
    unittest.main()
