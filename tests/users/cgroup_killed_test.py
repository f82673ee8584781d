"""An importer in C++ is killed for its memory: `calm heap -- PROGRAM` tells what held it shortly before. Where this
user may make a cgroup v2 with a memory limit, the kernel kills it; elsewhere the test does, at the same limit.

Seen to fail with no look from outside: "no profile: ... was killed by SIGKILL"."""
import os
import signal
import time
import unittest

from users import PATIENCE_S, Task, needs, run

LIMIT_BYTES = 160 << 20
MIB = 1 << 20


def cgroup():
    """A new folder of cgroup v2 with the limit, or None."""
    try:
        with open("/proc/self/mounts") as file:
            root = next(words[1] for words in map(str.split, file) if words[2] == "cgroup2")
        with open("/proc/self/cgroup") as file:
            below = next(line[3:].strip() for line in file if line.startswith("0::"))
        # A group with processes of its own may have no limited children, so it is made beside ours.
        path = os.path.join(root, os.path.dirname(below.strip("/")), "calm-users-%d" % os.getpid())
        os.mkdir(path)
    except (OSError, StopIteration):
        return None
    try:
        for name, value in (("memory.max", LIMIT_BYTES), ("memory.swap.max", 0)):
            if name == "memory.max" or os.path.exists(os.path.join(path, name)):
                with open(os.path.join(path, name), "w") as file:
                    file.write(str(value))
        return path
    except OSError:
        os.rmdir(path)
        return None


class CgroupKilled(Task):
    def setUp(self):
        self.program = self.path("importer")
        run("c++", "-g", "-O1", self.source("importer.cpp"), "-o", self.program)

    def program_of(self, terminal):
        """The importer, among what calm started."""
        with open("/proc/%d/task/%d/children" % (terminal.process.pid, terminal.process.pid)) as file:
            found = [int(word) for word in file.read().split()] + [terminal.process.pid]
        for pid in found:
            try:
                if os.readlink("/proc/%d/exe" % pid) == os.path.realpath(self.program):
                    return pid
            except OSError:
                continue
        return None

    def kill_at_the_limit(self, terminal):
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            terminal.read(0.02)
            pid = self.program_of(terminal)
            if pid is None:
                continue
            with open("/proc/%d/statm" % pid) as file:
                if int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE") >= LIMIT_BYTES:
                    os.kill(pid, signal.SIGKILL)
                    return
        self.fail("it never reached the limit")

    def test_what_held_the_memory_is_told(self):
        folder = cgroup()
        if folder:
            self.addCleanup(os.rmdir, folder)
        terminal = self.terminal("heap", "--rate", "64", "--", self.program, folder or "")
        if not folder:
            self.kill_at_the_limit(terminal)
        self.assertEqual(terminal.ended(PATIENCE_S), -signal.SIGKILL)
        screen = terminal.screen()
        print("killed by the kernel, in a cgroup v2" if folder else
              "no cgroup v2 with a memory limit can be made here; killed by the test, at the same limit")
        if folder:
            with open(os.path.join(folder, "memory.events")) as file:
                self.assertRegex(file.read(), r"(?m)^oom_kill [1-9]")
        self.assertRegex(screen, r"(?m)^  last seen +from outside, \d+\.\d s before it was killed by SIGKILL$")
        live, share, words = self.first_row(screen)
        self.assertGreater(live, 0.4 * LIMIT_BYTES / MIB, screen)
        self.assertLess(live, 1.1 * LIMIT_BYTES / MIB, screen)
        self.assertGreater(share, 80, screen)
        self.assertIn("Index::add", words)
        self.assertIn(self.line("importer.cpp", "push_back"), words)


if __name__ == "__main__":
    needs.need("g++")
    unittest.main()
