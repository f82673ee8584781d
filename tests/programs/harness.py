"""
harness.py: runs one real program twice and says how the two runs differ.

A `Case` is a function that drives a program through a `World`. It is called once in the system's world and once
in the preloaded world, in a work directory of the same name, so that whatever it prints can be compared byte for
byte. Each world keeps a list of `Step`s (a finished process, or a named fact); `differences` lists what disagrees.

A second preloaded library, the witness, writes one line for each process that starts: who it is and which file its
malloc comes from. So a run in which the library was silently not used is a failure and not a pass.
"""

import difflib
import os
import pwd
import re
import shlex
import shutil
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parent / "scripts"
COMPLAINT = re.compile(rb"^calmalloc:.*$", re.MULTILINE)
DIFF_LINES_MAX = 40
OUTPUT_BYTES_MAX = 64 << 20
FOREVER = float("inf")  # as long as the world's deadline allows


class Skip(Exception):
    """The program is not here; the text says how to get it."""


class Failure(Exception):
    """The case cannot go on: a step that later steps need has failed."""


class Case:
    """A program, how to drive it, and what may be assumed about it. `packages` are Debian's names."""

    def __init__(self, name, drive, label, packages, seconds_max, must_see, own_allocator, complaints):
        self.name = name
        self.drive = drive
        self.label = label
        self.packages = packages
        self.seconds_max = seconds_max
        self.must_see = must_see  # executables that must be seen running on the library, direct or not
        self.own_allocator = own_allocator  # executables that export a malloc themselves: only mapped, not asked
        self.complaints = complaints  # patterns of the library's messages that this program rightly provokes


class Step:
    """What is compared: a process that ended, or a fact that the case states about its world."""

    def __init__(self, label, exit_code, stdout, stderr=b"", pid=None, command=""):
        self.label = label
        self.exit_code = exit_code
        self.stdout = stdout
        self.stderr = stderr
        self.pid = pid
        self.command = command


class Process:
    """A running program whose output is collected as it comes, so that it never waits for a full pipe."""

    def __init__(self, world, argv, label, env, stdin, cwd, user):
        self.argv = [str(word) for word in argv]
        self.label = label
        self.environment = world.environment(env)
        self.cwd = cwd or world.work
        identity = {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []} if user else {}
        self.child = subprocess.Popen(
            self.argv,
            stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.environment,
            cwd=self.cwd,
            start_new_session=True,
            **identity,
        )
        self.output = {"stdout": bytearray(), "stderr": bytearray()}
        self.readers = [self._collect("stdout"), self._collect("stderr")]
        if stdin is not None:
            self._background(lambda: self._feed(stdin))

    def _background(self, work):
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        return thread

    def _feed(self, data):
        try:
            self.child.stdin.write(data if isinstance(data, bytes) else data.encode())
            self.child.stdin.close()
        except BrokenPipeError:
            pass  # The program need not read all of it.

    def _collect(self, name):
        stream = getattr(self.child, name)

        def work():
            while chunk := os.read(stream.fileno(), 65536):
                if len(self.output[name]) < OUTPUT_BYTES_MAX:
                    self.output[name] += chunk

        return self._background(work)

    def is_running(self):
        return self.child.poll() is None

    def signal(self, number):
        self.child.send_signal(number)

    def kill_group(self):
        try:
            os.killpg(self.child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def wait(self, timeout_seconds):
        """The Step, or None when the time is over: then the whole process group has been killed."""
        try:
            self.child.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            self.kill_group()
            self.child.wait()
            return None
        for reader in self.readers:
            reader.join(10)  # A daemon that the program left behind may hold the pipe open.
        return Step(
            self.label,
            self.child.returncode,
            bytes(self.output["stdout"]),
            bytes(self.output["stderr"]),
            self.child.pid,
            self.command(),
        )

    def command(self):
        shown = [f"{name}={shlex.quote(value)}" for name, value in sorted(self.environment.items())]
        return f"cd {self.cwd} && env -i {' '.join(shown)} {shlex.join(self.argv)}"


class World:
    """One run of a case: the work directory, the environment, and the steps so far."""

    def __init__(self, root, library, witness, deadline):
        self.library = library  # None in the system's world
        self.witness = witness
        self.deadline = deadline
        self.work = root / "work"
        self.log = root / "witness.log"
        self.steps = []
        self.processes = []
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir()
        self.log.write_bytes(b"")
        self.log.chmod(0o666)

    def environment(self, extra=None):
        """The same small environment in both worlds, so that neither locale nor home makes a difference."""
        preloads = [path for path in (self.library, self.witness) if path]
        base = {
            "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin",
            "HOME": str(self.work),
            "TMPDIR": str(self.work),
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            "LD_PRELOAD": ":".join(map(str, preloads)),
            "WITNESS_LOG": str(self.log),
            "WITNESS_LIBRARY": str(self.library or ""),
        }
        if self.library and "CALM_OPTIONS" in os.environ:
            base["CALM_OPTIONS"] = os.environ["CALM_OPTIONS"]
        base.update(extra or {})
        return base

    def seconds_left(self, wanted):
        return max(0.1, min(wanted, self.deadline - time.monotonic()))

    def start(self, *argv, label=None, env=None, stdin=None, cwd=None, user=None):
        """Starts a program that goes on beside the next steps; `finish` takes it into the list."""
        process = Process(self, argv, label or Path(str(argv[0])).name, env, stdin, cwd, user)
        self.processes.append(process)
        return process

    def finish(self, process, timeout=FOREVER, normalise=None, compare=True, expect=0):
        seconds = self.seconds_left(timeout)
        step = process.wait(seconds)
        if step is None:
            raise Failure(f"{process.label}: no end after {seconds:.0f} s, killed\n  repeat with: {process.command()}")
        if not compare:
            step.stdout = b""
        elif normalise:
            step.stdout = normalise(step.stdout)
        self.steps.append(step)
        if expect is not None and step.exit_code != expect:
            raise Failure(describe_exit(step, expect))
        return step

    def run(self, *argv, timeout=FOREVER, normalise=None, compare=True, expect=0, **how):
        """
        Runs a program to its end and takes it into the list. Another exit code than `expect` ends the case;
        with expect=None any will do, as long as both worlds agree.
        """
        return self.finish(self.start(*argv, **how), timeout, normalise, compare, expect)

    def state(self, label, fact):
        """Takes a fact into the list: a file's contents, an answer of a server."""
        self.steps.append(Step(label, 0, fact if isinstance(fact, bytes) else str(fact).encode()))

    def until(self, condition, what, process=None, timeout=30):
        """Waits for a server: polls `condition`, bounded, and gives up at once when the server has ended."""
        end = time.monotonic() + self.seconds_left(timeout)
        while time.monotonic() < end:
            if condition():
                return
            if process and not process.is_running():
                step = process.wait(1)
                self.steps.append(step)
                raise Failure(f"ended before it was ready ({what})\n{describe_exit(step, 0)}")
            time.sleep(0.05)
        raise Failure(f"{what}: not within {timeout} s")

    def testimonies(self):
        return [Testimony(line) for line in self.log.read_text(errors="replace").splitlines()]

    def close(self):
        for process in self.processes:
            if process.is_running():
                process.kill_group()
                process.child.wait()


class Testimony:
    """One line of the witness: a process, and where its malloc and free come from."""

    def __init__(self, line):
        pid, self.executable, self.malloc_from, self.free_from, is_mapped = line.split("\t")
        self.pid = int(pid)
        self.name = Path(self.executable).name
        self.is_mapped = is_mapped == "1"


def describe_exit(step, expected):
    how = f"exit code {step.exit_code}"
    if step.exit_code < 0:
        how = f"killed by {signal.Signals(-step.exit_code).name}"
    tail = step.stderr.decode(errors="replace").splitlines()[-15:] or ["(nothing on standard error)"]
    said = step.stdout.decode(errors="replace").splitlines()[-10:]
    lines = [f"{step.label}: {how}, expected {expected}", *(f"  2> {line}" for line in tail)]
    lines += [f"  1> {line}" for line in said]
    return "\n".join(lines + [f"  repeat with: {step.command}"])


def describe_difference(ours, theirs):
    left, right = (step.stdout.decode(errors="replace").splitlines() for step in (theirs, ours))
    lines = list(difflib.unified_diff(left, right, "system", "preloaded", lineterm="", n=1))
    more = len(lines) - DIFF_LINES_MAX
    shown = [f"  {line[:200]}" for line in lines[:DIFF_LINES_MAX]] + ([f"  ... {more} more"] if more > 0 else [])
    repeat = [f"  repeat with: {ours.command}"] if ours.command else []
    return "\n".join([f"{ours.label}: standard output differs", *shown, *repeat])


def differences(system, preloaded):
    """What the program did otherwise on the library, as a list of texts; empty when nothing."""
    found = []
    for theirs, ours in zip(system.steps, preloaded.steps):
        if theirs.label != ours.label:
            found.append(f"the steps part: {theirs.label} on the system, {ours.label} on the library")
            break
        if theirs.exit_code != ours.exit_code:
            found.append(describe_exit(ours, theirs.exit_code))
        if theirs.stdout != ours.stdout:
            found.append(describe_difference(ours, theirs))
    if len(system.steps) != len(preloaded.steps):
        found.append(f"{len(system.steps)} steps on the system, {len(preloaded.steps)} on the library")
    return found


def complaints(case, preloaded):
    """Lines in which the library itself speaks although the case does not expect it."""
    found = []
    for step in preloaded.steps:
        for line in COMPLAINT.findall(step.stderr):
            text = line.decode(errors="replace")
            if not any(re.search(pattern, text) for pattern in case.complaints):
                found.append(f"{step.label}: the library complains: {text}\n  repeat with: {step.command}")
    return found


def not_loaded(case, preloaded):
    """Processes that ran without the library although they were meant to run on it."""
    library = str(preloaded.library)
    seen = preloaded.testimonies()
    found = []
    for testimony in seen:
        if not testimony.is_mapped:
            found.append(f"{testimony.name} (pid {testimony.pid}) has not loaded the library")
        elif testimony.name not in case.own_allocator and {testimony.malloc_from, testimony.free_from} != {library}:
            found.append(f"{testimony.name} takes malloc from {testimony.malloc_from}, free from {testimony.free_from}")
    pids = {testimony.pid for testimony in seen}
    unseen = (step for step in preloaded.steps if step.pid and step.pid not in pids)
    found += [f"{step.label}: never seen by the witness" for step in unseen]
    names = {testimony.name for testimony in seen}
    found += [f"no process {wanted} was seen" for wanted in case.must_see if not any_match(wanted, names)]
    return list(dict.fromkeys(found))


def any_match(pattern, names):
    return any(re.fullmatch(pattern, name) for name in names)


def find_program(*names):
    """The path of the first of `names` that is installed; Skip when none is."""
    path = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
    for name in names:
        if found := shutil.which(name, path=path):
            return found
    raise Skip(f"{names[0]} is not installed")


def free_port():
    """A TCP port of the loopback address that nobody listens on right now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def accepts_connections(port):
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0
