"""Reads what objdump says of an archive, an object file or a shared library: instructions, labels, relocations.

A place is (member, section, address): an archive has several members, an object file several sections that all begin
at 0. In a linked library the section is left out, as addresses are unique there.
"""
import re
import shutil
import subprocess
from dataclasses import dataclass
from typing import Dict, Optional, Tuple

Place = Tuple[str, str, int]

OBJDUMP = {"x86_64": "objdump", "aarch64": "aarch64-linux-gnu-objdump"}
OPTIONS = {"x86_64": ["-M", "intel"], "aarch64": []}
FORMATS = {"elf64-x86-64": "x86_64", "elf64-littleaarch64": "aarch64"}


class Rejected(Exception):
    """The code is not such that it has a bound, or not such that this tool can tell."""


@dataclass
class Instruction:
    place: Place
    text: str  # without comments and symbols
    after: Place  # where the next one lies
    target: Optional[Place] = None  # of a direct jump or call
    outside: str = ""  # the symbol of a direct jump or call that leads out of the file
    calls: str = ""  # the text that objdump gives the target, for messages

    @property
    def mnemonic(self):
        return self.text.split(" ", 1)[0]


@dataclass
class Listing:
    machine: str
    code: Dict[Place, Instruction]
    labels: Dict[Tuple[str, str], Place]  # (member, name)
    names: Dict[str, Place]  # the first of each name

    def find(self, name):
        place = self.names.get(name)
        if place is None:
            raise Rejected("there is no function %s in it" % name)
        return place

    def where(self, place):
        """NAME+OFFSET, for messages."""
        best = ("?", 0)
        for (member, name), start in self.labels.items():
            if start[:2] == place[:2] and best[1] <= start[2] <= place[2]:
                best = (name, start[2])
        return "%s+%#x" % (best[0], place[2] - best[1])


def machine_of(path):
    done = subprocess.run(["objdump", "-a", path], capture_output=True, text=True)
    found = re.search(r"file format (\S+)", done.stdout)
    if found is None or found.group(1) not in FORMATS:
        # An objdump without the other machine calls its files elf64-little: the header says which it is.
        with open(path, "rb") as file:
            head = file.read(1 << 20)
        at = head.find(b"\x7fELF")
        number = int.from_bytes(head[at + 18:at + 20], "little") if at >= 0 else 0
        machine = {62: "x86_64", 183: "aarch64"}.get(number)
        if machine is None:
            raise Rejected("'%s' is no object file of a machine that is known" % path)
        return machine
    return FORMATS[found.group(1)]


HEAD = re.compile(r"^(\S+):\s+file format ")
SECTION = re.compile(r"^Disassembly of section (\S+):$")
LABEL = re.compile(r"^([0-9a-f]+) <(.+)>:$")
LINE = re.compile(r"^\s*([0-9a-f]+):\t(.*)$")
RELOCATION = re.compile(r"\s+[0-9a-f]+: (R_\w+)\s+(\S+)\s*$")
COMMENT = {"x86_64": re.compile(r"\s*#.*$"), "aarch64": re.compile(r"\s*//.*$")}
TARGET = re.compile(r"\b(?:0x)?([0-9a-f]+) <([^>]+)>")


def read(path):
    machine = machine_of(path)
    tool = OBJDUMP[machine]
    if shutil.which(tool) is None:
        raise Rejected("%s is missing; apt-get install binutils or gcc-aarch64-linux-gnu brings it" % tool)
    done = subprocess.run([tool, "-d", "-r", "-w", "--no-show-raw-insn", *OPTIONS[machine], path], capture_output=True,
                          text=True)
    if done.returncode != 0:
        raise Rejected("objdump cannot read '%s': %s" % (path, done.stderr.strip()))
    is_linked = not path.endswith((".a", ".o"))
    listing = Listing(machine, {}, {}, {})
    member, section, last = "", "", None
    for line in done.stdout.splitlines():
        head, begun, label, row = HEAD.match(line), SECTION.match(line), LABEL.match(line), LINE.match(line)
        if head:
            member = head.group(1)
        elif begun:
            section, last = "" if is_linked else begun.group(1), None
        elif label:
            place = (member, section, int(label.group(1), 16))
            listing.labels[(member, label.group(2))] = place
            listing.names.setdefault(label.group(2), place)
        elif row:
            last = _instruction(listing, (member, section, int(row.group(1), 16)), row.group(2), last)
    _resolve(listing)
    return listing


def _instruction(listing, place, text, last):
    """Adds one line; its relocation and its target are kept as text until all labels are known."""
    relocation = RELOCATION.search(text)
    raw = text[:relocation.start()] if relocation else text
    plain = re.sub(r"\s+", " ", COMMENT[listing.machine].sub("", raw)).strip()
    if not plain or plain.startswith("..."):
        return last
    found = Instruction(place, plain, place)
    found.calls = relocation.group(2) if relocation else ""
    found.relocation = relocation.group(1) if relocation else ""
    listing.code[place] = found
    if last is not None:
        last.after = place
    return found


def _resolve(listing):
    jump_relocations = ("R_X86_64_PLT32", "R_X86_64_PC32", "R_AARCH64_CALL26", "R_AARCH64_JUMP26",
                        "R_AARCH64_CONDBR19", "R_AARCH64_TSTBR14")
    for instruction in listing.code.values():
        target = TARGET.search(instruction.text)
        if target is None:
            continue
        member, section, _ = instruction.place
        if instruction.relocation in jump_relocations:
            found = re.match(r"^(.*?)(?:([+-])0x([0-9a-f]+))?$", instruction.calls)
            name = found.group(1)
            more = int(found.group(3) or "0", 16) * (-1 if found.group(2) == "-" else 1)
            more += 4 if instruction.relocation.startswith("R_X86") else 0
            place = listing.labels.get((member, name)) or listing.names.get(name)
            if name.startswith(".text"):
                place = (member, name, 0)
            if place is None:
                instruction.outside = name
            else:
                instruction.target = (place[0], place[1], place[2] + more)
        else:
            instruction.target = (member, section, int(target.group(1), 16))
            instruction.calls = target.group(2)
        instruction.text = TARGET.sub("TARGET", instruction.text)
