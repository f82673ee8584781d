"""The second run of tests that others disturbed: who gets one, who does not, and what is said of it."""
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

import testing  # noqa: E402


class SecondRun(unittest.TestCase):
    """A build folder of small tests: `once` fails the first time only, `never` each time, `fine` not at all."""

    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())

    def tests(self, *tests):
        lines = ["cmake_minimum_required(VERSION 3.25)", "project(small NONE)", "enable_testing()"]
        words = {"once": "test -e seen-%s || { touch seen-%s; false; }", "never": "false", "fine": "true",
                 "talks": "seq -f 'line %g' 1 40; false"}
        for number, (kind, label) in enumerate(tests):
            body = words[kind].replace("%s", str(number))
            lines += ['add_test(NAME %s-%d COMMAND sh -c "echo ran >> runs-%d; %s")' % (kind, number, number, body),
                      "set_tests_properties(%s-%d PROPERTIES LABELS %s)" % (kind, number, label)]
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


if __name__ == "__main__":
    unittest.main()
