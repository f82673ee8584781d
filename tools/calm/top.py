"""`calm top`: what a running process holds, by cohort and by class, refreshed while it runs.

watched.py reads the process from outside; nothing of it is stopped, changed or called. Standard output has the answer:
a page that is drawn anew on a terminal, one page elsewhere, or one JSON object a refresh.
"""
import json
import os
import select
import shutil
import signal
import sys
import time

import executors
import memory_numbers
import runtimes
import say
from heap_map import HeapMap
from heap_profile import Profile, Stack
from heap_symbols import Frame, Symbols, is_wrapper, short
from process_memory import Gone, Process
from trouble import Trouble
from watched import Watched, located

USAGE = 2
SITES_NAMED = 3  # of each cohort
NUMBERS_PAUSES = 10  # times what reading them took
LARGE_TOLD = 16  # of the sites of large blocks, in JSON
COHORTS_SHOWN, LARGE_SHOWN, CLASSES_SHOWN, CACHES_SHOWN, CORES_SHOWN = 12, 5, 8, 4, 16
CLEAR, HOME, REST = "\x1b[2J", "\x1b[H", "\x1b[J"
SCREEN, NO_SCREEN = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
BOLD, PLAIN = "\x1b[1m", "\x1b[0m"


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
            frame = next((frame for frame in found if not is_wrapper(frame)), found[0])
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


def named(names, address):
    """A site's function and place."""
    if address <= 1:
        return "-"
    frame, _ = names.of(address)
    place = os.path.basename(frame.file) + (":%d" % frame.line if frame.line else "") if frame.file else ""
    return short(frame.name) + (" " + place if place else "")


def site_words(names, sites, has_early):
    """The site that was seen most of a cohort's, and how many others there are."""
    early = "what came before sites were told apart"
    if not sites:
        return early if has_early else "-"
    words = named(names, sites[0][1])
    words += " +%d" % (len(sites) - 1) if len(sites) > 1 else ""
    return words + "; " + early if has_early else words


def is_early(holding, frame, first):
    """The first cohort had all sites while the heap was small."""
    return holding.key == first and frame.cohorts_now > 1


def change(now, before, seconds):
    """A rate for people, or nothing where there is none."""
    if before is None or now == before or seconds <= 0:
        return ""
    return ("+" if now > before else "-") + say.amount(abs(now - before) / seconds) + "/s"


def by_size(holdings):
    return sorted(holdings.values(), key=lambda holding: (-holding.live_bytes(), holding.key))


def amount_or_dash(size):
    return "-" if size is None else say.amount(size)


def page(watched, names, frame, before, seconds, rows_max):
    """The lines of one page; None stands for a headline."""
    process, facts = watched.process, watched.facts
    numbers = frame.numbers
    old = before.cohorts if before else {}
    lines = [
        "calmalloc %s: process %d, %s" % (watched.library, process.pid, process.program),
        "  RSS %s %s   heap %s resident of %s   %s   caches by %s%s" % (
            say.amount(frame.rss_bytes), change(frame.rss_bytes, before and before.rss_bytes, seconds),
            amount_or_dash(numbers["heap"]), say.amount(frame.mapped_bytes),
            say.count(frame.threads, "thread"), "core" if frame.by_cores else "thread",
            "   profiler on" if frame.profiler_on else ""),
        "  file maps %s   stacks %s   other anonymous %s" % tuple(
            amount_or_dash(numbers[name]) for name in ("file_maps", "stacks", "other_anonymous")),
        "  block %s in %s, %s of it large   cached %s" % (
            amount_or_dash(numbers["block"]), say.count(frame.blocks, "block"),
            say.amount(frame.large_bytes - frame.large_cached_bytes), amount_or_dash(numbers["cached"])),
        "  free in slabs %s   dirty %s   metadata %s" % tuple(
            amount_or_dash(numbers[name]) for name in ("free_in_slabs", "dirty", "metadata"))]
    rest = runtimes.rest([mapping.path for mapping in names.files()], frame.rss_bytes, frame.resident_bytes)
    lines += ["  %s: %s" % row for row in rest]
    if frame.overflow_sites:
        lines.append("  " + say.overflow(frame.overflow_sites))
    lines.append("")
    cohorts = by_size(frame.cohorts)
    shown = cohorts[:min(COHORTS_SHOWN, max(3, rows_max - len(lines) - LARGE_SHOWN - CLASSES_SHOWN - CACHES_SHOWN - 8))]
    names.learn([sites[0][1] for sites in (frame.sites.get(holding.key) for holding in shown) if sites])
    lines += say.aligned([["live", "blocks", "cached", "resident", "change", "cohort", "site seen most"]] + [
        [say.amount(holding.live_bytes()), format(holding.live_blocks(), ","), say.amount(holding.cached_bytes),
         say.amount(holding.resident_bytes) if frame.resident_bytes is not None else "-",
         change(holding.live_bytes(), old[holding.key].live_bytes() if holding.key in old else None, seconds),
         str(holding.key), "(blocks the profiler sampled)" if holding.key == facts["cohort.sampled"] else
         site_words(names, frame.sites.get(holding.key), is_early(holding, frame, facts["cohort.first"]))]
        for holding in shown])
    rest = cohorts[len(shown):]
    if rest:
        lines.append("  and %s with %s" % (say.count(len(rest), "more cohort"),
                                           say.amount(sum(holding.live_bytes() for holding in rest))))
    lines += large_lines(names, frame)
    classes = [holding for holding in by_size(frame.classes) if holding.slabs][:CLASSES_SHOWN]
    lines += [""] + say.aligned([["live", "blocks", "cached", "resident", "slabs", "block bytes"]] + [
        [say.amount(holding.live_bytes()), format(holding.live_blocks(), ","), say.amount(holding.cached_bytes),
         say.amount(holding.resident_bytes) if frame.resident_bytes is not None else "-",
         format(holding.slabs, ","), format(watched.class_bytes[holding.key], ",")] for holding in classes], left=0)
    caches = sorted((cache for cache in frame.caches if cache.blocks), key=lambda cache: -cache.bytes)
    lines += [""] + say.aligned([["holds", "blocks", "cache"]] + [
        [say.amount(cache.bytes), format(cache.blocks, ","), cache_words(cache)] for cache in caches[:CACHES_SHOWN]])
    if len(caches) > CACHES_SHOWN:
        lines.append("  and %s with %s" % (say.count(len(caches) - CACHES_SHOWN, "more cache"),
                                           say.amount(sum(cache.bytes for cache in caches[CACHES_SHOWN:]))))
    return lines


def large_lines(names, frame):
    """Who asked for the large blocks."""
    shown, rest = frame.large_sites[:LARGE_SHOWN], frame.large_sites[LARGE_SHOWN:]
    if not shown:
        return []
    names.learn([address for _, _, address in shown if address > 1])
    lines = [""] + say.aligned([["large", "blocks", "site"]] + [
        [say.amount(size), format(blocks, ","), named(names, address)] for size, blocks, address in shown])
    if rest:
        lines.append("  and %s with %s" % (say.count(len(rest), "more site"), say.amount(sum(row[0] for row in rest))))
    return lines


def cache_words(cache):
    owner = "of core %d" % cache.core if cache.is_for_cores else "of a thread"
    return "%d, %s" % (cache.number, owner if cache.is_owned or cache.is_for_cores else "of no thread now")


def as_json(watched, names, frame):
    """One look as a JSON object. Sizes are bytes."""
    found = {"pid": watched.process.pid, "program": watched.process.program, "library": watched.library,
             "time_s": round(time.time(), 3), "rss_bytes": frame.rss_bytes, "threads": frame.threads,
             "mapped_bytes": frame.mapped_bytes, "resident_bytes": frame.resident_bytes,
             "caches_by": "core" if frame.by_cores else "thread", "cohorts_in_use": frame.cohorts_now,
             "overflow_sites": frame.overflow_sites, "profile_on": frame.profiler_on, "profile_samples": frame.samples,
             "large": {"blocks": frame.large_blocks, "bytes": frame.large_bytes,
                       "cached_bytes": frame.large_cached_bytes}}
    names.learn([address for sites in frame.sites.values() for _, address in sites[:SITES_NAMED]] +
                [address for _, _, address in frame.large_sites[:LARGE_TOLD] if address > 1])
    found["large"]["sites"] = [dict(site_facts(names, address), bytes=size, blocks=blocks)
                               for size, blocks, address in frame.large_sites[:LARGE_TOLD] if address > 1]
    has_pages = frame.resident_bytes is not None
    found["cohorts"] = [dict(counts(holding, has_pages), cohort=holding.key,
                             is_sampled=holding.key == watched.facts["cohort.sampled"],
                             sites=[dict(site_facts(names, address), seen=votes) for votes, address in
                                    frame.sites.get(holding.key, [])[:SITES_NAMED]],
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

    def __init__(self, subject):
        self.time = time.monotonic()
        self.executors = subject.executors.look()
        self.heap = subject.heap.look() if subject.heap else None
        if self.heap:
            self.heap.numbers, self.heap.blocks = subject.numbers()


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

    def numbers(self):
        """(the numbers, the blocks that are live): read block by block, so that of a large heap not at each look."""
        begun = time.monotonic()
        if begun >= self.told_until:
            seen = HeapMap(self.heap)
            self.told = memory_numbers.of_map(seen), seen.live_count()
            now = time.monotonic()
            self.told_until = now + NUMBERS_PAUSES * (now - begun)
        return self.told

    def has_started(self):
        return self.heap is None or self.heap.has_started()

    def page(self, look, before, rows_max):
        seconds = look.time - before.time if before else 0
        told = executors.lines(look.executors, before and before.executors, seconds, CORES_SHOWN)
        if self.heap:
            return page(self.heap, self.names, look.heap, before and before.heap, seconds, rows_max - len(told)) + told
        return ["process %d, %s: its heap is not calmalloc's; RSS %s" % (
            self.process.pid, self.process.program, say.amount(self.process.resident_bytes()))] + told

    def as_json(self, look):
        found = (as_json(self.heap, self.names, look.heap) if self.heap else
                 {"pid": self.process.pid, "program": self.process.program, "time_s": round(time.time(), 3),
                  "rss_bytes": self.process.resident_bytes()})
        return dict(found, executors=executors.as_json(look.executors))


def start(pid, once, as_lines_of_json, interval):
    pid, seconds = number_of(pid), seconds_of(interval)
    subject = Subject(pid)
    is_screen = sys.stdout.isatty() and not once and not as_lines_of_json
    is_one = once or not (is_screen or as_lines_of_json)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(0))
    try:
        with Screen(is_screen) as screen:
            watch(subject, seconds, screen, as_lines_of_json, is_one)
    except Gone:
        say.plain(["%s %s" % (subject.process.who(), subject.process.fate())],
                  sys.stderr if as_lines_of_json else sys.stdout)
    except KeyboardInterrupt:
        pass
    return 0


def watch(subject, seconds, screen, as_lines_of_json, is_one):
    before = None
    while True:
        if not subject.has_started():
            if is_one:
                raise Trouble("%s has calmalloc, and has not asked for memory yet." % subject.process.who())
            screen.wait(seconds)
            continue
        look = Look(subject)
        if as_lines_of_json:
            print(json.dumps(subject.as_json(look)), flush=True)
        else:
            screen.draw(subject.page(look, before, screen.rows))
        if is_one or not screen.wait(max(0.0, seconds - (time.monotonic() - look.time))):
            return
        before = look


class Screen:
    """The terminal's other page, and its keys while it is shown; or plain lines."""

    def __init__(self, is_on):
        self.is_on, self.settings, self.rows = is_on, None, 1000

    def __enter__(self):
        if self.is_on:
            sys.stdout.write(SCREEN + CLEAR)
            if sys.stdin.isatty():
                import termios
                self.settings = termios.tcgetattr(sys.stdin)
                quiet = termios.tcgetattr(sys.stdin)
                quiet[3] &= ~(termios.ICANON | termios.ECHO)
                termios.tcsetattr(sys.stdin, termios.TCSADRAIN, quiet)
        return self

    def __exit__(self, *_):
        if self.settings is not None:
            import termios
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self.settings)
        if self.is_on:
            sys.stdout.write(NO_SCREEN)
            sys.stdout.flush()

    def draw(self, lines):
        if not self.is_on:
            say.plain(lines, sys.stdout)
            return
        columns, self.rows = shutil.get_terminal_size()
        lines = lines + ["", "  q ends"]
        shown = [say.clean(line)[:columns] for line in lines[:self.rows]]
        shown[0] = shown[0] if os.environ.get("NO_COLOR") else BOLD + shown[0] + PLAIN
        sys.stdout.write(HOME + "".join("%s\x1b[K%s" % (line, "\r\n" if index + 1 < len(shown) else "")
                                        for index, line in enumerate(shown)) + REST)
        sys.stdout.flush()

    def wait(self, seconds):
        """Waits for the next refresh. False: the user wants to end."""
        if self.settings is None:
            time.sleep(seconds)
            return True
        end = time.monotonic() + seconds
        while True:
            ready, _, _ = select.select([sys.stdin], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                return True
            if os.read(sys.stdin.fileno(), 1) in (b"q", b"Q", b"\x03", b"\x04", b""):
                return False
