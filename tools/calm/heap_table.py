"""Heaps as text: by site, by stack, as a difference, and as one line a stack."""
import math
import os
from dataclasses import dataclass, field

import say
from heap_profile import OTHER_STACKS, PART_COMMENT, PID_COMMENT, SAMPLES_COMMENT
from heap_symbols import Frame, is_wrapper, short, site_of
from runtimes import PYTHON as INTERPRETER

ORDERS = {"inuse": ("live_bytes", "live_blocks"), "alloc": ("all_bytes", "all_blocks")}
COUNTS = ("live_bytes", "live_blocks", "all_bytes", "all_blocks")
LARGER, SMALLER = "a larger --rate takes fewer samples.", "a smaller --rate samples more often."
ROWS_SHOWN, ROWS_MIN = 20, 3  # sites of a table, where nobody said how many
ROWS_BELOW = 9  # what follows the table: how many others there are, extensions, advice, and the prompt
NAME_MIN = 14  # columns that a function and a place have at least
EXTENSIONS_SHOWN = 3
UNSEEN_MIN, UNSEEN_MIN_BYTES = 0.1, 1 << 20  # of what is live: less may be the samples' error
THINNED_MIN = 1.25  # so many times fewer samples than the rate lets expect are worth a word
ERROR_MIN = 0.005  # of the whole: a smaller standard error is not worth a word
ROUGH_MIN = 0.25  # an estimate whose standard error is a larger share of it is marked


@dataclass
class Site:
    frame: Frame
    live_bytes: int = 0
    live_blocks: int = 0
    all_bytes: int = 0
    all_blocks: int = 0
    variances: dict = field(default_factory=lambda: {"live_bytes": 0.0, "all_bytes": 0.0})
    # Of a script's line: the functions of extensions, in other languages, that it called, with what they hold.
    extensions: dict = field(default_factory=lambda: {"live_bytes": {}, "all_bytes": {}})

    def add(self, stack):
        for name in COUNTS:
            setattr(self, name, getattr(self, name) + getattr(stack, name))

    def text(self, by_bytes):
        """Bytes, marked where they are rough."""
        size = getattr(self, by_bytes)
        return ("~" if math.sqrt(self.variances[by_bytes]) > ROUGH_MIN * size else "") + say.amount(size)


def variance(stack, by_bytes, by_blocks, period):
    """Of an estimate: each block of S bytes was sampled with the probability 1 - exp(-S / period)."""
    size, blocks = getattr(stack, by_bytes), getattr(stack, by_blocks)
    if not (period and size > 0 and blocks > 0):
        return 0.0
    sampled_share = -math.expm1(-size / blocks / period)
    return size * size / blocks * (1 / sampled_share - 1) if sampled_share > 0 else 0.0


def sites(profile, frames):
    """The sites of a profile by (function, place), with what their stacks add up to."""
    found, period = {}, interval(profile)
    for stack, names in zip(profile.stacks, frames):
        frame = site_of(names)
        site = found.setdefault((frame.name, frame.place()), Site(frame))
        site.add(stack)
        for by_bytes, by_blocks in ORDERS.values():
            site.variances[by_bytes] += variance(stack, by_bytes, by_blocks, period)
        extension = extension_of(names) if frame.is_of_script else None
        if extension is not None:
            for name, sizes in site.extensions.items():
                sizes[extension] = sizes.get(extension, 0) + getattr(stack, name)
    return found


def extension_of(names):
    """The innermost function, of those that a script's line called, that is an extension's: neither the allocator's
    nor the interpreter's, and compiled with lines."""
    for frame in names:
        if frame.is_of_script:
            return None
        if frame.file and not is_wrapper(frame) and not INTERPRETER.match(frame.module):
            return frame
    return None


def place_of(frame):
    """file:line, short for files below the current folder."""
    here = os.getcwd() + os.sep
    place = frame.place() or (frame.module if frame.is_named else "")
    return place[len(here):] if place.startswith(here) else place


def whole(value):
    """A number that PROGRAM's report has, or 0."""
    return value if isinstance(value, int) else 0


def counted_bytes(heap):
    """Bytes of live blocks in PROGRAM's report, which may hold anything."""
    return max(0, whole(heap.get("allocated_bytes")) - whole(heap.get("cached_bytes")))


def told(profile):
    """(samples, lost ones, ones without their own stack) as the library counted them."""
    found = [SAMPLES_COMMENT.search(comment) for comment in profile.comments]
    return tuple(sum(int(match.group(index) or 0) for match in found if match) for index in (1, 2, 3))


def thinned(profile):
    """How many times fewer samples there are than the profile's rate lets expect, or 1 where nothing says so."""
    samples, _, _ = told(profile)
    if not (samples and profile.period and profile.has_all):
        return 1
    expected = sum(stack.all_blocks * -math.expm1(-stack.all_bytes / stack.all_blocks / profile.period)
                   for stack in profile.stacks if stack.all_blocks > 0)
    return max(1, expected / samples)


def interval(profile):
    """Bytes between two samples, as they came; 0 where nothing says so."""
    return (profile.period or 0) * thinned(profile)


def sampled(profile):
    """How often was sampled."""
    times = thinned(profile)
    if times < THINNED_MIN:
        return "once in %s on average; ~ marks what may be off by half" % say.amount(profile.period)
    return "once in some %s: requests came too fast for %s, but --rate 511 keeps to it; ~ marks what may be off by " \
        "half" % (say.amount(profile.period * times), say.amount(profile.period))


def missing(profile):
    """Rows about samples that the library's tables had no room for. Both tables fill with what is live at a time, so
    fewer samples help."""
    samples, lost, cut = told(profile)
    rows = []
    if lost:
        rows.append(("lost", "%s of %s, since too many sampled blocks were live; all numbers are too low, and what "
                     "came last may be missing; %s" % (format(lost, ","), say.count(samples + lost, "sample"),
                                                       LARGER)))
    if cut:
        rows.append(("cut short", "%s of %s have their site alone, or are in '%s', since too many stacks were live; "
                     "the sums are right; %s" % (format(cut, ","), say.count(samples + lost, "sample"), OTHER_STACKS,
                                                 LARGER)))
    return rows


def growth(size, seconds):
    return ("growth", "%s in %.2f s, %s a second" % (signed(say.amount(abs(size)), min(0, size)), seconds, signed(
        say.amount(abs(size) / seconds), min(0, size))))


def watched(profile, totals, is_ours):
    """The facts about a process that was there before, whose live blocks were added up at both ends of `totals`."""
    (begin, before), (end, after) = totals[0], totals[-1]
    live = profile.total("live_bytes")
    rows = summary(profile, when="still live")
    at = next(index for index, row in enumerate(rows) if row[0] == "still live")
    rows[at] = ("still live", "%s of what was %s" % (rows[at][1], "asked for meanwhile" if is_ours else "sampled"))
    if after - live > max(UNSEEN_MIN_BYTES, UNSEEN_MIN * after):
        rows.insert(at + 1, ("not seen", "%s, asked for before; `calm top` has hints" % say.amount(after - live)))
    rows = [row for row in rows if row[0] != "growth"]
    index = next((index for index, row in enumerate(rows) if row[0] == "sampled"), len(rows))
    return rows[:index] + ([growth(after - before, end - begin)] if end > begin else []) + rows[index:]


def summary(profile, heap=None, peak_rss_bytes=None, when="live at the end"):
    """The facts above a table. `heap` is what the library itself counted, when it ran here."""
    live, total = profile.total("live_bytes"), profile.total("all_bytes")
    counted = ""
    if heap is not None:
        counted = ", counted exactly %s" % say.amount(counted_bytes(heap))
    period = interval(profile)
    error = math.sqrt(sum(variance(stack, *ORDERS["inuse"], period) for stack in profile.stacks))
    rows = missing(profile) + [(when, "%s%s in %s%s" % (
        say.amount(live), " ± " + say.amount(error) if error >= ERROR_MIN * live > 0 else "",
        say.count(profile.total("live_blocks"), "block"), counted))]
    if profile.has_all:
        freed = max(0.0, 100.0 * (1 - live / total)) if total else 0.0
        rows.append(("allocated", "%s in %s, of which %.0f%% was freed" % (
            say.amount(total), say.count(profile.total("all_blocks"), "block"), freed)))
    if profile.duration_ns and PART_COMMENT not in profile.comments:
        rows.append(growth(live, profile.duration_ns / 1e9))
    if peak_rss_bytes:
        rows.append(("peak RSS", say.amount(peak_rss_bytes)))
    if profile.period:
        rows.append(("sampled", sampled(profile)))
    return rows + [("noted", comment) for comment in noted(profile)]


def noted(profile):
    """What profiles say of themselves; many that say the same kind of thing are added up."""
    comments = [comment for comment in profile.comments if not comment.startswith(PID_COMMENT)]
    counts = [comment for comment in comments if SAMPLES_COMMENT.search(comment)]
    if len(counts) < 2:
        return comments
    return ["%s in all: %s samples, %s lost, %s cut" % (
        say.count(len(counts), "profile"), *(format(number, ",") for number in told(profile)))] + [
            comment for comment in comments if comment not in counts]


def share(part, whole):
    return "%.1f%%" % (100.0 * part / whole) if whole else "-"


def cut(entries, top):
    return (entries, []) if top == 0 else (entries[:top], entries[top:])


def table(profile, found, request, stream):
    by_bytes, by_blocks = ORDERS[request.by]
    entries = sorted(found.values(), key=lambda site: (-getattr(site, by_bytes), site.frame.name, site.frame.place()))
    entries = [site for site in entries if getattr(site, by_bytes) or getattr(site, by_blocks)]
    whole = sum(getattr(site, by_bytes) for site in entries)
    if not entries:
        say.plain(["  nothing was sampled: %s; %s" % (
            "no block is live, or too little, and --by alloc shows what was freed" if request.by == "inuse" else
            "the program allocated too little", LARGER if told(profile)[1] else SMALLER)], stream)
        return
    shown, hidden = cut(entries, request.top)
    head = ["live" if request.by == "inuse" else "allocated", "blocks", "share", "function", "place"]
    rows = [[site.text(by_bytes), format(getattr(site, by_blocks), ","),
             share(getattr(site, by_bytes), whole), short(site.frame.name), place_of(site.frame)] for site in shown]
    say.table(head, fitted(head, rows, stream), stream, left=2)
    through(shown, by_bytes, stream)
    more(hidden, by_bytes, whole, "site", stream)


def fitted(head, rows, stream):
    """Rows that fit into the terminal's lines: of a place its folders give way, then the beginning of a function."""
    if say.size(stream) is None:
        return rows
    numbers = sum(max(len(row[index]) for row in [head] + rows) + 2 for index in range(len(head) - 2))
    room = max(2 * NAME_MIN, say.size(stream)[0] - numbers - 4)  # for both names; a blank more before each
    places = [row[-1] for row in rows]
    names = min(max(len(row[-2]) for row in [head] + rows), room - NAME_MIN)
    if names + max(map(len, places)) > room:
        places = [cut_place(place, room - names) for place in places]
        names = min(names, max(NAME_MIN, room - max(map(len, places))))
    return [row[:-2] + ["…" + row[-2][1 - names:] if len(row[-2]) > names else row[-2], place]
            for row, place in zip(rows, places)]


def cut_place(place, room):
    """The end of a place, from a folder on where that is shorter."""
    if len(place) <= room:
        return place
    end = place[1 - room:]
    return "…" + (end[end.index("/"):] if "/" in end else place[place.rfind("/"):] if "/" in place else end)


def through(shown, by_bytes, stream):
    """Which functions of extensions asked on behalf of the scripts' lines that are shown, those that hold most."""
    found = sorted(((size, frame, site) for site in shown for frame, size in site.extensions[by_bytes].items() if size),
                   key=lambda row: (-row[0], row[1].name))
    for size, frame, site in found[:EXTENSIONS_SHOWN]:
        say.plain(["  %s of %s through %s %s" % (say.amount(size), short(site.frame.name), short(frame.name),
                                                 os.path.basename(frame.place()))], stream)


def rows_of(request, above, stream):
    """How many sites a table has: what was asked for, else as many as the screen has room for below `above` lines."""
    if request.top is not None:
        return request.top
    most = say.size(stream)
    return max(ROWS_MIN, min(ROWS_SHOWN, most[1] - above - ROWS_BELOW)) if most else ROWS_SHOWN


def more(hidden, by_bytes, whole, noun, stream):
    if hidden:
        rest = sum(getattr(entry, by_bytes) for entry in hidden)
        say.plain(["  and %s with %s (%s); --top 0 shows all" % (
            say.count(len(hidden), "more " + noun), say.amount(rest), share(rest, whole))], stream)


def leaks(profile, frames, top, stream):
    """Each stack that still holds something, in full."""
    pairs = sorted(((stack, names) for stack, names in merged(profile, frames) if stack.live_bytes),
                   key=lambda pair: -pair[0].live_bytes)
    if not pairs:
        say.plain(["  nothing is live, or too little to be sampled; %s" % (
            LARGER if told(profile)[1] else SMALLER)], stream)
        return
    whole = sum(stack.live_bytes for stack, _ in pairs)
    shown, hidden = cut(pairs, ROWS_SHOWN if top is None else top)
    for stack, names in shown:
        lines = ["", "  %s in %s (%s)" % (say.amount(stack.live_bytes), say.count(stack.live_blocks, "block"),
                                          share(stack.live_bytes, whole))]
        for frame in names:
            place = place_of(frame)
            lines.append("    " + frame.name + ("  " + place if place else ""))
        say.plain(lines, stream)
    more([stack for stack, _ in hidden], "live_bytes", whole, "stack", stream)


def merged(profile, frames):
    """(what they add up to, frames) for each different list of frames."""
    found = {}
    for stack, names in zip(profile.stacks, frames):
        found.setdefault(tuple(names), Site(names[0])).add(stack)
    return [(site, names) for names, site in found.items()]


def collapsed(profile, frames, by):
    """One line a stack, the outermost frame first, with its bytes."""
    lines = []
    for stack, names in merged(profile, frames):
        size = getattr(stack, ORDERS[by][0])
        if size:
            lines.append("%s %d\n" % (";".join(say.clean(frame.name).replace(";", ":") for frame in reversed(names)),
                                      size))
    return "".join(sorted(lines))


def signed(text, value):
    return text if value == 0 else ("+" if value > 0 else "-") + text


def change_of(before, after, by):
    """The row above the table: what all sites add up to at both moments."""
    totals = [sum(getattr(site, ORDERS[by][0]) for site in group.values()) for group in (before, after)]
    grown = totals[1] - totals[0]
    return ("live" if by == "inuse" else "allocated", "%s -> %s, %s" % (
        say.amount(totals[0]), say.amount(totals[1]), signed(say.amount(abs(grown)), grown)))


def difference(before, after, title, request, stream):
    """What grew and what shrank between two profiles, the largest growth first."""
    by_bytes, by_blocks = ORDERS[request.by]
    rows = []
    for key in {**before, **after}:
        old, new = (group.get(key) for group in (before, after))
        sizes = [getattr(site, by_bytes) if site else 0 for site in (old, new)]
        blocks = [getattr(site, by_blocks) if site else 0 for site in (old, new)]
        if sizes[0] != sizes[1] or blocks[0] != blocks[1]:
            rows.append((sizes[1] - sizes[0], blocks[1] - blocks[0], sizes, (new or old).frame))
    say.pairs("calmalloc: growth of the heap, " + title, [change_of(before, after, request.by)], stream)
    rows.sort(key=lambda row: (-abs(row[0]), row[3].name))
    shown, hidden = cut(rows, rows_of(request, 2, stream))
    shown.sort(key=lambda row: (-row[0], row[3].name))
    if not shown:
        say.plain(["  no site differs."], stream)
        return
    say.table(["growth", "blocks", "before", "after", "function", "place"], [
        [signed(say.amount(abs(size)), size), signed(format(abs(blocks), ","), blocks), say.amount(sizes[0]),
         say.amount(sizes[1]), short(frame.name), place_of(frame)] for size, blocks, sizes, frame in shown],
        stream, left=2)
    if hidden:
        say.plain(["  and %s that differ less; --top 0 shows all" % say.count(len(hidden), "more site")], stream)
