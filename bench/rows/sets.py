"""The sets of rows that `./calm bench --set` knows. A row is in a set by its group, or by its own flag; none is named.

Every set begins with the control row. What it takes to run is estimated from seconds.py before it starts.
"""

from dataclasses import dataclass
from typing import Callable, Dict, Sequence, Tuple

# The best peer of a row is the best of these: what `all` takes, and what a report that has fewer says.
ALL_PEERS = (
    "glibc",
    "jemalloc",
    "mimalloc2",
    "mimalloc23",
    "mimalloc3",
    "snmalloc",
    "tcmalloc",
    "tcmalloc_percpu",
    "rpmalloc",
)
# What the other sets take, for a quick look.
MAIN_PEERS = ("glibc", "mimalloc3", "snmalloc", "jemalloc", "tcmalloc", "rpmalloc")


@dataclass(frozen=True)
class Set:
    name: str
    why: str
    takes: Callable  # of a row: is it in?
    rounds: int = 7
    # Those of them that are built; `--peers` names others, or all.
    peers: Tuple[str, ...] = MAIN_PEERS
    # Of a run that others disturb.
    tries: int = 3

    def rows(self, rows: Sequence) -> Tuple:
        return tuple(row for row in rows if row.group == "control" or (row.default and self.takes(row)))


def _group(name: str) -> Callable:
    return lambda row: row.group == name


SETS: Dict[str, Set] = {
    each.name: each
    for each in (
        Set(
            "quick",
            "a short row or two of each group, in minutes",
            lambda row: row.quick,
            rounds=5,
            peers=("mimalloc3", "snmalloc"),
            tries=2,
        ),
        Set("general", "one thread", _group("one thread"), peers=MAIN_PEERS[:5]),
        Set("tail", "single calls, drift, readiness", _group("tail")),
        Set("remote", "several threads, and blocks freed by others than their owners", _group("threads")),
        Set("memory", "what stays resident, and when it goes", _group("memory")),
        Set("programs", "real programs", _group("programs")),
        Set(
            "all",
            "every row above, apart from those that run only when they are named",
            lambda row: True,
            peers=ALL_PEERS,
        ),
    )
}
