"""HTML pages that need nothing else: a template with its data in it, and where it has marks for these the flame graph's
style and script. The same flame graph shows one heap, two moments of it, and a recording."""
import html
import json
import os
import re

import heap_table
from heap_symbols import is_wrapper, short
from trouble import Trouble

HERE = os.path.dirname(os.path.abspath(__file__))


def read(name):
    with open(os.path.join(HERE, name), encoding="utf-8") as file:
        return file.read()


def page(template, title, data, text=""):
    data = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    # Inside a script element only this mark could end it.
    data = data.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    parts = {"FLAME_STYLE": read("flame.css"), "FLAME_SCRIPT": read("flame.js"), "TITLE": html.escape(title),
             "TEXT": html.escape(text), "DATA": data}
    return re.sub("@([A-Z_]+)@", lambda match: parts[match.group(1)], read(template))


def write(path, text):
    try:
        with open(path, "w", encoding="utf-8", errors="replace") as file:
            file.write(text)
    except OSError as error:
        raise Trouble("'%s' cannot be written: %s; name another file, or make room." % (path, error.strerror)) from None


class Functions:
    """The functions of stacks, by number. A box is a function, whatever line of it was left."""

    def __init__(self):
        self.numbers, self.frames, self.lines = {}, [], []

    def number(self, frame):
        key = (frame.name, frame.file, frame.module)
        if key not in self.numbers:
            self.numbers[key] = len(self.frames)
            self.frames.append(frame)
            self.lines.append(set())
        self.lines[self.numbers[key]].add(heap_table.place_of(frame))
        return self.numbers[key]

    def entries(self):
        """What flame.js reads of each."""
        found = []
        for frame, lines in zip(self.frames, self.lines):
            places = sorted(lines)
            found.append([frame.name, short(frame.name),
                          places[0] if len(places) == 1 else places[0].rpartition(":")[0], frame.module,
                          0 if not frame.is_named else 1 if is_wrapper(frame) else 2])
        return found
