"""One thread, CPU time: the general rows."""

from .row import N, one

ROWS = (
    one("pairs-16", "pairs", 16, N(20_000_000), slices=10, counted=100_000),
    one("pairs-64", "pairs", 64, N(20_000_000), slices=10, counted=100_000, quick=True),
    one("pairs-256", "pairs", 256, N(20_000_000), slices=10, counted=100_000),
    one("pairs-1024", "pairs", 1024, N(20_000_000), slices=10, counted=100_000),
    one("pairs-4096", "pairs", 4096, N(10_000_000), slices=10, counted=100_000),
    one("pairs-16384", "pairs", 16384, N(10_000_000), slices=10, counted=100_000),
    one(
        "slots",
        "replace",
        1,
        1000,
        64,
        64,
        N(15_000_000),
        why="1000 live blocks of 64 B",
        slices=10,
        counted=100_000,
        quick=True,
    ),
    one(
        "mixed",
        "replace",
        1,
        100_000,
        16,
        1015,
        N(4_000_000),
        why="100,000 live of 16 to 1015 B",
        slices=5,
        counted=200_000,
        quick=True,
    ),
    one(
        "batch", "batch", 64, 1000, N(12_500), why="1000 mallocs, then 1000 frees", slices=10, counted=100, quick=True
    ),
    one("order-lifo", "order", 0, 1_000_000, N(4), why="1M of 64 B, freed last first", counted=1),
    one("order-fifo", "order", 1, 1_000_000, N(4), why="1M of 64 B, freed first first", counted=1),
    one("order-random", "order", 2, 1_000_000, N(2), why="1M of 64 B, freed at random", counted=1, quick=True),
    one("large-pingpong", "large", 0, N(60_000), why="64 KiB to 16 MiB in turn", slices=4, counted=500),
    one("large-grow", "large", 1, N(60), why="64 KiB to 16 MiB by realloc, filled", slices=4),
    one("churn-64", "replace", 1, 262_144, 64, 64, N(4_000_000), why="262,144 live of 64 B", counted=200_000),
    one(
        "churn-1024", "replace", 1, 262_144, 1024, 1024, N(3_000_000), why="262,144 live of 1024 B", counted=200_000
    ),
    one(
        "xpattern",
        "xpattern",
        200_000,
        N(2_000_000),
        0,
        why="200,000 live of 15 sizes: grow, churn, shrink",
        counted=100_000,
    ),
    one("pingpong-800k", "pairs", 800_000, N(6_000_000), why="one block of 800 KB at a time", slices=6, counted=5_000),
    one(
        "medium-t1",
        "replace",
        1,
        200,
        32 << 10,
        1 << 20,
        N(1_200_000),
        why="200 live of 32 KiB to 1 MiB",
        slices=6,
        counted=5_000,
        quick=True,
    ),
)
