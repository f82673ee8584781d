"""Makes the facts and words of a process absurd, one after the other, and looks at it each time as `calm top` and `calm
heap` do: with little memory, nothing but a sentence may come of it.

    hostile.py PID      a process of ours that waits and is given up
"""
import os
import resource
import sys

from support import ROOT

sys.path.append(os.path.join(ROOT, "tools", "calm"))
sys.dont_write_bytecode = True

import explain  # noqa: E402
import top  # noqa: E402
from facts import ADDRESSES, FACT_BYTES, HEAD_BYTES, lists_in, text_of, unsigned  # noqa: E402
from process_memory import Gone  # noqa: E402
from top_page import View  # noqa: E402
from trouble import Trouble  # noqa: E402
from watched import Watched  # noqa: E402

MEMORY_BYTES = 1 << 30
NUMBERS = (0, 1, 1 << 20, 1 << 31, (1 << 63) - 1, (1 << 64) - 1)
WORDS_BYTES = 256
VIEWS = (View(), View("change", "hold", 23, 80))


def look(pid):
    """Whatever it says, it ends, and in one of these ways."""
    try:
        subject = top.Subject(pid)
        if subject.has_started():
            for view in VIEWS:
                seen = top.Look(subject)
                subject.page(seen, seen, view)
                subject.as_json(seen)
        subject.heap.profile(1)
        explain.page(explain.Subject(str(pid)))
    except (Trouble, Gone):
        pass


def places_of(process, table):
    """Where each fact's value lies, by name."""
    found = {}
    for index in range(lists_in(process.read(table, HEAD_BYTES))):
        at = unsigned(process.read(table + HEAD_BYTES + 8 * index, 8), 0, 8)
        while at != 0 and process.read(at, 1) != b"\0":
            found[text_of(process.read(at, 24))] = at + 24
            at += FACT_BYTES
    return found


class Poker:
    """Puts bytes into the process for a while."""

    def __init__(self, process):
        self.process = process

    def look_with(self, what, address, data):
        self.process.new_look()
        try:
            before = self.process.read(address, len(data))
        except Gone:
            return
        self.process.write(address, data)
        try:
            look(self.process.pid)
        except Exception as error:
            print("%s: %s: %s" % (what, type(error).__name__, error), file=sys.stderr)
        finally:
            self.process.write(address, before)


def main():
    process_id = int(sys.argv[1])
    watched = Watched(process_id, is_written=True)
    facts, poker = watched.facts, Poker(watched.process)
    look(process_id)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    for name, place in sorted(places_of(watched.process, facts.place).items()):
        for value in NUMBERS:
            poker.look_with("fact %s = %#x" % (name, value), place, value.to_bytes(8, "little"))
    newest = {name: watched.number(name) for name in ("depot.newest", "cache.newest")}
    heads = {"depot": newest["depot.newest"], "cache": newest["cache.newest"] + facts["cache.head"],
             "rows": watched.number("stacks.tables") + facts["stacks.rows"], "region": facts["region"],
             "chunk map": watched.number("region", "region.map"), "chunks": watched.number("batch.chunks"),
             "table": facts.place + HEAD_BYTES}
    places = {name: facts[name] for name in ADDRESSES if name in facts}
    for name, address in sorted({**places, **heads}.items()):
        for words in (bytes(WORDS_BYTES), b"\xff" * WORDS_BYTES, b"\xff\xff\xff\x7f" * (WORDS_BYTES // 4),
                      address.to_bytes(8, "little") * (WORDS_BYTES // 8),
                      b"".join(value.to_bytes(8, "little") for value in newest.values()) * (WORDS_BYTES // 16)):
            for size in (8, WORDS_BYTES):
                poker.look_with("words at %s" % name, address, words[:size])


main()
