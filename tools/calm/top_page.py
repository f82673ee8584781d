"""The page of `calm top`: what matters first, in as many lines and columns as there are.

A View says what the user asked for by keys. On a terminal each table gets its share of the lines; elsewhere there is
room for all that is worth a look.
"""
import os
from dataclasses import dataclass

import runtimes
import say
from heap_symbols import short

COHORTS_SHOWN, LARGE_SHOWN, CLASSES_SHOWN, CACHES_SHOWN = 12, 5, 8, 4
ROWS_MIN = 3  # of a table that has so many, before another one gets more
TABLE_LINES = 2  # a blank line and a headline
NARROW = 100  # columns; below, tables leave out what matters less
ORDERS = ("live", "change", "blocks", "cached", "resident")


@dataclass
class View:
    """What the user asked for. `rows` and `columns` are the screen's; None: no screen."""
    order: str = "live"
    words: str = ""  # a part of the sites' names that are shown
    rows: int = None
    columns: int = None

    def is_narrow(self):
        return self.columns is not None and self.columns < NARROW


def named(names, address):
    """A site's function and place."""
    if address <= 1:
        return "-"
    frame, _ = names.of(address)
    place = os.path.basename(frame.file) + (":%d" % frame.line if frame.line else "") if frame.file else ""
    return short(frame.name) + (" " + place if place else "")


def site_words(names, sites, has_early):
    """The first of a cohort's sites, and how many others there are."""
    early = "what came before sites were told apart"
    if not sites:
        return early if has_early else "-"
    words = named(names, sites[0].address)
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
    return ordered(holdings, "live", {})


def ordered(holdings, order, old):
    """Holdings by what the user asked for, the most first."""
    keys = {"live": lambda one: one.live_bytes(), "blocks": lambda one: one.live_blocks(),
            "cached": lambda one: one.cached_bytes, "resident": lambda one: one.resident_bytes or 0,
            "change": lambda one: one.live_bytes() - old[one.key].live_bytes() if one.key in old else 0}
    return sorted(holdings.values(), key=lambda one: (-keys[order](one), -one.live_bytes(), one.key))


def amount_or_dash(size):
    return "-" if size is None else say.amount(size)


def page(watched, names, frame, before, seconds, view):
    """The lines of one page."""
    lines = head(watched, names, frame, before, seconds, view)
    tables = [cohort_table(watched, names, frame, before, seconds, view), large_table(names, frame, view),
              class_table(watched, frame, before, view), cache_table(frame)]
    rooms = shares(view, len(lines), [(len(rows), rest is not None) for _, rows, _, rest in tables])
    for (title, rows, left, rest), room in zip(tables, rooms):
        if rows and room:
            lines += [""] + say.aligned([title] + [row for row, _ in rows[:room]], left)
            hidden = rows[room:]
            lines += ["  and " + rest(len(hidden), sum(size for _, size in hidden))] if hidden and rest else []
    return lines


def shares(view, above, wanted):
    """How many rows of each table are shown. All tables but the first give way, the last one first, where the screen
    is low."""
    most = (COHORTS_SHOWN, LARGE_SHOWN, CLASSES_SHOWN, CACHES_SHOWN)
    if view.rows is None:
        return [min(count, limit) for (count, _), limit in zip(wanted, most)]
    room, found = view.rows - above, [0] * len(wanted)
    for index, (count, says_rest) in enumerate(wanted):
        more = 1 if says_rest and count > ROWS_MIN else 0  # the line that says how many others there are
        least = min(count, ROWS_MIN)
        if count and room >= TABLE_LINES + least + more:
            found[index] = least
            room -= TABLE_LINES + least + more
    for index, (count, _) in enumerate(wanted):
        if found[index]:
            extra = min(room, count - found[index])
            found[index] += extra
            room -= extra
    return found


def head(watched, names, frame, before, seconds, view):
    """What the process has in all: lines of parts, which are broken between parts where the screen is narrow."""
    numbers = frame.numbers
    rows = [
        ["RSS %s %s" % (say.amount(frame.rss_bytes), change(frame.rss_bytes, before and before.rss_bytes, seconds)),
         "heap %s resident of %s" % (amount_or_dash(numbers["heap"]), say.amount(frame.mapped_bytes)),
         say.count(frame.threads, "thread"), "caches by %s" % ("core" if frame.by_cores else "thread")] +
        (["profiler on"] if frame.profiler_on else []),
        ["%s %s" % (name.replace("_", " "), amount_or_dash(numbers[name])) for name in (
            "file_maps", "stacks", "other_anonymous")],
        ["block %s in %s, %s of it large" % (amount_or_dash(numbers["block"]), say.count(frame.blocks, "block"),
                                             say.amount(frame.large_bytes - frame.large_cached_bytes)),
         "cached %s" % amount_or_dash(numbers["cached"])],
        ["%s %s" % (name.replace("_", " "), amount_or_dash(numbers[name])) for name in (
            "free_in_slabs", "dirty", "metadata")]]
    lines = ["calmalloc %s: process %d, %s" % (watched.library, watched.process.pid, watched.process.program)]
    for row in rows:
        lines += flowing(row, view.columns)
    rest = runtimes.rest([mapping.path for mapping in names.files()], frame.rss_bytes, frame.resident_bytes)
    lines += ["  %s: %s" % row for row in rest]
    if frame.overflow_sites:
        lines.append("  " + say.overflow(frame.overflow_sites))
    return lines


def flowing(parts, columns):
    lines = ["  " + parts[0]]
    for part in parts[1:]:
        if columns is not None and len(lines[-1]) + 3 + len(part) > columns:
            lines.append("  " + part)
        else:
            lines[-1] += "   " + part
    return lines


# The tables: (titles, rows and what each stands for in bytes, columns to the left, words for what is not shown).

def cohort_table(watched, names, frame, before, seconds, view):
    old, first = before.cohorts if before else {}, watched.facts["cohort.first"]
    cohorts = ordered(frame.cohorts, view.order, old)
    learnt = cohorts if view.words else cohorts[:view.rows or COHORTS_SHOWN]
    names.learn([sites[0].address for sites in (frame.sites.get(holding.key) for holding in learnt) if sites])

    def words(holding):
        if holding.key == watched.facts["cohort.sampled"]:
            return "(blocks the profiler sampled)"
        return site_words(names, frame.sites.get(holding.key), is_early(holding, frame, first))
    if view.words:
        cohorts = [holding for holding in cohorts if view.words in words(holding).lower()]
    rows = []
    for index, holding in enumerate(cohorts):
        was = old[holding.key].live_bytes() if holding.key in old else None
        is_told = view.words or index < len(learnt)
        cells = [say.amount(holding.live_bytes()), format(holding.live_blocks(), ","), say.amount(holding.cached_bytes),
                 resident_words(holding, frame), change(holding.live_bytes(), was, seconds), str(holding.key),
                 words(holding) if is_told else ""]
        rows.append((narrowed(cells, view, (2, 3, 5)), holding.live_bytes()))
    titles = ["live", "blocks", "cached", "resident", "change", "cohort",
              "site that holds most, by samples" if frame.profiler_on else "site seen most"]
    return narrowed(titles, view, (2, 3, 5)), rows, 1, lambda count, size: "%s with %s" % (
        say.count(count, "more cohort"), say.amount(size))


def narrowed(cells, view, dropped):
    """A row without the columns that a narrow screen has no room for; the column that orders it stays."""
    keep = {"cached": 2, "resident": 3}.get(view.order)
    return [cell for index, cell in enumerate(cells)
            if not view.is_narrow() or index == keep or index not in dropped]


def resident_words(holding, frame):
    return say.amount(holding.resident_bytes) if frame.resident_bytes is not None else "-"


def large_table(names, frame, view):
    """Who asked for the large blocks."""
    found = frame.large_sites
    if view.order == "blocks":
        found = sorted(found, key=lambda row: -row[1])
    learnt = found if view.words else found[:view.rows or LARGE_SHOWN]
    names.learn([address for _, _, address in learnt if address > 1])
    rows = [([say.amount(size), format(blocks, ","), named(names, address) if row < len(learnt) else ""], size)
            for row, (size, blocks, address) in enumerate(found)]
    if view.words:
        rows = [row for row in rows if view.words in row[0][2].lower()]
    return ["large", "blocks", "site"], rows, 1, lambda count, size: "%s with %s" % (
        say.count(count, "more site"), say.amount(size))


def class_table(watched, frame, before, view):
    classes = [one for one in ordered(frame.classes, view.order, before.classes if before else {})
               if one.slabs and (one.live_blocks() or view.rows is None)]
    rows = [([say.amount(one.live_bytes()), format(one.live_blocks(), ","), say.amount(one.cached_bytes),
              resident_words(one, frame), format(one.slabs, ","), format(watched.class_bytes[one.key], ",")],
             one.live_bytes()) for one in classes]
    return ["live", "blocks", "cached", "resident", "slabs", "block bytes"], rows, 0, None


def cache_table(frame):
    caches = sorted((cache for cache in frame.caches if cache.blocks), key=lambda cache: -cache.bytes)
    rows = [([say.amount(cache.bytes), format(cache.blocks, ","), cache_words(cache)], cache.bytes)
            for cache in caches]
    return ["holds", "blocks", "cache"], rows, 1, lambda count, size: "%s with %s" % (
        say.count(count, "more cache"), say.amount(size))


def cache_words(cache):
    owner = "of core %d" % cache.core if cache.is_for_cores else "of a thread"
    return "%d, %s" % (cache.number, owner if cache.is_owned or cache.is_for_cores else "of no thread now")
