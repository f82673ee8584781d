"""Holds `calm heap` to the Python file, line and function of each sampled request, for each CPython from 3.9 to 3.13
that is on the machine. The oracle is Python's own tracemalloc, in a run of the same script without us.

Seen to fail, the lines: with an offset of a layout that is 2 too high, without the look at a frame's owner, and with
ranges of lines that end one later. The walk astray: without asking whether a page can be read.
"""
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys

from support import ROOT, InFolder, calm, needs, run

import pinned

sys.path.append(os.path.join(ROOT, "tools", "calm"))
sys.dont_write_bytecode = True

COUNT, BYTES = 400, 3000  # of each line; other lines of the script ask for far less
SCRIPT = r'''
import functools, json, sys, threading
COUNT, BYTES = 400, 3000
kept = []

class Keeper:
    def fill(self):
        for _ in range(COUNT):
            kept.append(
                bytearray(BYTES))

    class Inner:
        @staticmethod
        def fill():
            kept.extend([bytearray(BYTES) for _ in range(COUNT)])

def deep(n):
    return deep(n - 1) if n else [bytearray(BYTES)
                                  for _ in range(COUNT)]

def endless(n):
    if n:
        x = endless(n - 1)
    else:
        x = [bytearray(BYTES) for _ in range(COUNT)]
    return x

def rows():
    for _ in range(COUNT):
        yield bytearray(BYTES)

def größe_测():
    kept.append([bytearray(BYTES) for _ in range(COUNT)])

def up_and_down():
    for i in range(COUNT):
        if i % 2:
            kept.append(bytearray(
                BYTES))
        else:
            kept.append((i,
                         bytearray(BYTES),
                         i))

def far():
#FAR
    kept.append([bytearray(BYTES) for _ in range(COUNT)])

def called_back(_):
    return bytearray(BYTES)

def in_thread():
    kept.append([bytearray(BYTES) for _ in range(COUNT)])

class Raising:
    def __del__(self):
        kept.append([bytearray(BYTES) for _ in range(COUNT)])

def broken():
    try:
        raise ValueError
    except ValueError:
        kept.append([bytearray(BYTES) for _ in range(COUNT)])
    finally:
        kept.append([bytearray(BYTES) for _ in range(COUNT)])

async def task():
    kept.append([bytearray(BYTES) for _ in range(COUNT)])

def main():
    Keeper().fill()
    Keeper.Inner.fill()
    kept.append(deep(30))
    kept.append(endless(200))
    kept.append(list(rows()))
    größe_测()
    up_and_down()
    far()
    kept.append(list(map(called_back, range(COUNT))))
    kept.append(sorted(range(COUNT), key=lambda i: kept.append(bytearray(BYTES)) or i))
    functools.reduce(lambda a, b: kept.append(bytearray(BYTES)), range(COUNT + 1))
    thread = threading.Thread(target=in_thread)
    thread.start()
    thread.join()
    Raising()
    broken()
    try:
        task().send(None)
    except StopIteration:
        pass
    names = {"kept": kept, "COUNT": COUNT, "BYTES": BYTES}
    exec(compile("\n\ndef gone():\n    kept.append([bytearray(BYTES) for _ in range(COUNT)])\ngone()\n", "<made>",
                 "exec"), names)
    names.clear()

if sys.argv[1:] == ["trace"]:
    import tracemalloc
    tracemalloc.start(64)
    main()
    found = {}
    for trace in tracemalloc.take_snapshot().traces:
        if BYTES <= trace.size < BYTES + 100:
            stack = tuple((frame.filename, frame.lineno) for frame in reversed(list(trace.traceback)))
            found[stack] = found.get(stack, 0) + trace.size
    print(json.dumps([[stack, size] for stack, size in found.items()]))
else:
    main()
'''.replace("#FAR", "    pass\n" * 400)
# Sends the walk to where nothing is, or nothing that makes sense, and asks for memory.
BROKEN = r'''
import ctypes, sys
def ask():
    return len([bytearray(3000) for _ in range(300)])
def spoil(value):
    frame = sys._getframe(0)
    at = id(frame) + 24
    if sys.version_info >= (3, 11):
        at = ctypes.c_size_t.from_address(at).value + {11: 48, 12: 8, 13: 8}[sys.version_info[1]]
    word = ctypes.c_size_t.from_address(at)
    before = word.value
    word.value = value if value is not None else at & ~7
    try:
        return ask()
    finally:
        word.value = before
for value in (8, 4096, 0x7000_0000_0000, 0xdead_beef_dead_bee8, 1 << 63, 2 ** 64 - 8, id(spoil), id("text"), None):
    assert spoil(value) == 300
'''
HOLDS = r'''
import sys, time
kept = []
def grow():
    kept.append(bytearray(3000))
def hold():
    while True:
        grow()
        if len(kept) == 3000:
            print("ready", flush=True)
        time.sleep(0.0001)
hold()
'''
SUPPORTED = ((3, 9), (3, 13))


def pythons():
    """{(3, minor): path} of those on the machine; each is started, since what PATH has may be a script of pyenv's."""
    found = {}
    paths = ["/usr/bin/python3", sys.executable] + [shutil.which("python3.%d" % minor) for minor in range(6, 16)]
    paths += sorted(glob.glob(os.path.join(os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv")), "versions",
                                           "3.*", "bin", "python3")))
    for path in paths:
        words = [path, "-I", "-S", "-c", "import sys; print(*sys.version_info[:2], sys.implementation.name)"]
        done = run(*words, check=False) if path and os.path.exists(path) else None
        if done is not None and done.returncode == 0 and done.stdout.split()[2] == "cpython":
            found[tuple(map(int, done.stdout.split()[:2]))] = path
    return found


PYTHONS = pythons()


class Lines(InFolder):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.script = cls.path("größe.py")
        with open(cls.script, "w", encoding="utf-8") as file:
            file.write(SCRIPT)

    def known(self):
        """[(version, path)], the oldest first."""
        known = {version: path for version, path in PYTHONS.items() if SUPPORTED[0] <= version <= SUPPORTED[1]}
        if not known:
            needs.lacking("no CPython from 3.9 to 3.13 is on this machine.")
        return sorted(known.items())

    def profile(self, python, *words, **environment):
        """The profile that the library writes at the end of a run."""
        import heap_profile
        with open(self.path("kept.pb.gz"), "wb+") as file:
            options = "profile_kb=1,profile_fd=%d" % file.fileno()
            run(python, "-X", "utf8", "-I", "-S", *words, pass_fds=[file.fileno()], env=dict(
                os.environ, LD_PRELOAD=self.library, CALM_OPTIONS=options, **environment))
        return heap_profile.read(file.name)

    def script_stacks(self, profile, least):
        """{((file, line), ...) innermost first: bytes} of the script's lines, and their functions by place."""
        found, names = {}, {}
        for stack in profile.stacks:
            places = [location.lines[0] for location in stack.locations if location.is_of_script()]
            if places and any(location.address for location in stack.locations):
                for name, file, line in places:
                    names[(file, line)] = name
                key = tuple((file, line) for _, file, line in places)
                found[key] = found.get(key, 0) + stack.all_bytes
        return {key: size for key, size in found.items() if size > least}, names

    def test_lines_are_those_of_tracemalloc(self):
        for version, python in self.known():
            # -X utf8: with -I no variable says that names of files are UTF-8.
            truth = json.loads(run(python, "-X", "utf8", "-I", "-S", self.script, "trace",
                                   env=dict(os.environ, PYTHONMALLOC="malloc")).stdout)
            truth = {tuple(map(tuple, stack)): size for stack, size in truth if size > COUNT * BYTES // 3}
            self.assertGreaterEqual(len(truth), 17)
            for setting in ("malloc", "pymalloc"):
                with self.subTest(python=version, PYTHONMALLOC=setting):
                    profile = self.profile(python, self.script, PYTHONMALLOC=setting)
                    stacks, names = self.script_stacks(profile, COUNT * BYTES // 4)
                    self.check_stacks(stacks, truth, version)
                    self.check_names(names, version)

    def check_stacks(self, stacks, truth, version):
        """Each of tracemalloc's stacks has its bytes; it begins a thread's at threading.py, as we do."""
        for stack, size in truth.items():
            found = sum(bytes_ for ours, bytes_ in stacks.items() if self.is_same(ours, stack))
            self.assertTrue(0.8 * size < found < 1.25 * size, (version, stack, size, found, sorted(stacks)))
        for ours in stacks:
            self.assertTrue(any(self.is_same(ours, stack) for stack in truth), (version, ours))

    def is_same(self, ours, truth):
        """Ours may be cut off at 64 calls with those of C before."""
        ours = [(os.path.basename(file), line) for file, line in ours]
        truth = [(os.path.basename(file), line) for file, line in truth]
        # tracemalloc numbers __main__'s own call of main() elsewhere in the two runs.
        ours, truth = ([place for place in stack if not self.is_start(place)] for stack in (ours, truth))
        return ours == truth or len(ours) > 50 and len(truth) > 50 and ours[:50] == truth[:50]

    @staticmethod
    def is_start(place):
        lines = SCRIPT.splitlines()
        return place[0] == "größe.py" and lines[place[1] - 1].startswith("    main()")

    def check_names(self, names, version):
        lines = SCRIPT.splitlines()

        def name_of(words):
            line = next(index for index, text in enumerate(lines) if words in text) + 1
            return next(name for (file, at), name in names.items() if file.endswith("größe.py") and at == line)
        self.assertIn(name_of("Keeper().fill()"), ("main",))
        self.assertEqual(name_of("                bytearray(BYTES))"), "Keeper.fill" if version >= (3, 11) else "fill")
        self.assertEqual(name_of("yield bytearray"), "rows")
        inner = name_of("kept.extend([bytearray")
        self.assertIn(inner.partition(".<locals>")[0],
                      ("Keeper.Inner.fill",) if version >= (3, 11) else ("fill", "<listcomp>"))
        of_main = [name for (file, at), name in names.items()
                   if file.endswith("größe.py") and "lambda a, b" in lines[at - 1]]
        self.assertIn(of_main[0], ("main", "main.<locals>.<lambda>" if version >= (3, 11) else "<lambda>"))
        self.assertIn("größe_测", " ".join(names.values()))
        self.assertIn("gone", " ".join(names.values()))

    def test_a_walk_that_leads_astray_ends(self):
        script = self.file("broken.py", BROKEN)
        for version, python in self.known():
            with self.subTest(python=version):
                stacks, _ = self.script_stacks(self.profile(python, script, PYTHONMALLOC="malloc"), 1 << 20)
                self.assertEqual({stack[0] for stack in stacks}, {(script, 4)})

    def test_another_python_has_its_functions_of_c(self):
        script = self.file("other.py", "kept = [bytearray(3000) for _ in range(3000)]\n")
        for version, python in PYTHONS.items():
            if not SUPPORTED[0] <= version <= SUPPORTED[1]:
                with self.subTest(python=version):
                    profile = self.profile(python, script, PYTHONMALLOC="malloc")
                    self.assertGreater(profile.total("all_bytes"), 8 << 20)
                    self.assertFalse(any(location.is_of_script() for stack in profile.stacks
                                         for location in stack.locations))

    def test_the_table_of_a_run(self):
        """The sites of a Python program are its lines; and what Python hides is said, once."""
        _, python = self.known()[-1]
        words = (python, "-I", "-S", self.script)
        environment = dict(os.environ, PYTHONMALLOC="malloc")
        text = calm("heap", "--rate", "16", "--by", "alloc", "--", *words, env=environment).stderr
        line = SCRIPT[:SCRIPT.index("yield bytearray")].count("\n") + 1
        self.assertIn(" main.<locals>.<lambda> ", text)
        self.assertNotIn("PYTHONMALLOC", text)
        environment["PYTHONMALLOC"] = "pymalloc"
        hidden = calm("heap", "--rate", "16", "--", *words, env=environment).stderr
        self.assertEqual(len(re.findall("calm: Python .* PYTHONMALLOC=malloc ", hidden)), 1, hidden)
        self.assertRegex(text, r"[KM]iB +\d+ +\d+\.\d%% +rows +\S*gr\S+e\.py:%d\n" % line)

    def test_a_process_that_runs(self):
        script = self.file("holds.py", HOLDS)
        _, python = self.known()[-1]
        process = subprocess.Popen([python, "-I", "-S", script], stdout=subprocess.PIPE, cwd=self.folder,
                                   env=dict(os.environ, LD_PRELOAD=self.library, PYTHONMALLOC=""))
        try:
            process.stdout.readline()
            text = calm("heap", "--rate", "4", "--seconds", "1", str(process.pid), cwd=self.folder)
            self.assertRegex(text.stdout, r"\bgrow +holds\.py:5\n")
            self.assertEqual(text.stderr.count("PYTHONMALLOC=malloc"), 1)
        finally:
            process.kill()
            process.communicate()

    def test_one_that_is_killed(self):
        script = self.file("killed.py", HOLDS)
        _, python = self.known()[-1]
        process = subprocess.Popen([os.path.join(ROOT, "calm"), "heap", "--rate", "4", "--leaks", "--", python, "-I",
                                    "-S", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.folder,
                                   text=True)
        process.stdout.readline()
        process.send_signal(signal.SIGTERM)  # before which calm looks once more
        text = process.communicate()[1]
        self.assertRegex(text, r"\n    grow  killed\.py:5\n    hold  killed\.py:8\n    <module>  killed\.py:12\n")


if __name__ == "__main__":
    VENV = os.path.join(os.environ.get("CALM_BUILD_DIR") or os.path.join(ROOT, "build"), "python-lines")
    if not pinned.enter(os.path.join(ROOT, "tools", "heap-requirements.txt"), VENV):
        needs.skip("the Python packages that read profiles could not be fetched.")
    needs.main()
