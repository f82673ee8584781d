"""The numbers that every screen, JSON and page has of a process's memory, under the same words.

    requested       what the program asked for, as far as the profiler knows
    block           blocks that are live, in their sizes
    untouched       what of these has no memory yet: the program never wrote there
    cached          free blocks in caches and batches, and large ones kept for reuse
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

from facts import unsigned
from heap_map import HeapMap
from watched import Watched

HEAP = ("requested", "block", "untouched", "cached", "free_in_slabs", "dirty", "metadata", "resident")
PROCESS = ("rss", "heap", "file_maps", "stacks", "other_anonymous", "swapped")
KEYS = HEAP + PROCESS
ENVIRONMENT_BYTES_MAX, GUARD_BYTES_MAX = 1 << 22, 1 << 20


def read(process):
    """All of them, by name, of a Watched, of a process's number, or of a Memory such as a core file."""
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
    if not heap.is_read:
        return {}
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
    process, areas = heap.process, heap.areas
    books, stacks = books_of(heap), {area.start for area in stacks_of(process, areas)}
    end = heap.base + heap.mapped_bytes
    found = dict.fromkeys(("rss", "heap", "file_maps", "stacks", "other_anonymous", "swapped", "metadata"), 0)
    for area in areas:
        found["rss"] += area.rss
        found["swapped"] += area.swap
        is_book = area.start in books
        if is_book or heap.base <= area.start < end:
            found["heap"] += area.rss
            found["metadata"] += area.rss if is_book else 0
        elif area.start in stacks:
            found["stacks"] += area.rss
        else:
            found["file_maps" if area.is_file() else "other_anonymous"] += area.rss
    if not process.is_running:  # a core has neither files nor what was swapped out
        found.update(rss=None, file_maps=None, swapped=None)
    return found


def books_of(heap):
    """Where the areas begin that have the heap's books."""
    starts = [area.start for area in heap.areas]
    return {starts[bisect_right(starts, address) - 1] for address in heap.anchors() if address >= starts[0]}


def ours(heap):
    """Where the areas begin that are the heap's, or stacks."""
    end = heap.base + heap.mapped_bytes
    return (books_of(heap) | {area.start for area in stacks_of(heap.process, heap.areas)} |
            {area.start for area in heap.areas if heap.base <= area.start < end})


def stacks_of(process, areas):
    """The areas that are stacks: named so by the kernel, or a thread's stack pointer is in them, or right above a guard
    without access, as the C library makes them. Those of ended threads that it keeps are among them."""
    pointers = process.stack_pointers()
    found, below = [], None
    for area in areas:
        is_guarded = (below is not None and below.end == area.start and below.rights.startswith("---") and
                      below.is_private() and below.end - below.start <= GUARD_BYTES_MAX)
        is_ours = area.rights.startswith("rw") and area.is_private()
        if area.path.startswith("[stack") or is_ours and (
                is_guarded or any(area.start <= pointer < area.end for pointer in pointers)):
            found.append(area)
        below = area
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
    """Whether the profiler was switched on by the environment, never off since, and had room for all samples."""
    if (watched.number("sample.state", size=4) != watched.facts["sample.on"] or
            any(watched.number(name) for name in ("sample.on_before_ms", "sample.lost")) or
            watched.number("remote.request", "remote.until_ms")):
        return False
    try:
        with watched.process.file("environ", "rb") as file:
            words = file.read(ENVIRONMENT_BYTES_MAX).split(b"\0")
    except OSError:
        return False
    return any(word.startswith(b"CALM_OPTIONS=") and b"profile_kb=" in word for word in words)
