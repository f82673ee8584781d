"""`calm explain PID ADDRESS`: what is at an address of a process or of a core."""
import json
import sys

import memory_numbers
import say
from heap_map import CACHED
from heap_parts import Cohorts, Samples
from trouble import Trouble

USAGE = 2
ADDRESS_BITS = 64


def show(subject, word, as_json):
    address = number_of(word)
    found = look_up(subject, address)
    if as_json:
        print(json.dumps(found))
    else:
        say.plain(sentences(subject, found), sys.stdout)
    return 0


def number_of(word):
    try:
        address = int(word, 0)
    except ValueError:
        address = -1
    if not 0 <= address < 1 << ADDRESS_BITS:
        raise Trouble("an address is a number such as 0x7f12a0, not '%s'." % word, USAGE)
    return address


def look_up(subject, address):
    """All that is known of an address, as a dictionary; `kind` says what it is."""
    heap = subject.heap
    offset = address - heap.base
    found = {"address": address}
    if heap.chunk_bytes <= offset < heap.mapped_bytes:
        found.update(in_heap(subject, offset))
        found["is_resident"] = bool(heap.pages[offset // heap.page_bytes]) if heap.pages is not None else None
        return found
    area = next((area for area in heap.areas if area.start <= address < area.end), None)
    if area is None:
        return dict(found, kind="nothing")
    found.update(area=[area.start, area.end], rights=area.rights, path=area.path or None, resident_bytes=area.rss)
    if area.start in memory_numbers.books_of(heap):
        return dict(found, kind="metadata")
    if area.start in {stack.start for stack in memory_numbers.stacks_of(heap.process, heap.areas)}:
        return dict(found, kind="stack")
    if area.is_file():
        return dict(found, kind="file", offset=area.offset + address - area.start)
    return dict(found, kind="other")


def in_heap(subject, offset):
    heap = subject.heap
    unit = offset // heap.unit_bytes
    slab, large = heap.slab_at(unit), heap.large_at(unit)
    if slab is not None:
        return in_slab(subject, slab, offset - slab.unit * heap.unit_bytes)
    if large is not None:
        start = heap.base + large.unit * heap.unit_bytes
        return {"kind": "large", "state": CACHED if large.is_cached else "live", "block": start,
                "block_bytes": large.units * heap.unit_bytes, "asked_bytes": large.asked or None,
                "inside": heap.base + offset - start, "where": "kept for reuse" if large.is_cached else None,
                "block_resident_bytes": heap.resident(large.unit, large.units) if heap.pages is not None else None,
                "site": Samples(heap).site_of_block(start) if not large.is_cached else None}
    was_large, was_slab = heap.before(unit)
    return {"kind": "free", "was_block_bytes": was_large or was_slab or None,
            "was_slab": not was_large and was_slab > 0}


def in_slab(subject, slab, inside_slab):
    heap = subject.heap
    start = heap.base + slab.unit * heap.unit_bytes
    number = inside_slab // slab.block_bytes
    found = {"kind": "block", "slab": start, "block_bytes": slab.block_bytes, "capacity": slab.capacity,
             "live_blocks": slab.live_blocks(), "cached_blocks": bin(slab.cached).count("1"),
             "cohort": heap.watched.cohort_of(slab.bin)}
    if number >= slab.capacity:
        return dict(found, kind="tail")
    block = start + number * slab.block_bytes
    state = slab.state(number)
    found.update(block=block, number=number, inside=inside_slab - number * slab.block_bytes, state=state,
                 where=heap.where(block) if state == CACHED else None, site=None, cohort_site=None)
    found["before"] = slab.state(number - 1) if number > 0 else None
    found["after"] = slab.state(number + 1) if number + 1 < slab.capacity else None
    if state == "live":
        found["site"] = Samples(heap).site_of_block(block)
    cohorts = Cohorts(heap)
    if cohorts.are_apart and found["site"] is None:
        found["cohort_site"] = cohorts.of(found["cohort"])
    return found


# Sentences.

def sentences(subject, found):
    lines = ["%s: 0x%x" % (subject.title(), found["address"])]
    lines += ["  " + text for text in WORDS[found["kind"]](found)]
    if found.get("is_resident") is False:
        lines.append("  Its page is not in memory." if subject.memory.is_running else
                     "  Its page holds zeros, or was not in memory.")
    return lines


def inside(found):
    return "at its start" if found["inside"] == 0 else "%s into it" % say.count(found["inside"], "byte")


def block_words(found):
    where = " " + found["where"] if found["where"] else ""
    yield "A %s block of %s B%s: 0x%x, %s." % (found["state"], format(found["block_bytes"], ","), where,
                                              found["block"], inside(found))
    if found["site"]:
        yield "Asked for by %s (the profiler sampled it)." % found["site"]
    elif found["cohort_site"]:
        yield "Its cohort, %d: %s (a hint)." % (found["cohort"], found["cohort_site"])
    elif found["state"] == "live":
        yield "Who asked for it is not known: it was not sampled."
    yield "It is number %d of %d of the slab at 0x%x, with %s live and %d cached." % (
        found["number"], found["capacity"], found["slab"], format(found["live_blocks"], ","), found["cached_blocks"])
    near = [(found["before"], "before", -1), (found["after"], "behind", 1)]
    yield "Neighbours: " + "; ".join(
        "0x%x %s it is %s" % (found["block"] + step * found["block_bytes"], word, state)
        for state, word, step in near if state) + "."


def large_words(found):
    yield "A %s large block of %s%s: 0x%x, %s." % (
        found["state"], say.amount(found["block_bytes"]), " " + found["where"] if found["where"] else "",
        found["block"], inside(found))
    if found["asked_bytes"] and found["asked_bytes"] != found["block_bytes"]:
        yield "Of it %s can be used." % say.amount(found["asked_bytes"])
    if found["block_resident_bytes"] is not None:
        yield "%s of it is in memory." % say.amount(found["block_resident_bytes"])
    if found["site"]:
        yield "Asked for by %s (the profiler sampled it)." % found["site"]
    elif found["state"] == "live":
        yield "Who asked for it is not known: it was not sampled."


def free_words(found):
    yield "Free memory of the heap, in no slab and no large block."
    if found["was_block_bytes"]:
        yield "%s of %s B was here before." % ("A slab for blocks" if found["was_slab"] else "A large block",
                                              format(found["was_block_bytes"], ","))


def tail_words(found):
    yield "Behind the last block of the slab at 0x%x, whose blocks have %s B: nobody's." % (
        found["slab"], format(found["block_bytes"], ","))


def area_words(kind):
    def words(found):
        start, end = found["area"]
        yield "%s: 0x%x to 0x%x, %s%s." % (kind, start, end, found["rights"],
                                          ", %s in memory" % say.amount(found["resident_bytes"]))
        if found["path"]:
            yield "%s%s" % (found["path"], ", byte %s" % format(found["offset"], ",") if "offset" in found else "")
    return words


WORDS = {
    "block": block_words, "tail": tail_words, "large": large_words, "free": free_words,
    "metadata": area_words("The heap's own books"), "stack": area_words("A stack"),
    "file": area_words("Of a mapped file"), "other": area_words("Memory that is not the heap's"),
    "nothing": lambda found: ["Nothing is mapped there."],
}
