"""
filtered.py: a case under the list of system calls in docs/sandboxes.md.

Without the library each program of the case runs under strace, which says what it calls. With the library it runs
under a filter that allows this and what the list has after the start, refuses what the list has at the start, and
kills at any other call. A program that the filter kills differs in its exit code.
"""

import re
import time
from pathlib import Path

from harness import Failure, Skip, World, find_program

HEADER = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")
AFTER_THE_START = ("mmap", "munmap", "mremap", "madvise", "mprotect", "futex", "rt_sigprocmask")
AT_THE_START = (
    "sysinfo",
    "sched_getaffinity",
    "prlimit64",
    "getpid",
    "getrandom",
    "rseq",
    "membarrier",
    "prctl",
    "getcpu",
)
LAUNCHING = ("execve", "write")
UNCOUNTED = ("exit", "exit_group", "rt_sigreturn", "restart_syscall")  # strace counts what returns
BY_CHANCE = (
    "readv",
    "writev",
    "read",
    "poll",
    "sched_yield",
    "clock_nanosleep",
    "nanosleep",
    "epoll_wait",
)  # as it comes
TRACER_SECONDS = 20


def numbers():
    """Each system call's number, by its name."""
    if not HEADER.exists():
        raise Skip("libc6-dev for x86-64 is not installed")
    return {name: int(number) for name, number in re.findall(r"#define __NR_(\w+) (\d+)", HEADER.read_text())}


class TracedWorld(World):
    """Each program's system calls go into a file, in the order in which the programs start."""

    def __init__(self, root, *rest):
        super().__init__(root, *rest)
        self.folder = root / "traces"
        self.folder.mkdir()
        self.folder.chmod(0o777)
        self.traces = []

    def start(self, *argv, label=None, **how):
        self.traces.append(self.folder / str(len(self.traces)))
        tracer = [find_program("strace"), "-D", "-f", "-qq", "-c", "-o", self.traces[-1]]
        return super().start(*tracer, *argv, label=label or Path(str(argv[0])).name, **how)

    def called(self):
        """The names of all that was called."""
        names = set()
        for path in self.traces:
            end = time.monotonic() + TRACER_SECONDS
            while not path.exists() or b"total" not in path.read_bytes():
                if time.monotonic() > end:
                    raise Failure(f"strace has not said what {path.name} calls")
                time.sleep(0.05)
            names |= {line.split()[-1] for line in path.read_text().splitlines()[2:]}
        return names


class FilteredWorld(World):
    """Each program may call what it called before, and what the list has."""

    def __init__(self, launcher, called, *rest):
        super().__init__(*rest)
        known = numbers()
        allowed = set(called).union(AFTER_THE_START, LAUNCHING, UNCOUNTED, BY_CHANCE) & set(known)
        lists = [
            " ".join(str(known[name]) for name in sorted(names)) for names in (allowed, set(AT_THE_START) - allowed)
        ]
        self.prefix = [launcher, *lists]

    def start(self, *argv, label=None, **how):
        return super().start(*self.prefix, *argv, label=label or Path(str(argv[0])).name, **how)
