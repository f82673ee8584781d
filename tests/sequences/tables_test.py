"""Checks that every instruction of a library lies in the range of an unwind table's entry.

    tables_test.py LIBRARY OBJDUMP READELF

What the compiler and the linker bring by themselves is not ours: the table of calls into other libraries, .init, .fini
and four functions that run while the library is loaded and unloaded; and on aarch64 the linker's way around an erratum
of Cortex-A53, where an instruction of a function lies apart, with a branch back. Between functions lies padding.

Seen to fail with a library whose calls in libc/children.c have no entries, and one whose aborts go through code that
has none.
"""
import re
import subprocess
import sys

NOT_OURS = {"deregister_tm_clones", "register_tm_clones", "__do_global_dtors_aux", "frame_dummy", "call_weak_fn",
            "_init", "_fini"}
PADDING = re.compile(r"(?:data16 |cs |ds )*(?:nop[wl]?|xchg +%ax,%ax|int3|udf)\b")
FUNCTION = re.compile(r"^([0-9a-f]+) <(.*)>:$")
INSTRUCTION = re.compile(r"^\s*([0-9a-f]+):\t(.*)$")
ENTRY = re.compile(r"\bFDE\b.* pc=([0-9a-f]+)\.\.([0-9a-f]+)")


def said(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def entries(library, readelf):
    """The ranges of all entries, sorted."""
    found = filter(None, map(ENTRY.search, said(readelf, "--wide", "--debug-dump=frames", library)))
    return sorted((int(one.group(1), 16), int(one.group(2), 16)) for one in found)


def bare_instructions(library, objdump, ranges):
    """Yields (function, address, instruction) of those that lie in no range. Addresses rise in both."""
    name, at = "", 0
    code = []
    for line in said(objdump, "-d", "--no-show-raw-insn", library):
        begun, found = FUNCTION.match(line), INSTRUCTION.match(line)
        if begun:
            name = begun.group(2)
        elif found:
            code.append((int(found.group(1), 16), name, found.group(2)))
    for address, function, text in sorted(code):
        while at < len(ranges) and ranges[at][1] <= address:
            at += 1
        is_covered = at < len(ranges) and ranges[at][0] <= address
        is_ours = function not in NOT_OURS and not function.endswith(("@plt", ".plt"))
        if not is_covered and is_ours and not PADDING.match(text):
            yield function, address, text


def without_stubs(bare):
    """Of bare instructions, those that are not the linker's: a branch, or one that a branch follows."""
    branches = {address for _, address, text in bare if re.match(r"b\s", text)}
    return [one for one in bare if one[1] not in branches and one[1] + 4 not in branches]


def main():
    library, objdump, readelf = sys.argv[1:]
    ranges = entries(library, readelf)
    bare = without_stubs(list(bare_instructions(library, objdump, ranges)))
    for function, address, text in bare[:20]:
        print("0x%x in %s has no unwind table: %s" % (address, function, text))
    print("%d entries, %d instructions without" % (len(ranges), len(bare)))
    return 1 if bare or len(ranges) < 100 else 0


if __name__ == "__main__":
    sys.exit(main())
