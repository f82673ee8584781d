"""What a process that runs on calmalloc holds, read from outside by the facts that its library tells of itself.

Where the facts are and what they mean is in docs/design/watching.md. Numbers that do not fit together, since the
process goes on, are bounded and read again the next time.
"""
import bisect
import struct
import time
from collections import namedtuple
from dataclasses import dataclass, field

from facts import HEAP_MAGIC, tables, unsigned
from heap_profile import OTHER_FUNCTIONS, OTHER_STACKS, Location, Mapping, Profile, Stack
from process_memory import Gone, Memory, Process
from trouble import Trouble

VERSION = 6  # WATCH_VERSION of src/front/watch.h
DEPOTS_MAX, CACHES_MAX, CHUNKS_WITH_PAGES_MAX, SHARDS_MAX = 1 << 16, 1 << 16, 1 << 19, 16
MAPPED_BYTES_MAX = 1 << 35  # whose pages are looked at
BATCHES_READ = 1 << 12  # of one stack
TAGS_READ = 1 << 10  # of spans, at a time
STARTED, WAS_ON, STOPPED = 1, 2, 3  # enum remote_result of src/site/remote.h
LEASE_MS = 60 * 1000
ROW_READS_MAX, CLAIMED = 8, 0xFFFFFFFF  # READS_MAX and CLAIMED of src/site/stacks.c
PLACE_BIT, PLACE_BYTES_MAX = 1 << 63, 4096  # as src/site/places.h has them


# A site of a cohort: what the profiler's samples say is live of it, and how often it was seen on slow paths.
SeenSite = namedtuple("SeenSite", "live_bytes votes address")


@dataclass
class Holding:
    """What one cohort, or one class, holds."""
    key: int
    blocks: int = 0  # given out by depots: live, or in caches
    bytes: int = 0
    cached_blocks: int = 0
    cached_bytes: int = 0
    slabs: int = 0
    resident_bytes: int = 0

    def live_bytes(self):
        return max(0, self.bytes - self.cached_bytes)

    def live_blocks(self):
        return max(0, self.blocks - self.cached_blocks)


@dataclass
class Cache:
    number: int
    is_for_cores: bool
    core: int
    is_owned: bool
    blocks: int = 0
    bytes: int = 0


@dataclass
class Frame:
    """One look at a process."""
    rss_bytes: int
    threads: int
    cohorts: dict = field(default_factory=dict)
    classes: dict = field(default_factory=dict)
    caches: list = field(default_factory=list)
    large_blocks: int = 0
    large_bytes: int = 0
    large_cached_bytes: int = 0
    large_sites: list = field(default_factory=list)  # [(bytes, blocks, address)], the most bytes first
    mapped_bytes: int = 0
    resident_bytes: int = None  # of the heap; None: the kernel does not say
    cohorts_now: int = 0
    overflow_sites: int = 0
    by_cores: bool = False
    profiler_on: bool = False
    samples: int = 0
    sites: dict = field(default_factory=dict)  # cohort: [SeenSite], the most bytes first, then the most votes
    numbers: dict = field(default_factory=dict)  # of memory_numbers.py
    blocks: int = 0  # live, by heap_map.py


class Watched:
    def __init__(self, pid, is_written=False):
        """`pid`: a process's number, or a Memory."""
        self.process = pid if isinstance(pid, Memory) else Process(pid, is_written)
        try:
            self.library, self.facts = self.find()
        except Gone:
            raise self.process.has_ended() from None
        self.depots = []  # addresses, the newest first
        self.functions = {}  # of scripts, by index: (name, file)
        facts = self.facts
        table = self.process.read(facts["class.facts"], facts["class.facts_bytes"] * facts["class.count"])
        self.class_bytes = [unsigned(table, index * facts["class.facts_bytes"], 4)
                            for index in range(facts["class.count"])]
        self.class_capacity = [unsigned(table, index * facts["class.facts_bytes"] + facts["class.capacity"], 2)
                               for index in range(facts["class.count"])]

    # Finding the facts.

    def find(self):
        """(the library's version, its facts) of the copy of calmalloc that has most memory."""
        areas = self.process.areas()
        found, other = tables(self.process, areas, HEAP_MAGIC, VERSION)
        who = self.process.who()
        if found:
            return max(found, key=lambda pair: self.number("region", "region.chunks", facts=pair[1]))
        if other is None and any("libcalmalloc" in area.path for area in areas):
            other = "of an earlier time"
        if other is not None:
            raise Trouble("%s runs a calmalloc (%s) whose tables this calm cannot read; use the calm it came with." %
                          (who, other))
        raise Trouble("%s does not run on calmalloc; LD_PRELOAD=$(./calm lib) before its command starts it so." % who)

    def number(self, at, offset=None, size=8, facts=None):
        """The number at the address that fact `at` tells of, and the offset that `offset` does."""
        facts = self.facts if facts is None else facts
        return unsigned(self.process.read(facts[at] + (facts[offset] if offset else 0), size), 0, size)

    def has_started(self):
        return self.number("region", "region.chunks") > 0

    # One look.

    def look(self, with_pages=True):
        """`with_pages`: also what is resident, which takes as long as the heap is large, and what samples say."""
        self.process.new_look()
        facts = self.facts
        self.is_apart = self.number("cohort.apart", size=1) != 0
        frame = Frame(self.process.resident_bytes(), self.process.number_in("status", "Threads:") or 0)
        self.read_depots(frame)
        self.read_caches(frame)
        frame.large_blocks = self.number("large.blocks")
        frame.large_bytes = self.number("large.units") << facts["unit.shift"]
        frame.large_cached_bytes = self.kept_units() << facts["unit.shift"]
        frame.cohorts_now = self.number("site.cohorts")
        frame.overflow_sites = self.number("intern.overflow")
        frame.by_cores = self.number("cache.by_cores", size=1) != 0
        frame.profiler_on = self.number("sample.state", size=4) == facts["sample.on"]
        frame.samples = self.number("sample.samples")
        if with_pages:
            self.read_pages(frame)
            self.read_large_sites(frame)
        self.read_sites(frame, with_pages and frame.profiler_on)
        return frame

    def cohort_of(self, bin_number):
        row = bin_number >> self.facts["class.bits"]
        if self.is_apart:
            return row
        # Armed entries, below the first cohort, have its blocks (docs/design/profiler.md).
        return max(row % self.facts["cohort.limit"], self.facts["cohort.first"])

    def class_of(self, bin_number):
        return bin_number & ((1 << self.facts["class.bits"]) - 1)

    def holdings(self, frame, bin_number):
        cohort, size_class = self.cohort_of(bin_number), self.class_of(bin_number)
        return (frame.cohorts.setdefault(cohort, Holding(cohort)),
                frame.classes.setdefault(size_class, Holding(size_class)))

    def read_depots(self, frame):
        facts, size = self.facts, self.facts["depot.bytes"]
        newest, fresh = self.number("depot.newest"), {}
        while newest != 0 and newest not in self.depots[:1] and newest not in fresh:
            fresh[newest] = None
            newest = unsigned(self.process.read(newest + facts["depot.below"], 8), 0, 8)
        self.depots = (list(fresh) + self.depots)[:DEPOTS_MAX]
        for data in self.process.read_all([(address, size) for address in self.depots]):
            number = unsigned(data, facts["depot.bin"], 2)
            size_class = self.class_of(number)
            if not 0 < size_class < len(self.class_bytes):
                continue
            slabs = unsigned(data, facts["depot.slabs"], 4)
            taken = max(0, slabs * self.class_capacity[size_class] - unsigned(data, facts["depot.free_blocks"], 8))
            batched = sum(self.batched(top) for top in self.tops_of(data)) + self.deferred_of(data)
            for holding in self.holdings(frame, number):
                holding.slabs += slabs
                holding.blocks += taken
                holding.bytes += taken * self.class_bytes[size_class]
                holding.cached_blocks += batched
                holding.cached_bytes += batched * self.class_bytes[size_class]

    def kept_units(self):
        """Units of the freed large blocks that are kept for reuse."""
        facts, mask = self.facts, (1 << self.facts["large_cache.units_bits"]) - 1
        slots = self.process.read(facts["large_cache.slots"], 8 * facts["large_cache.slot_count"])
        return sum(word & mask for (word,) in struct.iter_unpack("<Q", slots))

    def tops_of(self, data):
        """The words of a depot's stacks of batches, one for each shard; all but the first's lie elsewhere."""
        facts = self.facts
        tops = [unsigned(data, facts["depot.batches"], 8)]
        others, shards = unsigned(data, facts["depot.others"], 8), self.number("depot.shards", size=4)
        if others != 0 and 1 < shards <= SHARDS_MAX:
            stacks = self.process.read(others, (shards - 1) * facts["depot.stack_bytes"])
            tops += [unsigned(stacks, i * facts["depot.stack_bytes"], 8) for i in range(shards - 1)]
        return tops

    def deferred_of(self, data):
        """Blocks that came back while the depot was held; below zero where others of its class put them aside."""
        if "depot.deferred" not in self.facts:
            return 0
        deferred = unsigned(data, self.facts["depot.deferred"], 4)
        return deferred - (deferred >> 31 << 32)

    def batched(self, top):
        """Blocks in the batches of a depot's stack."""
        return sum(blocks for _, blocks in self.batches(top))

    def batches(self, top):
        """(its address, its blocks) of each batch of a depot's stack."""
        facts = self.facts
        number = top & ((1 << facts["batch.number_bits"]) - 1)
        for _ in range(BATCHES_READ):
            if number == 0:
                break
            chunk = unsigned(self.process.read(
                facts["batch.chunks"] + (number - 1) // facts["batch.a_chunk"] * 8, 8), 0, 8)
            if chunk == 0:
                break
            batch = chunk + (number - 1) % facts["batch.a_chunk"] * facts["batch.bytes"]
            data = self.process.read(batch, 8)
            number = unsigned(data, facts["batch.next"], 4)
            yield batch, unsigned(data, facts["batch.count"], 4)

    def read_caches(self, frame):
        for cache, _, entries in self.caches():
            for number, entry in entries:
                self.read_entry(frame, cache, number, entry)
            frame.caches.append(cache)

    def caches(self):
        """(the cache, its address, (bin, entry) of each of its entries that has an array)."""
        facts = self.facts
        address, start, known = self.number("cache.newest"), facts["cache.head"], set()
        names = ("below", "number", "is_for_cores", "core", "state", "used_rows")
        below, number, is_for_cores, core, state, used_rows = (max(0, facts["cache." + name] - start) for name in names)
        while address != 0 and address not in known and len(known) < CACHES_MAX:
            known.add(address)
            head = self.process.read(address + start, facts["cache.head_bytes"])
            cache = Cache(unsigned(head, number, 4), unsigned(head, is_for_cores, 1) != 0,
                          unsigned(head, core, 4), unsigned(head, state, 8) >= 2)
            used = head[used_rows:][:facts["cache.rows"] // 8]
            rows = [8 * place + bit for place, byte in enumerate(used) if byte for bit in range(8) if byte >> bit & 1]
            yield cache, address, list(self.entries(address, rows))
            address = unsigned(head, below, 8)

    def entries(self, address, rows):
        facts = self.facts
        row_bytes = facts["cache.entry_bytes"] << facts["class.bits"]
        data = self.process.read_all([(address + facts["cache.entries"] + row * row_bytes, row_bytes) for row in rows])
        for row, entries in zip(rows, data):
            used = unsigned(entries, facts["cache.row.used_bins"], 8) & (1 << (1 << facts["class.bits"])) - 1
            self.process.charge(bin(used).count("1"))
            while used:
                size_class = (used & -used).bit_length() - 1
                used &= used - 1
                yield (row << facts["class.bits"] | size_class,
                       entries[size_class * facts["cache.entry_bytes"]:][:facts["cache.entry_bytes"]])

    def array_of(self, entry):
        """(offset of an entry's array in its cache, the blocks it holds); (0, 0) where it makes no sense now."""
        facts = self.facts
        top, limit = unsigned(entry, facts["cache.top"], 4), unsigned(entry, facts["cache.limit"], 4)
        size = 8 << (limit & 7) + facts["cache.slots_log2_min"]
        start = (limit & ~7) & ~(size - 1)
        return (start, (top - start) // 8) if limit != 0 and 0 <= top - start < size else (0, 0)

    def read_entry(self, frame, cache, number, entry):
        blocks = self.array_of(entry)[1]
        if blocks == 0:
            return
        size_class = self.class_of(number)
        cache.blocks += blocks
        if 0 < size_class < len(self.class_bytes):
            size = self.class_bytes[size_class]
            for holding in self.holdings(frame, number):
                holding.cached_blocks += blocks
                holding.cached_bytes += blocks * size
        else:
            return
        cache.bytes += blocks * size

    def read_pages(self, frame):
        """What of each cohort's and class's slabs is resident."""
        facts = self.facts
        region = self.process.read(facts["region"], 8 + max(facts["region.base"], facts["region.map"],
                                                            facts["region.chunks"]))
        base, bins_at, chunks = (unsigned(region, facts["region." + name], 8) for name in ("base", "map", "chunks"))
        frame.mapped_bytes = chunks << facts["chunk.shift"]  # of eight bytes at most, and shifted by 30
        if not 0 < chunks <= CHUNKS_WITH_PAGES_MAX or frame.mapped_bytes > MAPPED_BYTES_MAX:
            return
        pages = self.process.pages_present(base, frame.mapped_bytes)
        if pages is None:
            return
        bins = self.bins_of(bins_at, chunks)
        each = len(pages) // chunks
        if each == 0:
            return
        page_bytes = (1 << facts["chunk.shift"]) // each
        frame.resident_bytes = sum(pages) * page_bytes
        for chunk, number in enumerate(bins):
            if 0 < self.class_of(number) < len(self.class_bytes):
                present = pages.count(1, chunk * each, (chunk + 1) * each) * page_bytes
                for holding in self.holdings(frame, number):
                    holding.resident_bytes += present

    def bins_of(self, map_at, chunks):
        """The bin of the slab in each chunk; 0: there is none."""
        entry = struct.Struct("<H%dx" % (self.facts["chunk.entry"] - 2))
        return [number for number, in entry.iter_unpack(self.process.read(map_at, entry.size * chunks))]

    def large_blocks(self, bins, tags_at):
        """(first unit, its tag) of each live large block. Tags of slabs alone are not read."""
        facts, size = self.facts, self.facts["tag.bytes"]
        a_chunk = 1 << facts["chunk.shift"] - facts["unit.shift"]
        unit, units = a_chunk, len(bins) * a_chunk
        while unit < units:
            if bins[unit // a_chunk]:
                unit += a_chunk - unit % a_chunk
                continue
            start, end = unit, min(unit + TAGS_READ, units)
            tags = self.process.read(tags_at + start * size, (end - start) * size)
            flags = tags[facts["tag.is_large"]::size]
            while unit < end:
                found = flags.find(1, unit - start)
                unit = end if found < 0 else start + found
                if found >= 0:
                    tag = tags[found * size:][:size]
                    yield unit, tag
                    unit += max(1, unsigned(tag, facts["tag.units"], 4))

    def read_large_sites(self, frame):
        """Who asked for the large blocks that are live: the tag of the first unit of each has the address."""
        facts = self.facts
        names = ["region." + name for name in ("map", "tags", "chunks")]
        region = self.process.read(facts["region"], 8 + max(facts[name] for name in names))
        map_at, tags_at, chunks = (unsigned(region, facts[name], 8) for name in names)
        if not 0 < chunks <= CHUNKS_WITH_PAGES_MAX or frame.large_blocks == 0:
            return
        found, mapped = {}, chunks << facts["chunk.shift"]
        for unit, tag in self.large_blocks(self.bins_of(map_at, chunks), tags_at):
            site = found.setdefault(unsigned(tag, facts["tag.site"], 8), [0, 0])
            size = unsigned(tag, facts["tag.units"], 4) << facts["unit.shift"]
            site[0] += min(size, mapped - (unit << facts["unit.shift"]))
            site[1] += 1
        frame.large_sites = sorted(((size, blocks, site) for site, (size, blocks) in found.items()), reverse=True)

    def read_sites(self, frame, has_samples=False):
        """The sites of each cohort, where the policy goes by index."""
        facts = self.facts
        if self.is_apart:
            return
        cohorts, count, size = self.cohorts_by_index(), facts["site.count"], facts["seen.bytes"]
        data = self.process.read(facts["seen.sites"], size * count)
        seen = {}
        for at in range(0, size * count, size):
            address = unsigned(data, at + facts["seen.address"], 8)
            if address and cohorts[self.site_index(address)] is not None:
                seen[address] = unsigned(data, at + facts["seen.votes"], 8)
        live = self.live_by_site(seen, cohorts) if has_samples else {}
        for address in seen.keys() | live.keys():
            frame.sites.setdefault(cohorts[self.site_index(address)], []).append(
                SeenSite(live.get(address, 0), seen.get(address, 0), address))
        for sites in frame.sites.values():
            sites.sort(reverse=True)

    def site_index(self, address):
        return (address >> self.facts["site.align"]) % self.facts["site.count"]

    def cohorts_by_index(self):
        """The cohort of each index by the policy, which the table of sites does not tell while requests are counted;
        None: it has none yet, or is a wrapper's, behind which a site is."""
        count = self.facts["site.count"]
        wrappers = self.process.read(self.facts["wrapper.indices"], (count + 7) // 8)
        return [None if wrappers[index // 8] >> index % 8 & 1 else cohort
                for index, cohort in enumerate(self.cohorts_by_policy(count))]

    def cohorts_by_policy(self, count):
        """As site_cohort_of() of src/site/site.c."""
        facts, first, now = self.facts, self.facts["cohort.first"], self.number("site.cohorts")
        most = max(1, facts["cohort.sampled"] - first)
        if self.number("site.is_learned", size=1):
            size = facts["learned.place_bytes"]
            places = self.process.read(facts["learned.places"], size * count)
            return [first + unsigned(places, at + facts["learned.cohort"], 1) for at in range(0, size * count, size)]
        if self.number("site.is_auto", size=1):
            joined, given = (self.process.read(facts["site." + name], size) for name, size in (
                ("joined", most), ("given", count)))  # what is given is a cohort plus one; 0: none yet
            return [first + joined[number - 1] if 0 < number <= most else None if now > 1 else first
                    for number in given]
        spread = self.number("site.spread", size=4)
        return [first + ((index * spread & 0xFFFFFFFF) * min(now, most) >> 32) for index in range(count)]

    def live_by_site(self, seen, cohorts):
        """What the samples say is live, by the site that its cohort goes by: the innermost caller of a stack that was
        seen as a site, else the innermost one that can be. Large blocks are in none: stacks of such are left out."""
        found = {}
        for row, addresses in self.rows():
            live = self.stack(row, [])
            if live.live_bytes > max(self.class_bytes) * live.live_blocks:
                continue
            callers = [address for address in addresses if address > 1 and not address & PLACE_BIT and
                       cohorts[self.site_index(address)] is not None]
            if callers:
                site = next((address for address in callers if address in seen), callers[0])
                found[site] = found.get(site, 0) + live.live_bytes
        return found

    # The profiler.

    def write(self, address, data):
        """Into the program that was there at the first look, and only while our table is where it was."""
        if self.process.read(self.facts.place, len(self.facts.head)) != self.facts.head:
            raise Gone()
        self.process.write(address, data)

    def request(self, rate_bytes):
        """Asks for a start, or for the end when the rate is 0. Returns the request's number."""
        at, facts = self.facts["remote.request"], self.facts
        self.write(at + facts["remote.rate"], struct.pack("<Q", rate_bytes))
        self.write(at + facts["remote.lease_ms"], struct.pack("<Q", LEASE_MS))
        number = (self.number("remote.request", "remote.asked", 4) + 1) & 0xFFFFFFFF
        self.write(at + facts["remote.asked"], struct.pack("<I", number))
        return number

    def divert(self):
        """Sends the next request of each site to where it sees what we ask for."""
        facts = self.facts
        self.write(facts["site.table"],
                   facts["site.diverted"].to_bytes(facts["site.bytes"], "little") * facts["site.count"])

    def ask(self, rate_bytes, seconds):
        """As request, and waits for the answer: one of STARTED and its like, or None."""
        self.process.new_look()
        number = self.request(rate_bytes)
        end = time.monotonic() + seconds
        while True:
            self.divert()
            time.sleep(0.02)
            if self.number("remote.request", "remote.answered", 4) == number:
                return self.number("remote.request", "remote.result", 4)
            if time.monotonic() >= end:
                return None

    def is_profiled_by_itself(self):
        return (self.number("sample.state", size=4) == self.facts["sample.on"] and
                self.number("remote.request", "remote.until_ms") == 0)

    def mappings(self):
        """The files that code comes from, the program's own first, and their areas."""
        areas, found, build_ids = self.process.areas(), [], {}
        firsts = {area.path: area for area in reversed(areas) if area.offset == 0}
        for area in areas:
            if "x" not in area.rights or not area.path.startswith("/"):
                continue
            if area.path not in build_ids:
                first = firsts.get(area.path)
                build_ids[area.path] = self.process.build_id(first) if first is not None else ""
            found.append(Mapping(area.start, area.end, area.offset, area.path, build_ids[area.path]))
        found += self.unloaded(found)
        self.process.read(self.facts.place, 1)  # so they are of the program whose memory we read
        program = self.process.program_path()
        return sorted(found, key=lambda mapping: mapping.path != program)

    def unloaded(self, there):
        """The code that samples came from and that is no longer there."""
        facts, table = self.facts, self.number("modules.table") if "modules.table" in self.facts else 0
        count = min(self.number("modules.count", size=4), facts["modules.limit"]) if table else 0
        found = []
        for data in self.process.read_all([(table + facts["modules.bytes"] * index, facts["modules.bytes"])
                                           for index in range(count)]):
            end, start, offset = (unsigned(data, at, 8) for at in (0, facts["modules.start"], facts["modules.offset"]))
            path = data[facts["modules.path"]:].split(b"\0")[0].decode(errors="surrogateescape")
            if start < end and all(end <= other.start or other.end <= start for other in there + found):
                found.append(Mapping(start, end, offset, path, ""))
        return found

    def profile(self, seconds_on):
        """The profile so far; `seconds_on` is how long the profiler has been on since its last start."""
        self.process.new_look()
        mappings, locations = self.mappings(), {}
        by_start = sorted(mappings, key=lambda mapping: mapping.start)
        starts = [mapping.start for mapping in by_start]
        found = []
        rows = self.rows()
        self.learn_functions({address for _, addresses in rows for address in addresses if address & PLACE_BIT})
        for row, addresses in rows:
            for address in addresses:
                if address & PLACE_BIT:
                    locations[address] = self.place(address)
                elif address not in locations:
                    index = bisect.bisect_right(starts, address - 1) - 1
                    locations[address] = located(address - 1, by_start[index:index + 1] if index >= 0 else [])
            found.append(self.stack(row, [locations[address] for address in addresses if address > 1] or
                                    [Location(0, None, [(OTHER_STACKS, "", 0)])]))
        before_ms = self.number("sample.on_before_ms")
        comments = ["calmalloc %s; %d samples, %d lost, %d cut" % (
            self.library, self.number("sample.samples"), self.number("sample.lost"), self.number("stacks.cut")),
            "pid %d" % self.process.pid]
        return Profile(found, mappings, True, self.number("sample.rate"), self.number("sample.start_ns"),
                       before_ms * 1000000 + int(seconds_on * 1e9), comments)

    def function_index(self, word):
        """Of a place in a script, as src/site/places.h has it; 0: of those that found no room."""
        return (word >> self.facts["places.line_bits"]) % max(1, self.facts["places.count"])

    def learn_functions(self, words):
        """Reads the file and the name of each function of scripts that is not known yet. They stay what they are."""
        facts, tables_at = self.facts, self.number("places.tables") if words else 0
        wanted = sorted({self.function_index(word) for word in words} - self.functions.keys() - {0})
        if not wanted or tables_at == 0:
            return
        entries = self.process.read_all([(tables_at + facts["places.entry_bytes"] * index, facts["places.entry_bytes"])
                                         for index in wanted])
        texts = [unsigned(entry, facts["places.text_of"], 4) for entry in entries]
        found = [(index, at) for index, at in zip(wanted, texts) if 0 < at < facts["places.text_bytes"]]
        for (index, _), data in zip(found, self.process.read_all([
                (tables_at + facts["places.text"] + at, min(PLACE_BYTES_MAX, facts["places.text_bytes"] - at))
                for _, at in found])):
            file, name = (data.split(b"\0", 2) + [b"", b""])[:2]
            self.functions[index] = (name.decode(errors="replace"), file.decode(errors="replace"))

    def place(self, word):
        index, line = self.function_index(word), word & ((1 << self.facts["places.line_bits"]) - 1)
        name, file = self.functions.get(index, (OTHER_FUNCTIONS, ""))
        return Location(0, None, [(name, file, line)])

    def rows(self):
        """(the row's bytes, its callers) of each stack that has samples."""
        facts, tables = self.facts, self.number("stacks.tables")
        count = min(self.number("stacks.used", size=4), facts["stacks.limit"]) if tables else 0
        pending, found, size = range(count), [], facts["stacks.row_bytes"]
        for reads in range(ROW_READS_MAX):
            places = [(tables + facts["stacks.rows"] + size * index, size) for index in pending]
            before = self.process.read_all(places)
            depths = [min(unsigned(row, facts["stacks.depth"], 4), facts["stacks.depth_max"]) for row in before]
            callers = self.process.read_all([
                (tables + facts["stacks.callers"] + 8 * facts["stacks.depth_max"] * index, 8 * depth)
                for index, depth in zip(pending, depths)])
            after = self.process.read_all(places)
            again = []
            for index, old, row, addresses in zip(pending, before, after, callers):
                is_one = self.is_one_stack(old, row)
                if not (is_one and self.is_still(old, row)) and reads + 1 < ROW_READS_MAX:
                    again.append(index)
                elif is_one and unsigned(row, facts["stacks.weight"], 8):
                    found.append((row, struct.unpack("<%dQ" % (len(addresses) // 8), addresses)))
            pending = again
        return found

    def is_one_stack(self, old, row):
        """Whether a row had the same stack in two reads, and so all the time between (V1 to V3)."""
        was, now = (unsigned(data, self.facts["stacks.users"], 8) for data in (old, row))
        return was >> 32 == now >> 32 and was & CLAIMED != CLAIMED and now & CLAIMED != CLAIMED

    def is_still(self, old, row):
        """Whether no sum changed."""
        begun, done = (unsigned(row, self.facts["stacks." + name], 4) for name in ("begun", "done"))
        return begun == done == unsigned(old, self.facts["stacks.done"], 4)

    def stack(self, entry, locations):
        facts = self.facts
        weight, volume, weight_freed, volume_freed = (
            unsigned(entry, facts["stacks." + name], 8) for name in ("weight", "volume", "weight_freed",
                                                                     "volume_freed"))
        blocks, bytes_ = facts["stacks.weight_bits"], facts["stacks.volume_bits"]
        return Stack(locations, rounded(max(0, volume - volume_freed), bytes_),
                     rounded(max(0, weight - weight_freed), blocks), rounded(volume, bytes_), rounded(weight, blocks))


def rounded(value, bits):
    return (value >> bits) + (value >> (bits - 1) & 1)


def located(address, mappings):
    return Location(address, next((mapping for mapping in mappings if mapping.start <= address < mapping.end), None))
