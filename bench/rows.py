"""The fixed list of rows: what is measured, decided before anything was measured.

A row is one program with its arguments. `N(count)` marks the argument that `--scale` multiplies. A row's `metric` is
the figure that its ratio is made of:

    cpu      CPU seconds, user and system, of the timed part of a workload (all threads, helper threads included)
    wall     wall seconds of the timed part of a workload
    process  CPU seconds, user and system, of a whole program and its children
    peak     peak RSS

Every row also records the other figures. Add rows at the end of their group; do not change one once figures that
were made with it are published, give it a new name instead.
"""

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
    timeout: int = 180
    default: bool = True

    @property
    def is_workload(self) -> bool:
        return self.group != "programs"


GROUPS = ("control", "one thread", "threads", "memory", "programs")


def _workload(group, metric, name, program, *args, **more):
    return Row(name, group, metric, (program, "{seed}") + args, **more)


def _one(name, program, *args, **more):
    return _workload("one thread", "cpu", name, program, *args, **more)


def _threads(name, program, *args, **more):
    return _workload("threads", "wall", name, program, *args, **more)


def _memory(name, program, *args, **more):
    return _workload("memory", "peak", name, program, *args, **more)


def _program(name, *command, needs=(), **more):
    return Row(name, "programs", "process", command, needs=needs or (command[0],), **more)


ROWS = (
    _workload(
        "control", "cpu", "control", "control", N(150_000_000), why="the loop without an allocator", counted=100_000
    ),
    # One thread.
    _one("pairs-16", "pairs", 16, N(40_000_000), counted=100_000),
    _one("pairs-64", "pairs", 64, N(40_000_000), counted=100_000),
    _one("pairs-256", "pairs", 256, N(40_000_000), counted=100_000),
    _one("pairs-1024", "pairs", 1024, N(40_000_000), counted=100_000),
    _one("pairs-4096", "pairs", 4096, N(20_000_000), counted=100_000),
    _one("pairs-16384", "pairs", 16384, N(20_000_000), counted=100_000),
    _one("slots", "replace", 1, 1000, 64, 64, N(30_000_000), why="1000 live blocks of 64 B", counted=100_000),
    _one("mixed", "replace", 1, 100_000, 16, 1015, N(4_000_000), why="100,000 live of 16 to 1015 B", counted=200_000),
    _one("batch", "batch", 64, 1000, N(25_000), why="1000 mallocs, then 1000 frees", counted=100),
    _one("order-lifo", "order", 0, 1_000_000, N(4), why="1M of 64 B, freed last first", counted=1),
    _one("order-fifo", "order", 1, 1_000_000, N(4), why="1M of 64 B, freed first first", counted=1),
    _one("order-random", "order", 2, 1_000_000, N(2), why="1M of 64 B, freed at random", counted=1),
    _one("large-pingpong", "large", 0, N(60_000), why="64 KiB to 16 MiB in turn", counted=500),
    _one("large-grow", "large", 1, N(60), why="64 KiB to 16 MiB by realloc, filled"),
    _one("churn-64", "replace", 1, 262_144, 64, 64, N(4_000_000), why="262,144 live of 64 B", counted=200_000),
    _one(
        "churn-1024", "replace", 1, 262_144, 1024, 1024, N(3_000_000), why="262,144 live of 1024 B", counted=200_000
    ),
    _one(
        "xpattern",
        "xpattern",
        200_000,
        N(2_000_000),
        0,
        why="200,000 live of 15 sizes: grow, churn, shrink",
        counted=100_000,
    ),
    _one("pingpong-800k", "pairs", 800_000, N(3_000_000), why="one block of 800 KB at a time", counted=5_000),
    _one(
        "medium-t1",
        "replace",
        1,
        200,
        32 << 10,
        1 << 20,
        N(600_000),
        why="200 live of 32 KiB to 1 MiB",
        counted=5_000,
    ),
    # Threads.
    _threads("medium-t8", "replace", 8, 200, 32 << 10, 1 << 20, N(25_000), why="medium-t1 on eight threads"),
    _threads("larson-t2", "larson", 2, 1000, 16, 500, N(200), 100_000, why="slots handed to successor threads"),
    _threads("larson-t8", "larson", 8, 1000, 16, 500, N(200), 25_000, why="slots handed to successor threads"),
    _threads("remote-t2-r90", "remote", 2, 90, N(5_000_000), why="90 % freed by the next thread"),
    _threads("remote-t8-r90", "remote", 8, 90, N(1_000_000), why="90 % freed by the next thread"),
    _threads("xmalloc-t2", "handover", 0, 2, N(100_000), 64, 64, why="one allocates, one frees, batches of 120"),
    _threads(
        "handover-t2", "handover", 1, 2, N(40_000), 16, 512, why="everything freed by the other, batches of 120"
    ),
    _threads("handover-t8", "handover", 1, 8, N(10_000), 16, 512, why="everything freed by the next, batches of 120"),
    # Memory. Rows that wait need no more than three repeats: the kernel's counts hardly vary.
    _memory(
        "free-all",
        "free_all",
        N(5_000_000),
        120,
        1,
        why="5M x 120 B, all freed, then no call",
        repeats_max=3,
        fields=("resident_full_kib", "resident_0s_kib", "resident_1s_kib", "resident_11s_kib"),
    ),
    _memory(
        "free-all-full",
        "free_all",
        N(50_000_000),
        120,
        1,
        why="50M x 120 B, all freed, then no call",
        repeats_max=3,
        timeout=600,
        default=False,
        fields=("resident_full_kib", "resident_0s_kib", "resident_1s_kib", "resident_11s_kib"),
    ),
    _memory(
        "xpattern-rss",
        "xpattern",
        200_000,
        N(2_000_000),
        1,
        why="200,000 live shrink to 10,000, scattered",
        repeats_max=3,
        fields=(
            "resident_churned_kib",
            "resident_shrunk_0s_kib",
            "resident_shrunk_1s_kib",
            "resident_shrunk_11s_kib",
            "resident_ended_1s_kib",
            "resident_ended_11s_kib",
        ),
    ),
    _memory("sites-64", "sites", 0, why="400 call sites, 96 x 64 B each", fields=("grown_kib",)),
    _memory("sites-mixed", "sites", 1, why="400 call sites, 14 sizes each", fields=("grown_kib",)),
    _memory("sites-one", "sites", 2, why="the same blocks from one call site", fields=("grown_kib",)),
    _memory(
        "idle-threads",
        "idle_threads",
        100,
        64,
        why="100 threads that allocate once",
        fields=("resident_full_kib", "kib_a_thread"),
    ),
    _memory("tiny", "tiny", why="a program that allocates almost nothing"),
    # Programs.
    _program(
        "python",
        "{python}",
        "{programs}/objects.py",
        N(600_000),
        needs=(),
        why="a million live objects",
        env=(("PYTHONMALLOC", "malloc"), ("PYTHONHASHSEED", "0")),
    ),
    _program(
        "c++",
        "g++",
        "-O1",
        "-std=c++17",
        "-S",
        "-o",
        "/dev/stdout",
        "{programs}/templates.cpp",
        why="compiling a template-heavy source",
    ),
    _program("perl", "perl", "{programs}/words.pl", N(250_000), env=(("PERL_HASH_SEED", "0"),)),
    _program("ruby", "ruby", "{programs}/objects.rb", N(220_000)),
    _program("lua", "lua5.4", "{programs}/trees.lua", 15),
    _program("z3", "z3", "{problem}", why="a job shop with unions of functions"),
    _program("sqlite", "sqlite3", ":memory:", ".read {programs}/rows.sql"),
    _program("git-log", "git", "-C", "{repository}", "log", "-p", "--stat", why="diffs of 400 commits"),
    _program(
        "git-pack",
        "git",
        "-C",
        "{repository}",
        "-c",
        "pack.threads=1",
        "pack-objects",
        "--all",
        "--stdout",
        "--no-reuse-delta",
        "--window=20",
        "-q",
        why="deltas of all objects",
    ),
    _program(
        "ghostscript",
        "gs",
        "-q",
        "-dSAFER",
        "-dBATCH",
        "-dNOPAUSE",
        "-sDEVICE=pgmraw",
        "-r50",
        "-sOutputFile=-",
        "{programs}/picture.ps",
    ),
    _program("node", "node", "{programs}/buffers.js", N(120_000)),
    _program(
        "redis",
        "redis-server",
        "--port",
        "0",
        "--unixsocket",
        "{work}/redis.sock",
        "--save",
        "",
        "--appendonly",
        "no",
        "--logfile",
        "/dev/null",
        needs=("redis-server", "redis-benchmark", "redis-cli"),
        client=("{python}", "{programs}/redis_client.py", "{work}/redis.sock", N(100_000)),
        brings_allocator=True,
        why="the server's CPU time under redis-benchmark",
    ),
)
assert len({row.name for row in ROWS}) == len(ROWS), "row names are unique"

# What the report holds the results against: (text, kind, argument, limit). Kinds are explained in harness/goals.py.
GOALS = (
    ("CPU time of the programs, geometric mean, over the best peer's", "group_time", "programs", 0.95),
    ("CPU time of the one-thread rows, geometric mean, over the best peer's", "group_time", "one thread", 0.90),
    ("python over its best peer", "row_time", ("python",), 0.80),
    ("every row over its best peer, ties aside", "worst_row", ("programs", "one thread"), 1.10),
    (
        "peak RSS of one-thread rows and programs, geometric mean, over the lower of snmalloc and rpmalloc",
        "group_peak",
        ("programs", "one thread"),
        1.00,
    ),
    ("tiny: peak RSS above glibc's, KiB", "tiny", "tiny", 1024),
    ("larson over its best peer, ties aside", "row_time", ("larson-t2", "larson-t8"), 1.00),
    (
        "medium blocks: time over the best peer's, ties aside",
        "row_time",
        ("medium-t1", "medium-t8", "pingpong-800k"),
        1.00,
    ),
    ("medium blocks: peak RSS over the best peer's", "row_peak", ("medium-t1", "medium-t8", "pingpong-800k"), 1.10),
    ("sites-mixed: KiB above sites-one", "sites", ("sites-mixed", "sites-one"), 3072),
    ("free-all: share given back after 1 s", "given_back", "free-all", 0.95),
)
