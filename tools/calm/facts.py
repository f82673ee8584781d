"""The facts that our libraries tell of themselves in a running process: names of words, fields and constants.

An ELF note in whatever file a library became part of leads to its table: docs/design/watching.md.
"""
import struct

LISTS, FACT_BYTES, FACTS_MAX = 16, 32, 256
HEAD_BYTES = 40  # of struct fact_table in src/base/facts.h, before its lists


def text_of(data):
    return data.split(b"\0")[0].decode(errors="replace")


def unsigned(data, offset, size):
    return int.from_bytes(data[offset:offset + size], "little")


def tables(process, areas, magic, version):
    """([(the library's version, its facts)], the version of a library whose facts mean something else, or None)."""
    found, other = [], None
    for area in areas:
        if area.offset == 0 and area.rights.startswith("r") and area.path and area.path[0] != "[":
            for name, _, address, contents in process.notes(area):
                if name == b"calmalloc" and len(contents) == 8:
                    table = address + struct.unpack("<q", contents)[0]
                    head = process.read(table, HEAD_BYTES)
                    if text_of(head[:16]) != magic:
                        continue
                    if unsigned(head, 16, 4) != version:
                        other = text_of(head[24:40])
                        continue
                    found.append((text_of(head[24:40]), read_lists(process, table + HEAD_BYTES)))
    return found, other


def read_lists(process, lists_at):
    facts = {}
    for index in range(LISTS):
        at = unsigned(process.read(lists_at + 8 * index, 8), 0, 8)
        for _ in range(FACTS_MAX):
            if at == 0:
                break
            data = process.read(at, FACT_BYTES)
            if data[0] == 0:
                break
            facts[text_of(data[:24])] = unsigned(data, 24, 8)
            at += FACT_BYTES
    return facts
