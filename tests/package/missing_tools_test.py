"""Tests whose tools are missing are skipped and say what is missing: each tool is hidden in turn.

    missing_tools_test.py BUILD_FOLDER

Seen to fail: with table_test.py as it was, which failed without clang-19; with sim.cost that does not ask for valgrind;
with unittest.main in place of needs.main, by which package.manual passed without mandoc; with cargo's failure without a
network taken for one of ours.
"""
import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from support import ROOT, needs, run

BUILD = os.path.abspath(sys.argv[1])
SETUP = "`./calm test --setup` brings"
# What is hidden, and a test that needs it. Of a long one, which part.
HIDDEN = (
    ("clang(\\+\\+)?(-\\d+)?", "bindings.amalgamation", "clang-19", ("Whole",)),
    ("clang(\\+\\+)?(-\\d+)?", "bound.table", "clang-19", ()),
    ("clang(\\+\\+)?(-\\d+)?", "fuzz.libfuzzer", "clang-19", ()),
    ("aarch64-linux-gnu-.*", "bindings.amalgamation", "aarch64-linux-gnu-g++", ("Whole",)),
    ("aarch64-linux-gnu-.*", "bound.table", "aarch64-linux-gnu-gcc", ()),
    ("aarch64-linux-gnu-.*", "aarch64.builds", "aarch64-linux-gnu-gcc", ()),
    ("aarch64-linux-gnu-.*", "aarch64_4k.stress.single", "aarch64-linux-gnu-gcc", ()),
    ("qemu-.*", "aarch64.builds", "qemu-aarch64", ()),
    ("musl-.*", "musl.builds", "musl-gcc", ()),
    ("valgrind.*", "golden.rows", "valgrind", ()),
    ("valgrind.*", "golden.fixed", "valgrind", ()),
    ("valgrind.*", "sim.cost", "valgrind", ()),
    ("mandoc|groff", "package.manual", "mandoc", ()),
    ("strace", "exec.engine", "strace", ()),
    ("spin", "model.spin", "spin", ()),
    ("protoc", "profiles.protobuf", "protoc", ()),
    ("go", "profiles.go", "go", ()),
    ("jeprof", "profiles.jeprof", "jeprof", ()),
    ("cargo|rustc", "bindings.rust_crates", "cargo and rustc", ()),
    ("redis-.*", "users.redis_deleted", "redis-server and redis-cli", ()),
    ("cargo|rustc", "users.rust_map", "rustc", ()),
    ("node", "users.node_addon", "node", ()),
)
# What needs pip or a network the first time, and what it says without one.
BY_PIP = tuple(("package." + name, "could not be fetched") for name in ("heap", "heap_sites", "killed", "watch"))
BY_NETWORK = (("profiles.protobuf", "protoc", "protobuf"), ("bindings.rust_crates", "cargo", "no network"))
NO_PIP = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": ""}


def fill(folder):
    """Links every program of the PATH in one folder."""
    for directory in os.environ["PATH"].split(os.pathsep):
        for name in os.listdir(directory) if os.path.isdir(directory) else ():
            link = os.path.join(folder, name)
            if not os.path.lexists(link):
                os.symlink(os.path.join(directory, name), link)


@contextlib.contextmanager
def hidden(folder, pattern):
    """Takes the programs of that name out of the folder for a while."""
    names = [name for name in os.listdir(folder) if re.fullmatch(pattern, name)]
    taken = {name: os.readlink(os.path.join(folder, name)) for name in names}
    for name in taken:
        os.unlink(os.path.join(folder, name))
    try:
        yield
    finally:
        for name, target in taken.items():
            os.symlink(target, os.path.join(folder, name))


class Missing(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        listed = run("ctest", "--test-dir", BUILD, "--show-only=json-v1").stdout
        cls.tests = {test["name"]: test for test in json.loads(listed)["tests"]}

    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory(prefix="calm-missing-"))

    def result(self, name, more=(), before=(), **variables):
        """Runs one test as ctest does; (exit code, the line that says why it was skipped)."""
        test = self.tests[name]
        properties = {one["name"]: one["value"] for one in test["properties"]}
        self.assertEqual(properties["SKIP_RETURN_CODE"], needs.SKIPPED, name)
        environment = {**os.environ, **dict(word.split("=", 1) for word in properties.get("ENVIRONMENT", ())),
                       **variables}
        done = subprocess.run([*before, sys.executable, *test["command"][1:], *more], env=environment, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        lines = [line for line in done.stdout.splitlines() if line.startswith("skipped: ")]
        self.assertEqual((done.returncode, len(lines)), (needs.SKIPPED, 1), done.stdout)
        return lines[0]

    def test_what_needs_a_hidden_tool_is_skipped_and_names_it(self):
        fill(self.folder)
        for pattern, name, tool, more in HIDDEN:
            with self.subTest(name + " without " + pattern), hidden(self.folder, pattern):
                line = self.result(name, more, PATH=self.folder)
                self.assertIn(tool, line)
                self.assertIn(SETUP, line)

    def fresh(self):
        """Folders in which nothing was fetched yet."""
        return {"CALM_BUILD_DIR": self.folder, "CALM_PROFILES_DIR": os.path.join(self.folder, "profiles"),
                "CARGO_HOME": os.path.join(self.folder, "cargo"), "CARGO_NET_RETRY": "0"}

    def test_what_needs_pip_is_skipped_where_it_gets_nothing(self):
        for name, words in BY_PIP:
            with self.subTest(name):
                self.assertIn(words, self.result(name, **self.fresh(), **NO_PIP))

    def test_what_needs_a_network_is_skipped_without_one(self):
        alone = ("unshare", "-rn")
        if run(*alone, "true", check=False).returncode != 0:
            self.skipTest("no network of one's own can be made here")
        for name, program, words in BY_NETWORK:
            with self.subTest(name):
                needs.here(program)
                self.assertIn(words, self.result(name, before=alone, **self.fresh()))


class Lists(unittest.TestCase):
    def test_each_program_that_a_test_asks_for_is_one_that_a_package_brings(self):
        brought = {program for package in needs.test_packages.read() for program in package.programs}
        asked = set()
        for path in pathlib.Path(ROOT, "tests").glob("*/*.py"):
            for words in re.findall(r"\bneeds\.(?:need|here|reason)\(([^)]*)\)", path.read_text()):
                asked.update(re.findall(r'"([\w.+-]+)"', words))
        self.assertIn("valgrind", asked)
        self.assertEqual(asked - brought, set())

    def test_the_list_of_packages_has_each_once(self):
        names = [package.name for package in needs.test_packages.read()]
        self.assertEqual(len(names), len(set(names)))
        with open(os.path.join(ROOT, ".ci", "run")) as file:
            self.assertIn("./calm test --setup --yes", file.read())


if __name__ == "__main__":
    needs.main(argv=sys.argv[:1], verbosity=2)
