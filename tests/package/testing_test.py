"""`calm test`: the second run of tests that others disturbed, what is said of those that were skipped, which tests a
filter finds and what they need, and how the tools are installed."""
import contextlib
import io
import os
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

from support import ROOT, run

sys.path.insert(0, os.path.join(ROOT, "tools", "calm"))

import test_names  # noqa: E402
import test_setup  # noqa: E402
import testing  # noqa: E402
from trouble import Trouble  # noqa: E402


class SecondRun(unittest.TestCase):
    """A build folder of small tests: `once` fails the first time only, `never` each time, `fine` not at all."""

    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())

    def tests(self, *tests):
        lines = ["cmake_minimum_required(VERSION 3.25)", "project(small NONE)", "enable_testing()"]
        words = {"once": "test -e seen-%s || { touch seen-%s; false; }", "never": "false", "fine": "true",
                 "talks": "seq -f 'line %g' 1 40; false",
                 "lacks": "echo 'skipped: spin is missing; `./calm test --setup` brings it.'; exit 77",
                 "cannot": "echo first; echo not on this machine; exit 77",
                 "google": "printf 'a.cpp:1: Skipped\\\\nno such call\\\\n[  SKIPPED ] A.B\\\\n'; exit 77"}
        for number, (kind, label) in enumerate(tests):
            body = words[kind].replace("%s", str(number))
            lines += ['add_test(NAME %s-%d COMMAND sh -c "echo ran >> runs-%d; %s")' % (kind, number, number, body),
                      "set_tests_properties(%s-%d PROPERTIES LABELS %s SKIP_RETURN_CODE 77)" % (kind, number, label)]
        with open(os.path.join(self.folder, "CMakeLists.txt"), "w") as file:
            file.write("\n".join(lines) + "\n")
        run("cmake", "-S", self.folder, "-B", self.folder)

    def result(self):
        """(exit code, how often each test ran, what was said)."""
        said = io.StringIO()
        with contextlib.redirect_stderr(said), open(os.devnull, "w") as nowhere:
            real = subprocess.Popen
            with unittest.mock.patch("subprocess.Popen", lambda *a, **k: real(*a, **{"stdout": nowhere, **k})):
                code = testing.run(self.folder, ["-j", "2"])
        runs = []
        while os.path.exists(os.path.join(self.folder, "runs-%d" % len(runs))):
            with open(os.path.join(self.folder, "runs-%d" % len(runs))) as file:
                runs.append(len(file.readlines()))
        return code, runs, said.getvalue()

    def test_all_is_well_and_nothing_is_said(self):
        self.tests(("fine", "unit"), ("fine", "bench"))
        self.assertEqual(self.result(), (0, [1, 1], ""))

    def test_what_others_disturbed_runs_again_alone_and_is_named(self):
        self.tests(("once", "environment"), ("fine", "unit"), ("once", "bench"))
        code, runs, said = self.result()
        self.assertEqual((code, runs), (0, [2, 1, 2]))
        self.assertIn("passed alone, so it is unsteady: once-0, once-2.", said)

    def test_what_fails_alone_too_fails(self):
        self.tests(("once", "bench"), ("never", "programs"))
        code, runs, said = self.result()
        self.assertEqual((code, runs), (8, [2, 2]))
        self.assertNotIn("passed alone", said)

    def test_a_wrong_answer_of_the_library_gets_no_second_run(self):
        self.tests(("once", "bench"), ("once", "stress"))
        self.assertEqual(self.result()[:2], (8, [1, 1]))

    def test_many_failures_get_no_second_run(self):
        self.tests(*[("once", "bench")] * (testing.SECOND_RUNS_MAX + 1))
        self.assertEqual(self.result()[:2], (8, [1] * (testing.SECOND_RUNS_MAX + 1)))

    def test_the_last_lines_of_what_failed_stand_at_the_end(self):
        self.tests(("fine", "unit"), ("talks", "unit"))
        code, _, said = self.result()
        self.assertEqual(code, 8)
        self.assertIn("talks-1 failed; its last lines:\n", said)
        self.assertIn("line 40\n", said)
        self.assertNotIn("line 20\n", said)
        self.assertNotIn("fine-0", said)

    def test_what_was_skipped_is_named_at_the_end_with_the_line_that_brings_the_tools(self):
        # Seen to fail: with no names, and with the names of what passed.
        self.tests(("lacks", "unit"), ("fine", "unit"), ("cannot", "unit"), ("lacks", "stress"), ("google", "unit"))
        code, _, said = self.result()
        self.assertEqual(code, 0)
        self.assertEqual(said.splitlines(), [
            "", "calm: skipped:", "    spin is missing.", "        lacks-0, lacks-3", "    not on this machine",
            "        cannot-2", "    no such call", "        google-4",
            "calm: this brings the tools that are missing: ./calm test --setup"])

    def test_where_no_tool_is_missing_no_line_brings_any(self):
        self.tests(("cannot", "unit"))
        self.assertNotIn("--setup", self.result()[2])


class Names(unittest.TestCase):
    """A build folder in which nothing is built yet."""

    SOURCE = """
TEST(Slab, IsWhole) {}
TEST_F(Slab,
       IsHalf) {}
// TEST(Not, This) {}
TEST_P(ByPolicy, Runs) {}
INSTANTIATE_TEST_SUITE_P(All, ByPolicy, testing::Values("jsq"));
"""

    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        below = os.path.join(self.folder, "below")
        os.mkdir(below)
        self.write("slab_test.cpp", self.SOURCE)
        self.write("calm-products.txt", "unit_core|%(b)s/unit_core|unit|%(f)s/slab_test.cpp\ntool|%(b)s/tool\n"
                   "tool_two|%(b)s/tool_two\nlibrary|%(b)s/library.so\n" % {"f": self.folder, "b": below})
        self.write("CMakeLists.txt", "cmake_minimum_required(VERSION 3.25)\nproject(small NONE)\nenable_testing()\n"
                   "add_subdirectory(below)\n")
        self.write("below/CMakeLists.txt", """
add_test(NAME unit_core_NOT_BUILT COMMAND unit_core_NOT_BUILT)
add_test(NAME tool.Run COMMAND ${CMAKE_CURRENT_BINARY_DIR}/tool_two)
add_test(NAME tool.preloaded COMMAND env LD_PRELOAD=${CMAKE_CURRENT_BINARY_DIR}/library.so:/other true)
add_test(NAME tool.finds COMMAND true)
set_tests_properties(tool.finds PROPERTIES LABELS "style;full" REQUIRED_FILES ${CMAKE_CURRENT_BINARY_DIR}/tool)
add_test(NAME style.tree COMMAND true)
""")
        run("cmake", "-S", self.folder, "-B", self.folder)
        self.all = test_names.read(self.folder)

    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w") as file:
            file.write(text)

    def chosen(self, filter, skip=None, is_full=False):
        return [test.name for test in test_names.matching(self.all, filter, skip, is_full)]

    def test_names_are_known_before_anything_is_built(self):
        self.assertEqual(self.chosen(None, is_full=True), [
            "tool.Run", "tool.preloaded", "tool.finds", "style.tree", "unit_core.Slab.IsWhole", "unit_core.Slab.IsHalf",
            "unit_core.All/ByPolicy.Runs/*"])

    def test_each_needs_what_its_command_its_environment_and_its_required_files_name(self):
        # Seen to fail: with `tool`, whose path begins as that of `tool_two` does, for both.
        needs = {test.name: test.targets for test in self.all}
        self.assertEqual(needs["tool.Run"], {"tool_two"})
        self.assertEqual(needs["tool.preloaded"], {"library"})
        self.assertEqual(needs["tool.finds"], {"tool"})
        self.assertEqual(needs["style.tree"], set())
        self.assertEqual(needs["unit_core.Slab.IsHalf"], {"unit_core"})

    def test_a_filter_ignores_case_and_leaves_out_slow_tests_and_what_is_skipped(self):
        self.assertEqual(self.chosen("TOOL.run"), ["tool.Run"])
        self.assertEqual(self.chosen("^tool"), ["tool.Run", "tool.preloaded"])
        self.assertEqual(self.chosen("^tool", is_full=True), ["tool.Run", "tool.preloaded", "tool.finds"])
        self.assertEqual(self.chosen("^tool", "RUN"), ["tool.preloaded"])
        with self.assertRaisesRegex(Trouble, "no regular expression"):
            self.chosen("(")

    def test_a_value_in_a_name_is_looked_for_where_the_sources_have_it(self):
        self.assertEqual(list(test_names.programs_with_values(self.folder, "Runs/jsq")), ["unit_core"])
        self.assertEqual(list(test_names.programs_with_values(self.folder, "nosuchthing")), [])


class Setup(unittest.TestCase):
    """Stand-ins for apt-get, its friends and sudo write down what they are asked."""

    SCRIPTS = {"apt-get": "echo apt-get $* >>$LOG", "sudo": 'echo sudo >>$LOG; [ "$1" != -n ] || shift; exec "$@"',
               "dpkg-query": "echo 'gcc installed'; echo 'strace deinstall'",
               "apt-cache": "[ $2 = cargo-web ] || echo 'Candidate: 1'"}

    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.log = os.path.join(self.folder, "log")
        for name, script in self.SCRIPTS.items():
            path = os.path.join(self.folder, name)
            with open(path, "w") as file:
                file.write("#!/bin/sh\n%s\n" % script)
            os.chmod(path, 0o755)
        for name in ("sh", "env", "valgrind"):
            os.symlink("/bin/sh" if name == "sh" else "/usr/bin/env", os.path.join(self.folder, name))
        self.enterContext(unittest.mock.patch.dict(os.environ, PATH=self.folder, LOG=self.log))

    def installed(self, user, full=False, is_agreed=False, answer=None):
        """What apt-get and sudo were asked, and what was said."""
        said = io.StringIO()
        stdin = io.StringIO(answer or "")
        stdin.isatty = lambda: answer is not None
        with contextlib.redirect_stderr(said), unittest.mock.patch("os.geteuid", lambda: user), \
                unittest.mock.patch("sys.stdin", stdin), \
                unittest.mock.patch("subprocess.run", self.without_input(subprocess.run)):
            test_setup.install(full, is_agreed)
        with open(self.log) as file:
            return file.read().splitlines(), said.getvalue()

    @staticmethod
    def without_input(real):
        return lambda *words, **more: real(*words, **{**more, "stdin": subprocess.DEVNULL})

    def test_root_installs_what_is_missing_without_a_question(self):
        calls, said = self.installed(0)
        self.assertEqual(calls[0], "apt-get update -qq")
        words = calls[1].split()
        self.assertEqual(words[:5], ["apt-get", "install", "-y", "-qq", "--no-install-recommends"])
        self.assertIn("clang-19", words)
        self.assertIn("strace", words)
        for name in ("gcc", "valgrind", "gdb", "cargo-web"):  # installed; its program is there; slow tests'; unknown
            self.assertNotIn(name, words)
        self.assertIn("not to be had here, so tests that need them are skipped: cargo-web.\n", said)
        self.assertIn("gdb", self.installed(0, full=True)[0][-1].split())

    def test_another_user_is_asked_before_root_is_used(self):
        calls, said = self.installed(1000, answer="y\n")
        self.assertEqual((calls[0], calls[2]), ("sudo", "sudo"))
        self.assertIn("go on? [y/N] ", said)

    def test_a_no_and_a_missing_terminal_install_nothing(self):
        # Seen to fail: with a question that nobody can answer.
        for answer, words in (("n\n", "nothing was installed"), ("\n", "nothing was installed"), (None, "--yes")):
            with self.assertRaisesRegex(Trouble, words):
                self.installed(1000, answer=answer)
            self.assertFalse(os.path.exists(self.log))

    def test_yes_asks_nobody(self):
        calls, said = self.installed(1000, is_agreed=True)
        self.assertEqual(calls[0], "sudo")
        self.assertNotIn("[y/N]", said)


if __name__ == "__main__":
    unittest.main()
