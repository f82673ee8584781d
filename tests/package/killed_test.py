"""Holds `calm heap -- PROGRAM` and `calm run PROGRAM` to a report whatever ends PROGRAM: the last state that was seen.

A test waits until the watcher has kept what the program holds, and then ends it; nothing is timed. On a calm without a
watcher each test of an end failed with "no profile", or with a heap that is null.
"""
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import unittest

from support import CALM, HERE, ROOT, InFolder, calm, needs, run, wait_for

sys.path.append(os.path.join(ROOT, "tools", "calm"))
sys.dont_write_bytecode = True

BLOCKS, MORE, WORKERS = 20000, 60000, 3  # as killed.c has them
HELD, GROWN = BLOCKS * 1024, BLOCKS * 1024 + MORE * 512
MIB = 1 << 20
PATIENCE_S = 60


class Killed(InFolder):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.program = cls.path("killed")
        run("cc", "-g", "-O1", os.path.join(HERE, "killed.c"), "-o", cls.program)

    def start(self, way, *options, before=(), command="heap", inside=()):
        """Starts calm in a process group of its own; returns once the program holds what it holds."""
        words = [*before, CALM, command, *options, "--", *inside, self.program, way]
        if command == "heap":
            words[len(before) + 2:len(before) + 2] = ["--rate", "4"]
        process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, start_new_session=True)
        self.addCleanup(self.end, process)
        said = [process.stdout.readline() for _ in range(1 + WORKERS * (way in ("workers", "leave")))]
        self.assertIn("ready\n", said)
        return process

    def end_group(self, process):
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def end(self, process):
        self.end_group(process)
        process.communicate()

    def kept(self, process):
        """What the watcher keeps, as the reporter would find it."""
        import last_look
        for place in glob.glob("/proc/%d/fd/*" % process.pid):
            try:
                if "calm-state" in os.readlink(place):
                    return last_look.read(os.open(place, os.O_RDONLY))
            except OSError:
                continue
        return {"states": []}

    def seen(self, process, size, count=1):
        """Waits until so many processes were seen to hold so much; returns their states."""
        def look():
            states = [state for state in self.kept(process)["states"]
                      if state["fate"] is None and state["heap"]["allocated_bytes"] - state["heap"]["cached_bytes"] >=
                      size and (state["profile"] is None or state["profile"]["stacks"])]
            return states if len(states) >= count else None
        found = wait_for(look)
        self.assertTrue(found, self.kept(process))
        return found

    def pid_of(self, process):
        return self.seen(process, HELD)[0]["pid"]

    def say(self, process):
        process.stdin.write("\n")
        process.stdin.flush()

    def ended(self, process, code):
        """What calm said; what it left running is killed."""
        process.wait(PATIENCE_S)
        self.end_group(process)
        _, errors = process.communicate(timeout=PATIENCE_S)
        if code is not None:
            self.assertEqual(process.returncode, code, errors)
        return errors

    def check(self, errors, words, megabytes=HELD / MIB):
        """The table of a heap that was seen last."""
        self.assertRegex(errors, r"(?m)^  last seen +from outside, " + words + "$")
        live = re.search(r"(?m)^  live then +([\d.]+) MiB .*counted exactly ([\d.]+) MiB$", errors)
        self.assertTrue(live, errors)
        self.assertLess(abs(float(live.group(2)) - megabytes), 0.5, errors)
        self.assertLess(abs(float(live.group(1)) / megabytes - 1), 0.1, errors)  # 4 KiB a sample: 1 in 70 of error
        self.assertRegex(errors, r"(?m)^ .*  hold +\S*killed\.c:%d$" % self.line("kept[i] = malloc"))

    def line(self, words):
        with open(os.path.join(HERE, "killed.c")) as file:
            return next(number for number, line in enumerate(file, 1) if words in line)

    def by(self, number):
        return r"\d+\.\d s before it was killed by " + signal.Signals(number).name

    # Each way to end.

    def test_what_the_program_does_to_itself(self):
        # Seen to fail also: what was seen of a program that has ended thrown away.
        leaves = r"\d+\.\d s before it left without a report, by _exit or the like"
        for way, code, words in (("abort", -signal.SIGABRT, self.by(signal.SIGABRT)), ("_exit", 3, leaves),
                                 ("quick_exit", 4, leaves), ("kill", -signal.SIGKILL, self.by(signal.SIGKILL))):
            with self.subTest(way):
                process = self.start(way)
                self.seen(process, HELD)
                self.say(process)
                self.check(self.ended(process, code), words)

    def test_signals_to_the_program_alone(self):
        for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV):
            with self.subTest(number):
                process = self.start("wait")
                os.kill(self.pid_of(process), number)
                self.check(self.ended(process, -number), self.by(number))

    def test_an_interrupt_from_the_keyboard(self):
        process = self.start("wait")
        self.seen(process, HELD)
        os.killpg(process.pid, signal.SIGINT)
        self.check(self.ended(process, -signal.SIGINT), self.by(signal.SIGINT))

    def test_all_of_a_group_is_told_to_end(self):
        # As systemd and container runtimes do.
        process = self.start("wait")
        self.seen(process, HELD)
        os.killpg(process.pid, signal.SIGTERM)
        self.check(self.ended(process, -signal.SIGTERM), self.by(signal.SIGTERM))

    def test_a_program_that_goes_on_after_a_signal_is_still_watched(self):
        # Seen to fail: the watcher, which is of the same group, ends by either.
        for number in (signal.SIGINT, signal.SIGTERM):
            process = self.start("deaf")
            pid = self.pid_of(process)
            os.killpg(process.pid, number)
            self.say(process)
            self.assertEqual(process.stdout.readline(), "more\n")
            self.seen(process, GROWN)
            os.kill(pid, signal.SIGKILL)
            self.check(self.ended(process, -signal.SIGKILL), self.by(signal.SIGKILL), GROWN / MIB)

    def test_a_signal_that_is_passed_on_waits_for_a_look(self):
        # Seen to fail also: the launcher does not ask for it.
        for number in (signal.SIGTERM, signal.SIGHUP):
            process = self.start("more")
            self.seen(process, HELD)
            self.say(process)
            self.assertEqual(process.stdout.readline(), "more\n")
            os.kill(process.pid, number)
            errors = self.ended(process, -number)
            self.check(errors, self.by(number), GROWN / MIB)
            self.assertRegex(errors, r"  hold_more +\S*killed\.c:%d\n" % self.line("malloc(500)"))

    def test_a_watcher_that_does_not_answer_holds_no_signal_up(self):
        # Seen to fail: no limit to the wait.
        process = self.start("wait")
        self.seen(process, HELD)
        os.kill(self.watcher_of(process), signal.SIGSTOP)
        os.kill(process.pid, signal.SIGTERM)
        self.check(self.ended(process, -signal.SIGTERM), self.by(signal.SIGTERM))

    def watcher_of(self, process):
        with open("/proc/%d/task/%d/children" % (process.pid, process.pid)) as file:
            children = [int(word) for word in file.read().split()]
        for pid in children:
            with open("/proc/%d/cmdline" % pid) as file:
                if "_watch" in file.read().split("\0"):
                    return pid
        return self.fail("no watcher among %s" % children)

    def test_a_launcher_that_is_killed_leaves_no_watcher_behind(self):
        # Seen to fail: the end of the socket taken for a request for a look.
        process = self.start("wait")
        self.seen(process, HELD)
        watcher = self.watcher_of(process)
        process.kill()
        self.assertTrue(wait_for(lambda: not self.is_running(watcher)))

    def is_running(self, pid):
        try:
            with open("/proc/%d/stat" % pid) as file:
                return file.read().rpartition(")")[2].split()[0] not in "ZX"
        except OSError:
            return False

    def test_another_program_in_its_place(self):
        # Seen to fail also: what was seen before the exec dropped.
        process = self.start("exec")
        self.seen(process, HELD)
        self.say(process)
        self.check(self.ended(process, 0), "before it became another program by exec")

    def test_another_program_that_writes_its_own(self):
        # Seen to fail: the state before the exec preferred.
        process = self.start("replace")
        self.seen(process, HELD)
        self.say(process)
        errors = self.ended(process, 0)
        self.assertNotIn("last seen", errors)
        self.assertIn("live at the end", errors)

    def test_an_ordinary_end_is_reported_as_ever(self):
        # Seen to fail: the last look preferred to what the library wrote.
        process = self.start("return")
        self.seen(process, HELD)
        self.say(process)
        errors = self.ended(process, 5)
        self.assertNotIn("last seen", errors)
        self.assertRegex(errors, r"live at the end +\S+ MiB .*in .*, counted exactly 19\.\d MiB")

    # Several processes.

    def workers(self, *more, inside=()):
        process = self.start("workers", *more, inside=inside)
        states = self.seen(process, GROWN, WORKERS)
        return process, states

    def test_workers_that_hold_the_memory(self):
        # Seen to fail also: the program's own state alone kept.
        process, _ = self.workers()
        os.killpg(process.pid, signal.SIGINT)
        errors = self.ended(process, -signal.SIGINT)
        self.check(errors, self.by(signal.SIGINT))
        self.assertRegex(errors, r"(?m)^  children +3 processes were profiled too, live 14\d MiB in all")
        self.assertEqual(len(re.findall(r"(?m)^ +killed, process \d+, live 4[6-9]\.\d MiB$", errors)), 3, errors)

    def test_the_sum_of_workers(self):
        process, states = self.workers("--process", "all")
        for state in states:
            os.kill(state["pid"], signal.SIGKILL)
        os.kill(process.pid, signal.SIGTERM)
        errors = self.ended(process, -signal.SIGTERM)
        self.assertIn("calmalloc: heap of 4 processes of ", errors)
        self.assertRegex(errors, r"(?m)^  last seen +from outside, 4 of these, which wrote no profile$")
        rows = {row[3]: row for row in (re.split(r"\s{2,}", line.strip()) for line in errors.splitlines())
                if len(row) == 5}
        for name, blocks in (("hold", 4 * BLOCKS), ("hold_more", WORKERS * MORE)):
            self.assertLess(abs(int(rows[name][1].replace(",", "")) / blocks - 1), 0.1, errors)

    def test_children_of_a_program_that_asks_for_nothing(self):
        # Seen to fail also: what the child wrote thrown away, and the program told to return from main.
        process = self.start("idle")
        self.assertTrue(wait_for(lambda: len(self.kept(process)["states"]) > 0))
        process.stdin.close()
        process.stdin = None
        errors = self.ended(process, 6)
        self.assertRegex(errors, r"(?m)^  children +1 process was profiled too, live [12]\d\.\d MiB in all; --proc")
        self.assertIn("' itself asked for no memory as long as calm looked at it.\n", errors)

    def test_a_daemon_goes_on(self):
        # Seen to fail also: the same words as for a program that left by _exit.
        process = self.start("daemon")
        process.wait(PATIENCE_S)
        errors = process.stderr.read()  # the daemon has it no longer than calm
        self.assertRegex(errors, r"(?m)^  background +process \d+ goes on; ./calm heap \d+ shows its heap$")
        self.assertIn("its option to stay in the foreground", errors)

    def test_closed_output(self):
        # Seen to fail also: an internal error, and calm's code in the place of the program's.
        for closed in (">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"):
            for command in ("run", "heap"):
                done = run("sh", "-c", '"$1" "$2" -- sh -c "exit 5" %s' % closed, "sh", CALM, command, check=False)
                self.assertEqual((done.returncode, done.stdout), (5, ""), closed + done.stderr)
                self.assertNotIn("internal error", done.stderr)

    def test_a_worker_that_is_killed_while_the_program_goes_on(self):
        # Seen to fail also: what is no longer there is not kept.
        process, states = self.workers()
        victim = states[0]["pid"]
        os.kill(victim, signal.SIGKILL)
        self.assertTrue(wait_for(lambda: any(state["fate"] == "has ended" for state in self.kept(process)["states"])))
        os.killpg(process.pid, signal.SIGINT)
        errors = self.ended(process, -signal.SIGINT)
        self.assertRegex(errors, r"killed, process %d, live 4[6-9]\.\d MiB" % victim)

    @unittest.skipUnless(os.getuid() == 0 and shutil.which("unshare"), "only root makes namespaces")
    def test_a_program_in_a_namespace_of_processes(self):
        # Seen to fail: the process looked for by its inner number.
        process, states = self.workers(inside=("unshare", "--pid", "--fork"))
        self.assertTrue(all(len(state["pids"]) == 2 for state in states), states[0]["pids"])
        first = next(state for state in self.kept(process)["states"] if state["pids"][-1] == 1)
        os.kill(first["pid"], signal.SIGKILL)
        errors = self.ended(process, None)  # which is unshare's to choose
        self.assertEqual(len(re.findall(r"(?m) +killed, process \d+, live 4[6-9]\.\d MiB$", errors)), 3, errors)

    # Permissions.

    WITHOUT = ("setpriv", "--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace")

    @unittest.skipUnless(os.getuid() == 0 and shutil.which("setpriv"), "only root has capabilities to drop")
    def test_the_program_needs_no_capability_and_others_users_workers_do(self):
        # Seen to fail: the kernel's refusal said nowhere.
        process = self.start("leave", before=self.WITHOUT)
        self.seen(process, HELD)
        self.assertTrue(wait_for(lambda: len(self.kept(process)["refused"]) == WORKERS))
        os.kill(process.pid, signal.SIGTERM)
        errors = self.ended(process, -signal.SIGTERM)
        self.check(errors, self.by(signal.SIGTERM))
        self.assertRegex(errors, r"(?m)^  not seen +3 children: process \d+ \(killed\) may not be read without the "
                         r"capability CAP_SYS_PTRACE.*; `docker run --cap-add SYS_PTRACE` gives it, or in the pod's "
                         r"spec `securityContext: \{capabilities: \{add: \[SYS_PTRACE\]\}\}`\.$")

    @unittest.skipUnless(os.getuid() == 0 and shutil.which("setpriv"), "only root has capabilities to drop")
    def test_a_running_process_that_needs_the_capability(self):
        # Seen to fail: only "run calm as root outside" said, which does not help root in a container.
        process = self.start("wait")
        done = run(*self.WITHOUT, CALM, "top", "--once", str(self.pid_of(process)), check=False)
        self.assertEqual((done.returncode, len(done.stderr.splitlines())), (1, 1), done.stderr)
        self.assertIn("CAP_SYS_PTRACE", done.stderr)
        self.assertIn("add: [SYS_PTRACE]", done.stderr)

    # Files, and `run`.

    def test_files_are_written_with_what_was_seen_and_none_is_left_empty(self):
        # Seen to fail: the check whether it may be written leaves it behind.
        kept, page = self.path("kept.pb.gz"), self.path("page.html")
        done = calm("heap", "--pprof", kept, "--html", page, "--", "sh", "-c", "kill -9 $$", check=False)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertEqual([name for name in (kept, page) if os.path.exists(name)], [])
        process = self.start("kill", "--pprof", kept, "--html", page)
        self.seen(process, HELD)
        self.say(process)
        self.ended(process, -signal.SIGKILL)
        self.assertRegex(calm("heap", kept).stdout, r"  hold +\S*killed\.c:")
        with open(page) as file:
            self.assertIn("killed.c", file.read())

    def test_run_reports_what_was_seen(self):
        path = self.path("report.json")
        process = self.start("more", "--json", path, command="run")
        self.seen(process, HELD)
        self.say(process)
        self.assertEqual(process.stdout.readline(), "more\n")
        os.kill(process.pid, signal.SIGTERM)
        errors = self.ended(process, -signal.SIGTERM)
        self.assertRegex(errors, r"(?m)^  live last +48\.\d MiB in 80,\d+ blocks$")
        self.assertRegex(errors, r"(?m)^  warning +the heap is what was seen from outside " + self.by(signal.SIGTERM))
        with open(path) as file:
            heap = json.load(file)["heap"]
        by_size = {entry["bytes"]: entry["live_blocks"] for entry in heap["classes"]}
        self.assertTrue(BLOCKS <= by_size[1024] <= BLOCKS + 20 and MORE <= by_size[512] <= MORE + 20, by_size)
        self.assertLess(heap["seconds_before_end"], PATIENCE_S)

    def test_run_reports_workers(self):
        path = self.path("workers.json")
        process = self.start("workers", "--json", path, command="run")
        states = self.seen(process, GROWN, WORKERS)
        os.killpg(process.pid, signal.SIGINT)
        self.ended(process, -signal.SIGINT)
        with open(path) as file:
            report = json.load(file)
        self.assertEqual(sorted(child["pid"] for child in report["children"]),
                         sorted(state["pid"] for state in states))


if __name__ == "__main__":
    DONE = calm("heap", "/nonexistent/profile", check=False)
    if "could not be fetched" in DONE.stderr:
        needs.skip(DONE.stderr.splitlines()[-1])
    needs.main()
