"""`calm timeline --html`: timeline.html with the looks in it."""
import html_page
import say
import timeline

LOOKS_SHOWN, HOLDERS_SHOWN = 400, 40


def write(recording, first, last, path):
    html_page.write(path, page(recording, first, last))


def page(recording, first, last):
    title = say.clean("process %d, %s" % (recording.pid, recording.program))
    return html_page.page("timeline.html", title, content(recording, first, last))


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
    """Functions, lists of their numbers from the outermost in, and what is live of these by look."""
    functions, numbers, live = html_page.Functions(), {}, []
    for look in looks:
        sizes = {}
        for size, _, frames in look.stacks or []:
            key = tuple(functions.number(recording.frames[frame]) for frame in reversed(frames))
            number = numbers.setdefault(key, len(numbers))
            sizes[number] = sizes.get(number, 0) + size
        live.append(sorted(sizes.items()))
    return functions.entries(), [list(key) for key in numbers], live
