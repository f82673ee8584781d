"""Several threads, wall time."""

from .row import N, threads

ROWS = (
    threads("medium-t8", "replace", 8, 200, 32 << 10, 1 << 20, N(25_000), why="medium-t1 on eight threads"),
    threads("larson-t2", "larson", 2, 1000, 16, 500, N(200), 100_000, why="slots handed to successor threads"),
    threads("larson-t8", "larson", 8, 1000, 16, 500, N(200), 25_000, why="slots handed to successor threads"),
    threads("remote-t2-r90", "remote", 2, 90, N(5_000_000), why="90 % freed by the next thread"),
    threads("remote-t8-r90", "remote", 8, 90, N(1_000_000), why="90 % freed by the next thread"),
    threads("xmalloc-t2", "handover", 0, 2, N(100_000), 64, 64, why="one allocates, one frees, batches of 120"),
    threads(
        "handover-t2", "handover", 1, 2, N(40_000), 16, 512, why="everything freed by the other, batches of 120"
    ),
    threads("handover-t8", "handover", 1, 8, N(10_000), 16, 512, why="everything freed by the next, batches of 120"),
)
