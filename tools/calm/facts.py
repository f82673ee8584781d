"""The facts that our libraries tell of themselves in a running process: names of words, fields and constants.

An ELF note in whatever file a library became part of leads to its table: docs/design/watching.md.
"""
import struct

from trouble import Trouble

HEAP_MAGIC = "calmalloc facts"  # of the library; executors have their own
LISTS_MAX, FACT_BYTES, FACTS_MAX = 64, 32, 256
SEARCHED_BYTES, SEARCHED_BYTES_MAX = 1 << 20, 1 << 26  # at a time, and of an area
HEAD_BYTES = 40  # of struct fact_table in src/base/facts.h, before its lists

# Facts that are addresses in the process: a read of them fails, or finds words that readers bound.
ADDRESSES = frozenset(
    "batch.chunks cache.by_cores cache.newest class.facts cohort.apart depot.newest depot.shards intern.overflow "
    "large.blocks large.units learned.places learned.tables live.table meta.chunks meta.count modules.count "
    "modules.table places.tables region remote.request running sample.lost sample.on_before_ms sample.rate "
    "sample.samples sample.start_ns sample.state sample.tables seen.sites large_cache.slots site.cohorts site.given "
    "site.is_auto site.is_learned site.joined site.spread site.table stacks.cut stacks.tables stacks.used "
    "wrapper.indices".split())
# All others are numbers that we count, divide, shift or multiply by: none is taken that is not in its range.
OFFSET_MAX = 1 << 24  # of those that are not named here
RANGES = {
    "batch.a_chunk": (1, 1 << 16), "batch.bytes": (8, 1 << 16), "batch.number_bits": (1, 40),
    "cache.entry_bytes": (1, 256), "cache.head_bytes": (1, 1 << 16), "cache.rows": (8, 1 << 14),
    "cache.slots_log2_min": (0, 16), "chunk.entry": (2, 256), "chunk.shift": (12, 30),
    "class.bits": (1, 12), "class.count": (1, 1 << 12), "class.facts_bytes": (4, 256),
    "cohort.first": (0, 1 << 16), "cohort.limit": (1, 1 << 16), "cohort.sampled": (1, 1 << 16),
    "depot.bytes": (1, 1 << 14),
    "depot.stack_bytes": (8, 1 << 12), "exec.bytes": (1, 1 << 18), "line.bytes": (1, 1 << 14),
    "learned.cohort": (0, 255), "learned.place_bytes": (1, 256), "live.way_bytes": (16, 256), "live.ways": (1, 1 << 20),
    "modules.bytes": (32, 4096), "modules.limit": (0, 1 << 12),
    "places.count": (1, 1 << 20), "places.entry_bytes": (8, 256), "places.line_bits": (1, 32),
    "pool.class_bytes": (1, 1 << 14), "region.base": (0, 4096), "region.map": (0, 4096),
    "region.chunks": (0, 4096), "region.tags": (0, 4096),
    "running.count": (0, 64), "seen.bytes": (1, 256), "site.bytes": (1, 8),
    "site.align": (0, 16), "site.count": (1, 1 << 18), "site.diverted": (0, 255),
    "large_cache.slot_count": (1, 1 << 13), "large_cache.unit_shift": (1, 63), "large_cache.units_bits": (1, 32),
    "slab.map": (8, 1 << 12), "tag.bytes": (16, 256), "stacks.depth_max": (1, 64),
    "stacks.limit": (0, 1 << 15), "stacks.other": (0, 1 << 15), "stacks.row_bytes": (1, 4096),
    "stacks.volume_bits": (1, 32), "stacks.weight_bits": (1, 32),
    "unit.shift": (12, 30), "worker.bytes": (1, 1 << 18),
}


class Facts(dict):
    """The facts of one table, by name."""

    def __init__(self, who):
        super().__init__()
        self.who = who

    def __missing__(self, name):
        raise Trouble("%s has tables that make no sense: nothing says %s." % (self.who, name))

    def add(self, name, value):
        low, high = RANGES.get(name, (0, OFFSET_MAX))
        if name in ADDRESSES or low <= value <= high:
            self[name] = value  # one that is out of its range is as good as none


def text_of(data):
    return data.split(b"\0")[0].decode(errors="replace")


def unsigned(data, offset, size):
    return int.from_bytes(data[offset:offset + size], "little")


def tables(process, areas, magic, version):
    """([(the library's version, its facts)], the version of a library whose facts mean something else, or None)."""
    found, other = [], None
    places = noted(process, areas)
    for table in places or searched(process, areas, magic):
        head = process.read(table, HEAD_BYTES)
        if text_of(head[:16]) != magic:
            continue
        if unsigned(head, 16, 4) != version:
            other = text_of(head[24:40])
            continue
        found.append((text_of(head[24:40]), read_lists(process, table)))
    return found, other


def noted(process, areas):
    """Where notes say that our tables are."""
    found = []
    for area in areas:
        if area.offset == 0 and area.rights.startswith("r") and area.path and area.path[0] != "[":
            for name, _, address, contents in process.notes(area):
                if name == b"calmalloc" and len(contents) == 8:
                    found.append(address + struct.unpack("<q", contents)[0])
    return found


def searched(process, areas, magic):
    """Where our tables may be in a program whose linker left notes out, as Zig's own does: in its data."""
    program, mark, found = process.program_path(), magic.encode() + b"\0", []
    for area in areas:
        if area.path != program or not area.rights.startswith("r") or "x" in area.rights:
            continue
        for start in range(area.start, min(area.end, area.start + SEARCHED_BYTES_MAX), SEARCHED_BYTES):
            data = process.read(start, min(SEARCHED_BYTES + len(mark), area.end - start))
            at = data.find(mark)
            while at >= 0:
                if (start + at) % 8 == 0 and start + at + HEAD_BYTES <= area.end:
                    found.append(start + at)
                at = data.find(mark, at + 1)
    return sorted(set(found))


def lists_in(head):
    return min(max(0, unsigned(head, 20, 4) - HEAD_BYTES) // 8, LISTS_MAX)


def read_lists(process, table):
    facts, lists_at = Facts(process.who()), table + HEAD_BYTES
    facts.place, facts.head = table, process.read(table, HEAD_BYTES)
    for index in range(lists_in(facts.head)):
        at = unsigned(process.read(lists_at + 8 * index, 8), 0, 8)
        for _ in range(FACTS_MAX):
            if at == 0:
                break
            data = process.read(at, FACT_BYTES)
            if data[0] == 0:
                break
            facts.add(text_of(data[:24]), unsigned(data, 24, 8))
            at += FACT_BYTES
    return facts
