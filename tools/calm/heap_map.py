"""The heap of a process block by block: which of each slab are live, cached or free, the large blocks, and which pages
are in memory. All is read from outside, as watched.py does, by the facts of src/core/slab.c and src/mem.

What is read is not of one moment. A slab whose bookkeeping is another's by the time it is read counts as free.
"""
import bisect
import struct

from facts import unsigned
from process_memory import OWN, PRESENT, Gone
from watched import CACHES_MAX, CHUNKS_WITH_PAGES_MAX, MAPPED_BYTES_MAX, TAGS_READ

META_CHUNKS_MAX = 1 << 10
LIVE, CACHED, FREE = "live", "cached", "free"


class Slab:
    """A chunk cut into blocks; `unit` is its first one. The bitmaps have a bit for each block."""
    __slots__ = ("unit", "bin", "size_class", "block_bytes", "capacity", "free", "cached", "present")

    def __init__(self, unit, number, size_class, block_bytes, capacity, free):
        self.unit, self.bin, self.size_class = unit, number, size_class
        self.block_bytes, self.capacity, self.free = block_bytes, capacity, free
        self.cached = 0
        self.present = None  # a byte for each page

    def live(self):
        return ((1 << self.capacity) - 1) & ~(self.free | self.cached)

    def live_blocks(self):
        return ones(self.live())

    def state(self, block):
        return FREE if self.free >> block & 1 else CACHED if self.cached >> block & 1 else LIVE


class Large:
    """A large block, or one that was freed and is kept for reuse."""
    __slots__ = ("unit", "units", "asked", "is_cached")

    def __init__(self, unit, units, asked, is_cached):
        self.unit, self.units, self.asked, self.is_cached = unit, units, asked, is_cached


def words_of(cache):
    """Where blocks of a cache lie, in words."""
    return "in the cache of " + ("core %d" % cache.core if cache.is_for_cores else
                                 "a thread" if cache.is_owned else "a thread that ended")


def ones(bits):
    return bin(bits).count("1")


def bytes_in(bits, size, start, end):
    """How many bytes of [start, end) lie in blocks of `size` whose bits are set."""
    if not bits:
        return 0
    first, last = start // size, (end - 1) // size
    found = ones(bits >> first & (1 << last - first + 1) - 1) * size
    if bits >> first & 1:
        found -= start - first * size
    if bits >> last & 1:
        found -= (last + 1) * size - end
    return found


class HeapMap:
    def __init__(self, watched):
        watched.process.new_look()
        self.watched, self.process, self.facts = watched, watched.process, watched.facts
        self.unit_bytes, self.chunk_bytes = 1 << self.facts["unit.shift"], 1 << self.facts["chunk.shift"]
        self.chunk_units = self.chunk_bytes // self.unit_bytes
        self.read_units()
        self.read_slabs()
        self.places = {}  # where each cached block lies
        self.read_cached()
        self.read_large()
        self.areas = self.process.mappings()
        self.pages, self.page_bytes = None, 0
        self.read_pages()

    # The units, and the chunks of which each is a slab, or not.

    def read_units(self):
        facts = self.facts
        region = self.process.read(facts["region"], 8 + max(facts["region." + name] for name in
                                                            ("base", "map", "chunks", "tags")))
        self.base, map_at, self.tags_at, chunks = (unsigned(region, facts["region." + name], 8)
                                                   for name in ("base", "map", "tags", "chunks"))
        self.map_at = map_at
        self.mapped_bytes = chunks * self.chunk_bytes
        self.is_read = 0 < chunks <= CHUNKS_WITH_PAGES_MAX and self.mapped_bytes <= MAPPED_BYTES_MAX
        if not self.is_read:
            chunks = 0
        self.units = chunks * self.chunk_units
        self.bins = self.watched.bins_of(map_at, chunks)
        self.windows = {}  # of tags, by number

    def tag(self, unit, name, size=8):
        """A field of a unit's tag, of which a window is read at a time."""
        window, inside = divmod(unit, TAGS_READ)
        each, first = self.facts["tag.bytes"], window * TAGS_READ
        if window not in self.windows:
            count = min(TAGS_READ, self.units - first)
            self.windows[window] = self.process.read(self.tags_at + first * each, count * each)
        return unsigned(self.windows[window], inside * each + self.facts["tag." + name], size)

    def slab_at(self, unit):
        """The slab that a unit is of, or None."""
        return self.slabs.get(unit - unit % self.chunk_units)

    def before(self, unit):
        """Bytes of the large block that began at a free unit last, or 0; and of the blocks of the slab there."""
        number, known = self.tag(unit - unit % self.chunk_units, "class_before", 1), self.watched.class_bytes
        return self.tag(unit, "asked", 4) * self.unit_bytes, known[number] if number < len(known) else 0

    def read_slabs(self):
        facts, watched, process = self.facts, self.watched, self.process
        watched.is_apart = watched.number("cohort.apart", size=1) != 0
        wanted = []
        for chunk, number in enumerate(self.bins):
            size_class = watched.class_of(number)
            if 0 < size_class < len(watched.class_bytes) and watched.class_capacity[size_class]:
                words = (watched.class_capacity[size_class] + 63) // 64
                book = self.tag(chunk * self.chunk_units, "slab")
                wanted.append((chunk, number, size_class, (book, facts["slab.map"] + 8 * words)))
        self.slabs = {}
        self.deferred_at = {}
        process.charge(len(wanted), sum(piece[1] for _, _, _, piece in wanted))
        for chunk, number, size_class, piece in wanted:
            try:
                data = process.read_one(*piece)
            except Gone:
                continue  # it was made or given up meanwhile
            if unsigned(data, facts["slab.chunk"], 4) != chunk or unsigned(data, facts["slab.bin"], 2) != number:
                continue
            capacity = watched.class_capacity[size_class]
            free = int.from_bytes(data[facts["slab.map"]:], "little") & (1 << capacity) - 1
            unit = chunk * self.chunk_units
            self.slabs[unit] = Slab(unit, number, size_class, watched.class_bytes[size_class], capacity, free)
            self.deferred_at[unit] = unsigned(data, facts["slab.deferred"], 8)

    # What waits in caches, in batches, as deferred.

    def read_cached(self):
        facts, process, watched = self.facts, self.process, self.watched
        pieces, places = [], []
        has_sampled = watched.number("sample.tables") != 0
        for cache, address, entries in watched.caches():
            for number, entry in entries:
                start, blocks = watched.array_of(entry)
                if blocks:
                    self.note_cached([unsigned(entry, facts["cache.first"], 8)], words_of(cache))
                    pieces.append((address + start + 8, 8 * blocks))
                    places.append(words_of(cache))
            if has_sampled and not watched.is_apart:
                self.read_kept(address, words_of(cache))
        deferred_classes = {}
        for data in self.depots():
            size_class = watched.class_of(unsigned(data, facts["depot.bin"], 2))
            deferred_classes[size_class] = deferred_classes.get(size_class, 0) + watched.deferred_of(data)
            for top in watched.tops_of(data):
                for batch, blocks in watched.batches(top):
                    if blocks:
                        pieces.append((batch + facts["batch.blocks"],
                                       min(8 * blocks, facts["batch.bytes"] - facts["batch.blocks"])))
                        places.append("in a batch")
        for data, place in zip(process.read_all(pieces), places):
            self.note_cached((word for word, in struct.iter_unpack("<Q", data[:len(data) // 8 * 8])), place)
        self.read_deferred({size_class for size_class, deferred in deferred_classes.items() if deferred > 0})

    def depots(self):
        size, known, address = self.facts["depot.bytes"], set(), self.watched.number("depot.newest")
        while address and address not in known and len(known) < CACHES_MAX:
            known.add(address)
            data = self.process.read(address, size)
            yield data
            address = unsigned(data, self.facts["depot.below"], 8)

    def read_kept(self, cache, place):
        """Sampled blocks that a cache keeps, on entries without an array."""
        facts = self.facts
        row_bytes, size = facts["cache.entry_bytes"] << facts["class.bits"], facts["cache.entry_bytes"]
        row = self.process.read(cache + facts["cache.entries"] + facts["cohort.sampled"] * row_bytes, row_bytes)
        self.note_cached((unsigned(row, size * number + facts["cache.first"], 8)
                         for number in range(1, len(self.watched.class_bytes))
                         if unsigned(row, size * number + facts["cache.top"], 4) == 0), place)

    def read_deferred(self, classes):
        for unit, slab in self.slabs.items():
            if slab.size_class in classes and self.deferred_at[unit]:
                data = self.process.read(self.deferred_at[unit], (slab.capacity + 63) // 64 * 8)
                slab.cached |= int.from_bytes(data, "little") & (1 << slab.capacity) - 1 & ~slab.free

    def note_cached(self, addresses, place):
        base, slabs = self.base, self.slabs
        for address in addresses:
            inside = (address - base) % self.chunk_bytes
            slab = slabs.get((address - base - inside) // self.unit_bytes)
            if slab is not None:
                block = inside // slab.block_bytes
                if not slab.free >> block & 1 and block < slab.capacity:
                    slab.cached |= 1 << block
                    self.places[address] = place

    def where(self, block):
        """Where a cached block lies."""
        return self.places.get(block, "put aside for a slab that is held")

    def live_count(self):
        return (sum(slab.live_blocks() for slab in self.slabs.values()) +
                sum(not large.is_cached for large in self.large.values()))

    def live_blocks(self):
        """(address, size) of each live block, by address."""
        for unit in sorted(list(self.slabs) + self.large_units):
            start, slab = self.base + unit * self.unit_bytes, self.slabs.get(unit)
            if slab is None:
                if not self.large[unit].is_cached:
                    yield start, self.large[unit].units * self.unit_bytes
                continue
            live = slab.live()
            while live:
                yield start + ((live & -live).bit_length() - 1) * slab.block_bytes, slab.block_bytes
                live &= live - 1

    # Large blocks.

    def read_large(self):
        facts, self.large = self.facts, {}
        for unit, tag in self.watched.large_blocks(self.bins, self.tags_at):
            units = max(1, min(unsigned(tag, facts["tag.units"], 4), self.units - unit))
            asked = unsigned(tag, facts["tag.asked"], 4) * self.unit_bytes
            self.large[unit] = Large(unit, units, asked, False)
        mask, slots = (1 << facts["large_cache.units_bits"]) - 1, facts["large_cache.slot_count"]
        for word, in struct.iter_unpack("<Q", self.process.read(facts["large_cache.slots"], 8 * slots)):
            unit, units = word >> facts["large_cache.unit_shift"], word & mask
            if word and unit not in self.large and 0 < units <= self.units - unit:
                asked = self.tag(unit, "asked", 4) * self.unit_bytes
                self.large[unit] = Large(unit, units, asked, True)
        self.large_units = sorted(self.large)

    def large_at(self, unit):
        """The large block, live or cached, that a unit is of, or None."""
        index = bisect.bisect_right(self.large_units, unit) - 1
        found = self.large[self.large_units[index]] if index >= 0 else None
        return found if found is not None and unit < found.unit + found.units else None

    # Pages.

    def read_pages(self):
        pages = self.pages_of_region() if self.units else None
        if not pages or len(pages) < len(self.bins):
            return
        self.pages, self.page_bytes = pages, self.mapped_bytes // len(pages)
        for slab in self.slabs.values():
            first = slab.unit * self.unit_bytes // self.page_bytes
            slab.present = pages[first:first + self.chunk_bytes // self.page_bytes]

    def pages_of_region(self):
        """A byte of 0 or 1 for each page. What the kernel counts as resident says which of two rules holds."""
        size = self.mapped_bytes
        said = self.process.pages_of(self.base, size)
        if said is None:
            return None
        rss = sum(area.rss for area in self.areas if self.base <= area.start < self.base + size)
        rules = [said.translate(PRESENT), said.translate(OWN)]
        return min(rules, key=lambda pages: abs(pages.count(1) * (size // len(pages)) - rss))

    def resident(self, unit, units):
        first, end = unit * self.unit_bytes // self.page_bytes, (unit + units) * self.unit_bytes // self.page_bytes
        return self.pages.count(1, first, end) * self.page_bytes

    def runs(self, slab):
        """(first byte, end) of the ranges of a slab that are in memory."""
        present, page = slab.present, self.page_bytes
        start = present.find(1)
        while start >= 0:
            end = present.find(0, start)
            end = len(present) if end < 0 else end
            yield start * page, end * page
            start = present.find(1, end)

    def shares(self, slab):
        """(live, cached, free) bytes of a slab that are in memory; what no block has is free."""
        live, cached, total = 0, 0, 0
        live_bits = slab.live()
        for start, end in self.runs(slab):
            total += end - start
            live += bytes_in(live_bits, slab.block_bytes, start, end)
            cached += bytes_in(slab.cached, slab.block_bytes, start, end)
        return live, cached, total - live - cached

    def pinned(self, slab, bits):
        """Bytes of a slab's pages in memory that have one of such blocks, or a part of one."""
        if not bits:
            return 0
        page, size, found = self.page_bytes, slab.block_bytes, 0
        for number, is_present in enumerate(slab.present):
            if is_present:
                first, last = number * page // size, ((number + 1) * page - 1) // size
                found += (bits >> first & (1 << last - first + 1) - 1) != 0
        return found * page

    # Metadata.

    def anchors(self):
        """An address in each of the mappings that have our books."""
        facts, number = self.facts, self.watched.number
        found = [self.map_at, self.tags_at]
        found += [number(name) for name in ("sample.tables", "stacks.tables", "live.table", "learned.tables")]
        count = min(number("meta.count"), META_CHUNKS_MAX)
        found += [word for word, in struct.iter_unpack("<Q", self.process.read(facts["meta.chunks"], 8 * count))]
        return [address for address in found if address]
