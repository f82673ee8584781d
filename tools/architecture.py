#!/usr/bin/env python3
"""Draws docs/images/architecture.svg: the layers and the parts of core, what each includes, and which of them a
request, a free and memory that goes back pass.

    architecture.py [--root FOLDER] [--check]

Rows, and what they include, are read from src/; the layers and parts are those of check_style.py. A step is a function
and must be defined in its row. An arrow is a call, which must stand in a file of the row where the arrow begins, or it
is an entry of the table in core/above.h. --check writes nothing: exit 1 if the picture is not what would be drawn.
"""
import argparse
import os
import re
import sys
from xml.sax.saxutils import escape

import check_style

PICTURE = os.path.join("docs", "images", "architecture.svg")
ROWS = {  # from above, and what each is there for
    "libc": "the standard names",
    "front": "the calm_ names, options, statistics",
    "site": "the calling address: cohorts, profiles",
    "heap": "one interface; start, limits, forks",
    "purge": "gives pages back, a step at a time",
    "large": "blocks of whole units; the large cache",
    "caches": "free blocks of a thread, or of a core",
    "depots": "a bin's slabs and batches, for all threads",
    "slabs": "a unit cut into blocks, and its bitmap",
    "notices": "what became free; what is misuse",
    "tables": "classes, rows of bins, the mark",
    "mem": "the region, the chunk map, spans",
    "os": "the kernel behind one contract",
}
# Of a lane: heading, colour, steps as {function: (row, track)}, arrows as (from, to), and where it usually ends.
LANES = (
    ("a request", "#1f5fa8",
     {"malloc": ("libc", 0), "front_alloc_here": ("front", 0), "site_alloc_look": ("site", 0),
      "cache_pop_at": ("caches", 0), "depot_refill": ("depots", 0), "slab_carve": ("slabs", 0),
      "heap_alloc_slow": ("heap", 1), "large_acquire": ("large", 1), "span_acquire": ("mem", 0),
      "os_commit": ("os", 0)},
     (("malloc", "front_alloc_here"), ("front_alloc_here", "site_alloc_look"), ("site_alloc_look", "cache_pop_at"),
      ("cache_pop_at", "depot_refill"), ("depot_refill", "slab_carve"), ("slab_carve", "span_acquire"),
      ("site_alloc_look", "heap_alloc_slow"), ("heap_alloc_slow", "large_acquire"),
      ("large_acquire", "span_acquire"), ("span_acquire", "os_commit")), "cache_pop_at"),
    ("a free", "#1b7a3d",
     {"free": ("libc", 0), "heap_free": ("heap", 0), "cache_free": ("caches", 0), "depot_flush": ("depots", 0),
      "slab_retire": ("slabs", 0), "large_cache_put": ("large", 1), "span_release": ("mem", 0)},
     (("free", "heap_free"), ("heap_free", "cache_free"), ("cache_free", "depot_flush"), ("depot_flush", "slab_retire"),
      ("slab_retire", "span_release"), ("heap_free", "large_cache_put"), ("large_cache_put", "span_release")),
     "cache_free"),
    ("giving back", "#b4501e",
     {"purge_note": ("notices", 0), "purge_some": ("purge", 0), "large_cache_drain": ("large", 1),
      "thread_cool_one": ("caches", 1), "depot_tidy": ("depots", 1), "span_purge": ("mem", 1), "os_purge": ("os", 1)},
     (("purge_note", "purge_some"), ("purge_some", "large_cache_drain"), ("purge_some", "thread_cool_one"),
      ("purge_some", "depot_tidy"), ("purge_some", "span_purge"), ("span_purge", "os_purge")), None),
)
# Beside the end of an arrow; numbers of KiB come from the sources.
LABELS = {"depot_refill": "when empty", "depot_flush": "when full", "large_acquire": "above {MEDIUM_MAX} KiB",
          "large_cache_put": "above {MEDIUM_MAX} KiB", "purge_some": "each {PURGE_STEP_BYTES} KiB freed",
          "slab_carve": "when all are taken", "slab_retire": "when all are free"}
LEFT, LANE, TRACK, ROW, TOP = 308, 252, 126, 56, 44
INCLUDE = re.compile(r'^#include "(\w+)/([\w/]+)\.\w+"', re.M)
CAPTION = ("Each row includes rows below it only, and base, which is below all; pools and the executor stand beside.",
           "Thick: where it usually ends, without a lock or a call of the kernel. Dashed: through core/above.h.")


def row_of(layer, name):
    """The row of a file, by its layer and its name in it."""
    if layer != "core":
        return layer
    part = check_style.core_part(name)
    return None if part is None else check_style.CORE_PARTS[part][0]


class Sources:
    def __init__(self, root):
        self.text = {}  # by row
        self.above = ""
        for folder, folders, names in os.walk(os.path.join(root, "src")):
            folders.sort()
            for name in sorted(names):
                layer = os.path.relpath(folder, os.path.join(root, "src")).split(os.sep)[0]
                if not name.endswith((".c", ".h")):
                    continue
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    text = check_style.without_comments(file.read())
                row = row_of(layer, name)
                self.text[row] = self.text.get(row, "") + text
                self.above += "".join(re.findall(r"\bconst struct above above = \{[^}]*\}", text))

    def includes(self, row):
        found = {row_of(layer, name.split("/")[-1] + ".h") for layer, name in INCLUDE.findall(self.text[row])}
        rows = [other for other in ROWS if other in found and other != row]
        parts = [part for part in ROWS if part in dict(check_style.CORE_PARTS)]
        if row not in parts and found.issuperset(parts):
            rows[rows.index(parts[0]):rows.index(parts[-1]) + 1] = ["all of core"]
        return rows

    def kib(self, name):
        number, times = re.search(r"\b%s = (\d+)( \* 1024)?\b" % name, "".join(self.text.values())).groups()
        return int(number) if times else int(number) // 1024

    def defines(self, row, function):
        return re.search(r"^\w[^\n;{}()]*\b%s\([^;{}]*\)\s*\{" % function, self.text.get(row, ""), re.M) is not None

    def calls(self, row, function):
        return re.search(r"\b%s\(" % function, self.text.get(row, "")) is not None

    def goes_up(self, function):
        return re.search(r"\b%s\b" % function, self.above) is not None


def findings(sources):
    """What the picture says that the sources do not."""
    for _, _, steps, arrows, _ in LANES:
        for function, (row, _) in steps.items():
            if not sources.defines(row, function):
                yield "%s() is not defined in %s" % (function, row)
        for start, end in arrows:
            is_up = list(ROWS).index(steps[end][0]) < list(ROWS).index(steps[start][0])
            if is_up and not sources.goes_up(end):
                yield "%s() is not in the table of core/above.h" % end
            if not is_up and not sources.calls(steps[start][0], end):
                yield "%s does not call %s()" % (steps[start][0], end)
    for row in ROWS:
        for other in sources.includes(row):
            if other in ROWS and list(ROWS).index(other) < list(ROWS).index(row):
                yield "%s includes %s, which is above it" % (row, other)


def text(x, y, words, size=12, colour="#222", weight="normal", anchor="start", family="sans-serif"):
    return ('<text x="%d" y="%d" font-family="%s" font-size="%d" font-weight="%s" fill="%s" text-anchor="%s">%s</text>'
            % (x, y, family, size, weight, colour, anchor, escape(words)))


def draw_rows(sources, width):
    for number, (row, words) in enumerate(ROWS.items()):
        y = TOP + number * ROW
        is_core = any(row == part for part, _ in check_style.CORE_PARTS)
        yield ('<rect x="8" y="%d" width="%d" height="%d" rx="5" fill="%s" stroke="#bbb"/>' %
               (y + 3, width - 16, ROW - 6, "#f4efe4" if is_core else "#eef1f5"))
        yield text(18, y + 21, ("core: " if is_core else "") + row, 13, weight="bold")
        yield text(18, y + 35, words, 11)
        if sources.includes(row):
            yield text(18, y + 48, "includes " + ", ".join(sources.includes(row)), 9, "#777")


def places(lane):
    """Where each step of a lane is drawn: the middle of its box."""
    _, _, steps, _, _ = LANES[lane]
    return {function: (LEFT + lane * LANE + track * TRACK + TRACK // 2,
                       TOP + list(ROWS).index(row) * ROW + ROW // 2) for function, (row, track) in steps.items()}


def draw_arrow(start, end, colour, lane):
    (x, y), (to_x, to_y) = start, end
    is_up = to_y < y
    y += -12 if is_up else 12
    last = to_y + (14 if is_up else -14)
    if x == to_x:
        path = "M%d %d V%d" % (x, y, last)
    elif to_x > x:  # to the other track: along it, down to the step
        path = "M%d %d V%d H%d V%d" % (x + 20, y, y + 10, to_x, last)
    else:  # back to the first track
        path = "M%d %d V%d H%d V%d" % (x, y, last - 12, to_x + 20, last)
    return ('<path d="%s" fill="none" stroke="%s" stroke-width="1.6"%s marker-end="url(#tip%d)"/>' %
            (path, colour, ' stroke-dasharray="5 3"' if is_up else "", lane))


def draw_lane(lane, sources):
    name, colour, steps, arrows, usual = LANES[lane]
    at = places(lane)
    yield ('<marker id="tip%d" markerWidth="7" markerHeight="7" refX="5" refY="3" orient="auto">'
           '<path d="M0 0L6 3L0 6z" fill="%s"/></marker>' % (lane, colour))
    yield text(LEFT + lane * LANE + LANE // 2, 28, name, 16, colour, "bold", "middle")
    for start, end in arrows:
        yield draw_arrow(at[start], at[end], colour, lane)
    numbers = {name: sources.kib(name) for name in ("MEDIUM_MAX", "PURGE_STEP_BYTES")}
    for function in (function for function in steps if function in LABELS):
        x, y = at[function]
        yield text(x + 6, y - 17, LABELS[function].format(**numbers), 10, colour)
    for function in steps:
        x, y = at[function]
        half = 4 + len(function) * 3.3
        yield ('<rect x="%.1f" y="%d" width="%.1f" height="24" rx="4" fill="#fff" stroke="%s" stroke-width="%s"/>' %
               (x - half, y - 12, 2 * half, colour, "3.5" if function == usual else "1.2"))
        yield text(x, y + 4, function, 11, anchor="middle", family="monospace")
        if function == "purge_note":
            callers = [row for row in ROWS if row != "notices" and sources.calls(row, function)]
            yield text(x - half - 24, y + 24, "told by " + ", ".join(callers), 10, colour)


def picture(sources):
    width, height = LEFT + len(LANES) * LANE + 12, TOP + len(ROWS) * ROW + 46
    lines = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d">' %
             (width, height, width, height), '<rect width="100%" height="100%" fill="#fff"/>']
    lines += draw_rows(sources, width)
    for lane in range(len(LANES)):
        lines += draw_lane(lane, sources)
    lines += [text(12, height - 26 + 15 * number, words, 11, "#555") for number, words in enumerate(CAPTION)]
    return "\n".join(lines + ["</svg>"]) + "\n"


def main():
    parser = argparse.ArgumentParser(description="Draws the architecture from the sources.")
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    parser.add_argument("--root", default=here)
    parser.add_argument("--check", action="store_true", help="say whether the picture is what would be drawn")
    arguments = parser.parse_args()
    sources = Sources(arguments.root)
    wrong = list(findings(sources))
    path = os.path.join(arguments.root, PICTURE)
    drawn = picture(sources)
    if arguments.check:
        with open(path, encoding="utf-8") as file:
            if file.read() != drawn:
                wrong.append("%s is not what tools/architecture.py draws; run it" % PICTURE)
    elif not wrong:
        with open(path, "w", encoding="utf-8") as file:
            file.write(drawn)
    for sentence in wrong:
        print("architecture: %s." % sentence)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
