"""Memory rows of large blocks that are really used, and of what is left of them: what others publish and users see."""

from .row import N, Row, memory

KIB, MIB = 1 << 10, 1 << 20
_HELD = ("resident_over_live", "highest_over_live", "live_kib", "page_faults", "cpu_seconds")


def _over_live(name: str, program: str, *args, why: str) -> Row:
    """Its figure is what is resident over what is live, the mean of samples: the same in every run but for timing."""
    command = (program, "{seed}") + args
    return Row(name, "memory", "number:resident_over_live", command, why=why, fields=_HELD, repeats_max=3)


def _rewrite(name: str, live: int, least: int, most: int, replacements: int, why: str) -> Row:
    return _over_live(name, "rewrite", live, least, most, N(replacements), why=why)


REWRITE = (
    _rewrite("rewrite-32k-1m", 200, 32 * KIB, MIB, 10_000, "200 blocks of 32 KiB to 1 MiB, replaced and written"),
    _rewrite("rewrite-100k-2m", 100, 100_000, 2_000_000, 5_000, "100 blocks of 100 KB to 2 MB, replaced and written"),
    _rewrite("rewrite-5m-25m", 20, 5_000_000, 25_000_000, 400, "20 blocks of 5 to 25 MB, replaced and written"),
    _rewrite("rewrite-33k-65k", 500, 33_000, 65_000, 60_000, "500 blocks of 33 to 65 KB, replaced and written"),
)

RESIZE = (
    _over_live(
        "resize-any",
        "resize",
        0,
        256,
        4 * KIB,
        MIB,
        N(20_000),
        why="256 buffers of 4 KiB to 1 MiB that grow and shrink by realloc",
    ),
    _over_live(
        "resize-cut",
        "resize",
        1,
        1_000,
        4 * KIB,
        256 * KIB,
        N(20_000),
        why="1,000 buffers that grew to 256 KiB and were cut down to 4 KiB",
    ),
)

ROWS = (
    *REWRITE,
    *RESIZE,
    memory(
        "grow-free",
        "large",
        1,
        N(2_000),
        why="a buffer grown to 16 MiB by realloc, filled and freed, 2,000 times",
        repeats_max=1,
        fields=("cpu_seconds",),
    ),
    memory(
        "pipe-large",
        "pipe",
        N(3_000),
        100_000,
        4_000_000,
        8,
        why="one thread fills blocks of 100 KB to 4 MB, another frees them; 4 to 8 wait",
        repeats_max=3,
        fields=("page_faults", "cpu_seconds"),
    ),
    Row(
        "sparse-64k",
        "memory",
        "number:resident_over_touched",
        ("sparse", "{seed}", 4_000, 64 * KIB, 100),
        why="4,000 blocks of 64 KiB of which 100 B are written",
        fields=("resident_over_touched", "resident_full_kib", "huge_full_kib", "touched_kib", "page_faults"),
        repeats_max=3,
    ),
    Row(
        "rounds-1g",
        "memory",
        "number:resident_4s_kib",
        ("rounds", "{seed}", 3, N(1024), MIB, 1),
        why="what stays 4 s after three rounds of 1 GiB in blocks of 1 MiB, with little work",
        fields=(
            "resident_full_kib",
            "resident_0s_kib",
            "resident_1s_kib",
            "resident_4s_kib",
            "resident_trimmed_kib",
            "lazy_4s_kib",
            "page_faults",
            "cpu_seconds",
        ),
        series=("resident_kib",),
        repeats_max=1,
    ),
    Row(
        "after-work-t8",
        "memory",
        "number:resident_1s_kib",
        ("stress", "{seed}", 8, N(20), 5_000, 25, 1),
        why="what stays 1 s after the work of stress-t8, its threads ended",
        fields=tuple(f"resident_{when}_kib" for when in ("start", "0s", "1s", "11s", "trimmed")),
        series=("resident_kib",),
        repeats_max=1,
    ),
)
