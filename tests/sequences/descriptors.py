"""Checks each restartable sequence of a shared library against what the kernel asks of one, and what we do.

    descriptors.py LIBRARY OBJDUMP [FUNCTION...]

A descriptor in section __rseq_cs names a start, a length and an abort address; on x86-64 also where the code at the
abort address, which is one for all, goes on. The kernel wants the signature right before the abort address, and the
address outside the sequence. We want more: the code before the start hands this very
descriptor to the kernel, the first instruction asks for the core, the last one is a store, no other store is seen by
anyone before it, nothing is called, every branch leaves the sequence. FUNCTIONs must contain one.
"""
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from elf import Library  # noqa: E402

LENGTH_MAX, ABORT_BYTES_MAX = 80, 8
AREA_SEQUENCE, AREA_CORE = 8, 24  # offsets in the kernel's struct rseq
INSTRUCTION = re.compile(r"^\s*([0-9a-f]+):\t(\S+)[ \t]*(.*)$", re.M)


class X86:
    descriptor_bytes, abort_section = 64, "__rseq_failure"
    signature = bytes.fromhex("53300553")
    call = re.compile(r"call|syscall|lock|xchg")
    branch = re.compile(r"j\w+$")
    indirect = re.compile(r"\*")
    memory = re.compile(r"(-?0x[0-9a-f]+)?\(([^)]*)\)")

    @staticmethod
    def stored_to(name, operands):
        """What a store writes to, as (offset, registers); None when it is none."""
        found = re.search(r",\s*((?:-?0x[0-9a-f]+)?\([^)]*\))$", operands)
        if not found or not name.startswith("mov"):
            return None
        offset, registers = X86.memory.match(found.group(1)).groups()
        return int(offset or "0", 16), registers

    @staticmethod
    def loaded_from(name, operands):
        found = re.match(r"(-?0x[0-9a-f]+)?\(([^)]*)\),", operands)
        return (int(found.group(1) or "0", 16), found.group(2)) if found and name.startswith("mov") else None

    @staticmethod
    def address_before(code):
        """The address that the last instructions of `code` put into a register."""
        found = re.search(r"# ([0-9a-f]+)", code[-1][2])
        return int(found.group(1), 16) if code[-1][1] == "lea" and found else None


class Aarch64:
    descriptor_bytes, abort_section = 32, ".text"
    signature = bytes.fromhex("00bc28d4")
    call = re.compile(r"bl|blr|svc|ldx|ldax|stx|stlx|cas|swp|ldadd|ldclr|ldset")
    branch = re.compile(r"b(\.\w+)?$|cbn?z$|tbn?z$")
    indirect = re.compile(r"^$")

    @staticmethod
    def _memory(operands):
        found = re.search(r"\[(\w+)(?:, #(\d+)|, (\w+))?\]", operands)
        return (int(found.group(2) or "0"), found.group(1) + (found.group(3) or "")) if found else None

    @staticmethod
    def stored_to(name, operands):
        return Aarch64._memory(operands) if name.startswith("st") else None

    @staticmethod
    def loaded_from(name, operands):
        return Aarch64._memory(operands) if name.startswith("ld") else None

    @staticmethod
    def address_before(code):
        page = re.match(r"(\w+), ([0-9a-f]+)", code[-2][2])
        rest = re.match(r"(\w+), (\w+), #(0x[0-9a-f]+)", code[-1][2])
        if code[-2][1] != "adrp" or code[-1][1] != "add" or not (page and rest) or page.group(1) != rest.group(2):
            return None
        return int(page.group(2), 16) + int(rest.group(3), 16)


MACHINES = {62: X86, 183: Aarch64}


class Checker:
    def __init__(self, path, objdump):
        self.library = Library(path)
        self.machine = MACHINES[self.library.machine]
        self.command = [objdump, "-d", "--no-show-raw-insn", path]
        text = subprocess.run(self.command, capture_output=True, text=True, check=True)
        self.code = [(int(at, 16), name, rest) for at, name, rest in INSTRUCTION.findall(text.stdout)]
        if not self.code:
            raise SystemExit("%s reads no instructions of %s" % (objdump, path))
        self.index = {at: i for i, (at, _, _) in enumerate(self.code)}
        self.functions = {name: int(at, 16) for at, name in re.findall(r"^([0-9a-f]+) <(\w+)>:$", text.stdout, re.M)}
        self.starts = []
        self.aborts = []

    def check(self, functions):
        """Yields a sentence for each finding."""
        address, length = self.library.place("__rseq_cs")
        size = self.machine.descriptor_bytes
        if length == 0 or length % size != 0 or address % 32 != 0:
            yield "section __rseq_cs: %d bytes at 0x%x are not a row of descriptors" % (length, address)
            return
        for at in range(address, address + length, size):
            for sentence in self.check_one(at):
                yield "the descriptor at 0x%x: %s" % (at, sentence)
        if self.machine is Aarch64 and len(set(self.aborts)) != len(self.aborts):
            yield "two descriptors share one abort address"
        ends = sorted(self.functions.values()) + [self.code[-1][0] + 1]
        for name in functions:
            start = self.functions.get(name)
            if start is None or not any(start < at < ends[ends.index(start) + 1] for at in self.starts):
                yield "%s contains no sequence" % name

    def check_one(self, descriptor):
        version_and_flags, start, length, abort = self.library.numbers(descriptor, 4)
        end = start + length
        self.starts.append(start)
        self.aborts.append(abort)
        if version_and_flags != 0:
            yield "version or flags are not 0"
        if not 0 < length <= LENGTH_MAX:
            yield "a sequence of %d bytes" % length
            return
        if start not in self.index or end not in self.index or self.library.section_of(start) != ".text":
            yield "from 0x%x to 0x%x lie no whole instructions" % (start, end)
            return
        if start <= abort < end:
            yield "the abort address lies inside the sequence"
        if self.library.section_of(abort) != self.machine.abort_section:
            yield "the abort address 0x%x is not in section %s" % (abort, self.machine.abort_section)
        if self.library.code_at(abort - 4, 4) != self.machine.signature:
            yield "no signature before the abort address 0x%x" % abort
        before = self.code[self.index[start] - 3:self.index[start]]
        sequence = self.code[self.index[start]:self.index[end]]
        yield from self.check_begin(descriptor, before, sequence)
        yield from self.check_work(sequence, end)
        yield from self.check_abort(descriptor, abort, range(start, end))

    def check_begin(self, descriptor, before, sequence):
        named = self.machine.stored_to(*before[-1][1:])
        asked = self.machine.loaded_from(*sequence[0][1:])
        if self.machine.address_before(before[:-1]) != descriptor or named is None or named[0] != AREA_SEQUENCE:
            yield "what comes before the sequence does not hand it to the kernel"
        if asked is None or asked[0] != AREA_CORE or (named and named[1] != asked[1]):
            yield "the sequence does not begin by asking for the core"

    def check_work(self, sequence, end):
        start = sequence[0][0]
        stores = [i for i, (_, name, rest) in enumerate(sequence) if self.machine.stored_to(name, rest)]
        if not stores or stores[-1] != len(sequence) - 1:
            yield "it does not end with a store"
        if len(stores) > 2:
            yield "%d stores" % len(stores)
        for at, name, rest in sequence:
            if self.machine.call.match(name):
                yield "%s at 0x%x" % (name, at)
            if self.machine.branch.match(name):
                target = re.search(r"([0-9a-f]+) <", rest)
                if not target or start <= int(target.group(1), 16) < end:
                    yield "a branch at 0x%x that does not leave it" % at

    def check_abort(self, descriptor, abort, sequence):
        """What runs after an abort is a jump to somewhere outside of the sequence."""
        # From there: a disassembler that comes from before reads the signature as a part of something.
        bounds = ["--start-address=%d" % abort, "--stop-address=%d" % (abort + ABORT_BYTES_MAX)]
        text = subprocess.run(self.command + bounds, capture_output=True, text=True, check=True)
        code = INSTRUCTION.findall(text.stdout)
        _, name, rest = code[0] if code else ("", "", "")
        found = re.search(r"([0-9a-f]+) <", rest) if self.machine.branch.match(name) else None
        target = int(found.group(1), 16) if found else 0
        if self.machine is X86:
            by_descriptor = (name + " " + rest).split()[-2:] == ["jmp", "*0x20(%r11)"]
            target = self.library.numbers(descriptor, 5)[4] if by_descriptor else 0
        if target not in self.index or target in sequence:
            yield "after an abort it does not go on outside of itself"


def main():
    path, objdump, *functions = sys.argv[1:]
    checker = Checker(path, objdump)
    findings = list(checker.check(functions))
    for sentence in findings:
        print("%s: %s" % (path, sentence))
    print("%s: %d sequences, %d findings" % (os.path.basename(path), len(checker.starts), len(findings)))
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
