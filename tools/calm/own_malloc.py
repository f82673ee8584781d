"""Names the allocator that is linked into a program, whose requests calmalloc does not see."""
import os
import struct

from heap_symbols import damage, elf_of, open_regular

# Functions that only one allocator has; the first that is found counts.
MARKS = (("calm_malloc", None), ("mi_malloc", "mimalloc"), ("sn_rust_alloc", "snmalloc"),
         ("_rjem_malloc", "jemalloc"), ("je_malloc", "jemalloc"), ("mallctl", "jemalloc"), ("je_mallctl", "jemalloc"),
         ("tc_malloc", "tcmalloc"), ("MallocExtension_Internal_GetNumericProperty", "tcmalloc"),
         ("TCMalloc_SystemAlloc", "tcmalloc"), ("hoard_malloc", "Hoard"), ("scalable_malloc", "TBB's malloc"))
SYMBOLS_BYTES_MAX = 1 << 27
STT_FUNC, SHN_UNDEF = 2, 0
SYMBOL = struct.Struct("<IBBHQQ")


def defined(path):
    """The names among MARKS, and malloc, that a file has functions for."""
    wanted, found = [name.encode() for name, _ in MARKS] + [b"malloc"], set()
    with open_regular(path) as file:
        elf = elf_of(file)
        for name in (".dynsym", ".symtab"):
            table = elf.get_section_by_name(name)
            if table is None or table["sh_entsize"] != SYMBOL.size or table["sh_size"] > SYMBOLS_BYTES_MAX:
                continue
            strings = elf.get_section(table["sh_link"]).data()
            places = {place: name for name in wanted for place in places_of(strings, name + b"\0")}
            data = table.data()
            found.update(places[place].decode() for place, info, _, section, _, _ in
                         SYMBOL.iter_unpack(data[:len(data) // SYMBOL.size * SYMBOL.size])
                         if place in places and section != SHN_UNDEF and info & 15 == STT_FUNC)
    return found


def places_of(strings, name):
    """Where a string table has a name, also as the end of another."""
    at = strings.find(name)
    while at >= 0:
        yield at
        at = strings.find(name, at + 1)


def advice(path):
    """One sentence about a program that has an allocator in it, or None. Where its symbols are gone, nobody knows."""
    try:
        found = defined(path)
    except damage():
        return None
    name = next((allocator for mark, allocator in MARKS if mark in found), "")
    if name is None or not name and "malloc" not in found:
        return None
    return "'%s' has %s; what it asks there calmalloc does not see. Link it without, to see all." % (
        os.path.basename(path), "%s's functions linked in" % name if name else "a malloc of its own")
