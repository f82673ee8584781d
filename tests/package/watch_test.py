"""Holds `calm top` and `calm heap PID` to what they promise about a process that was only preloaded: the numbers that
the program knows of itself, names for sites, one sentence for what goes wrong, and a process that goes on unharmed.

What each test was seen to fail on is noted in it.
"""
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import time
import unittest

from support import HERE, ROOT, InFolder, calm, run, wait_for

sys.path.append(os.path.join(ROOT, "tools", "calm"))
sys.dont_write_bytecode = True

SMALL, MIDDLE, RING, LARGE_BYTES = 60000, 20000, 4000, 9 << 20  # as watched.c has them
PATIENCE_S = 60
SOON_S = 30  # well before a lease of the profiler ends by itself
NOBODY = 65534


class Watch(InFolder):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.program = cls.path("watched")
        run("cc", "-g", "-O1", os.path.join(HERE, "watched.c"), "-o", cls.program)

    def start(self, way, library=None, program=None, **environment):
        """Starts the program, preloaded, and waits until it holds what it holds."""
        env = dict(os.environ, CALM_OPTIONS="sites=hash")  # so that there are several cohorts
        if library != "":
            env["LD_PRELOAD"] = library or self.library
        process = subprocess.Popen([program or self.program, way], env=dict(env, **environment), stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.folder)
        self.addCleanup(self.end, process)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        return process

    def look(self, process, *words, **more):
        return json.loads(calm("top", "--once", "--json", *words, str(process.pid), **more).stdout)

    def profiler(self, process):
        """(whether it is on, samples, whether the table of sites is as it should be), read from outside."""
        from watched import Watched
        watched = Watched(process.pid)
        facts = watched.facts
        first = watched.process.read(facts["site.table"], facts["site.bytes"])
        return (watched.number("sample.state", size=4) == facts["sample.on"], watched.number("sample.samples"),
                int.from_bytes(first, "little") != facts["site.diverted"])

    def is_quiet(self, process):
        is_on, _, is_plain = self.profiler(process)
        return not is_on and is_plain

    def refused(self, code, word, *words, **more):
        done = calm(*words, check=False, **more)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertTrue(done.stderr.startswith("calm: "), done.stderr)
        self.assertIn(word, done.stderr)

    def place(self, words):
        """The place of these words in watched.c, as the end of what tables show."""
        with open(os.path.join(HERE, "watched.c")) as file:
            number = next(number for number, line in enumerate(file, 1) if words in line)
        return "tests/package/watched.c:%d" % number

    # Numbers.

    def check_numbers(self, seen):
        """Seen: what the program holds, in the classes of 112 and 960 bytes, and one large block."""
        classes = {entry["block_bytes"]: entry for entry in seen["classes"]}
        for size, blocks in ((112, SMALL), (960, MIDDLE)):
            live = classes[size]["allocated_blocks"] - classes[size]["cached_blocks"]
            self.assertTrue(blocks <= live <= blocks + 50, (size, live))
        self.assertEqual(seen["large"]["bytes"] - seen["large"]["cached_bytes"], LARGE_BYTES)
        self.assertEqual(seen["large"]["blocks"], 1)
        live_bytes = SMALL * 112 + MIDDLE * 960
        by_cohort = sum(entry["allocated_bytes"] - entry["cached_bytes"] for entry in seen["cohorts"])
        self.assertTrue(live_bytes <= by_cohort <= live_bytes + (1 << 17), by_cohort)

    def test_numbers_are_those_of_the_program(self):
        # Seen to fail: caches left out; caches' entries read at the next row; large blocks in units. A huge page may be
        # resident before slabs have all of it.
        process = self.start("idle", CALM_OPTIONS="sites=hash,huge_from_mb=0")
        seen = self.look(process)
        self.check_numbers(seen)
        self.assertEqual((seen["pid"], seen["program"], seen["threads"]), (process.pid, "watched", 1))
        self.assertGreater(seen["cohorts_in_use"], 1)
        with open("/proc/%d/statm" % process.pid) as file:
            rss = int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")
        self.assertEqual(seen["rss_bytes"], rss)
        everything = SMALL * 112 + MIDDLE * 960 + LARGE_BYTES
        self.assertTrue(everything * 0.99 <= seen["resident_bytes"] <= rss, seen["resident_bytes"])
        for kind in ("cohorts", "classes"):
            small = sum(entry["resident_bytes"] for entry in seen[kind])
            self.assertTrue(0.98 <= small / (seen["resident_bytes"] - LARGE_BYTES) <= 1.0, small)
        self.assertTrue(all(entry["bytes"] >= 0 for entry in seen["caches"]))

    def test_numbers_agree_with_the_librarys_own(self):
        # Seen to fail: bytes of the wrong class.
        report = self.path("report")
        with open(report, "wb") as file:
            env = dict(os.environ, LD_PRELOAD=self.library, CALM_OPTIONS="sites=hash,report_fd=%d" % file.fileno())
            process = subprocess.Popen([self.program, "leave"], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       pass_fds=[file.fileno()])
        self.addCleanup(self.end, process)
        process.stdout.readline()
        seen = self.look(process)
        process.communicate()
        with open(report) as file:
            own = json.load(file)
        by_cohort = {entry["cohort"]: entry for entry in own["by_cohort"]}
        self.assertGreater(len(by_cohort), 2)
        for entry in seen["cohorts"]:
            wanted = by_cohort[entry["cohort"]]
            for name in ("allocated_blocks", "allocated_bytes", "cached_blocks", "cached_bytes"):
                self.assertLessEqual(abs(entry[name] - wanted[name]), 4096, (entry, wanted))
        self.assertEqual(own["large_bytes"], seen["large"]["bytes"])

    def test_sites_have_names_and_places(self):
        # Seen to fail: a site's offset without its mapping's; cohorts mixed up.
        process = self.start("idle")
        sites = {site["function"]: (entry, site) for entry in self.look(process)["cohorts"] for site in entry["sites"]}
        entry, site = sites["hold_middle"]
        self.assertTrue(site["place"].endswith(self.place("calloc(1, 900)")), site)
        self.assertEqual(site["module"], self.program)
        self.assertGreater(entry["allocated_blocks"], MIDDLE * 0.9)
        named = run("addr2line", "-fe", self.program, hex(site["offset"])).stdout.split()[0]
        self.assertEqual(named, "hold_middle")
        text = calm("top", "--once", str(process.pid)).stdout
        self.assertRegex(text, r"(?m)^ +[\d.]+ MiB +[\d,]+ .*  hold_middle watched\.c:\d+$")
        self.assertRegex(text, r"(?m)^ +[\d.]+ MiB +20,000 .* 960$")

    def test_sites_that_share_the_overflow_cohort_are_counted(self):
        # Seen to fail with a count that is not among the facts.
        process = self.start("idle", CALM_OPTIONS="sites=intern")
        self.assertEqual(self.look(process)["overflow_sites"], 0)
        self.assertNotIn("shared one cohort", calm("top", "--once", str(process.pid)).stdout)
        from watched import Watched
        watched = Watched(process.pid)
        with open("/proc/%d/mem" % process.pid, "r+b", buffering=0) as memory:
            memory.seek(watched.facts["intern.overflow"])
            memory.write((7).to_bytes(8, "little"))
        self.assertEqual(self.look(process)["overflow_sites"], 7)
        self.assertIn("  7 sites shared one cohort: what", calm("top", "--once", str(process.pid)).stdout)

    def test_without_the_package_sites_have_module_and_offset(self):
        process = self.start("idle")
        code = ("import sys; sys.path.insert(0, %r); sys.modules['elftools'] = None\nimport top\n"
                "top.start('%d', True, False, '1')\n" % (os.path.join(ROOT, "tools", "calm"), process.pid))
        text = run(sys.executable, "-B", "-c", code).stdout
        self.assertRegex(text, r"(?m)^ +[\d.]+ MiB +[\d,]+ .*  watched\+0x[0-9a-f]+( \+\d+)?$")

    def test_the_profilers_blocks_are_a_cohort_of_their_own(self):
        # Seen to fail: no row for it.
        process = self.start("idle", CALM_OPTIONS="profile_kb=1")
        seen = self.look(process)
        self.assertTrue(seen["profile_on"])
        sampled = next(entry for entry in seen["cohorts"] if entry["is_sampled"])
        self.assertGreater(sampled["allocated_blocks"], SMALL * 0.05)
        self.check_numbers(seen)

    def see_often(self, process, address):
        """Has a site seen a million times."""
        from watched import Watched
        watched = Watched(process.pid)
        facts = watched.facts
        with open("/proc/%d/mem" % process.pid, "r+b", buffering=0) as memory:
            memory.seek(facts["seen.sites"] + facts["seen.bytes"] * watched.site_index(address) + facts["seen.votes"])
            memory.write((1000000).to_bytes(8, "little"))

    def test_while_the_profiler_is_on_cohorts_are_named_by_what_its_samples_hold(self):
        # Seen to fail: no names, since the table of sites does not say whose cohort is whose while requests are
        # counted; sites by how often they were seen; a cohort's number without the spread.
        for policy in ("hash", "auto"):
            with self.subTest(policy):
                plain = self.start("idle", CALM_OPTIONS="sites=" + policy)
                wanted = {entry["cohort"]: [site["function"] for site in entry["sites"]]
                          for entry in self.look(plain)["cohorts"]}
                process = self.start("idle", CALM_OPTIONS="profile_kb=16,sites=" + policy)
                cohorts = {entry["cohort"]: entry for entry in self.look(process)["cohorts"]}
                middle = next(entry for entry in cohorts.values()
                              if not entry["is_sampled"] and entry["sites"][:1] and
                              entry["sites"][0]["function"] == "hold_middle")
                self.assertIn("hold_middle", wanted[middle["cohort"]])
                self.assertGreater(middle["allocated_blocks"], MIDDLE * 0.8)
                self.assertLess(abs(middle["sites"][0]["sampled_bytes"] / (MIDDLE * 900) - 1), 0.1)
                text = calm("top", "--once", str(process.pid)).stdout
                self.assertRegex(text, r"(?m)^ +[\d.]+ MiB .* %d  hold_middle watched\.c:\d+$" % middle["cohort"])
                self.assertIn("site that holds most, by samples", text)
        # Of one cohort, those that hold more come first, though others were seen more often.
        process = self.start("idle", CALM_OPTIONS="profile_kb=16,sites=off")

        def sites():
            return next(entry["sites"] for entry in self.look(process)["cohorts"] if not entry["is_sampled"])[:2]
        self.see_often(process, sites()[1]["address"])
        middle, small = sites()
        self.assertEqual((middle["function"], small["function"]), ("hold_middle", "hold_small"))
        self.assertLess(abs(small["sampled_bytes"] / (SMALL * 100) - 1), 0.15)
        self.assertLess(middle["seen"], small["seen"])

    def test_threads_and_batches_do_not_disturb_the_numbers(self):
        # Seen to fail: cores' caches left out.
        for cores in ("always", "never"):
            with self.subTest(cores):
                process = self.start("churn", CALM_OPTIONS="cores=" + cores)


                def live_now():
                    nonlocal seen
                    seen = self.look(process)
                    classes = {entry["block_bytes"]: entry for entry in seen["classes"]}
                    return {size: classes[size]["allocated_blocks"] - classes[size]["cached_blocks"]
                            for size in (960, 1024)}
                seen = None
                self.assertTrue(wait_for(lambda: RING - 300 <= live_now()[1024] <= RING + 300), seen)
                self.assertTrue(MIDDLE <= live_now()[960] <= MIDDLE + 300, seen)
                self.assertEqual(seen["caches_by"], "core" if cores == "always" else "thread")
                self.assertGreater(sum(cache["blocks"] for cache in seen["caches"]), 0)

    # Finding the library.

    def test_it_is_found_by_another_name_stripped_and_without_its_file(self):
        # Seen to fail: a look for the library's name.
        other = self.path("libm4ll0c.so.7")
        shutil.copy(self.library, other)
        run("strip", other)
        process = self.start("idle", library=other)
        os.unlink(other)
        self.check_numbers(self.look(process))

    def test_it_is_found_in_a_static_program(self):
        # Seen to fail: the note dropped by the linker; a program that lies where it was linked to.
        archive = os.path.join(os.path.dirname(self.library), "libcalmalloc.a")
        for name, flags in (("static", ["-static"]), ("static-pie", ["-static-pie"]), ("linked", ["-pie"])):
            with self.subTest(name):
                program = self.path(name)
                run("cc", "-O1", os.path.join(HERE, "watched.c"), archive, "-lpthread", "-Wl,--gc-sections", "-s", "-o",
                    program, *flags)
                self.check_numbers(self.look(self.start("idle", library="", program=program)))

    # The page.

    def test_the_page_on_a_terminal_is_refreshed_and_ends_on_q(self):
        # Seen to fail: one page only; a terminal that is left without echo.
        import termios
        process = self.start("churn")
        master, slave = pty.openpty()
        before = termios.tcgetattr(slave)
        child = subprocess.Popen([os.path.join(ROOT, "calm"), "top", "--interval", "0.2", str(process.pid)],
                                 stdin=slave, stdout=slave, stderr=subprocess.PIPE, env=dict(os.environ, TERM="xterm"))
        text = b""

        def pages():
            nonlocal text
            while select.select([master], [], [], 0)[0]:
                text += os.read(master, 1 << 16)
            return text.count(b"\x1b[H") >= 4
        self.assertTrue(wait_for(pages), text)
        os.write(master, b"q")
        self.assertEqual(child.wait(PATIENCE_S), 0, child.stderr.read())
        child.stderr.close()
        self.assertEqual(termios.tcgetattr(slave), before)
        self.assertIn(b"hold_middle", text)
        os.close(master)
        os.close(slave)

    def test_json_is_one_object_a_refresh_and_the_end_is_said(self):
        # Seen to fail: an error where the process ended; its last line among the objects.
        process = self.start("leave")
        child = subprocess.Popen([os.path.join(ROOT, "calm"), "top", "--json", "--interval", "0.1", str(process.pid)],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        lines = [json.loads(child.stdout.readline()) for _ in range(3)]
        self.assertEqual({line["pid"] for line in lines}, {process.pid})
        self.assertLess(lines[0]["time_s"], lines[2]["time_s"])
        process.communicate()
        rest, errors = child.communicate(timeout=PATIENCE_S)
        self.assertEqual(child.returncode, 0)
        self.assertTrue(all(json.loads(line) for line in rest.splitlines()))
        self.assertEqual(errors, "process %d (watched) has ended\n" % process.pid)

    # What cannot be watched.

    def test_what_cannot_be_watched_gets_one_sentence(self):
        # Seen to fail: a process without calmalloc, and one that has not started, unchecked.
        gone = subprocess.Popen(["true"])
        gone.wait()
        plain = self.start("idle", library="")
        early = self.start("early")
        for words in (("top",), ("heap", "--seconds", "1")):
            with self.subTest(words):
                self.refused(1, "there is no process %d" % gone.pid, *words, str(gone.pid))
                self.refused(1, "does not run on calmalloc; LD_PRELOAD=", *words, str(plain.pid))
                self.refused(1, "has not asked for memory yet", *words, str(early.pid))
        self.refused(2, "number of a process", "top", "many")
        self.refused(2, "number of a process", "top", "0")
        self.refused(2, "--interval", "top", "--interval", "never", "1")
        self.refused(2, "top needs PID", "top")
        self.refused(2, "--seconds is a whole number", "heap", "--seconds", "x", str(plain.pid))
        self.refused(2, "is a file", "heap", "--seconds", "3", self.program)
        self.refused(2, "PROGRAM is profiled until it ends", "heap", "--seconds", "3", "--", "true")

    def test_a_process_that_has_ended_but_was_not_collected_gets_one_sentence(self):
        # Seen to fail: an empty list of mappings read.
        zombie = subprocess.Popen(["true"])
        self.addCleanup(zombie.wait)

        def is_zombie():
            with open("/proc/%d/stat" % zombie.pid) as file:
                return file.read().split()[2] == "Z"
        self.assertTrue(wait_for(is_zombie))
        self.refused(1, "has ended", "top", str(zombie.pid))

    @unittest.skipUnless(os.getuid() == 0 and shutil.which("setpriv"), "only root has processes of several users")
    def test_another_users_process_gets_one_sentence(self):
        # Seen to fail: the kernel's refusal left to Python.
        process = self.start("idle")
        tools = os.path.join(ROOT, "tools", "calm")
        code = ("import sys; sys.path.insert(0, %r)\nfrom process_memory import Process\n"
                "from trouble import Trouble\ntry:\n    Process(%d).areas()\n"
                "except Trouble as trouble:\n    print(trouble)\n" % (tools, process.pid))
        done = run("setpriv", "--reuid=%d" % NOBODY, "--clear-groups", sys.executable, "-B", "-c", code, check=False)
        if "No module named" in done.stderr:
            self.skipTest("nobody may not read this tree")
        self.assertRegex(done.stdout, r"belongs to \w+; run calm as that user, or as root\.$", done.stderr)

    def test_another_version_gets_one_sentence(self):
        # Seen to fail: the version not compared.
        with open(self.library, "rb") as file:
            data = file.read()
        at = data.index(b"calmalloc facts\0")
        other = self.path("libother.so")
        with open(other, "wb") as file:
            file.write(data[:at + 16] + struct.pack("<I", 99) + data[at + 20:])
        process = self.start("idle", library=other)
        for words in (("top",), ("heap", "--seconds", "1")):
            self.refused(1, "whose tables this calm cannot read", *words, str(process.pid))

    # The profiler from outside.

    def rows(self, text):
        lines = text.splitlines()
        head = next(index for index, line in enumerate(lines) if line.endswith("place"))
        return [re.split(r"\s{2,}", line.strip()) for line in lines[head + 1:]]

    def test_a_running_process_is_profiled_and_left_as_it_was(self):
        # Seen to fail: no stop at the end.
        process = self.start("grow")
        before = os.listdir("/proc/%d/fd" % process.pid)
        done = calm("heap", "--seconds", "3", "--rate", "16", "--pprof", self.path("live.pb.gz"), str(process.pid))
        self.assertRegex(done.stderr, r"^calm: sampling process %d \(watched\) for 3 s\.\n$" % process.pid)
        self.assertTrue(done.stdout.startswith("calmalloc: heap of watched, process %d\n" % process.pid), done.stdout)
        rows = {row[3]: row for row in self.rows(done.stdout)}
        self.assertTrue(rows["replace"][4].endswith(self.place("ring[i] = is_zeroed")), rows)
        self.assertTrue(rows["leak"][4].endswith(self.place("grown = malloc")), rows)
        self.assertTrue(wait_for(lambda: self.is_quiet(process), SOON_S))
        _, samples, _ = self.profiler(process)
        time.sleep(0.5)
        self.assertEqual(self.profiler(process)[:2], (False, samples))
        self.assertIsNone(process.poll())
        self.assertEqual(os.listdir("/proc/%d/fd" % process.pid), before)
        self.assertEqual(os.listdir(self.folder).count("calm.%d.0.pb.gz" % process.pid), 0)
        kept = self.rows(calm("heap", self.path("live.pb.gz")).stdout)
        self.assertEqual(sorted(row[3] for row in kept), sorted(rows))

    def test_growth_is_of_all_blocks_and_what_was_there_before_is_told(self):
        # Seen to fail: a ring, whose blocks are replaced, said to grow by its samples.
        process, kept = self.start("churn"), self.path("ring.pb.gz")
        self.assertTrue(wait_for(lambda: self.ring_is_full(process)))
        text = calm("heap", "--seconds", "3", "--rate", "16", "--pprof", kept, str(process.pid)).stdout
        live, unit = re.search(r"(?m)^  still live +([\d.]+) ([KM]iB).* in [\d,]+ blocks of what was asked for "
                               r"meanwhile$", text).groups()
        live = float(live) * (1 if unit == "MiB" else 1 / 1024)
        self.assertGreater(live, 2)  # or nothing below would be shown
        grown = re.search(r"(?m)^  growth +-?([\d.]+) (B|KiB|MiB) in [\d.]+ s, -?[\d.]+ \w+ a second$", text)
        self.assertTrue(grown, text)
        self.assertTrue(grown[2] != "MiB" and (grown[2] == "B" or float(grown[1]) < 300), grown[0])
        unseen = float(re.search(r"(?m)^  not seen +([\d.]+) MiB, asked for before; `calm top` has hints$", text)[1])
        everything = (SMALL * 112 + MIDDLE * 960 + RING * 1024 + LARGE_BYTES) / (1 << 20)
        self.assertLess(abs(unseen + live - everything), 1, text)
        text = calm("heap", kept).stdout
        self.assertNotIn("  growth  ", text)
        self.assertIn("of what was asked for while the profiler was on", text)

    def ring_is_full(self, process):
        classes = {entry["block_bytes"]: entry for entry in self.look(process)["classes"]}
        return 1024 in classes and classes[1024]["allocated_blocks"] - classes[1024]["cached_blocks"] >= RING - 50

    def test_the_profile_read_from_outside_is_the_one_the_library_writes(self):
        # Seen to fail: the fixed point shifted by one; stacks cut by a call.
        process = self.start("leave", CALM_OPTIONS="profile_kb=1,profile_signal=%d" % signal.SIGUSR1)
        process.send_signal(signal.SIGUSR1)
        path = self.path("calm.%d.0.pb.gz" % process.pid)
        self.assertTrue(wait_for(lambda: os.path.exists(path) and os.path.getsize(path)))
        self.assertTrue(wait_for(lambda: calm("heap", path, check=False).returncode == 0))
        kept = self.path("seen.pb.gz")
        calm("heap", "--seconds", "1", "--pprof", kept, str(process.pid))
        for words in (("--leaks",), ("--by", "alloc", "--top", "0")):
            written, seen = (self.facts_of(calm("heap", name, *words).stdout) for name in (path, kept))
            self.assertGreater(len(written), 6)
            self.assertEqual(written, seen)
        self.assertEqual(run("gzip", "-t", kept).stderr, "")

    def facts_of(self, text):
        """What a report says, without how long it took and from which file it is."""
        return [line for line in text.splitlines() if not re.match(r"calmalloc: heap of|  growth  ", line)]

    def test_a_process_whose_caches_are_never_empty_is_profiled_too(self):
        # Seen to fail: a request that only a cache's miss would see.
        for way, function in (("warm", "main"), ("zeroed", "replace")):
            with self.subTest(way):
                process = self.start(way)
                text = calm("heap", "--seconds", "2", "--rate", "1", "--by", "alloc", str(process.pid)).stdout
                self.assertEqual(self.rows(text)[0][3], function, text)
                self.assertTrue(wait_for(lambda: self.is_quiet(process), SOON_S))

    def test_an_idle_process_gets_one_sentence_and_is_mended_by_its_next_request(self):
        # Seen to fail: no second request, for the end, after the first one failed.
        process = self.start("wake")
        done = calm("heap", "--seconds", "1", str(process.pid), check=False)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn("did not ask for memory within 10 s", done.stderr)
        self.assertIsNone(process.poll())
        self.assertFalse(self.is_quiet(process))
        process.stdin.write(b"w")
        process.stdin.flush()
        self.assertTrue(wait_for(lambda: self.is_quiet(process), SOON_S))
        self.assertIsNone(process.poll())

    def test_what_the_program_started_itself_goes_on(self):
        # Seen to fail: a stop in any case.
        process = self.start("churn", CALM_OPTIONS="profile_kb=4")
        text = calm("heap", "--seconds", "1", str(process.pid)).stdout
        self.assertIn("the program had its profiler on, and keeps it", text)
        self.assertIn("once in 4.0 KiB", text)
        self.assertTrue(self.profiler(process)[0])

    def test_a_process_that_ends_meanwhile_is_shown_as_it_was_last(self):
        # Seen to fail: the error left to Python.
        process = self.start("grow")
        child = subprocess.Popen([os.path.join(ROOT, "calm"), "heap", "--seconds", "600", "--rate", "4",
                                  str(process.pid)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertTrue(wait_for(lambda: self.profiler(process)[1] > 300))
        time.sleep(2.5)
        process.kill()
        text, errors = child.communicate(timeout=PATIENCE_S)
        self.assertEqual(child.returncode, 0, errors)
        self.assertIn("the process has ended meanwhile", text)
        self.assertIn("replace", {row[3] for row in self.rows(text)})

    def test_a_process_that_becomes_another_program_is_not_written_to(self):
        # Seen to fail: memory found by the process's number, so that the stop went to the other program.
        from watched import Watched
        blank = self.path("blank")
        run("cc", "-O1", os.path.join(HERE, "blank.c"), "-o", blank)
        process = self.start("become")
        facts = Watched(process.pid).facts
        child = subprocess.Popen([os.path.join(ROOT, "calm"), "heap", "--seconds", "600", "--rate", "4",
                                  str(process.pid)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertTrue(wait_for(lambda: self.profiler(process)[1] > 300))
        time.sleep(2.5)
        ranges = (facts["remote.request"], 64, facts["site.table"], facts["site.bytes"] * facts["site.count"])
        process.stdin.write(("%s %s\n" % (blank, " ".join(map(str, ranges)))).encode())
        process.stdin.flush()
        self.assertEqual(process.stdout.readline(), b"blank\n")
        text, errors = child.communicate(timeout=PATIENCE_S)
        self.assertEqual(child.returncode, 0, errors)
        self.assertIn("the process has become another program meanwhile", text)
        self.assertIn("replace", {row[3] for row in self.rows(text)})
        self.assertEqual(process.communicate()[0], b"untouched\n")

    def test_nothing_is_written_where_the_library_is_no_more(self):
        # Seen to fail: a write without a look for the table.
        from process_memory import Gone
        from watched import Watched
        watched = Watched(self.start("idle").pid, is_written=True)
        watched.request(0)
        asked = watched.number("remote.request", "remote.asked", 4)
        watched.process.write(watched.facts.place, b"other")
        self.assertRaises(Gone, watched.request, 0)
        self.assertRaises(Gone, watched.divert)
        self.assertEqual(watched.number("remote.request", "remote.asked", 4), asked)

    # A process that means harm.

    def test_what_one_look_reads_is_bounded(self):
        # Seen to fail: a size taken from the process as it is.
        from process_memory import LOOK_BYTES_MAX, LOOK_READS_MAX, READ_BYTES_MAX, Gone
        from trouble import Trouble
        from watched import Watched
        watched = Watched(self.start("idle").pid)
        process, place = watched.process, watched.facts.place
        self.assertRaises(Trouble, process.read, place, READ_BYTES_MAX + 1)
        process.new_look()
        self.assertRaises(Trouble, process.read_all, [(place, 0)] * (LOOK_READS_MAX + 1))
        process.new_look()
        process.bytes_left -= LOOK_BYTES_MAX - 100
        self.assertRaises(Trouble, process.read, place, 101)
        process.new_look()
        for address in (-1, 0, 1 << 63, (1 << 64) - 1):
            self.assertRaises(Gone, process.read, address, 8)

    def test_entries_of_a_row_count_as_reads(self):
        # Seen to fail: without charge(); one row could cost thousands of steps.
        from trouble import Trouble
        from watched import Watched
        watched = Watched(self.start("idle").pid)
        watched.process.read_all = lambda pieces: [b"\xff" * size for _, size in pieces]
        watched.process.reads_left = 0
        with self.assertRaisesRegex(Trouble, "no more of them is read"):
            list(watched.entries(0, [0]))

    def test_no_fact_and_no_word_of_a_process_can_harm_who_looks(self):
        # Seen to fail: shifts, counts and sizes taken as they are; lists that end nowhere.
        process = self.start("idle", CALM_OPTIONS="profile_kb=1")
        done = run(sys.executable, "-B", os.path.join(HERE, "hostile.py"), str(process.pid), check=False,
                   timeout=20 * PATIENCE_S)
        self.assertEqual((done.returncode, done.stdout[-2000:], done.stderr[-4000:]), (0, "", ""))

    def test_a_name_of_a_process_moves_no_cursor(self):
        # Seen to fail: names printed as they are; a page that could not be written for half a character.
        program = self.path("w\x1b[2J\n\x9b1mx\udcff")
        shutil.copy(self.program, program)
        process = self.start("churn", program=program)
        texts = [calm("top", "--once", str(process.pid)).stdout]
        done = calm("heap", "--seconds", "2", "--rate", "1", "--leaks", "--html", self.path("evil.html"),
                    str(process.pid))
        texts += [done.stdout, done.stderr]
        self.assertIn("w\\x1b[2J\\n", texts[0])
        for text in texts:
            self.assertEqual([mark for mark in text if not mark.isprintable() and mark != "\n"], [], text)
        process.kill()
        process.wait()
        self.refused(1, "there is no process", "top", str(process.pid))

    def test_a_signal_ends_the_sampling_and_stops_the_profiler(self):
        # Seen to fail: no handler for SIGTERM.
        process = self.start("churn")
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(number):
                child = subprocess.Popen([os.path.join(ROOT, "calm"), "heap", "--seconds", "600", "--rate", "4",
                                          str(process.pid)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                self.assertTrue(wait_for(lambda: self.profiler(process)[0]))
                child.send_signal(number)
                text, errors = child.communicate(timeout=PATIENCE_S)
                self.assertEqual(child.returncode, 0, errors)
                self.assertIn("replace", text)
                self.assertTrue(wait_for(lambda: self.is_quiet(process), SOON_S))


def packages_reason():
    """Why the packages that names need are not there, or None."""
    done = calm("heap", "/nonexistent/profile", check=False)
    return done.stderr.splitlines()[-1] if "could not be fetched" in done.stderr else None


if __name__ == "__main__":
    REASON = packages_reason()
    if REASON:
        print("skipped: " + REASON)
        sys.exit(77)
    unittest.main()
