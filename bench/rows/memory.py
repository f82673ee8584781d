"""Memory, as the kernel counts it."""

from .row import N, memory

ROWS = (
    memory(
        "free-all",
        "free_all",
        N(5_000_000),
        120,
        1,
        why="5M x 120 B, all freed, then no call",
        repeats_max=3,
        fields=("resident_full_kib", "resident_0s_kib", "resident_1s_kib", "resident_11s_kib"),
    ),
    memory(
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
    memory(
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
    memory("sites-64", "sites", 0, why="400 call sites, 96 x 64 B each", fields=("grown_kib",)),
    memory("sites-mixed", "sites", 1, why="400 call sites, 14 sizes each", fields=("grown_kib",)),
    memory("sites-one", "sites", 2, why="the same blocks from one call site", fields=("grown_kib",)),
    memory(
        "idle-threads",
        "idle_threads",
        100,
        64,
        why="100 threads that allocate once",
        fields=("resident_full_kib", "kib_a_thread"),
    ),
    memory("tiny", "tiny", why="a program that allocates almost nothing"),
)
