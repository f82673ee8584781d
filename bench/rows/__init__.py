"""The fixed list of rows: what is measured, decided before anything was measured.

A row is one program with its arguments. `N(count)` marks the argument that `--scale` multiplies. A row's `metric` is
the figure that its ratio is made of:

    cpu      CPU seconds, user and system, of the timed part of a workload (all threads, helper threads included)
    wall     wall seconds of the timed part of a workload
    process  CPU seconds, user and system, of a whole program and its children
    peak     peak RSS
    number:FIELD  the number FIELD of a workload's own result, smaller is better; a result without it is a failure.
                  `_ns` in its name makes it a time, which others on the machine may disturb, as they do a count of
                  slow calls, `_a_million`

A run of a row takes about what seconds.py says; add what a new row takes, else its group's is assumed.

Every row also records the other figures. Add rows at the end of their group; do not change one once figures that
were made with it are published, give it a new name instead.
"""

from . import memory, one_thread, programs, tail, threads
from .goals import GOALS
from .row import N, Row, workload
from .sets import SETS, Set

GROUPS = ("control", "one thread", "tail", "threads", "memory", "programs")

_CONTROL = (
    workload(
        "control",
        "cpu",
        "control",
        "control",
        N(75_000_000),
        why="the loop without an allocator",
        slices=10,
        counted=100_000,
    ),
)

ROWS = _CONTROL + one_thread.ROWS + tail.ROWS + threads.ROWS + memory.ROWS + programs.ROWS
assert len({row.name for row in ROWS}) == len(ROWS), "row names are unique"

__all__ = ["GOALS", "GROUPS", "N", "ROWS", "Row", "SETS", "Set"]
