"""calmalloc's heap in gdb: of a process that is stopped, or of a core file.

    (gdb) source calm-gdb.py
    (gdb) calm heap             why the heap's memory is where it is
    (gdb) calm block ADDRESS    what is there; any expression
    (gdb) calm walk [BYTES]     each live block, its address and size; of blocks of BYTES alone

It reads as `calm explain` does, with its modules, which lie beside it.
"""
import os
import re
import sys

import gdb

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import explain  # noqa: E402
import explain_address  # noqa: E402
from core_memory import Core  # noqa: E402
from process_memory import Gone, Process  # noqa: E402
from trouble import Trouble  # noqa: E402


class Inferior(Process):
    """The process that gdb has, read through gdb; what the kernel says of it comes from /proc."""

    def read_one(self, address, size):
        try:
            return bytes(gdb.selected_inferior().read_memory(address, size))
        except gdb.MemoryError:
            raise Gone() from None


def memory():
    inferior = gdb.selected_inferior()
    found = re.search(r"`(.*)', file type", gdb.execute("info target", to_string=True).partition("core dump")[2])
    if found:
        return Core(found.group(1))
    if not inferior.pid:
        raise gdb.GdbError("There is no process and no core file.")
    return Inferior(inferior.pid)


def subject():
    try:
        return explain.Subject(memory())
    except Trouble as trouble:
        raise gdb.GdbError(str(trouble)) from None


class Calm(gdb.Command):
    """What calmalloc's heap holds."""

    def __init__(self):
        super().__init__("calm", gdb.COMMAND_DATA, prefix=True)


class Heap(gdb.Command):
    """Says why the heap's memory is where it is."""

    def __init__(self):
        super().__init__("calm heap", gdb.COMMAND_DATA)

    def invoke(self, _words, _is_typed):
        print("\n".join(explain.page(subject())))


class Block(gdb.Command):
    """Says what is at an address: calm block EXPRESSION."""

    def __init__(self):
        super().__init__("calm block", gdb.COMMAND_DATA)

    def invoke(self, words, _is_typed):
        if not words:
            raise gdb.GdbError("calm block takes an address.")
        address = int(gdb.parse_and_eval(words).cast(gdb.lookup_type("unsigned long"))) & (1 << 64) - 1
        seen = subject()
        print("\n".join(explain_address.sentences(seen, explain_address.look_up(seen, address))))


class Walk(gdb.Command):
    """Lists live blocks: calm walk [BYTES OF A BLOCK]."""

    def __init__(self):
        super().__init__("calm walk", gdb.COMMAND_DATA)

    def invoke(self, words, _is_typed):
        wanted = int(gdb.parse_and_eval(words)) if words else None
        for address, size in subject().heap.live_blocks():
            if wanted in (None, size):
                print("0x%x %d" % (address, size))


Calm()
Heap()
Block()
Walk()
