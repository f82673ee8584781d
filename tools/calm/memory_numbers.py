"""The numbers that every screen, JSON and page has of a process's memory, under the same words.

    requested       what the program asked for, as far as the profiler knows
    block           blocks that are live, in their sizes
    untouched       what of these has no memory yet: the program never wrote there
    cached          free blocks that wait in caches, in batches and on shelves
    free_in_slabs   free parts of slabs that are in memory
    dirty           whole free units that are in memory, and not given back yet
    metadata        the books of the heap
    resident        block - untouched + cached + free_in_slabs + dirty + metadata
    rss             of the process: heap + file_maps + stacks + other_anonymous
    heap            what the kernel says that resident is

All are bytes, and but for requested and block only what is in memory. None: not known. (The name of this file is not
`numbers`, which is a module of Python's own.)
"""
from bisect import bisect_right

import kernel_view
from facts import unsigned
from heap_map import HeapMap
from watched import Watched

HEAP = ("requested", "block", "untouched", "cached", "free_in_slabs", "dirty", "metadata", "resident")
PROCESS = ("rss", "heap", "file_maps", "stacks", "other_anonymous", "swapped")
KEYS = HEAP + PROCESS
ENVIRONMENT_BYTES_MAX = 1 << 22


def read(process):
    """All of them, by name, of a Watched or of a process's number."""
    watched = process if isinstance(process, Watched) else Watched(process)
    return of_map(HeapMap(watched))


def of_map(heap):
    kernel = of_kernel(heap)
    found = dict.fromkeys(KEYS)
    found.update(of_blocks(heap))
    found.update(kernel)
    found["requested"] = requested(heap.watched)
    parts = [found[name] for name in ("block", "cached", "free_in_slabs", "dirty", "metadata")]
    if None not in parts:
        found["resident"] = sum(parts) - found["untouched"]
    return found


def of_blocks(heap):
    """What the heap's own words say, with the pages that are in memory."""
    block = sum(ones_bytes(slab) for slab in heap.slabs.values())
    block += sum(large.units for large in heap.large.values() if not large.is_cached) * heap.unit_bytes
    found = {"block": block}
    if heap.pages is None:
        return found
    live = cached = free = 0
    for slab in heap.slabs.values():
        shares = heap.shares(slab)
        live, cached, free = live + shares[0], cached + shares[1], free + shares[2]
    for large in heap.large.values():
        size = heap.resident(large.unit, large.units)
        live, cached = (live, cached + size) if large.is_cached else (live + size, cached)
    everything = heap.pages.count(1) * heap.page_bytes
    found.update(untouched=block - live, cached=cached, free_in_slabs=free, dirty=everything - live - cached - free)
    return found


def ones_bytes(slab):
    return slab.live_blocks() * slab.block_bytes


def of_kernel(heap):
    """How the kernel's RSS is divided."""
    process = heap.process
    areas = kernel_view.mappings(process)
    starts = [area.start for area in areas]
    books = {bisect_right(starts, address) - 1 for address in heap.anchors()}
    end = heap.base + heap.mapped_bytes
    stacks = {area.start for area in kernel_view.stacks(process, areas)}
    found = dict.fromkeys(("rss", "heap", "file_maps", "stacks", "other_anonymous", "swapped", "metadata"), 0)
    for index, area in enumerate(areas):
        found["rss"] += area.rss
        found["swapped"] += area.swap
        is_book = index in books
        if is_book or heap.base <= area.start < end:
            found["heap"] += area.rss
            found["metadata"] += area.rss if is_book else 0
        elif area.start in stacks:
            found["stacks"] += area.rss
        else:
            found["file_maps" if area.is_file() else "other_anonymous"] += area.rss
    return found


def requested(watched):
    """Bytes that the program asked for and has: the profiler's estimate, if it saw all requests; else None, since
    blocks do not say so."""
    if not is_profiled_from_the_start(watched):
        return None
    facts, found = watched.facts, 0
    for row, _ in watched.rows():
        found += max(0, unsigned(row, facts["stacks.volume"], 8) - unsigned(row, facts["stacks.volume_freed"], 8))
    return found >> facts["stacks.volume_bits"]


def is_profiled_from_the_start(watched):
    """Whether the profiler was switched on by the environment, and never off since."""
    if (watched.number("sample.state", size=4) != watched.facts["sample.on"] or
            watched.number("sample.on_before_ms") or watched.number("remote.request", "remote.until_ms")):
        return False
    try:
        with watched.process.file("environ", "rb") as file:
            words = file.read(ENVIRONMENT_BYTES_MAX).split(b"\0")
    except OSError:
        return False
    return any(word.startswith(b"CALM_OPTIONS=") and b"profile_kb=" in word for word in words)
