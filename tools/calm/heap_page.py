"""A heap, or what changed between two, as one HTML page: heap.html with the numbers in it."""
import html_page
import heap_table
from heap_symbols import short

TEMPLATE = "heap.html"
NONE = [0] * len(heap_table.COUNTS)


def page(profile, frames, title, rows):
    return html_page.page(TEMPLATE, title, content([(profile, frames)], rows))


def page_of_change(before, after, title, rows):
    """`before` and `after` are (profile, frames)."""
    return html_page.page(TEMPLATE, title, content([after, before], rows))


def content(moments, rows):
    """What the page's script reads, of one moment, or of the later and the earlier one. Counts are in the order of
    heap_table.COUNTS. A site is a line."""
    functions = html_page.Functions()
    stacks = by_moment([stacks_of(profile, frames, functions) for profile, frames in moments])
    sites = by_moment([{(site.frame.name, short(site.frame.name), heap_table.place_of(site.frame)): counts(site)
                        for site in heap_table.sites(profile, frames).values()} for profile, frames in moments])
    return {"facts": rows, "isChange": len(moments) > 1, "hasAll": all(profile.has_all for profile, _ in moments),
            "frames": functions.entries(), "stacks": stacks, "sites": sites}


def stacks_of(profile, frames, functions):
    """What each list of functions, from the outermost in, adds up to."""
    found = {}
    for total, names in heap_table.merged(profile, frames):
        key = tuple(functions.number(frame) for frame in reversed(names))
        found[key] = [a + b for a, b in zip(found.get(key, NONE), counts(total))]
    return found


def by_moment(moments):
    """[key, values of each moment...] of each key that one of them has."""
    return [[list(key)] + [found.get(key, NONE) for found in moments]
            for key in dict.fromkeys(key for found in moments for key in found)]


def counts(entry):
    return [getattr(entry, name) for name in heap_table.COUNTS]
