"""The rest of the command line: every wrong word gets one sentence and a usual exit code, never a traceback."""
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

from support import CALM, ROOT, calm, run


class CommandLine(unittest.TestCase):
    def refused(self, code, word, *words, **more):
        done = calm(*words, check=False, **more)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertTrue(done.stderr.startswith("calm: "))
        self.assertIn(word, done.stderr)

    def test_wrong_words_get_one_sentence(self):
        self.refused(2, "no command 'frobnicate'", "frobnicate")
        self.refused(2, "needs PROGRAM: calm run [--quiet] [--json FILE] [--sizes FILE] -- PROGRAM ARGS...\n", "run")
        self.refused(2, "no option '--loud'", "run", "--loud", "true")
        self.refused(2, "needs a value", "run", "--json")
        self.refused(2, "takes no argument", "lib", "more")
        self.refused(2, "needs PREFIX", "install")
        self.refused(2, "no preset 'fast'", "test", "--preset", "fast")
        self.refused(2, "no command 'nope'", "help", "nope")

    def test_help_names_every_command(self):
        words = calm("help").stdout
        for name in ("run", "heap", "pool", "top", "lib", "install", "test", "bench", "sim", "mq", "options", "docs",
                     "format", "lint"):
            self.assertRegex(words, r"(?m)^  calm %s\b" % name)
        self.assertEqual(calm().stdout, words)
        self.assertEqual(calm("--help").stdout, words)
        self.assertIn("--json FILE", calm("help", "run").stdout)
        self.assertNotIn("_report", words)

    def test_lib_prints_a_path_that_can_be_preloaded(self):
        done = calm("lib")
        self.assertEqual(done.stdout.count("\n"), 1)
        path = done.stdout.strip()
        self.assertTrue(os.path.isfile(path))
        self.assertIn(path, run("cat", "/proc/self/maps", env=dict(os.environ, LD_PRELOAD=path)).stdout)
        again = calm("lib")
        self.assertEqual((again.stdout, again.stderr), (done.stdout, ""))

    def test_lib_builds_the_library_and_no_more(self):
        # Seen to fail: all that belongs to it built for who only wants to preload it.
        with tempfile.TemporaryDirectory(prefix="calm-lib-") as folder:
            path = calm("lib", env=dict(os.environ, CALM_BUILD_DIR=folder)).stdout.strip()
            self.assertTrue(os.path.exists(path))
            names = {name for name in os.listdir(os.path.dirname(path)) if not name.startswith("CMake")}
            self.assertLessEqual({"libcalmalloc.so"}, names)
            self.assertFalse({"calmq", "calm_simulator", "libcalmexec.a", "calm_launch"} & names, names)

    def test_all_help_is_of_one_style(self):
        # Seen to fail: help by typer, in boxes, where typer was installed.
        for name in ("run", "heap", "top", "export", "pool", "lib", "install", "test", "options", "translate", "docs",
                     "format", "lint", "version"):
            words = calm(name, "--help", env={key: value for key, value in os.environ.items() if key != "CALM_PLAIN"})
            self.assertEqual(words.stdout, calm("help", name).stdout)
            self.assertTrue(words.stdout.startswith("usage: calm " + name), words.stdout)

    def test_docs_finds_words_in_the_pages(self):
        # Seen to fail: sections ordered by their pages alone.
        headings = [line for line in calm("docs", "purg").stdout.split("\n") if re.match(r"\S+:\d+: ", line)]
        self.assertEqual(len(headings), 12)
        self.assertIn("purg", headings[0].lower())
        self.assertNotEqual(headings, sorted(headings))  # not by their pages alone
        found = calm("docs", "semaphore", "OpenTelemetry").stdout
        self.assertRegex(found, r"^docs/design/probes\.md:\d+: Probes: OpenTelemetry's\n")
        page, line = re.match(r"(\S+):(\d+): ", found).groups()
        with open(os.path.join(ROOT, page)) as file:
            self.assertRegex(file.read().split("\n")[int(line) - 1], "^#+ ")
        done = calm("docs", "no-such-word-anywhere" + "-" * 3, check=False)
        self.assertEqual((done.returncode, done.stdout), (1, ""))

    def test_mq_starts_the_queue_server_that_was_built_with_the_library(self):
        # Seen to fail: with the server's path in another preset's folder, and with what is built for each start.
        calm("run", "--quiet", "--", "true")
        server = subprocess.Popen([CALM, "mq", "--port", "0", "--memory", "1M", "--cores", "1"], text=True,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            first = server.stderr.readline()
            self.assertRegex(first, r"^calmq: listens on 127\.0\.0\.1:\d+;")
            with socket.create_connection(("127.0.0.1", int(re.search(r":(\d+);", first).group(1))), 60) as client:
                client.sendall(b"PING\r\n")
                self.assertEqual(client.makefile("rb").readline(), b"+PONG\r\n")
            server.send_signal(signal.SIGTERM)
            self.assertEqual((server.communicate(timeout=60), server.returncode), (("", "calmq: stopped.\n"), 0))
        finally:
            server.kill()
            server.communicate()
        self.assertIn("--port", calm("mq", "--help").stdout)

    def test_options_lists_each_entry_of_the_definition(self):
        with open(os.path.join(ROOT, "src", "front", "options.def")) as file:
            names = re.findall(r"^(?:NUMBER|CHOICE)\((\w+),", file.read(), re.M)
        words = calm("options").stdout
        self.assertGreater(len(names), 3)
        for name in names:
            self.assertRegex(words, r"(?m)^  %s\s" % name)
        self.assertEqual(len(words.splitlines()), len(names) + 4)

    def test_calm_works_through_a_link_and_from_elsewhere(self):
        with tempfile.TemporaryDirectory() as folder:
            link = os.path.join(folder, "calm")
            os.symlink(CALM, link)
            self.assertEqual(run(link, "version", cwd=folder).stdout, calm("version").stdout)

    def test_a_filter_of_tests_builds_what_they_need_and_no_more(self):
        # Seen to fail: with all targets built for any filter, and with a filter that knows upper case.
        with tempfile.TemporaryDirectory() as folder:
            env = dict(os.environ, CALM_BUILD_DIR=folder)
            self.refused(1, "no test matches 'nosuchthing'", "test", "nosuchthing", env=env)
            self.refused(1, "slow ones; add --full", "test", "presets", env=env)
            self.assertEqual(calm("test", "--list", "^STYLE", env=env).stdout,
                             "style.tree\nstyle.every_rule_can_fail\nstyle.symbols\n")
            self.assertFalse(os.path.exists(os.path.join(folder, "release", "libcalm_slow_0.so")))
            said = calm("test", "Golden.control", env=env).stdout
            self.assertIn("100% tests passed, 0 tests failed out of 1\n", said)
            made = {name for _, _, names in os.walk(folder) for name in names}
            self.assertIn("libcalm_slow_0.so", made)
            self.assertEqual({name for name in made if name.startswith(("libcalmalloc", "unit_"))} &
                             {"libcalmalloc.so", "unit_core"}, set())

    def test_a_missing_tool_is_named_with_its_package(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("sh", "python3", "readlink", "dirname", "cmp", "find", "mkdir"):
                target = run("sh", "-c", "command -v " + name).stdout.strip()
                os.symlink(os.path.realpath(target), os.path.join(folder, name))
            env = dict(os.environ, PATH=folder, CALM_BUILD_DIR=os.path.join(folder, "build"))
            self.refused(1, "apt-get install cmake", "lib", env=env)
            self.refused(1, "apt-get install cmake", "test", env=env)
            self.refused(1, "apt-get install clang-format-19", "format", env=env)
            os.unlink(os.path.join(folder, "python3"))
            self.refused(1, "python3", "help", env=env)

    def test_an_environment_whose_python_another_user_may_not_run_is_passed_over(self):
        # Seen to fail: with the environment's Python taken whenever the packages are there.
        with tempfile.TemporaryDirectory() as folder:
            os.makedirs(os.path.join(folder, "venv", "bin"))
            os.symlink("/nowhere/python", os.path.join(folder, "venv", "bin", "python"))
            shutil.copy(os.path.join(ROOT, "tools", "heap-requirements.txt"), os.path.join(folder, "venv", "profiles"))
            self.refused(1, "no process 4000000", "top", "4000000", env=dict(os.environ, CALM_BUILD_DIR=folder))

    def test_output_that_nobody_gets_is_one_sentence(self):
        # Seen to fail: an exception that Python ignored, after exit code 0 was settled.
        for words in (["help"], ["options"], ["translate", "MALLOC_CONF=thp:never"], ["version"],
                      ["docs", "semaphore"]):
            reader, writer = os.pipe()
            os.close(reader)
            with open("/dev/full", "w") as full, os.fdopen(writer, "w") as pipe:
                for stream in (full, pipe):
                    done = subprocess.run([CALM] + words, stdout=stream, stderr=subprocess.PIPE, text=True)
                    lines = [line for line in done.stderr.splitlines() if line.startswith("calm: ")]
                    self.assertEqual((done.returncode, len(lines)), (1, 1), (words, done.stderr))
                    self.assertRegex(lines[0], r"^calm: the output cannot be written: [^:]*\.$")
                    self.assertNotRegex(done.stderr, "Traceback|Exception|internal error")
        with open("/dev/full", "w") as full:
            self.assertEqual(subprocess.run([CALM, "nosuch"], stdout=full, stderr=full).returncode, 1)
            self.assertEqual(subprocess.run([CALM, "run", "--", "sh", "-c", "exit 5"], stderr=full).returncode, 5)
            self.assertEqual(subprocess.run([CALM, "heap", "--", "sh", "-c", "exit 5"], stderr=full).returncode, 5)

    def test_a_recording_is_told_in_words_and_replayed_on_libraries_alone(self):
        # Seen to fail: "1 threads"; a program preloaded, which the loader ignores.
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "a.record")
            code = "for i in 1 2 3 4 5 6 7 8 9; do x=$x$x$i; x=${x#?}; done; exit 0"
            done = calm("record", "--file", file, "--", "sh", "-c", code)
            self.assertRegex(done.stderr, r"(?m): \d{1,3}(,\d{3})* calls? of 1 thread, ")
            for name in ("/bin/true", CALM):
                self.refused(2, "is no shared library", "replay", "--lib", name, file)
            calm("replay", "--lib", os.path.realpath(calm("lib").stdout.strip()), file)

    def test_a_peak_that_no_look_saw_is_told(self):
        # Seen to fail: less resident than live, without a word.
        import contextlib
        import io
        sys.path.append(os.path.join(ROOT, "tools", "calm"))
        import record
        made = {"program": "p", "library": "l", "calls": 1, "threads": 1, "sites": 1, "is_whole": True, "user_us": 1,
                "system_us": 1, "elapsed_us": 1, "peak_resident_bytes": 5, "peak_live_bytes": 9, "failed": 0,
                "unknown": 0, "disorder": 0, "lost": 0, "end_resident_bytes": 0, "end_live_bytes": 0, "compared": None,
                "samples": [{"calls": 1, "live_bytes": 1, "resident_bytes": 1}]}
        for live, is_told in ((9, True), (5, False)):
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                record.show(dict(made, peak_live_bytes=live))
            self.assertEqual("the peak was between two looks" in out.getvalue(), is_told, out.getvalue())


if __name__ == "__main__":
    unittest.main()
