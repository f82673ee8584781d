"""`calm explain`: why a process's memory is where it is, and what would lower it, in sentences on one screen.

It reads a process that runs, which is neither stopped nor changed, or a core file. heap_map.py reads the heap block by
block, memory_numbers.py adds up, heap_parts.py says by size and by site; explain_address.py answers for one address.
"""
import json
import os
import shutil
import sys
import textwrap

import memory_numbers
import say
from core_memory import Core, is_core
from heap_map import HeapMap
from heap_parts import Cohorts, Samples, parts_of, trimmed
from process_memory import Gone, Memory, Process
from trouble import Trouble
from watched import Watched

USAGE = 2
SCREEN_LINES, WIDTH_MAX = 24, 96
DETAILS = ((3, 2), (3, 1), (2, 2), (2, 1), (1, 1))  # parts, and sites of each: as many as the screen has room for
SHARE_MIN = 0.02  # of what the heap holds: smaller parts are not worth a sentence
SITE_SHARE_MIN = 0.05  # of a part's blocks
FREE_SHARE_MIN, ONE_SHARE_MAX = 0.25, 0.8  # of what the heap holds; of the free space, in blocks of one size
COVERED_MIN = 0.8  # of a part, by its samples: below, the profiler did not see who asked for the rest
WAITING_SHARE_MIN = 0.1  # of what the heap holds: less free memory is not worth a sentence
FILL_DENSE = 0.75  # of pages that live blocks fill: above, they are not what pins them


class Subject:
    """A process or a core file, read once."""

    def __init__(self, word):
        """`word`: of the command line, or a Memory."""
        self.memory = word if isinstance(word, Memory) else memory_of(word)
        try:
            self.watched = Watched(self.memory)
            if not self.watched.has_started():
                raise Trouble("%s has calmalloc, and has not asked for memory yet." % self.memory.who())
            self.heap = HeapMap(self.watched)
            self.numbers = memory_numbers.of_map(self.heap)
            self.parts = parts_of(self.heap) if self.heap.pages is not None else []
        except Gone:
            raise self.lost() from None

    def lost(self):
        """What to say when a read found nothing."""
        if self.memory.is_running:
            return Trouble("%s %s." % (self.memory.who(), self.memory.fate()))
        return self.memory.has_ended()

    def title(self):
        kind = "process" if self.memory.is_running else "core of process"
        return "%s %d, %s" % (kind, self.memory.pid, self.memory.program)


def memory_of(word):
    if word.isdecimal() and 0 < int(word) < 1 << 31 and not os.path.isfile(word):
        return Process(int(word))
    if is_core(word):
        return Core(word)
    if os.path.exists(word):
        raise Trouble("'%s' is not a core file; explain takes one, or the number of a process." % word, USAGE)
    if os.sep in word:
        raise Trouble("there is no file '%s'; explain takes a core file, or the number of a process." % word, USAGE)
    raise Trouble("explain takes the number of a process or a core file, not '%s'; `pgrep -f` finds a number." % word,
                  USAGE)


def start(subject_word, address, as_json, map_file):
    subject = Subject(subject_word)
    try:
        if address is not None:
            import explain_address
            return explain_address.show(subject, address, as_json)
        if map_file:
            import explain_map
            explain_map.write(subject, map_file)
            say.line("calm: the map is in %s" % map_file)
            return 0
        if as_json:
            print(json.dumps(facts_of(subject)))
        else:
            say.plain(page(subject), sys.stdout)
    except Gone:
        raise subject.lost() from None
    return 0


# The page.

def page(subject):
    numbers = subject.numbers
    rss, heap = numbers["rss"], numbers["heap"]
    head = subject.title() + (": RSS %s, of which %s is the heap" % (say.amount(rss), say.amount(heap)) if rss else
                              ": %s of heap" % say.amount(heap))
    begin, end = [head] + table(numbers) + ["Why"], ["What would lower it"] + remedies(subject)
    room = max(SCREEN_LINES, shutil.get_terminal_size((80, SCREEN_LINES)).lines) - len(begin) - len(end)
    sites = Sites(subject)
    for parts, sites.shown in DETAILS:
        lines = why(subject, sites, parts)
        if len(lines) <= room:
            break
    return begin + lines + end


def table(numbers):
    rows = [["", "resident", numbers["resident"], "the heap, which is:"],
            ["", "  requested", numbers["requested"], "by the profiler's estimate" if numbers["requested"] is not None
             else "not known; the option profile_kb=512 estimates it"],
            ["", "  block", numbers["block"], block_words(numbers)],
            ["", "  cached", numbers["cached"], "free blocks in caches, large ones kept for reuse"],
            ["", "  free in slabs", numbers["free_in_slabs"], "free parts of pages and pages of slabs"],
            ["", "  dirty", numbers["dirty"], "whole free units, not given back yet"],
            ["", "  metadata", numbers["metadata"], "the heap's books"],
            ["", "file maps", numbers["file_maps"], "programs, libraries, files"],
            ["", "stacks", numbers["stacks"], ""],
            ["", "other anonymous", numbers["other_anonymous"], "not the heap's"]]
    if numbers["swapped"]:
        rows.append(["", "swapped out", numbers["swapped"], "not in RSS"])
    width = max(len(row[1]) for row in rows)
    return [("  %-*s  %9s  %s" % (width, name, "-" if size is None else say.amount(size), words)).rstrip()
            for _, name, size, words in rows]


def block_words(numbers):
    words = "live blocks"
    if numbers["untouched"]:  # of a core, which has no pages of zeros
        words += ", %s of them %s" % (say.amount(numbers["untouched"]), "never written" if numbers["rss"] else "zeros")
    return words


def wrapped(text):
    width = min(WIDTH_MAX, shutil.get_terminal_size((80, 24)).columns)
    return textwrap.wrap(text, width - 2, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)


def why(subject, sites, parts_shown):
    if subject.heap.pages is None:
        return wrapped("The heap is above 32 GiB, and is not read." if not subject.heap.is_read else
                       "The kernel does not say which pages of the heap are in memory.")
    resident, lines = subject.numbers["resident"], []
    shown = [part for part in subject.parts if part.resident >= SHARE_MIN * resident][:parts_shown]
    sites.is_unknown = False
    lines += free_words(subject)
    for part in shown:
        if part.live_blocks or part.block_bytes:
            lines += wrapped(part_words(part, resident) + sites.words(part))
    others = sum(part.resident for part in subject.parts if part not in shown)
    if others >= SHARE_MIN * resident:
        lines += wrapped("%s hold blocks of other sizes." % say.amount(others))
    lines += [text for sentence in sites.sentences() for text in wrapped(sentence)]
    waiting = subject.numbers["dirty"] + kept_large(subject.parts)
    if waiting >= WAITING_SHARE_MIN * resident:
        lines += wrapped("%s are free, and wait for the next request or free; malloc_trim(0) gives them back now." %
                         say.amount(waiting))
    lines += other_words(subject)
    return lines


def free_words(subject):
    """How much of the heap is free space that live blocks keep, where that is much: no size alone shows it."""
    parts = [part for part in subject.parts if part.block_bytes]
    pinned, live = sum(part.pinned for part in parts), sum(part.live for part in parts)
    free, resident = max(0, pinned - live), subject.numbers["resident"]
    of_one = max((part.pinned - part.live for part in parts), default=0)
    if free < max(FREE_SHARE_MIN * resident, 1 << 20) or of_one > ONE_SHARE_MAX * free:
        return []
    return wrapped("Live blocks fill %d %% of the pages that they pin: %s of %s are free space between them." % (
        round(100 * live / pinned), say.amount(free), say.amount(resident)))


def kept_large(parts):
    return sum(part.cached for part in parts if part.block_bytes == 0)


def part_words(part, resident):
    """Why a part has its pages."""
    if part.block_bytes == 0:
        words = "%s are in memory of %s of %s" % (
            say.amount(part.live), say.count(part.live_blocks, "large block"), say.amount(part.live_size))
        if part.live_blocks > 1:
            words += " in all, the largest of %s" % say.amount(part.largest)
        return words + freed_words(part.live_blocks, part.live)
    if part.live_blocks == 0:
        return "%s are slabs for blocks of %s B, of which none is live." % (
            say.amount(part.resident), format(part.block_bytes, ","))
    blocks = say.count(part.live_blocks, "live block") + " of %s B" % format(part.block_bytes, ",")
    if part.fill() >= FILL_DENSE:
        return "%s are %s" % (say.amount(part.live), blocks) + freed_words(part.live_blocks, part.resident)
    return "%s of %s lie in pages pinned by %s, which %s %d %% of them. Were %s freed, %s would come back." % (
        say.amount(part.pinned), say.amount(resident), blocks, "fills" if part.live_blocks == 1 else "fill",
        round(100 * part.fill()), "it" if part.live_blocks == 1 else "these", say.amount(part.resident))


def freed_words(blocks, size):
    return "; freed, %s %s back %s." % ("it" if blocks == 1 else "they", "gives" if blocks == 1 else "give",
                                       say.amount(size))


class Sites:
    """Who asked for blocks: by the profiler's samples, else by cohort; or why that is not known."""

    def __init__(self, subject):
        self.subject = subject
        self.samples, self.cohorts = Samples(subject.heap), Cohorts(subject.heap)
        self.is_unknown, self.shown = False, 1
        self.sees_all = memory_numbers.is_profiled_from_the_start(subject.watched)

    def words(self, part):
        known, seen = self.samples.of_part(part), sum(self.samples.bytes_of(part).values())
        is_whole = self.sees_all or seen >= COVERED_MIN * part.live_size
        if not (known and is_whole) and self.cohorts.are_apart and part.block_bytes:
            known, is_whole = self.cohorts.of_part(part), True
        if not known:
            self.is_unknown = self.is_unknown or part.live_blocks > 0
            return ""
        first = [known[0]] + [pair for pair in known[1:self.shown] if pair[0] >= SITE_SHARE_MIN]
        from_where = " and ".join("%s (%d %%)" % (site, round(100 * share)) for share, site in first)
        if not is_whole:
            return (" Of these, %s were asked for while the profiler was on: from %s; who asked for the rest is not "
                    "known." % (say.amount(seen), from_where))
        if len(known) == 1:
            return " %s from %s." % ("It is" if part.live_blocks == 1 else "All of them are", known[0][1])
        return " %s from %s." % ("Most of them are" if first[0][0] > 0.5 else "They are", from_where)

    def sentences(self):
        found = []
        if self.samples.by_block:
            found.append("Sites are estimates, from %s." % say.count(len(self.samples.by_block), "sampled live block"))
        if self.is_unknown:
            found.append("Which calls asked for %s is not known%s" % (
                "the others" if self.samples.by_block or self.cohorts.are_apart else "them", self.why_unknown()))
        if not self.subject.memory.is_running:
            found.append("A core does not say which pages were in memory: those of zeros alone count as absent.")
        return found


    def why_unknown(self):
        if self.sees_all:
            return ": none was sampled; a smaller profile_kb samples more often."
        if not self.subject.memory.is_running:
            return (": neither was the profiler on nor were sites told apart; CALM_OPTIONS=profile_kb=512 from the "
                    "start has the next core tell.")
        return ("; `calm heap %d` sees only what is asked for from now on; to learn who asked for this, restart with "
                "CALM_OPTIONS=profile_kb=512." % self.subject.memory.pid)


def other_words(subject):
    """What lies outside of the heap, where it is much."""
    numbers, areas = subject.numbers, subject.heap.areas
    other = numbers["other_anonymous"]
    if other < max(numbers["heap"] or 0, 1 << 20) / 4:
        return []
    ours = memory_numbers.ours(subject.heap)
    largest = max((area for area in areas if not area.is_file() and area.start not in ours), key=lambda area: area.rss)
    return wrapped("%s of anonymous memory is not the heap's; its largest mapping, at 0x%x, has %s." % (
        say.amount(other), largest.start, say.amount(largest.rss)))


def remedies(subject):
    numbers, parts = subject.numbers, subject.parts
    if subject.heap.pages is None:
        return wrapped("Not known without the pages.")
    causes = [(numbers["dirty"], "dirty"), (kept_large(parts), "in freed large blocks kept for reuse"),
              (sum(part.resident - part.pinned for part in parts if part.block_bytes),
               "in pages of slabs without a live block")]
    causes = [(size, words) for size, words in causes if size]
    known = (": " + ", ".join("%s %s" % (say.amount(size), words) for size, words in causes) if len(causes) > 1 else
             ", %s" % causes[0][1] if causes else "")
    size = trimmed(subject.heap, parts, numbers)
    lines = wrapped("malloc_trim(0): by %s at most%s." % (say.amount(size), known) if size else
                    "malloc_trim(0) would give back nothing.")
    if any(part.live_blocks for part in parts):
        lines += wrapped("Freeing these blocks; some of it stays until malloc_trim(0).")
    return lines


# JSON.

def facts_of(subject):
    found = {"pid": subject.memory.pid, "program": subject.memory.program, "library": subject.watched.library,
             "is_core": not subject.memory.is_running, "page_bytes": subject.heap.page_bytes}
    found["memory"] = subject.numbers
    has_pages = subject.heap.pages is not None
    found["trim_bytes"] = trimmed(subject.heap, subject.parts, subject.numbers) if has_pages else None
    sites = Sites(subject)
    found["parts"] = [{
        "block_bytes": part.block_bytes or None, "slabs": part.slabs, "live_blocks": part.live_blocks,
        "cached_blocks": part.cached_blocks, "live_bytes": part.live, "cached_bytes": part.cached,
        "resident_bytes": part.resident, "pinned_bytes": part.pinned,
        "freed_bytes": part.resident if part.block_bytes else part.live,
        "live_size_bytes": part.live_size, "sampled_bytes": sum(sites.samples.bytes_of(part).values()),
        "sites": [{"share": round(share, 4), "site": site} for share, site in sites.samples.of_part(part)]}
        for part in subject.parts]
    return found
