"""One row of the benchmark, and the short forms in which the lists of rows are written."""

from dataclasses import dataclass
from typing import Optional, Tuple


class N(int):
    """An argument that scales."""


@dataclass(frozen=True)
class Row:
    name: str
    group: str
    metric: str
    command: Tuple = ()
    why: str = ""
    # Figures of the workload's own result that the report prints one by one.
    fields: Tuple[str, ...] = ()
    # Counts for the instruction-count companion: it runs this many operations, and twice as many.
    counted: Optional[int] = None
    env: Tuple[Tuple[str, str], ...] = ()
    needs: Tuple[str, ...] = ()
    # A program that serves: `client` runs against it without the library and makes it end.
    client: Tuple = ()
    # The program is linked with an allocator of its own, so glibc's must be preloaded like any other.
    brings_allocator: bool = False
    # `check` is the hash of standard output for programs, the workload's own otherwise.
    repeats_max: int = 1000
    # Curves of the result that the report plots: names of `series`, see workloads/workload.h.
    series: Tuple[str, ...] = ()
    timeout: int = 180
    default: bool = True

    @property
    def is_workload(self) -> bool:
        return self.group != "programs"


def workload(group, metric, name, program, *args, **more):
    return Row(name, group, metric, (program, "{seed}") + args, **more)


def one(name, program, *args, **more):
    return workload("one thread", "cpu", name, program, *args, **more)


def tail(name, program, *args, **more):
    return workload("tail", "cpu", name, program, *args, **more)


def threads(name, program, *args, **more):
    return workload("threads", "wall", name, program, *args, **more)


def memory(name, program, *args, **more):
    return workload("memory", "peak", name, program, *args, **more)


def program(name, *command, needs=(), **more):
    return Row(name, "programs", "process", command, needs=needs or (command[0],), **more)
