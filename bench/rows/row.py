"""One row of the benchmark, and the short forms in which the lists of rows are written."""

from dataclasses import dataclass
from typing import Optional, Tuple

from .seconds import SECONDS, SECONDS_OF_GROUP


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
    # A round is cut into as many runs, each with that part of its work. Machines change from moment to moment: many
    # short runs in turn see more than a few long ones.
    slices: int = 1
    # Curves of the result that the report plots: names of `series`, see workloads/workload.h.
    series: Tuple[str, ...] = ()
    # Seconds after which a run is killed; 0 takes them from what the row usually needs.
    timeout: int = 0
    default: bool = True
    # Short, telling and steady enough for the set of the same name; see sets.py.
    quick: bool = False

    @property
    def is_workload(self) -> bool:
        return self.group != "programs"

    @property
    def is_time(self) -> bool:
        return self.metric in ("cpu", "wall", "process")

    @property
    def is_disturbable(self) -> bool:
        """Whether others on the machine change its figure. They change times, also of single calls, but no memory."""
        return self.is_time or "_ns" in self.metric or self.metric.endswith("_a_million")

    @property
    def seconds(self) -> float:
        """What a run under one library usually takes here and there, for estimates."""
        return SECONDS.get(self.name, SECONDS_OF_GROUP[self.group]) / self.slices

    @property
    def seconds_max(self) -> int:
        """Slow allocators need ten times the usual, slow machines twice that."""
        return self.timeout or round(30 + 20 * self.seconds)


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
