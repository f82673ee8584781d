"""Memory, as the kernel counts it."""

from typing import Tuple

from . import large
from .row import N, Row, memory

# Waiting is most of these rows' time, and resident memory hardly varies: they run once under each library.
_CURVE = ("resident_kib",)
_GIVEN_BACK = tuple(f"resident_{when}_kib" for when in ("full", "0s", "1s", "11s", "trimmed"))
_GIVEN_BACK += ("lazy_11s_kib", "huge_11s_kib")


def _resident(figure: str, name: str, program: str, *args, **more) -> Row:
    """A row whose ratio is made of one of the workload's own figures, with its curve."""
    more = {"repeats_max": 1, "series": _CURVE, **more}
    return Row(name, "memory", f"number:{figure}", (program, "{seed}") + args, **more)


def _idle_threads(count: int, why: str) -> Row:
    fields = ("anonymous_a_thread_kib", "kib_a_thread", "kib_a_thread_last", "kib_a_thread_trimmed")
    return _resident(
        "anonymous_a_thread_kib", f"idle-threads-{count}", "idle_threads", count, 64, 1, fields=fields, why=why
    )


def _idle_blocks(count: int) -> Row:
    """Its figure is of all threads together, so that a goal can say what each further one adds."""
    return _resident(
        "above_stacks_last_kib",
        f"idle-blocks-{count}",
        "idle_threads",
        count,
        64,
        1,
        1000,
        fields=("above_stacks_0s_kib", "above_stacks_last_kib", "above_stacks_trimmed_kib", "stacks_kib"),
        why=f"above stacks, threads that freed the 1000 blocks they allocated, and sleep: {count}",
    )


def _bursts(name: str, bursts: int, idle_ms: int, **more) -> Row:
    fields = ("resident_burst_kib", "resident_idle_kib", "resident_last_0s_kib", "resident_last_trimmed_kib")
    fields += ("lazy_last_0s_kib", "huge_last_0s_kib", "live_kib", "idle_cpu_seconds")
    return _resident(
        "resident_idle_kib", name, "burst_idle", bursts, N(100_000), 1_000, idle_ms, fields=fields, **more
    )


def _mix(name: str, sites: int, **more) -> Row:
    fields = tuple(f"resident_{when}_kib" for when in ("mixed", "left_0s", "left_1s", "left_11s", "left_trimmed"))
    fields += ("lazy_left_11s_kib", "huge_left_11s_kib", "live_kib", "trimmed_over_live")
    return _resident(
        "resident_over_live", name, "lifetime_mix", 10_000, 190_000, N(2_000_000), sites, 1, fields=fields, **more
    )


def _fragmenting(metric: str, name: str, wait: int, **more) -> Row:
    return Row(name, "memory", metric, ("fragmenting", "{seed}", 100_000, N(1_000_000), 2048, wait), **more)


def _asleep(name: str, threads: int, live: int, least: int, most: int, replacements: int, why: str) -> Row:
    return _resident(
        "resident_11s_kib",
        name,
        "asleep",
        threads,
        live,
        least,
        most,
        N(replacements),
        1,
        fields=_GIVEN_BACK + ("above_start_trimmed_kib",),
        why=why,
    )


ASLEEP = (
    _asleep("burst-asleep-1", 1, 40_000, 16, 4096, 400_000, "a thread that freed 80 MB of 16 to 4096 B, and sleeps"),
    _asleep("burst-asleep-8", 8, 5_000, 16, 4096, 50_000, "8 threads that freed 80 MB of 16 to 4096 B, and sleep"),
    _asleep(
        "large-asleep-3", 3, 48, 40 << 10, 1 << 20, 3_000, "3 threads that freed 77 MB of 40 KiB to 1 MiB, and sleep"
    ),
)

# What a large block costs that grows: CPU time.
GROW = (
    Row(
        "grow-steps",
        "memory",
        "cpu",
        ("grow_steps", "{seed}", N(240 << 20), 16 << 10, 4 << 10),
        why="a buffer filled to 240 MiB, 16 KiB more at a time, beside other blocks",
    ),
    Row(
        "grow-many",
        "memory",
        "cpu",
        ("grow_many", "{seed}", 28, 1 << 20, N(260 << 20), 8 << 10),
        why="28 buffers that grow in turn to 260 MiB by a tenth, hardly touched",
        repeats_max=3,
        timeout=120,
    ),
)

IDLE_BLOCKS = tuple(_idle_blocks(count) for count in (1, 8, 64, 512, 4096))

ROWS = (
    memory(
        "free-all",
        "free_all",
        N(5_000_000),
        120,
        1,
        why="5M x 120 B, all freed, then no call",
        repeats_max=1,
        fields=_GIVEN_BACK,
        series=_CURVE,
    ),
    memory(
        "free-all-full",
        "free_all",
        N(50_000_000),
        120,
        1,
        why="50M x 120 B, all freed, then no call",
        repeats_max=1,
        timeout=600,
        default=False,
        fields=_GIVEN_BACK,
        series=_CURVE,
    ),
    memory(
        "xpattern-rss",
        "xpattern",
        200_000,
        N(2_000_000),
        1,
        why="200,000 live shrink to 10,000; see grow-churn-shrink",
        repeats_max=1,
        default=False,
        fields=(
            "resident_churned_kib",
            "resident_shrunk_0s_kib",
            "resident_shrunk_1s_kib",
            "resident_shrunk_11s_kib",
            "resident_ended_1s_kib",
            "resident_ended_11s_kib",
        ),
    ),
    memory("sites-64", "sites", 0, why="400 call sites, 96 x 64 B each", fields=("grown_kib",)),
    memory("sites-mixed", "sites", 1, why="400 call sites, 14 sizes each", fields=("grown_kib",), quick=True),
    memory("sites-one", "sites", 2, why="the same blocks from one call site", fields=("grown_kib",)),
    memory(
        "idle-threads",
        "idle_threads",
        100,
        64,
        why="100 threads that allocate once",
        series=_CURVE,
        fields=("resident_full_kib", "kib_a_thread"),
    ),
    memory("tiny", "tiny", why="a program that allocates almost nothing"),
    _resident(
        "resident_over_live",
        "grow-churn-shrink",
        "grow_churn_shrink",
        200_000,
        N(3_000_000),
        1,
        0,
        why="200,000 live shrink to 10,000, scattered, and churn on",
        fields=(
            "resident_grown_kib",
            "resident_churned_kib",
            "resident_highest_kib",
            "resident_cut_kib",
            "resident_shrunk_0s_kib",
            "resident_shrunk_1s_kib",
            "resident_shrunk_11s_kib",
            "resident_shrunk_trimmed_kib",
            "lazy_shrunk_11s_kib",
            "huge_shrunk_11s_kib",
            "live_kib",
            "resident_ended_0s_kib",
            "resident_ended_1s_kib",
            "resident_ended_11s_kib",
            "resident_ended_trimmed_kib",
        ),
    ),
    _resident(
        "resident_highest_kib",
        "churn-elsewhere",
        "grow_churn_shrink",
        200_000,
        N(3_000_000),
        0,
        1,
        why="200,000 live from one call site, replaced from another",
        fields=("resident_grown_kib", "resident_churned_kib", "resident_highest_kib", "resident_shrunk_0s_kib"),
    ),
    memory(
        "phase",
        "phase",
        10,
        29_000,
        20,
        why="29 MB of one size, then of another, and a fiftieth of each stays",
        fields=("resident_kept_kib", "live_kib"),
    ),
    memory(
        "vectors",
        "vectors",
        3_000,
        200,
        4 << 10,
        1 << 20,
        why="200 live vectors of 4 KiB to 1 MiB that doubled by realloc",
        fields=("live_kib",),
    ),
    _mix("lifetime-mix", 1, why="10,000 that stay among 190,000 that go, from sites of their own"),
    _mix("lifetime-mix-one", 0, why="the same blocks from one call site", default=False),
    _bursts("burst-idle", 4, 3_000, why="120 MB in bursts, 3 s idle after each"),
    _bursts("burst-idle-long", 12, 10_000, why="120 MB in bursts, 10 s idle after each", default=False),
    _resident(
        "resident_asked_kib",
        "cold-data",
        "cold_data",
        N(61_440),
        5_000,
        16,
        why="60 MiB untouched beside 5,000 hot blocks, then asked to give back",
        fields=(
            "resident_full_kib",
            "resident_before_kib",
            "resident_asked_kib",
            "resident_asked_1s_kib",
            "resident_awake_kib",
            "live_kib",
            "wake_seconds",
        ),
    ),
    _fragmenting(
        "number:resident_over_live",
        "fragmenting",
        1,
        why="the work of grow-churn-shrink in a heap full of pinned holes",
        repeats_max=1,
        series=_CURVE,
        fields=(
            "resident_prepared_kib",
            "resident_worked_0s_kib",
            "resident_worked_1s_kib",
            "resident_worked_11s_kib",
            "resident_worked_trimmed_kib",
            "lazy_worked_11s_kib",
            "huge_worked_11s_kib",
            "resident_ended_kib",
            "live_kib",
            "resident_over_live_before",
        ),
    ),
    _fragmenting(
        "cpu",
        "fragmenting-time",
        0,
        why="CPU time of the same work in a heap full of pinned holes",
        fields=("cpu_seconds_before", "slowdown"),
    ),
    _idle_threads(1, "one thread that allocates once"),
    _idle_threads(8, "8 threads that allocate once"),
    _idle_threads(64, "64 threads that allocate once"),
    _idle_threads(512, "512 threads that allocate once"),
    *IDLE_BLOCKS,
    *ASLEEP,
    _resident(
        "resident_1s_kib",
        "hole-churn",
        "hole_churn",
        4,
        N(100_000),
        2_000,
        why="120 MB, nine of ten blocks freed at random, 2 s idle: four times",
        repeats_max=3,
        fields=(
            "resident_full_kib",
            "resident_1s_kib",
            "resident_idle_kib",
            "resident_trimmed_kib",
            "wholly_free_kib",
            "live_kib",
            "back_1s_share",
            "back_idle_share",
            "back_trimmed_share",
            "cpu_seconds",
        ),
    ),
    *GROW,
    *large.ROWS,
)

# Those that every run of the group has.
MEASURED = tuple(row.name for row in ROWS if row.default)
