"""A heap as one HTML page that needs nothing else: heap.html with the numbers in it."""
import html
import json
import os

import heap_table
from heap_symbols import is_wrapper, short

TEMPLATE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "heap.html")


def page(profile, frames, title, rows):
    with open(TEMPLATE, encoding="utf-8") as file:
        text = file.read()
    data = json.dumps(content(profile, frames, rows), ensure_ascii=False, separators=(",", ":"))
    # Inside a script element only this mark could end it.
    data = data.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    return text.replace("@TITLE@", html.escape(title)).replace("@DATA@", data)


def content(profile, frames, rows):
    """What the page's script reads. Counts are in the order of heap_table.COUNTS. A box is a function, whatever line
    of it was left; a site is a line."""
    numbers, entries, lines = {}, [], {}

    def number_of(frame):
        key = (frame.name, frame.file, frame.module)
        lines.setdefault(key, set()).add(heap_table.place_of(frame))
        if key not in numbers:
            numbers[key] = len(entries)
            entries.append([frame.name, short(frame.name), "", frame.module,
                            0 if not frame.is_named else 1 if is_wrapper(frame) else 2])
        return numbers[key]
    stacks = [[[number_of(frame) for frame in reversed(names)]] + counts(total)
              for total, names in heap_table.merged(profile, frames)]
    for key, number in numbers.items():
        places = sorted(lines[key])
        entries[number][2] = places[0] if len(places) == 1 else places[0].rpartition(":")[0]
    sites = [[site.frame.name, short(site.frame.name), heap_table.place_of(site.frame)] + counts(site)
             for site in heap_table.sites(profile, frames).values()]
    return {"facts": rows, "hasAll": profile.has_all, "frames": entries, "stacks": stacks, "sites": sites}


def counts(entry):
    return [getattr(entry, name) for name in heap_table.COUNTS]
