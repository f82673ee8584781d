"""The Python package from the tree, with the library of this build: python_test.py LIBRARY."""
import json
import os
import re
import shutil
import sys
import tempfile
import unittest

from support import ROOT, run

PACKAGE = os.path.join(ROOT, "bindings", "python")
HOLDS = "held = [bytes(1000) for _ in range(20_000)]\n"  # 20 MB that are there when the script's last line has run
sys.path.insert(0, PACKAGE)

import calmalloc  # noqa: E402
from calmalloc import _command  # noqa: E402


def header():
    with open(os.path.join(ROOT, "include", "calmalloc", "calmalloc.h")) as file:
        return file.read()


class Scripts(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="calm-python-")
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, name, text=None):
        path = os.path.join(self.folder, name)
        if text is not None:
            with open(path, "w") as file:
                file.write(text)
        return path

    def python(self, *words, check=True, **variables):
        taken = ("LD_PRELOAD", "CALM_OPTIONS", "PYTHONMALLOC")
        environment = {key: value for key, value in os.environ.items() if key not in taken}
        environment.update(PYTHONPATH=PACKAGE, **variables)
        return run(sys.executable, *words, check=check, cwd=self.folder, env=environment)

    def script(self, text, *words, **more):
        """Runs a script on calmalloc. It prints JSON."""
        return json.loads(self.python(self.path("script.py", text), *words, LD_PRELOAD=LIBRARY, **more).stdout)


class WithoutCalmalloc(Scripts):
    def test_everything_but_is_active_says_how_to_start_it(self):
        self.assertFalse(calmalloc.is_active())
        for call in (calmalloc.enable, calmalloc.stats, calmalloc.version, calmalloc.trim, calmalloc.idle,
                     calmalloc.committed, calmalloc.charged, calmalloc.profile_start, calmalloc.profile_stop,
                     calmalloc.page_out_cold, lambda: calmalloc.profile_dump(os.devnull)):
            with self.assertRaisesRegex(calmalloc.NotActive, "start it so: .* -m calmalloc run "):
                call()

    def test_enable_gives_the_line_that_starts_the_same_program(self):
        text = "import calmalloc\ntry:\n    calmalloc.enable()\nexcept calmalloc.NotActive as error:\n" \
            "    print(error)\n"
        said = self.python(self.path("a script.py", text), "one two").stdout.strip()
        self.assertIn("cannot be put under a running interpreter", said)
        self.assertRegex(said, r"start it so: \S+ -m calmalloc run '.*/a script\.py' 'one two'$")

    def test_a_library_that_is_loaded_later_is_not_active(self):
        text = "import ctypes, calmalloc\nctypes.CDLL(%r, ctypes.RTLD_GLOBAL)\nprint(calmalloc.is_active())\n" % LIBRARY
        self.assertEqual(self.python(self.path("script.py", text)).stdout, "False\n")


class OnCalmalloc(Scripts):
    def test_it_is_active_and_has_the_headers_version(self):
        said = self.script("import calmalloc, json\ncalmalloc.enable()\n"
                           "print(json.dumps([calmalloc.is_active(), calmalloc.version()]))\n")
        self.assertEqual(said, [True, re.search(r'CALM_VERSION_TEXT "(.*)"', header()).group(1)])

    def test_statistics_have_every_field_of_the_header_and_count_a_list(self):
        said = self.script("import calmalloc, json\nbefore = calmalloc.stats()\n" + HOLDS +
                           "print(json.dumps([before, calmalloc.stats()]))\n")
        body = re.search(r"struct calm_stats \{(.*?)\n\};", header(), re.S).group(1)
        names = re.findall(r"(\w+);", re.sub(r"/\*.*?\*/", "", body, flags=re.S))
        self.assertGreater(len(names), 20)
        self.assertEqual([name for name in names if name not in said[0]], [])
        self.assertGreater(said[1]["allocated_bytes"] - said[0]["allocated_bytes"], 20_000_000)

    def test_trimming_gives_back_what_was_freed(self):
        said = self.script("import calmalloc, json\n" + HOLDS + "full = calmalloc.stats()\ndel held\n"
                           "print(json.dumps([calmalloc.trim(), full, calmalloc.stats()]))\n", PYTHONMALLOC="malloc")
        self.assertTrue(said[0])
        self.assertGreater(said[1]["resident_bytes"] - said[2]["resident_bytes"], 15_000_000)

    def test_what_was_sent_to_swap_is_whole(self):
        said = self.script("import calmalloc, json\n" + HOLDS + "before = hash(tuple(map(str, held)))\n"
                           "print(json.dumps([calmalloc.page_out_cold(), calmalloc.stats()['failed_os_calls'],\n"
                           "                  before == hash(tuple(map(str, held)))]))\n", PYTHONMALLOC="malloc")
        self.assertGreaterEqual(said[0], 0)
        self.assertEqual(said[1:], [0, True])

    def test_a_list_is_charged_and_what_is_committed_is_more(self):
        said = self.script("import calmalloc, json\nbefore = calmalloc.charged()\n" + HOLDS + "calmalloc.idle()\n"
                           "print(json.dumps([before, calmalloc.charged(), calmalloc.committed()]))\n")
        self.assertGreater(said[1] - said[0], 20_000_000)
        self.assertGreater(said[2], said[1])

    def test_a_profile_counts_what_lives_at_its_end(self):
        said = self.script("import calmalloc, json\n"
                           "with calmalloc.profile('heap.txt', 4096, 'collapsed'):\n    " + HOLDS +
                           "live = sum(int(line.split()[-1]) for line in open('heap.txt'))\n"
                           "print(json.dumps([live, calmalloc.stats()['profile_on']]))\n")
        self.assertGreater(said[0], 18_000_000)
        self.assertLess(said[0], 26_000_000)
        self.assertEqual(said[1], 0)

    def test_the_profilers_mistakes_are_pythons_exceptions(self):
        said = self.script("""import calmalloc, json
found = []
calmalloc.profile_start()
for call in (calmalloc.profile_start, lambda: calmalloc.profile_dump('x', 'png'),
             lambda: calmalloc.profile_dump('/'), lambda: calmalloc.profile_start(-1)):
    try:
        call()
    except (OSError, ValueError) as error:
        found.append("%s: %s" % (type(error).__name__, error))
print(json.dumps(found))
""")
        self.assertEqual(len(said), 4)
        patterns = ("OSError.*profile_stop", "ValueError.*heap_v2", "IsADirectoryError", "ValueError.*from 0")
        for message, pattern in zip(said, patterns):
            self.assertRegex(message, pattern)

    def test_a_profile_goes_to_an_open_file_too(self):
        said = self.script("import calmalloc, json\ncalmalloc.profile_start(4096)\n" + HOLDS +
                           "calmalloc.profile_stop()\nwith open('heap.pb.gz', 'wb') as file:\n"
                           "    calmalloc.profile_dump(file)\n"
                           "print(json.dumps(open('heap.pb.gz', 'rb').read(2).hex()))\n")
        self.assertEqual(said, "1f8b")


class Module(Scripts):
    """python -m calmalloc"""
    TELLS = "import os, sys\nprint(os.environ.get('PYTHONMALLOC'), sys.argv[1:], flush=True)\n"

    def module(self, *words, **more):
        return self.python("-m", "calmalloc", *words, **more)

    def small_blocks(self, **variables):
        """How many blocks of up to 64 bytes are live in a script that holds 20,000 small objects."""
        text = self.TELLS + "import calmalloc, json\nheld = [float(n) for n in range(20_000)]\n" \
            "rows = [row for row in calmalloc.stats()['classes'] if row['bytes'] <= 64]\n" \
            "print(sum(row['live_blocks'] for row in rows))\n"
        done = self.module("run", "--quiet", self.path("script.py", text), "a", "--b", **variables)
        said, count = done.stdout.splitlines()
        self.assertEqual(said, "%s ['a', '--b']" % variables.get("PYTHONMALLOC", "malloc"))
        return int(count)

    def test_run_sends_small_objects_to_calmalloc_unless_told_otherwise(self):
        self.assertGreater(self.small_blocks(), 20_000)
        self.assertLess(self.small_blocks(PYTHONMALLOC="pymalloc"), 10_000)

    def test_run_reports_and_ends_as_the_script_does(self):
        done = self.module("run", "--json=report.json", "-c", "import sys; sys.exit(3)", check=False)
        self.assertEqual((done.returncode, done.stdout), (3, ""))
        self.assertIn("exit code 3", done.stderr)
        with open(self.path("report.json")) as file:
            self.assertEqual(json.load(file)["exit_code"], 3)

    def test_run_takes_what_the_interpreter_takes(self):
        self.assertEqual(self.module("run", "--quiet", "-c", "print(6 * 7)").stdout, "42\n")
        self.path("part.py", "print(__name__)")
        self.assertEqual(self.module("run", "--quiet", "--", "-X", "utf8", "-m", "part").stdout, "__main__\n")

    def test_calms_options_come_first_and_the_rest_is_the_scripts(self):
        self.assertEqual(_command.split("run", ["--quiet", "--json", "f", "s.py", "--json", "g"]),
                         (["--quiet", "--json", "f"], ["s.py", "--json", "g"]))
        self.assertEqual(_command.split("heap", ["--rate=1", "--", "-m", "x"]), (["--rate=1"], ["-m", "x"]))
        self.assertEqual(_command.split("run", ["-u", "--quiet"]), ([], ["-u", "--quiet"]))

    def test_other_words_are_those_of_calm(self):
        self.assertTrue(os.path.isfile(self.module("lib").stdout.strip()))
        self.assertEqual(self.module("version").stdout, "calmalloc %s\n" % re.search(
            r'CALM_VERSION_TEXT "(.*)"', header()).group(1))
        self.assertIn("python -m calmalloc heap [OPTIONS] script.py", self.module("--help").stdout)
        self.assertEqual(self.module("nope", check=False).returncode, 2)


class Start(Scripts):
    """What `python -m calmalloc heap` has the interpreter import first."""

    def at_end(self, paths, text=HOLDS):
        """What is reported of a script's heap, an entry for each time."""
        with open(self.path("report"), "w+") as report:
            run(sys.executable, self.path("script.py", text), pass_fds=[report.fileno()], cwd=self.folder,
                env={"PATH": os.environ["PATH"], "LD_PRELOAD": LIBRARY, "PYTHONPATH": os.pathsep.join(paths),
                     "PYTHONMALLOC": "malloc", "CALM_OPTIONS": "report_fd=%d" % report.fileno()})
            report.seek(0)
            return [json.loads(line) for line in report]

    def test_the_heap_is_described_before_the_interpreter_tears_it_down(self):
        with_it, = self.at_end([os.path.join(PACKAGE, "calmalloc", "_start")])
        without, = self.at_end([])
        self.assertGreater(with_it["allocated_bytes"] - with_it["cached_bytes"], 20_000_000)
        self.assertLess(without["allocated_bytes"] - without["cached_bytes"], 10_000_000)

    def test_a_sitecustomize_of_the_users_is_imported_as_before(self):
        os.mkdir(self.path("theirs"))
        self.path("theirs/sitecustomize.py", "import builtins\nbuiltins.seen = __file__\n")
        start = os.path.join(PACKAGE, "calmalloc", "_start")
        self.at_end([start, self.path("theirs")], "import sys, sitecustomize\nassert seen == sitecustomize.__file__\n"
                    "assert %r not in sys.path\n" % start)

    def test_a_script_that_closed_the_descriptor_ends_well(self):
        start = os.path.join(PACKAGE, "calmalloc", "_start")
        self.assertEqual(self.at_end([start], "import os\nos.closerange(3, 99)\n"), [])


class WithoutSources(Scripts):
    """tools/calm as the wheel has it: beside what was built, without what builds it."""

    def setUp(self):
        super().setUp()
        self.image = os.path.join(self.folder, "image")
        for part in ("tools/calm", "include", "src/front"):  # as cmake/CalmWheel.cmake has them
            shutil.copytree(os.path.join(ROOT, part), os.path.join(self.image, part))

    def calm(self, *words, check=True):
        return self.python(os.path.join(self.image, "tools", "calm"), *words, check=check)

    def test_what_works_on_sources_says_so(self):
        sentence = "calm: %s works on calmalloc's sources; use ./calm %s in a checkout of them.\n"
        for name in ("test", "bench", "install", "format", "lint", "docs"):
            done = self.calm(name, check=False)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (2, "", sentence % (name, name)))
            self.assertNotIn("  calm %s" % name, self.calm("help").stdout)

    def test_the_library_lies_ready(self):
        self.assertEqual(self.calm("lib").stdout, os.path.join(self.image, "lib", "libcalmalloc.so") + "\n")
        self.assertIn("purge_delay_ms", self.calm("options").stdout)
        self.assertRegex(self.calm("version").stdout, r"^calmalloc \d+\.\d+\.\d+\n$")


if __name__ == "__main__":
    LIBRARY = sys.argv.pop(1)
    unittest.main()
