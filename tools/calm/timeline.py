"""`calm timeline`: what a process held over time, of what `calm top --record FILE` wrote; and two moments compared.

A Recording has the looks of a file. Who holds the memory is told by the profiler's stacks where it was on, else by
cohort where sites were told apart, else by the size of blocks; large blocks always have their sites. timeline_page.py
makes the page.
"""
import json
import os
import shutil
import sys

import say
from heap_symbols import Frame, short, site_of
from heap_table import signed
from trouble import Trouble

USAGE = 2
FILE_BYTES_MAX, LOOKS_MAX = 1 << 30, 1 << 17
ROWS, COLUMNS = 24, 80  # where there is no terminal
CHART_ROWS_MIN, CHART_ROWS_MAX, SITES_MIN = 5, 16, 3
AXIS_COLUMNS, BAR_COLUMNS_MAX = 11, 40
FIXED_ROWS = 12  # all but chart and sites
# The chart's areas, from below. "rest" is RSS that is not the heap's, or whose kind is not known.
AREAS = (("in use", "█", "#"), ("kept by the heap", "▒", "="), ("not the heap", "░", "."))
BAR, LITTLE = ("█", "#"), ("▏", "|")
QUANTITIES = ("RSS", "live blocks", "cached", "free in slabs", "dirty", "not the heap")
BY_STACK, BY_COHORT, BY_SIZE = "site, by the profiler's samples", "site seen most of a cohort", "size, or site if large"


class Look:
    """One line of the file. `sizes` are in the order of QUANTITIES; None: not known."""

    def __init__(self, entry, frames):
        memory = entry.get("memory") or {}
        self.seconds, self.rss = float(entry["time_s"]), int(entry["rss_bytes"])
        heap = memory.get("heap")
        self.sizes = [self.rss, memory.get("block"), memory.get("cached"), memory.get("free_in_slabs"),
                      memory.get("dirty"), None]
        used = max(0, (memory.get("block") or 0) - (memory.get("untouched") or 0))
        self.areas = [min(used, self.rss), 0, self.rss - min(used, self.rss)]
        if heap is not None:
            # Of the moment when the parts were read: RSS may have grown since the look began.
            self.rss = self.sizes[0] = whole = memory.get("rss") or self.rss
            self.sizes[-1] = max(0, whole - heap)
            self.areas = [used, max(0, heap - used), max(0, whole - max(heap, used))]
        self.entry, self.frames = entry, frames
        self.stacks = entry.get("stacks")


class Recording:
    def __init__(self, path):
        self.looks, self.frames, self.path = [], [], path
        for entry in lines_of(path):
            try:
                self.frames += [Frame(*words) for words in entry.get("frames", [])]
                self.looks.append(Look(entry, self.frames))
            except (KeyError, TypeError, ValueError, AttributeError):
                raise Trouble("'%s' is not what `calm top --record` writes." % path, USAGE) from None
            if len(self.looks) > LOOKS_MAX:
                raise Trouble("'%s' has more than %s looks; record with a larger --interval." % (
                    path, format(LOOKS_MAX, ",")))
        if not self.looks:
            raise Trouble("'%s' has no look at a process; `calm top --record FILE PID` writes them." % path, USAGE)
        self.start = self.looks[0].seconds
        self.kind = (BY_STACK if any(look.stacks for look in self.looks) else
                     BY_COHORT if any(look.entry.get("cohorts_in_use", 0) > 1 for look in self.looks) else BY_SIZE)
        self.names = {}
        last = self.looks[-1].entry
        self.pid, self.program = last.get("pid", 0), str(last.get("program", "?"))

    def age(self, look):
        return look.seconds - self.start

    def at(self, seconds):
        """The look that is nearest to so many seconds after the first one."""
        whole = self.age(self.looks[-1])
        if not 0 <= seconds <= max(1.0, 1.01 * whole):
            raise Trouble("the recording goes from 0 to %s; %g s is outside." % (duration(whole), seconds), USAGE)
        return min(self.looks, key=lambda look: abs(self.age(look) - seconds))

    def holders(self, look):
        """Live bytes by who holds them."""
        try:
            if self.kind == BY_STACK:
                return self.by_stack(look)
            found = {}
            for site in look.entry.get("large", {}).get("sites", []):
                name = site_name(site) + (" (large)" if self.kind == BY_SIZE else "")
                found[name] = found.get(name, 0) + site["bytes"]
            if self.kind == BY_SIZE:
                for entry in look.entry.get("classes", []):
                    found["blocks of %s B" % format(entry["block_bytes"], ",")] = live_of(entry)
                return found
            for entry in look.entry.get("cohorts", []):
                name = self.cohort_name(entry)
                found[name] = found.get(name, 0) + live_of(entry)
            return found
        except (KeyError, TypeError, IndexError, AttributeError):
            raise Trouble("'%s' is not what `calm top --record` writes." % self.path, USAGE) from None

    def by_stack(self, look):
        found = {}
        for size, _, numbers in look.stacks or []:
            frame = site_of([self.frames[number] for number in numbers])
            name = frame_name(frame)
            found[name] = found.get(name, 0) + size
        if look.entry.get("other_stacks_bytes"):
            found["(other stacks)"] = look.entry["other_stacks_bytes"]
        return found

    def cohort_name(self, entry):
        """By the site that was seen most of it in the whole recording's last look that names one."""
        if not self.names:
            for look in self.looks:
                for one in look.entry.get("cohorts", []):
                    if one.get("sites"):
                        self.names[one["cohort"]] = site_name(one["sites"][0])
        return self.names.get(entry["cohort"], "(before sites were told apart)" if entry["cohort"] <= 1 else
                              "cohort %d" % entry["cohort"])


def lines_of(path):
    """The file's objects, but for a last line that was cut off."""
    try:
        if os.path.getsize(path) > FILE_BYTES_MAX:
            raise Trouble("'%s' is above 1 GiB; record with a larger --interval." % path)
        with open(path, encoding="utf-8") as file:
            for line in file:
                if line.endswith("\n"):
                    entry = json.loads(line)
                    if not isinstance(entry, dict):
                        raise ValueError
                    yield entry
    except OSError as error:
        raise Trouble("'%s' cannot be read: %s." % (path, error.strerror)) from None
    except ValueError:
        raise Trouble("'%s' is not what `calm top --record` writes." % path, USAGE) from None


def live_of(entry):
    return max(0, entry["allocated_bytes"] - entry["cached_bytes"])


def site_name(site):
    if not site.get("function"):
        return "%s+0x%x" % (os.path.basename(site["module"]), site["offset"]) if site.get("module") else "(unknown)"
    place = os.path.basename(site["place"] or "")
    return short(site["function"]) + (" " + place if place else "")


def frame_name(frame):
    place = os.path.basename(frame.place()) or (frame.module if frame.is_named else "")
    return short(frame.name) + (" " + place if place else "")


def start(path, begin, end, html, as_json):
    recording = Recording(path)
    first = recording.at(seconds_of("--begin", begin)) if begin is not None else recording.looks[0]
    last = recording.at(seconds_of("--end", end)) if end is not None else recording.looks[-1]
    if first.seconds > last.seconds:
        raise Trouble("--begin is after --end.", USAGE)
    if html is not None:
        import timeline_page
        timeline_page.write(recording, first, last, html)
    if as_json:
        print(json.dumps(facts_of(recording, first, last)))
    else:
        columns, rows = shutil.get_terminal_size((COLUMNS, ROWS))
        say.plain(page(recording, first, last, columns, rows - 1), sys.stdout)
    if html is not None:
        say.line("calm: the page is in %s" % html)
    return 0


def seconds_of(name, text):
    try:
        return float(text)
    except ValueError:
        raise Trouble("%s is seconds after the first look, not '%s'." % (name, text), USAGE) from None


def growth(recording, first, last):
    """(growth, before, after, name) of each holder, those that changed most first."""
    before, after = recording.holders(first), recording.holders(last)
    rows = [(after.get(name, 0) - before.get(name, 0), before.get(name, 0), after.get(name, 0), name)
            for name in {**before, **after}]
    return sorted(rows, key=lambda row: (-abs(row[0]), -row[2], row[3]))


def facts_of(recording, first, last):
    def moment(look):
        return {"seconds": round(recording.age(look), 3), "rss_bytes": look.rss, "memory": look.entry.get("memory")}
    return {"pid": recording.pid, "program": recording.program, "looks": len(recording.looks),
            "holders_by": recording.kind, "begin": moment(first), "end": moment(last),
            "holders": [{"name": name, "growth_bytes": grown, "before_bytes": before, "after_bytes": after}
                        for grown, before, after, name in growth(recording, first, last)]}


# The page on a terminal.

def page(recording, first, last, columns, rows):
    grown = growth(recording, first, last)
    changed = [row for row in grown if row[0]] or grown
    sites_rows = max(SITES_MIN, min(len(changed), rows - FIXED_ROWS - CHART_ROWS_MIN))
    chart_rows = max(CHART_ROWS_MIN, min(CHART_ROWS_MAX, rows - FIXED_ROWS - sites_rows))
    lines = ["process %d, %s: %s in %s" % (recording.pid, recording.program,
                                           say.count(len(recording.looks), "look"),
                                           duration(recording.age(recording.looks[-1])))]
    lines.append("  " + sentence(recording, first, last, changed))
    lines += chart(recording, first, last, columns - AXIS_COLUMNS - 1, chart_rows)
    lines += parts(first, last, columns)
    lines += holders(recording, changed, columns, sites_rows)
    return [line if len(line) <= columns else line[:columns - 1] + "…" for line in lines]


def sentence(recording, first, last, changed):
    """What happened between the two moments, and who did it."""
    size = last.rss - first.rss
    if abs(size) < 1 << 20:
        return "RSS stayed at %s." % say.amount(last.rss)
    words = "RSS %s by %s" % ("grew" if size > 0 else "shrank", say.amount(abs(size)))
    if not changed or not changed[0][0] or (changed[0][0] > 0) != (size > 0):
        return words + "; live blocks did not."
    return words + "; %s has %s %s." % (changed[0][3], say.amount(abs(changed[0][0])), "more" if size > 0 else "less")


def duration(seconds):
    if seconds < 120:
        return "%.1f s" % seconds
    return "%.1f min" % (seconds / 60) if seconds < 7200 else "%.1f h" % (seconds / 3600)


def is_plain():
    return "utf" not in (sys.stdout.encoding or "").lower()


def chart(recording, first, last, columns, rows):
    """Areas on top of one another, over time: the look before each column's moment; two marks on the axis."""
    span = recording.age(recording.looks[-1]) or 1.0
    shown, index = [], 0
    for column in range(columns):
        moment = span * column / max(1, columns - 1) + 1e-9
        while index + 1 < len(recording.looks) and recording.age(recording.looks[index + 1]) <= moment:
            index += 1
        shown.append(recording.looks[index])
    top = max(1, max(sum(look.areas) for look in shown))
    lines = []
    for row in range(rows, 0, -1):
        level = top * (row - 0.5) / rows
        label = say.amount(top * row / rows) if row in (rows, (rows + 1) // 2) else ""
        lines.append("%*s %s" % (AXIS_COLUMNS - 1, label, "".join(mark_at(look, level) for look in shown).rstrip()))
    axis = ["─" if not is_plain() else "-"] * columns
    for look, mark in ((first, "A"), (last, "B")):
        axis[round((columns - 1) * recording.age(look) / span)] = mark
    lines.append(" " * AXIS_COLUMNS + "".join(axis))
    legend = "  ".join("%s %s" % (area[2 if is_plain() else 1], area[0]) for area in AREAS)
    times = "A %s  B %s" % (duration(recording.age(first)), duration(recording.age(last)))
    return lines + [" " * AXIS_COLUMNS + legend + " " * max(2, columns - len(legend) - len(times)) + times]


def mark_at(look, level):
    sum_ = 0
    for size, area in zip(look.areas, AREAS):
        sum_ += size
        if level <= sum_:
            return area[2 if is_plain() else 1]
    return " "


def bar(value, most, columns):
    marks = round(columns * abs(value) / most) if most else 0
    return BAR[is_plain()] * marks or (LITTLE[is_plain()] if value else "")


def parts(first, last, columns):
    rows = []
    pairs = list(zip(QUANTITIES, first.sizes, last.sizes))
    most = max([abs(after - before) for _, before, after in pairs if None not in (before, after)] + [1])
    width = min(BAR_COLUMNS_MAX, max(8, columns - 56))
    for name, before, after in pairs:
        grown = None if None in (before, after) else after - before
        rows.append([name, amount(before), amount(after),
                     "-" if grown is None else signed(say.amount(abs(grown)), grown),
                     "" if grown is None else bar(grown, most, width)])
    names = max(len(row[0]) for row in rows)
    return ["  %-*s  %9s  %9s  %10s" % (names, "", "A", "B", "change")] + [
        ("  %-*s  %9s  %9s  %10s  %s" % (names, *row)).rstrip() for row in rows]


def amount(size):
    return "-" if size is None else say.amount(size)


def holders(recording, changed, columns, rows):
    """Bars of who grew and who shrank."""
    shown = changed[:rows]
    most = max([abs(row[0]) for row in shown] + [1])
    width = max(6, min(BAR_COLUMNS_MAX, (columns - 40) // 3))
    lines = ["  %10s  %9s  %-*s  %s" % ("change", "B", width, "", recording.kind)]
    for grown, _, after, name in shown:
        lines.append(("  %10s  %9s  %-*s  %s" % (signed(say.amount(abs(grown)), grown), say.amount(after), width,
                                                  bar(grown, most, width), name)).rstrip())
    return lines
