"""Holds `calm explain` to what it says: numbers that add up to the kernel's, what comes back once blocks are freed, by
doing it, what is at an address, and the same from core files and in gdb.

What each test was seen to fail on is noted in it.
"""
import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import unittest

from support import HERE, ROOT, InFolder, calm, run

sys.path.append(os.path.join(ROOT, "tools", "calm"))
sys.dont_write_bytecode = True

ROWS, KEPT, PAGES = 400000, 30770, 4000  # as explained.c has them
ROW_BYTES, PAGE_BYTES, LARGE_BYTES, LARGE_WRITTEN, READ_BYTES = 208, 4096, 40 << 20, 12 << 20, 24 << 20
MIB = 1 << 20
SCREEN_LINES, SCREEN_COLUMNS = 24, 80


def without_huge_pages():
    """For this process and its children: a huge page has in memory what the program did not write, and the kernel
    gives it where it happens to have one."""
    PR_SET_THP_DISABLE = 41
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


class Explain(InFolder):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        without_huge_pages()
        cls.program = cls.path("explained")
        run("cc", "-g", "-O1", "-pthread", os.path.join(HERE, "explained.c"), "-o", cls.program)

    def start(self, options="", program=None, library=None, **more):
        """Starts the program, and waits until it holds what it holds."""
        env = dict(os.environ, CALM_OPTIONS=options, LD_PRELOAD=library or self.library)
        process = subprocess.Popen([program or self.program], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, cwd=self.folder, **more)
        self.addCleanup(self.end, process)
        words = process.stdout.readline().split()
        self.at = dict(zip(("row", "freed", "large", "stack", "static", "code", "thread"),
                           (int(word, 16) for word in words)))
        return process

    def tell(self, process, letters):
        for letter in letters:
            process.stdin.write(letter.encode())
            process.stdin.flush()
            self.assertEqual(process.stdout.readline(), b"done\n")

    def facts(self, subject):
        return json.loads(calm("explain", "--json", str(subject)).stdout)

    def text(self, *words):
        return calm("explain", *map(str, words)).stdout

    def part(self, facts, size):
        return next(part for part in facts["parts"] if part["block_bytes"] == size)

    def rss(self, process):
        with open("/proc/%d/smaps_rollup" % process.pid) as file:
            return next(int(line.split()[1]) << 10 for line in file if line.startswith("Rss:"))

    def near(self, found, wanted, share, slack=0):
        self.assertLessEqual(abs(found - wanted), share * wanted + slack, (found, wanted))

    # Numbers.

    def check_sums(self, process):
        facts = self.facts(process.pid)
        number = facts["memory"]
        parts = sum(number[name] for name in ("block", "cached", "free_in_slabs", "dirty", "metadata"))
        self.assertEqual(parts - number["untouched"], number["resident"])
        self.near(number["resident"], number["heap"], 0.01)
        self.assertEqual(sum(number[name] for name in ("heap", "file_maps", "stacks", "other_anonymous")),
                         number["rss"])
        self.near(number["rss"], self.rss(process), 0.01)
        with open("/proc/%d/status" % process.pid) as file:
            status = next(int(line.split()[1]) << 10 for line in file if line.startswith("VmRSS"))
        self.near(number["rss"], status, 0.01)
        self.near(sum(part["resident_bytes"] for part in facts["parts"]),
                  number["resident"] - number["dirty"] - number["metadata"], 0.001)
        return facts

    def test_numbers_add_up_to_the_kernels(self):
        # Seen to fail: pages that were only read, counted as in memory.
        for options in ("", "sites=hash", "sites=intern", "sites=learned", "profile_kb=64", "cores=always",
                        "huge_from_mb=0"):
            with self.subTest(options):
                process = self.start(options)
                facts = self.check_sums(process)
                rows = self.part(facts, ROW_BYTES)
                self.assertTrue(KEPT <= rows["live_blocks"] <= KEPT + 8, rows)
                self.assertTrue(LARGE_BYTES + READ_BYTES - LARGE_WRITTEN - MIB <= facts["memory"]["untouched"] <=
                                LARGE_BYTES + READ_BYTES - LARGE_WRITTEN + MIB, facts["memory"]["untouched"])
                self.assertGreaterEqual(facts["memory"]["stacks"], 512 * 1024)
                self.assertLess(facts["memory"]["stacks"], 2 * MIB)
                self.tell(process, "r")
                facts = self.check_sums(process)
                self.tell(process, "plt")
                facts = self.check_sums(process)
                self.assertLess(facts["memory"]["block"], READ_BYTES + MIB)

    def test_what_is_resident_is_what_the_library_says(self):
        # Seen to fail: chunks of books left out; the profiler's tables left out; batches left out.
        for options in ("", "profile_kb=64", "sites=learned", "cores=always"):
            with self.subTest(options):
                report = self.path("report")
                with open(report, "wb") as file:
                    process = self.start("%s,report_fd=%d" % (options, file.fileno()) if options else
                                         "report_fd=%d" % file.fileno(), pass_fds=[file.fileno()])
                found = self.facts(process.pid)["memory"]
                process.communicate()
                with open(report) as file:
                    own = json.load(file)
                self.near(found["resident"], own["resident_bytes"], 0.001)
                self.assertLess(found["other_anonymous"], 6 * MIB)
                self.near(found["block"], own["allocated_bytes"] - own["cached_bytes"], 0.01)
                self.near(found["cached"], own["cached_bytes"], 0.1)

    def test_requested_bytes_are_known_to_the_profiler_alone(self):
        # Seen to fail: the estimate given whatever the profiler saw.
        self.assertIsNone(self.facts(self.start().pid)["memory"]["requested"])
        found = self.facts(self.start("profile_kb=16").pid)["memory"]["requested"]
        self.near(found, KEPT * 200 + PAGES * 4096 + LARGE_BYTES + READ_BYTES, 0.1)

    # What comes back.

    def comes_back(self, process, letters):
        before = self.rss(process)
        self.tell(process, letters)
        return before - self.rss(process)

    def test_what_is_said_to_come_back_does(self):
        # Seen to fail: bytes of live blocks instead of the pages that they pin; blocks of the sampled bin left out.
        for options in ("", "profile_kb=64"):
            with self.subTest(options):
                process = self.start(options)
                facts = self.facts(process.pid)
                self.near(self.comes_back(process, "rt"), self.part(facts, ROW_BYTES)["freed_bytes"], 0.1)
                self.near(self.comes_back(process, "pt"), self.part(facts, PAGE_BYTES)["freed_bytes"], 0.1)
                self.near(self.comes_back(process, "lt"), LARGE_WRITTEN, 0.1)
                self.near(self.part(facts, None)["freed_bytes"], LARGE_WRITTEN, 0.1)

    def test_what_stays_after_frees_is_as_little_as_is_said_and_a_trim_gives_it_back(self):
        # Seen to fail: dirty units left out of what a trim gives back.
        process = self.start()
        said = self.facts(process.pid)
        freed = sum(self.part(said, size)["freed_bytes"] for size in (ROW_BYTES, PAGE_BYTES))
        came = self.comes_back(process, "rp")
        self.assertGreaterEqual(came, 0.9 * freed - 3 * MIB)
        trim = self.facts(process.pid)["trim_bytes"]
        self.assertGreater(trim, MIB // 2)
        self.near(self.comes_back(process, "t"), trim, 0.1)

    # The page.

    def test_the_page_says_so_on_one_screen(self):
        # Seen to fail: lines beyond the screen's width.
        process = self.start()
        facts, lines = self.facts(process.pid), self.text(process.pid).splitlines()
        self.assertLessEqual(len(lines), SCREEN_LINES)
        self.assertLessEqual(max(map(len, lines)), SCREEN_COLUMNS)
        words = " ".join(" ".join(lines).split())
        rows = self.part(facts, ROW_BYTES)
        found = re.search(r"([\d.]+) MiB of ([\d.]+) MiB lie in pages pinned by ([\d,]+) live blocks of 208 B, which "
                          r"fill (\d+) % of them\. Were these freed, ([\d.]+) MiB would come back\.", words)
        self.assertTrue(found, words)
        self.near(float(found[1]), rows["pinned_bytes"] / MIB, 0.01)
        self.near(float(found[2]), facts["memory"]["resident"] / MIB, 0.01)
        self.assertEqual(int(found[3].replace(",", "")), rows["live_blocks"])
        self.assertEqual(int(found[4]), round(100 * rows["live_bytes"] / rows["pinned_bytes"]))
        self.near(float(found[5]), rows["freed_bytes"] / MIB, 0.01)
        self.assertIn("not known; `calm heap %d` sees only what is asked for from now on; to learn who asked for "
                      "this, restart with CALM_OPTIONS=profile_kb=512." % process.pid, words)
        self.assertRegex(words, r"12\.0 MiB are in memory of 2 large blocks of 64\.[0-9] MiB in all, the largest of "
                                r"40\.\d MiB; freed, they give back 12\.0 MiB\.")

    def test_what_is_not_the_heaps_is_said_where_it_is_much(self):
        # Seen to fail: a threshold that no process reaches.
        process = self.start()
        self.assertNotIn("is not the heap's;", self.text(process.pid))
        before = self.facts(process.pid)["memory"]
        self.tell(process, "m")
        found = re.search(r"([\d.]+) MiB of anonymous memory is not the heap's; its largest mapping, at (0x[0-9a-f]+), "
                          r"has 40\.0 MiB\.", " ".join(self.text(process.pid).split()))
        after = self.facts(process.pid)["memory"]
        self.near(after["other_anonymous"] - before["other_anonymous"], LARGE_BYTES, 0.01)
        self.near(float(found[1]) * MIB, after["other_anonymous"], 0.01)
        self.assertEqual(self.kind(process.pid, int(found[2], 16))["kind"], "other")

    def test_sites_are_named_as_far_as_they_are_known(self):
        # Seen to fail: the stack beside the sample's own.
        for options, share in (("profile_kb=32", 0.97), ("sites=hash", 0.8)):
            with self.subTest(options):
                process = self.start(options)
                lines = self.text(process.pid).splitlines()
                self.assertLessEqual(len(lines), SCREEN_LINES)
                words = " ".join(" ".join(lines).split())
                found = re.search(r"live blocks of 208 B.*?(Most|All) of them are from parse_row at explained\.c:\d+"
                                  r"(?: \((\d+) %\)|\.)", words)
                self.assertTrue(found, words)
                self.assertTrue(found[1] == "All" or int(found[2]) >= 100 * share, found[0])
                if options.startswith("profile"):
                    self.assertIn("blocks of 4,096 B", words)
                    self.assertIn("take_page at explained.c:", words)

    LATE = """#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static char *kept[60000];
__attribute__((noinline)) static char *early(void) { return memset(malloc(800), 1, 800); }
__attribute__((noinline)) static char *drip(void) { return memset(malloc(800), 1, 800); }
int main(void)
{
    char *shelved = memset(malloc(20 << 20), 1, 20 << 20);
    for (int i = 0; i < 40000; i++)
        kept[i] = early();
    free(shelved);
    (void)!write(1, "0\\n", 2);
    struct pollfd input = {.fd = 0, .events = POLLIN};
    for (int i = 40000; i < 60000 && poll(&input, 1, 1) == 0; i++)
        kept[i] = drip();
    pause();
}
"""

    KEPT = """#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(void)
{
    char *block = memset(malloc(512 << 10), 1, 512 << 10);
    printf("%p\\n", (void *)block); /* its buffer first, since a new slab may take what is kept */
    free(block);
    fflush(stdout);
    pause();
}
"""

    def test_a_freed_large_block_is_called_what_it_is_on_every_screen(self):
        # Seen to fail: a word for it that no page explains, "on the shelf" and "on shelves".
        run("cc", self.file("kept.c", self.KEPT), "-o", self.path("kept"))
        process = subprocess.Popen([self.path("kept")], env=dict(os.environ, LD_PRELOAD=self.library),
                                   stdout=subprocess.PIPE)
        self.addCleanup(self.end, process)
        address, pid = process.stdout.readline().decode().strip(), str(process.pid)
        where = calm("explain", "--json", pid, address).stdout
        self.assertEqual(json.loads(where)["where"], "kept for reuse")
        screens = [where, calm("explain", pid, address).stdout, calm("explain", "--json", pid).stdout]
        calm("explain", "--map", self.path("kept.html"), pid)
        screens.append(calm("explain", pid).stdout)
        self.assertIn("512 KiB in freed large blocks kept for reuse", " ".join(screens[-1].split()))
        self.assertRegex(screens[-1],
                         r"cached +5\d\d KiB +free blocks in caches, large ones kept for reuse")
        calm("export", "--textfile", self.path("kept.prom"), pid)
        for name in ("kept.html", "kept.prom"):
            with open(self.path(name)) as file:
                screens.append(file.read())
        for screen in screens:
            self.assertNotIn("shel", screen.lower())

    def page_of(self, process):
        return " ".join(self.text(process.pid).split())

    def test_samples_of_a_part_are_not_taken_for_all_of_it(self):
        # Seen to fail: "from drip (100 %)" of blocks most of which are older than the profiler.
        run("cc", "-g", "-O1", self.file("late.c", self.LATE), "-o", self.path("late"))
        process = self.start("purge=trim", program=self.path("late"))
        words = self.page_of(process)
        self.assertNotRegex(words, r"\b0 B are|\b0 large block")
        found = re.search(r"([\d.]+) MiB are free, and wait for the next request or free; malloc_trim\(0\) gives them "
                          r"back now\.", words)
        self.assertTrue(found, words)  # nobody frees: seen to fail with no sentence
        self.near(float(found[1]), 20, 0.2)
        calm("heap", "--seconds", "2", "--rate", "4", str(process.pid))
        words = self.page_of(process)
        self.assertRegex(words, r"live blocks of 832 B.*? Of these, [\d.]+ [KM]iB were asked for while the profiler "
                                r"was on: from drip at late\.c:\d+ \(\d+ %\); who asked for the rest is not known\.")
        self.assertNotRegex(words, "(All|Most) of them are from drip")
        facts = self.part(self.facts(process.pid), 832)
        self.assertLess(facts["sampled_bytes"], 0.3 * facts["live_size_bytes"])

    def test_one_block_is_not_called_them_and_nothing_is_not_called_at_most(self):
        # Seen to fail: "They are from main (100 %)" of one block; "by 0 B at most".
        code = ("#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n"
                "__attribute__((noinline)) static char *big(void) { return memset(malloc(64 << 20), 1, 9 << 20); }\n"
                "int main(void)\n{\n    volatile char *kept = big();\n    (void)!write(1, \"0\\n\", 2);\n"
                "    pause();\n    return *kept;\n}\n")
        run("cc", "-g", "-O1", self.file("one.c", code), "-o", self.path("one"))
        words = self.page_of(self.start("profile_kb=512", program=self.path("one")))
        self.assertRegex(words, r"9\.0 MiB are in memory of 1 large block of 64\.\d MiB; freed, it gives back 9\.0 "
                                r"MiB\. It is from big at one\.c:4\.")
        import explain
        subject = explain.Subject(str(self.start(program=self.path("one")).pid))
        subject.numbers["dirty"], subject.parts = 0, []
        self.assertEqual(explain.remedies(subject), ["  malloc_trim(0) would give back nothing."])

    # Addresses.

    def kind(self, subject, address):
        return json.loads(calm("explain", "--json", str(subject), hex(address)).stdout)

    def check_addresses(self, subject):
        row, freed = self.kind(subject, self.at["row"] + 7), self.kind(subject, self.at["freed"])
        self.assertEqual((row["kind"], row["state"], row["block"], row["inside"], row["block_bytes"]),
                         ("block", "live", self.at["row"], 7, ROW_BYTES))
        last = self.kind(subject, self.at["row"] + ROW_BYTES - 1)
        self.assertEqual((last["block"], last["inside"]), (self.at["row"], ROW_BYTES - 1))
        self.assertEqual((freed["kind"], freed["block"]), ("block", self.at["freed"]))
        self.assertIn(freed["state"], ("cached", "free"))
        self.assertIn(row["after"], ("cached", "free"))
        large = self.kind(subject, self.at["large"] + LARGE_WRITTEN + MIB)
        self.assertEqual((large["kind"], large["state"], large["block"], large["inside"], large["is_resident"]),
                         ("large", "live", self.at["large"], LARGE_WRITTEN + MIB, False))
        for name, kind in (("stack", "stack"), ("static", "other"), ("code", "file"), ("thread", "stack")):
            self.assertEqual(self.kind(subject, self.at[name])["kind"], kind, name)
        self.assertEqual(self.kind(subject, 12)["kind"], "nothing")
        self.assertEqual(self.kind(subject, row["slab"] + row["capacity"] * ROW_BYTES)["kind"], "tail")
        return row

    def test_an_address_is_named(self):
        # Seen to fail: a block's number by the rounded address; a cached block called live.
        from heap_map import CACHED, HeapMap
        from watched import Watched
        process = self.start()
        self.check_addresses(process.pid)
        heap = HeapMap(Watched(process.pid))
        places = {address: place for address, place in heap.places.items()}
        self.assertEqual({words.split(" of ")[0] for words in places.values()}, {"in the cache", "in a batch"})
        for place in set(places.values()):
            address = next(address for address in places if places[address] == place)
            found = self.kind(process.pid, address)
            self.assertEqual((found["state"], found["where"], found["block"]), (CACHED, place, address))
        for book in heap.anchors():
            self.assertEqual(self.kind(process.pid, book)["kind"], "metadata")
        text = self.text(process.pid, hex(self.at["row"] + 7))
        self.assertIn("A live block of 208 B: 0x%x, 7 bytes into it." % self.at["row"], text)
        self.assertIn("not known", text)
        self.tell(process, "lt")
        self.assertEqual(self.kind(process.pid, self.at["large"])["kind"], "free")

    # Cores.

    def check_core(self, core, live):
        """The same as of the process, as far as a core has it."""
        found = self.facts(core)
        self.assertTrue(found["is_core"])
        self.assertIsNone(found["memory"]["rss"])
        self.assertEqual(found["memory"]["block"], live["memory"]["block"])
        self.near(found["memory"]["cached"], live["memory"]["cached"], 0.01)
        self.near(found["memory"]["resident"], live["memory"]["resident"], 0.01)
        self.near(found["memory"]["stacks"], live["memory"]["stacks"], 0.1)
        for size in (ROW_BYTES, PAGE_BYTES, None):
            self.assertEqual(self.part(found, size)["live_blocks"], self.part(live, size)["live_blocks"])
            self.near(self.part(found, size)["freed_bytes"], self.part(live, size)["freed_bytes"], 0.01)
        self.assertIn("A core does not say which pages", " ".join(self.text(core).split()))

    def without_symbols(self):
        program, library = self.path("stripped"), self.path("libstripped.so")
        run("strip", "-s", "-o", program, self.program)
        run("strip", "-s", "-o", library, os.path.realpath(self.library))
        return program, library

    @unittest.skipUnless(shutil.which("gcore"), "gdb is not there")
    def test_a_core_without_symbols_by_gcore(self):
        # Seen to fail: constants of the library that the core leaves out; holes read as present.
        program, library = self.without_symbols()
        process = self.start(program=program, library=library)
        live = self.facts(process.pid)
        run("gcore", "-o", self.path("core"), str(process.pid))
        core = self.path("core.%d" % process.pid)
        self.check_core(core, live)
        self.check_addresses(core)
        self.refused(1, "damaged or was cut short|leaves out", "explain", self.cut(core))
        moved = self.path("elsewhere.so")
        os.rename(library, moved)
        self.refused(1, "'%s' is not here" % library, "explain", core)

    @unittest.skipUnless(shutil.which("gcore"), "gdb is not there")
    def test_a_core_by_gcore_has_names_and_what_was_requested(self):
        # Seen to fail: code that gcore leaves out is no code; no word about what was requested.
        process = self.start("profile_kb=32")
        live = self.facts(process.pid)
        run("gcore", "-o", self.path("named"), str(process.pid))
        core = self.path("named.%d" % process.pid)
        found = self.facts(core)
        self.assertEqual(found["memory"]["requested"], live["memory"]["requested"])
        self.assertIn("take_page at explained.c:", " ".join(self.text(core).split()))

    def cut(self, core):
        with open(core, "rb") as file, open(self.path("cut"), "wb") as out:
            out.write(file.read(200))
        return self.path("cut")

    def test_a_core_by_the_kernel(self):
        # Seen to fail: the stack pointer of another register.
        with open("/proc/sys/kernel/core_pattern") as file:
            if file.read().strip() != "core":
                self.skipTest("the kernel writes cores elsewhere")
        import resource
        program, library = self.without_symbols()
        process = self.start(program=program, library=library, preexec_fn=lambda: resource.setrlimit(
            resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.getrlimit(resource.RLIMIT_CORE)[1])))
        live = self.facts(process.pid)
        process.stdin.write(b"a")
        process.stdin.flush()
        self.assertEqual(process.wait(), -signal.SIGABRT)
        core = next((self.path(name) for name in os.listdir(self.folder) if re.fullmatch(r"core(\.\d+)?", name)), None)
        if core is None:
            self.skipTest("the kernel wrote no core")
        self.check_core(core, live)
        self.check_addresses(core)

    # gdb.

    @unittest.skipUnless(shutil.which("gdb"), "gdb is not there")
    def test_gdb_commands_say_the_same(self):
        # Seen to fail: cached blocks walked as live.
        process = self.start()
        script = os.path.join(ROOT, "tools", "calm", "calm-gdb.py")
        row = hex(self.at["row"] + 7)
        wanted = self.text(process.pid), self.text(process.pid, row)
        done = run("gdb", "-q", "-batch", "-nx", "-p", str(process.pid), "-x", script, "-ex", "calm heap", "-ex",
                   "calm block %s" % row, "-ex", "calm walk %d" % ROW_BYTES).stdout
        for text in wanted:
            self.assertIn(text, done)
        walked = re.findall(r"^0x([0-9a-f]+) 208$", done, re.M)
        self.assertTrue(KEPT <= len(walked) <= KEPT + 8, len(walked))
        self.assertIn("%x" % self.at["row"], walked)
        self.assertNotIn("%x" % self.at["freed"], walked)

    # The map.

    def test_the_map_has_every_unit(self):
        # Seen to fail: a run's units counted once.
        process = self.start()
        page = self.path("map.html")
        calm("explain", "--map", page, str(process.pid))
        with open(page) as file:
            text = file.read()
        data = json.loads(re.search(r"const heap = (.*);\n", text)[1])
        facts = self.facts(process.pid)
        slabs = [run_ for run_ in data["runs"] if run_[0] == 1 and run_[3] == ROW_BYTES]
        self.assertEqual(len(slabs), self.part(facts, ROW_BYTES)["slabs"])
        self.assertEqual(sum(slab[5] for slab in slabs), self.part(facts, ROW_BYTES)["live_blocks"])
        memory = facts["memory"]
        self.near(sum(run_[2] for run_ in data["runs"]) << 10, memory["resident"] - memory["metadata"], 0.01)
        with open("/proc/%d/maps" % process.pid) as file:
            self.assertTrue(any(line.startswith("%x-" % int(data["base"], 16)) for line in file))
        self.assertNotIn("http", text)

    # What cannot be.

    def refused(self, code, word, *words):
        done = calm(*words, check=False)
        self.assertEqual((done.returncode, done.stdout), (code, ""), done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertRegex(done.stderr, word)

    def test_what_is_not_read_has_no_number(self):
        # Seen to fail: no blocks where none was read.
        import explain
        import heap_map
        process = self.start()
        most, heap_map.MAPPED_BYTES_MAX = heap_map.MAPPED_BYTES_MAX, MIB
        try:
            subject = explain.Subject(str(process.pid))
        finally:
            heap_map.MAPPED_BYTES_MAX = most
        for name in ("block", "cached", "free_in_slabs", "dirty", "resident"):
            self.assertIsNone(subject.numbers[name], name)
        self.near(subject.numbers["rss"], self.rss(process), 0.01)
        self.assertIn("  The heap is above 32 GiB, and is not read.", explain.page(subject))

    def test_one_sentence_where_it_cannot(self):
        # Seen to fail: a traceback for a file that is no core.
        self.refused(2, "is not a core file", "explain", self.program)
        self.refused(2, "not 'nobody'", "explain", "nobody")
        self.refused(2, "there is no file '/nosuch'", "explain", "/nosuch")
        self.refused(2, "an address is a number", "explain", str(self.start().pid), "here")
        self.refused(1, "does not run on calmalloc", "explain", str(os.getpid()))
        self.refused(1, "cannot be written", "explain", "--map", "/nonexistent/map", str(self.start().pid))


if __name__ == "__main__":
    unittest.main()
