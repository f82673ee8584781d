"""What holds the heap's memory: blocks by size, and large ones; and who asked for them, as far as that is known."""
import os
import struct
from dataclasses import dataclass, field

import say
from facts import unsigned
from heap_profile import OTHER_STACKS, Location, Profile, Stack
from heap_symbols import short, site_of
from top import Names, unnamed
from watched import Frame, located

CALLERS_MAX = 64


@dataclass
class Part:
    """The blocks of a size. Bytes are what is in memory, but for block_bytes."""
    block_bytes: int  # of one; 0: large ones
    slabs: int = 0
    live_blocks: int = 0
    cached_blocks: int = 0
    live: int = 0
    cached: int = 0
    resident: int = 0
    pinned: int = 0  # by live blocks: in pages that have a part of one
    live_size: int = 0  # of live blocks, whether in memory or not
    live_by_cohort: dict = field(default_factory=dict)
    largest: int = 0  # of the large ones, whether in memory or not

    def fill(self):
        return self.live / self.pinned if self.pinned else 0.0


def parts_of(heap):
    """The parts of a HeapMap whose pages are known, by what they hold, the most first."""
    found = {}
    for slab in heap.slabs.values():
        part = found.get(slab.size_class)
        if part is None:
            part = found[slab.size_class] = Part(slab.block_bytes)
        add_slab(heap, part, slab)
    large = Part(0)
    for block in heap.large.values():
        size = heap.resident(block.unit, block.units)
        large.resident += size
        if block.is_cached:
            large.cached_blocks += 1
            large.cached += size
            continue
        large.live_blocks += 1
        large.live += size
        large.pinned += size
        large.live_size += block.units * heap.unit_bytes
        large.largest = max(large.largest, block.units * heap.unit_bytes)
    return sorted([part for part in list(found.values()) + [large] if part.resident],
                  key=lambda part: -part.resident)


def add_slab(heap, part, slab):
    live_bits = slab.live()
    blocks = bin(live_bits).count("1")
    live, cached, free = heap.shares(slab)
    part.slabs += 1
    part.live_blocks += blocks
    part.live_size += blocks * slab.block_bytes
    part.cached_blocks += bin(slab.cached).count("1")
    part.live += live
    part.cached += cached
    part.resident += live + cached + free
    part.pinned += live if free == 0 and cached == 0 else heap.pinned(slab, live_bits)
    if blocks:
        cohort = heap.watched.cohort_of(slab.bin)
        part.live_by_cohort[cohort] = part.live_by_cohort.get(cohort, 0) + blocks


def trimmed(heap, parts, numbers):
    """What malloc_trim(0) would give back at most: what is dirty, large blocks kept for reuse, and pages of slabs
    without a live block."""
    return numbers["dirty"] + sum(part.resident - part.pinned for part in parts)


# Who asked for them.

class Samples:
    """The live blocks that the profiler sampled: what each stands for, and the call that asked for it."""

    def __init__(self, heap):
        self.heap, self.watched, self.facts = heap, heap.watched, heap.facts
        self.by_block = {}  # address: (row of the stack, weight)
        self.found = {}  # block_bytes of a part: {site: bytes}
        self.names, self.seen_names = {}, Names(heap.watched)
        self.read()

    def read(self):
        facts = self.facts
        table = self.watched.number("live.table")
        if not table:
            return
        size = facts["live.way_bytes"]
        data = self.heap.process.read(table, size * facts["live.ways"])
        if not any(data):
            return
        if size % 8 or facts["live.block"] % 8:
            return
        stack_at, weight_at = facts["live.stack"], facts["live.weight"]
        blocks = memoryview(data).cast("Q")[facts["live.block"] // 8::size // 8]
        for index, address in enumerate(blocks):
            if address > 1:
                self.by_block[address] = (unsigned(data, index * size + stack_at, 4),
                                          unsigned(data, index * size + weight_at, 8))

    def callers(self, stack):
        facts, tables = self.facts, self.watched.number("stacks.tables")
        index = stack - 1  # numbers of stacks begin with 1
        if not tables or not 0 <= index < facts["stacks.limit"] or stack == facts["stacks.other"]:
            return []
        row = self.heap.process.read(tables + facts["stacks.rows"] + facts["stacks.row_bytes"] * index,
                                     facts["stacks.row_bytes"])
        depth = min(unsigned(row, facts["stacks.depth"], 4), facts["stacks.depth_max"], CALLERS_MAX)
        place = tables + facts["stacks.callers"] + 8 * facts["stacks.depth_max"] * index
        return struct.unpack("<%dQ" % depth, self.heap.process.read(place, 8 * depth))

    def learn(self, stacks):
        """Names the sites of these stacks."""
        fresh = [stack for stack in stacks if stack not in self.names]
        if not fresh:
            return
        mappings = self.watched.mappings()
        profile = []
        for stack in fresh:
            found = [located(address - 1, [mapping for mapping in mappings
                                           if mapping.start <= address - 1 < mapping.end])
                     for address in self.callers(stack) if address > 1]
            profile.append(Stack(found or [Location(0, None, [(OTHER_STACKS, "", 0)])]))
        symbols = self.seen_names.symbols
        frames = (symbols.resolve(Profile(profile, mappings, False, 0, 0, 0, [])) if symbols is not None else
                  [[unnamed(location) for location in stack.locations] for stack in profile])
        self.names.update({stack: place_words(site_of(names)) for stack, names in zip(fresh, frames)})

    def bytes_of(self, part):
        """{site: bytes of the part that its sampled blocks stand for}."""
        if part.block_bytes in self.found:
            return self.found[part.block_bytes]
        stacks, heap = {}, self.heap
        for address, (stack, weight) in self.by_block.items():
            unit = (address - heap.base) // heap.unit_bytes
            slab, large = heap.slab_at(unit), heap.large.get(unit)
            size = slab.block_bytes if slab is not None else 0
            if size == part.block_bytes and (size or large is not None):
                stacks[stack] = stacks.get(stack, 0) + weight * (size or large.units * heap.unit_bytes)
        self.learn(stacks)
        sites = self.found[part.block_bytes] = {}
        for stack, size in stacks.items():
            sites[self.names[stack]] = sites.get(self.names[stack], 0) + (size >> self.facts["stacks.weight_bits"])
        return sites

    def of_part(self, part):
        """[(share of what the part's samples stand for, site)], the most first."""
        sites = self.bytes_of(part)
        total = sum(sites.values())
        return sorted(((size / total, site) for site, size in sites.items()), reverse=True) if total else []

    def site_of_block(self, address):
        if address not in self.by_block:
            return None
        stack = self.by_block[address][0]
        self.learn([stack])
        return self.names[stack]


def place_words(frame):
    place = os.path.basename(frame.file) + (":%d" % frame.line if frame.line else "") if frame.file else ""
    return short(frame.name) + (" at " + place if place else "")


class Cohorts:
    """Names for cohorts, by the site that was seen most of each: hints (docs/design/watching.md)."""

    def __init__(self, heap):
        frame = Frame(0, 0)
        heap.watched.read_sites(frame)
        self.sites, self.watched = frame.sites, heap.watched
        self.names = Names(heap.watched)
        self.are_apart = heap.watched.number("site.cohorts") > 1

    def of_part(self, part):
        """As of samples, by cohort."""
        total = sum(part.live_by_cohort.values())
        return sorted(((blocks / total, self.of(cohort)) for cohort, blocks in part.live_by_cohort.items()),
                      reverse=True) if total else []

    def of(self, cohort):
        sites = self.sites.get(cohort, [])
        if cohort == self.watched.facts["cohort.first"]:
            return "early requests"
        if not sites:
            return "cohort %d" % cohort
        self.names.learn([sites[0].address])
        others = len(sites) - 1
        return place_words(self.names.of(sites[0].address)[0]) + (
            " or %s of cohort %d" % (say.count(others, "other"), cohort) if others else "")
