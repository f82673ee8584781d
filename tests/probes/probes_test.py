"""Holds the probes to what tracers read: each note names a nop, and arguments in the form that they understand.

    probes_test.py LIBRARY [Notes | Traced]
    probes_test.py LIBRARY TRACER PROGRAM Heard

Notes reads the library's file. Traced has gdb stop at a probe, and bpftrace listen where the kernel lets it. Heard
listens to the probes of `otel_memory` by tracer.c, while heard.c asks for memory.
"""
import os
import platform
import re
import struct
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import needs  # noqa: E402

ARGUMENTS = {"refill": 2, "purge": 2, "sample_alloc": 3, "sample_free": 1}
OPERAND = re.compile(r"8@(%\w+|\$-?\d+|-?\d*\(%\w+\)|x\d+|-?\d+|\[\w+(, \d+)?\])$")


def output(*words):
    return subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout


# As OpenTelemetry's contract has them; some tracers read the registers of a call without asking the note.
CALLED = {"x86_64": {"alloc": "8@%rdi 8@%rsi 8@%rdx", "free": "8@%rdi"},
          "aarch64": {"alloc": "8@x0 8@x1 8@x2", "free": "8@x0"}}


def probes(provider="calmalloc"):
    """(name, address, base, semaphore, arguments) of each note."""
    found = []
    for text in output("readelf", "-nW", LIBRARY).split("stapsdt")[2:]:
        if "Provider: %s\n" % provider not in text:
            continue
        numbers = [int(re.search(r"%s: 0x([0-9a-f]+)" % word, text).group(1), 16)
                   for word in ("Location", "Base", "Semaphore")]
        found.append((re.search(r"Name: (\w+)", text).group(1), *numbers,
                      re.search(r"Arguments: (.*)", text).group(1).split(" 8@")))
    return found


class Notes(unittest.TestCase):
    def test_each_probe_has_a_note_with_its_arguments(self):
        # Seen to fail: a probe left out; an argument said to be of four bytes.
        found = probes()
        self.assertEqual({name for name, *_ in found}, set(ARGUMENTS))
        for name, _, _, semaphore, arguments in found:
            self.assertEqual(semaphore, 0)
            self.assertEqual(len(arguments), ARGUMENTS[name])
            for index, argument in enumerate(arguments):
                self.assertRegex(argument if index == 0 else "8@" + argument, OPERAND)

    def test_samples_are_told_as_opentelemetry_wants_to_hear_of_them(self):
        # Seen to fail: another register.
        found = {name: " 8@".join(arguments) for name, _, _, _, arguments in probes("otel_memory")}
        self.assertEqual(found, CALLED[platform.machine()])
        self.assertEqual(len(probes("otel_memory")), 2)

    def test_a_semaphore_is_in_the_file_where_the_kernel_finds_it(self):
        # Seen to fail: semaphores in .bss.
        places = [semaphore for _, _, _, semaphore, _ in probes("otel_memory")]
        self.assertEqual(len(set(places)), 2)
        with open(LIBRARY, "rb") as file:
            data = file.read()
        table, = struct.unpack_from("<Q", data, 32)
        size, count = struct.unpack_from("<HH", data, 54)
        parts = [struct.unpack_from("<IIQQQQ", data, table + index * size) for index in range(count)]
        for place in places:
            offsets = [offset + place - address for kind, flags, offset, address, _, in_file in parts
                       if kind == 1 and flags & 2 and address <= place <= address + in_file - 2]
            self.assertEqual(len(offsets), 1, "it is not in a writable part of the file")
            self.assertEqual(data[offsets[0]:offsets[0] + 2], b"\0\0")

    def test_where_a_note_leads_is_a_nop(self):
        for name, address, *_ in probes() + probes("otel_memory"):
            line = output("objdump", "-d", "--no-show-raw-insn", "--start-address=%d" % address,
                          "--stop-address=%d" % (address + 1), LIBRARY).splitlines()[-1]
            self.assertRegex(line, r"^\s*%x:\s+nop$" % address, name)

    def test_the_base_is_where_tracers_expect_it(self):
        section = re.search(r"\.stapsdt\.base\s+PROGBITS\s+([0-9a-f]+)", output("readelf", "-SW", LIBRARY))
        for _, _, base, *_ in probes() + probes("otel_memory"):
            self.assertEqual(base, int(section.group(1), 16))

    def test_the_notes_cost_no_memory_of_the_process(self):
        flags = re.search(r"\.note\.stapsdt\s+NOTE\s+\S+ \S+ \S+ \S+ (.*)", output("readelf", "-SW", LIBRARY)).group(1)
        self.assertNotIn("A", flags)


class Traced(unittest.TestCase):
    def test_gdb_stops_at_a_probe_and_reads_its_arguments(self):
        needs.here("gdb")
        with tempfile.TemporaryDirectory(prefix="calm-probes-") as folder:
            source, program = os.path.join(folder, "asks.c"), os.path.join(folder, "asks")
            with open(source, "w") as file:
                file.write("#include <stdlib.h>\nint main(void) { char *volatile p = malloc(12345); return p == 0; }\n")
            subprocess.run(["cc", source, "-o", program], check=True)
            text = subprocess.run(
                ["gdb", "-batch", "-nx", "-ex", "set breakpoint pending on", "-ex", "set startup-with-shell off",
                 "-ex", "set environment LD_PRELOAD " + LIBRARY, "-ex", "set environment CALM_OPTIONS profile_kb=1",
                 "-ex", "break -probe-stap calmalloc:sample_alloc if $_probe_arg1 == 12345", "-ex", "run",
                 "-ex", "print $_probe_arg1", "-ex", "print $_probe_argc", program],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                timeout=120).stdout
        self.assertRegex(text, r"(?m)^\$1 = 12345$", text)
        self.assertRegex(text, r"(?m)^\$2 = 3$", text)

    def test_gdb_raises_the_semaphore_and_stops_at_a_sample(self):
        # gdb does what the kernel does for bpftrace. Seen to fail: semaphores that nobody looks at.
        needs.here("gdb")
        with tempfile.TemporaryDirectory(prefix="calm-probes-") as folder:
            source, program = os.path.join(folder, "asks.c"), os.path.join(folder, "asks")
            with open(source, "w") as file:
                file.write("#include <stdlib.h>\nint main(void) {\n"
                           "for (int i = 0; i < 1000000; i++) { char *volatile p = malloc(12345); (void)p; }\n}\n")
            subprocess.run(["cc", source, "-o", program], check=True)
            text = subprocess.run(
                ["gdb", "-batch", "-nx", "-ex", "set breakpoint pending on", "-ex", "set startup-with-shell off",
                 "-ex", "set environment LD_PRELOAD " + LIBRARY, "-ex", "break -probe-stap otel_memory:alloc",
                 "-ex", "run", "-ex", "print $_probe_arg1", "-ex", "print $_probe_arg2 > 500000", program],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                timeout=120).stdout
        self.assertRegex(text, r"(?m)^\$1 = 12345$", text)
        self.assertRegex(text, r"(?m)^\$2 = 1$", text)

    def test_bpftrace_knows_the_probes_and_listens(self):
        needs.here("bpftrace")
        names = {line.rpartition(":")[2] for line in output("bpftrace", "-l", "usdt:%s:calmalloc:*" % LIBRARY).split()}
        self.assertEqual(names, set(ARGUMENTS))
        program = subprocess.Popen(["python3", "-c", "while True:\n    [bytearray(700) for _ in range(9999)]\n"],
                                   env=dict(os.environ, LD_PRELOAD=LIBRARY, PYTHONMALLOC="malloc"))
        try:
            done = subprocess.run(["bpftrace", "-p", str(program.pid), "-e", "usdt:%s:calmalloc:refill "
                                   "{ @[arg1] = count(); } interval:s:3 { exit(); }" % LIBRARY],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)
        finally:
            program.kill()
            program.wait()
        if "uprobe" in done.stderr:
            self.skipTest("this kernel lets nobody probe programs: " +
                          next(line for line in done.stderr.splitlines() if "uprobe" in line))
        self.assertIn("@[", done.stdout, done.stderr)


class Heard(unittest.TestCase):
    """What a tracer sums up, against what the program says that it asked for."""

    def trace(self, mib, options="", raised=True, end=0):
        if platform.machine() != "x86_64":
            self.skipTest("the tracer reads registers of x86-64")
        at = {name: (address, semaphore if raised else 0) for name, address, _, semaphore, _ in probes("otel_memory")}
        words = [TRACER, LIBRARY] + ["%#x" % at[name][index] for index in (0, 1) for name in ("alloc", "free")]
        done = subprocess.run(words + [str(end), PROGRAM, str(mib)], env=dict(os.environ, CALM_OPTIONS=options),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300)
        if "Operation not permitted" in done.stderr:
            self.skipTest("nobody may trace here")
        self.assertEqual(done.returncode, 0, done.stderr)
        return {name: int(number) for name, number in re.findall(r"(?m)^(\w+) (\d+)$", done.stdout + done.stderr)}

    def test_weights_add_up_to_the_bytes_that_were_asked_for(self):
        # 150,000 samples, each of some 1400 bytes: the sum is 0.25 % off, or less, in two of three runs. Seen to fail:
        # weights that are the sizes.
        heard = self.trace(200, "profile_kb=1", raised=False)
        self.assertGreater(heard["allocs"], 100000)
        self.assertAlmostEqual(heard["weights"] / heard["asked"], 1, delta=0.01, msg=heard)
        self.assertAlmostEqual(heard["live_weights"] / heard["live"], 1, delta=0.06, msg=heard)

    def test_each_block_that_is_told_of_is_told_of_once_when_it_is_freed(self):
        # Seen to fail: a free that is not told of when realloc leaves a block where it is.
        heard = self.trace(100, "profile_kb=1", raised=False)
        self.assertEqual((heard["strangers"], heard["doubles"]), (0, 0))
        self.assertEqual(heard["allocs"] - heard["frees"], heard["live_blocks"])

    def test_who_listens_has_requests_sampled_without_an_option(self):
        # Seen to fail: semaphores that nobody looks at.
        self.assertEqual(self.trace(200, raised=False)["allocs"], 0)
        heard = self.trace(2000)
        self.assertGreater(heard["allocs"], 100)
        # As each sample stops the program they are drawn further apart: one of them may stand for half a GiB.
        self.assertTrue(0.5 < heard["weights"] / heard["asked"] < 3, heard)

    def test_when_nobody_listens_any_more_sampling_ends(self):
        # Seen to fail: no look at the semaphores after a sample.
        heard = self.trace(2000, end=20)
        self.assertEqual((heard["allocs"], heard["after_end"]), (20, 0))

    def test_what_the_program_switched_on_itself_goes_on(self):
        # Seen to fail: an end that stops whatever is on.
        heard = self.trace(2000, "profile_kb=512", end=20)
        self.assertGreater(heard["after_end"], 50)


if __name__ == "__main__":
    LIBRARY = os.path.abspath(sys.argv.pop(1))
    if sys.argv[-1].startswith("Heard"):
        TRACER, PROGRAM = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))
    needs.main()
