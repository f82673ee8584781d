"""`calm timeline --html`: one page that needs nothing else: timeline.html with the looks in it."""
import html
import json
import os

import say
import timeline
from heap_symbols import short
from trouble import Trouble

TEMPLATE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "timeline.html")
LOOKS_SHOWN, HOLDERS_SHOWN = 400, 40


def write(recording, first, last, path):
    text = page(recording, first, last)
    try:
        with open(path, "w", encoding="utf-8", errors="replace") as file:
            file.write(text)
    except OSError as error:
        raise Trouble("'%s' cannot be written: %s." % (path, error.strerror)) from None


def page(recording, first, last):
    with open(TEMPLATE, encoding="utf-8") as file:
        text = file.read()
    title = say.clean("process %d, %s" % (recording.pid, recording.program))
    data = json.dumps(content(recording, first, last), separators=(",", ":"))
    # Inside a script element only this mark could end it.
    return text.replace("@TITLE@", html.escape(title)).replace("@DATA@", data.replace("<", "\\u003c"))


def thinned(looks, kept):
    """At most LOOKS_SHOWN of them, evenly, with those that are to be kept."""
    step = max(1, -(-len(looks) // LOOKS_SHOWN))
    return [look for index, look in enumerate(looks)
            if index % step == 0 or index + 1 == len(looks) or any(look is one for one in kept)]


def content(recording, first, last):
    looks = thinned(recording.looks, (first, last))
    by_look = [recording.holders(look) for look in looks]
    most = {}
    for found in by_look:
        for name, size in found.items():
            most[name] = max(most.get(name, 0), size)
    names = sorted(most, key=lambda name: (-most[name], name))[:HOLDERS_SHOWN]
    frames, stacks, live = stacks_of(recording, looks)
    return {"areas": [name for name, _, _ in timeline.AREAS], "quantities": timeline.QUANTITIES,
            "seconds": [round(recording.age(look), 3) for look in looks],
            "areaSizes": [look.areas for look in looks], "sizes": [look.sizes for look in looks],
            "begin": next(index for index, look in enumerate(looks) if look is first),
            "end": next(index for index, look in enumerate(looks) if look is last),
            "holdersBy": recording.kind, "holders": [say.clean(name) for name in names],
            "holderSizes": [[found.get(name, 0) for name in names] for found in by_look],
            "frames": frames, "stacks": stacks, "live": live}


def stacks_of(recording, looks):
    """Functions as (name, place); stacks as lists of these, the outermost first; and what is live of them by look."""
    numbers, stacks, live = {}, [], []
    for look in looks:
        sizes = {}
        for size, _, frames in look.stacks or []:
            key = tuple(reversed(frames))
            if key not in numbers:
                numbers[key] = len(stacks)
                stacks.append(list(key))
            sizes[numbers[key]] = sizes.get(numbers[key], 0) + size
        live.append(sorted(sizes.items()))
    return [[short(frame.name), frame.place() or frame.module] for frame in recording.frames], stacks, live
