"""`calm top`: what a running process holds, by cohort and by class, refreshed while it runs.

watched.py reads the process from outside; nothing of it is stopped, changed or called. Standard output has the answer:
a page that is drawn anew on a terminal, one page elsewhere, or one JSON object a refresh.
"""
import json
import os
import signal
import sys
import time
from dataclasses import dataclass, replace

import executors
import memory_numbers
import say
import top_page
from heap_map import HeapMap
from heap_profile import Profile, Stack
from heap_symbols import Frame, Symbols, is_wrapper
from process_memory import Gone, Process
from timeline_record import Recorder
from top_page import by_size
from top_screen import END, REDRAW, Screen
from trouble import Trouble
from watched import Watched, located

USAGE = 2
SITES_NAMED = 3  # of each cohort
NUMBERS_PAUSES = 10  # times what reading them took
LARGE_TOLD = 16  # of the sites of large blocks, in JSON
CORES_SHOWN = 16


def number_of(pid):
    if not pid.isdecimal() or not 0 < int(pid) < 1 << 31:
        raise Trouble("top takes the number of a process, not '%s'; `pgrep -f` finds it." % pid, USAGE)
    return int(pid)


def seconds_of(text):
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.1 <= seconds <= 3600:
        raise Trouble("--interval is a number of seconds from 0.1 to 3600, not '%s'." % text, USAGE)
    return seconds


class Names:
    """Names for the sites of one process, each asked for once. Without the package that reads symbols, sites are
    shown by module and offset."""

    def __init__(self, watched):
        try:
            import elftools.elf.elffile  # noqa: F401
            self.symbols = Symbols()
        except ImportError:
            self.symbols = None
        self.watched, self.known = watched, {}
        self.mappings = []

    def learn(self, addresses):
        fresh = [address for address in addresses if address not in self.known]
        if not fresh:
            return
        if not self.mappings or any(located(address - 1, self.mappings).mapping is None for address in fresh):
            self.mappings = self.watched.mappings()
        stacks = [Stack([located(address - 1, self.mappings)]) for address in fresh]
        if self.symbols is not None:
            frames = self.symbols.resolve(Profile(stacks, self.mappings, False, 0, 0, 0, []))
        else:
            frames = [[unnamed(stack.locations[0])] for stack in stacks]
        for address, stack, found in zip(fresh, stacks, frames):
            # Where all are the standard library's, the outermost one says what it was for.
            frame = next((frame for frame in found if not is_wrapper(frame)), found[-1])
            self.known[address] = (frame, stack.locations[0].mapping)

    def files(self):
        """What code is mapped from, as it was when a name was looked for."""
        self.mappings = self.mappings or self.watched.mappings()
        return self.mappings

    def of(self, address):
        return self.known[address]


def unnamed(location):
    mapping = location.mapping
    if mapping is None:
        return Frame("0x%x" % location.address, "", 0, "", False)
    module = os.path.basename(mapping.path)
    return Frame("%s+0x%x" % (module, location.address - mapping.start + mapping.offset), "", 0, module, False)


def as_json(watched, names, frame):
    """One look as a JSON object. Sizes are bytes."""
    found = {"pid": watched.process.pid, "program": watched.process.program, "library": watched.library,
             "time_s": round(time.time(), 3), "rss_bytes": frame.rss_bytes, "threads": frame.threads,
             "mapped_bytes": frame.mapped_bytes, "resident_bytes": frame.resident_bytes,
             "caches_by": "core" if frame.by_cores else "thread", "cohorts_in_use": frame.cohorts_now,
             "overflow_sites": frame.overflow_sites, "profile_on": frame.profiler_on, "profile_samples": frame.samples,
             "large": {"blocks": frame.large_blocks, "bytes": frame.large_bytes,
                       "cached_bytes": frame.large_cached_bytes}}
    names.learn([site.address for sites in frame.sites.values() for site in sites[:SITES_NAMED]] +
                [address for _, _, address in frame.large_sites[:LARGE_TOLD] if address > 1])
    found["large"]["sites"] = [dict(site_facts(names, address), bytes=size, blocks=blocks)
                               for size, blocks, address in frame.large_sites[:LARGE_TOLD] if address > 1]
    has_pages = frame.resident_bytes is not None
    found["cohorts"] = [dict(counts(holding, has_pages), cohort=holding.key,
                             is_sampled=holding.key == watched.facts["cohort.sampled"],
                             sites=[dict(site_facts(names, site.address), seen=site.votes,
                                         sampled_bytes=site.live_bytes if frame.profiler_on else None)
                                    for site in frame.sites.get(holding.key, [])[:SITES_NAMED]],
                             sites_seen=len(frame.sites.get(holding.key, [])))
                        for holding in by_size(frame.cohorts)]
    found["classes"] = [dict(counts(holding, has_pages), block_bytes=watched.class_bytes[holding.key])
                        for holding in by_size(frame.classes)]
    found["caches"] = [{"number": cache.number, "core": cache.core if cache.is_for_cores else None,
                        "is_owned": cache.is_owned, "blocks": cache.blocks, "bytes": cache.bytes}
                       for cache in frame.caches]
    found["memory"] = frame.numbers
    return found


def counts(holding, has_pages):
    return {"allocated_blocks": holding.blocks, "allocated_bytes": holding.bytes,
            "cached_blocks": holding.cached_blocks, "cached_bytes": holding.cached_bytes, "slabs": holding.slabs,
            "resident_bytes": holding.resident_bytes if has_pages else None}


def site_facts(names, address):
    frame, mapping = names.of(address)
    return {"address": address, "module": mapping.path if mapping else None,
            "offset": address - 1 - mapping.start + mapping.offset if mapping else None,
            "function": frame.name if frame.is_named else None, "place": frame.place() or None}


class Look:
    """All that is shown of a process at one moment."""

    def __init__(self, subject, is_recorded=False):
        self.time = time.monotonic()
        self.executors = subject.executors.look()
        self.heap = subject.heap.look() if subject.heap else None
        if self.heap:
            self.heap.numbers, self.heap.blocks = subject.numbers(is_recorded)
        self.cost = time.monotonic() - self.time


class Subject:
    """The process that is watched: its heap, or None where that is not ours, and its executors."""

    def __init__(self, pid):
        self.process = Process(pid)
        try:
            self.executors = executors.Executors(self.process)
        except Gone:
            raise self.process.has_ended() from None
        self.told, self.told_until = None, 0
        try:
            self.heap = Watched(pid)
            self.names = Names(self.heap)
        except Trouble:
            if not self.executors.tables:
                raise
            self.heap = None

    def numbers(self, is_recorded):
        """(the numbers, the blocks that are live): read block by block, so that of a large heap not at each look, but
        for looks that are compared with one another later."""
        begun = time.monotonic()
        if is_recorded or begun >= self.told_until:
            seen = HeapMap(self.heap)
            self.told = memory_numbers.of_map(seen), seen.live_count()
            now = time.monotonic()
            self.told_until = now + NUMBERS_PAUSES * (now - begun)
        return self.told

    def has_started(self):
        return self.heap is None or self.heap.has_started()

    def page(self, look, before, view):
        seconds = look.time - before.time if before else 0
        told = executors.lines(look.executors, before and before.executors, seconds, CORES_SHOWN)
        if self.heap:
            rows = view.rows - len(told) if view.rows is not None else None
            return top_page.page(self.heap, self.names, look.heap, before and before.heap, seconds,
                                 replace(view, rows=rows)) + told
        return ["process %d, %s: its heap is not calmalloc's; RSS %s" % (
            self.process.pid, self.process.program, say.amount(self.process.resident_bytes()))] + told

    def as_json(self, look):
        found = (as_json(self.heap, self.names, look.heap) if self.heap else
                 {"pid": self.process.pid, "program": self.process.program, "time_s": round(time.time(), 3),
                  "rss_bytes": self.process.resident_bytes()})
        return dict(found, executors=executors.as_json(look.executors))


def start(pid, once, as_lines_of_json, interval, record=None):
    pid, seconds = number_of(pid), seconds_of(interval)
    subject = Subject(pid)
    is_screen = sys.stdout.isatty() and not once and not as_lines_of_json
    is_one = once or not (is_screen or as_lines_of_json or record)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(0))
    try:
        with Recorder(record, subject) as recorder, Screen(is_screen) as screen:
            watch(subject, seconds, screen, Outputs(recorder, as_lines_of_json, is_screen or not record), is_one)
    except Gone:
        say.plain(["%s %s" % (subject.process.who(), subject.process.fate())],
                  sys.stderr if as_lines_of_json else sys.stdout)
    except KeyboardInterrupt:
        pass
    return 0


@dataclass
class Outputs:
    """Where a look goes."""
    recorder: Recorder
    as_lines_of_json: bool
    as_pages: bool


def watch(subject, seconds, screen, outputs, is_one):
    before = shown = None
    while True:
        if not subject.has_started():
            if is_one:
                raise Trouble("%s has calmalloc, and has not asked for memory yet." % subject.process.who())
            if screen.wait(seconds) == END:
                return
            continue
        look = Look(subject, outputs.recorder.is_on())
        outputs.recorder.keep(look)
        if outputs.as_lines_of_json:
            print(json.dumps(subject.as_json(look)), flush=True)
        shown = shown if screen.keys.is_frozen and shown else (look, before)
        if show(subject, look, shown, seconds, screen, outputs, is_one) == END:
            return
        before = look


def show(subject, look, shown, seconds, screen, outputs, is_one):
    """Draws what is shown, anew with each key, until the next refresh or the END. `shown`: a look, and that before."""
    while True:
        if outputs.as_pages and not outputs.as_lines_of_json:
            screen.draw(subject.page(*shown, screen.view()))
        if is_one:
            return END
        # A frozen page stays, whatever becomes of the process, unless looks are recorded meanwhile.
        is_held = screen.keys.is_frozen and not outputs.recorder.is_on()
        pause = max(look.cost if outputs.recorder.is_on() else 0.0, seconds - (time.monotonic() - look.time))
        done = screen.wait(None if is_held else pause)
        if done != REDRAW:
            return done
