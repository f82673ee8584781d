"""The pools' static library needs nothing but memset and memcpy, and holds nothing of the general heap.

    freestanding_test.py LIBRARY CC
"""
import os
import re
import subprocess
import sys
import tempfile

ALLOWED = {"memset", "memcpy", "_GLOBAL_OFFSET_TABLE_"}
HEAP_NAMES = {"malloc", "free", "calloc", "realloc", "calm_malloc", "heap_free_slow"}


def symbols(path):
    """Names that are defined, and names that are missing."""
    lines = subprocess.run(["nm", path], capture_output=True, text=True, check=True).stdout
    found = re.findall(r"^[0-9a-f ]{16} (\w) (\S+)$", lines, re.M)
    return {name for kind, name in found if kind not in "Uw"}, {name for kind, name in found if kind in "Uw"}


def missing(path):
    defined, needed = symbols(path)
    return needed - defined - ALLOWED


def main():
    library, compiler = sys.argv[1:3]
    defined, _ = symbols(library)
    assert "calm_pool_alloc" in defined, "the library has no calm_pool_alloc: nothing was read"
    assert not missing(library), "the library needs %s" % sorted(missing(library))
    assert not defined & HEAP_NAMES, "the library has %s" % sorted(defined & HEAP_NAMES)
    with tempfile.TemporaryDirectory() as work:  # the control: an object that calls malloc is found
        source = os.path.join(work, "control.c")
        with open(source, "w") as file:
            file.write("void *malloc(unsigned long size);\nvoid *control(void) { return malloc(8); }\n")
        subprocess.run([compiler, "-w", "-c", source, "-o", source + ".o"], check=True)
        assert missing(source + ".o") == {"malloc"}
    print("%d names defined; nothing needed but %s" % (len(defined), ", ".join(sorted(ALLOWED))))


main()
