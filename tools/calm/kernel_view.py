"""What the kernel says of a process's memory: its mappings with what is resident of each, and which are stacks.

Nothing is stopped for this. The kernel walks one mapping at a time, and holds up those who change the list of mappings
meanwhile, not those who use their memory.
"""
from dataclasses import dataclass

from process_memory import MAPS_BYTES_MAX, Area, Gone

STACK_TRIES, GUARD_BYTES_MAX, THREADS_MAX = 3, 1 << 20, 1 << 14
SMAPS_LINE = frozenset(("Rss:", "Swap:"))


@dataclass
class Mapped(Area):
    rss: int = 0
    swap: int = 0

    def is_file(self):
        return bool(self.path) and self.path[0] != "["


def mappings(process):
    """The process's mappings, each with what of it is in memory and what was swapped out."""
    try:
        with process.file("smaps", errors="surrogateescape", newline="\n") as file:
            lines = file.read(8 * MAPS_BYTES_MAX).split("\n")
    except PermissionError:
        raise process.refused() from None
    except OSError:
        raise Gone() from None
    found = []
    for line in lines:
        name, _, rest = line.partition(" ")
        if name in SMAPS_LINE:
            if found:
                setattr(found[-1], name[:-1].lower(), int(rest.split()[0]) << 10)
        elif "-" in name and not name.endswith(":"):
            start, end = (int(word, 16) for word in name.split("-"))
            words = rest.split(maxsplit=4)
            found.append(Mapped(start, end, words[0], int(words[1], 16), words[4] if len(words) > 4 else ""))
    if not found:
        raise Gone()
    return found


def stack_pointers(process):
    """Where the stacks of the threads end now, as far as the kernel says: it does not of threads that run."""
    found, left = set(), None
    for _ in range(STACK_TRIES):
        try:
            left = process.list("task")[:THREADS_MAX] if left is None else left
        except OSError:
            break
        running = []
        for thread in left:
            try:
                with process.file("task/%s/syscall" % thread) as file:
                    words = file.read(512).split()
            except OSError:
                continue
            if len(words) >= 3:
                found.add(int(words[-2], 16))
            else:
                running.append(thread)
        left = running
        if not left:
            break
    return found


def is_private(area):
    return not area.path or area.path.startswith("[anon")


def stacks(process, areas):
    """The mappings that are stacks: named so by the kernel, a thread's stack pointer is in them, or as the C library
    makes them, right above a guard without access. Those of ended threads that it keeps are among them."""
    pointers = stack_pointers(process)
    found, below = [], None
    for area in areas:
        is_guarded = (below is not None and below.end == area.start and below.rights.startswith("---") and
                      is_private(below) and below.end - below.start <= GUARD_BYTES_MAX)
        is_writable = area.rights.startswith("rw")
        if area.path.startswith("[stack") or (is_writable and is_private(area) and (
                is_guarded or any(area.start <= pointer < area.end for pointer in pointers))):
            found.append(area)
        below = area
    return found
