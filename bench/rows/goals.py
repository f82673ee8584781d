"""What the report holds the results against."""

from .large import RESIZE, REWRITE
from .memory import ASLEEP, GROW, IDLE_BLOCKS, MEASURED
from .threads import DEATHS, HZ3_ROWS

IDLE_BLOCKS_ROWS = tuple(row.name for row in IDLE_BLOCKS)
ASLEEP_ROWS = tuple(row.name for row in ASLEEP)
GROW_ROWS = tuple(row.name for row in GROW)
WRITTEN_ROWS = tuple(row.name for row in REWRITE + RESIZE)
UNTOUCHED_ROWS = ("untouched-t8-r90", "untouched-matched-t8-r90", "touched-t8-r90")
THREADS_ROWS = ("owners-t8", "stress-t8", "leak-turns-t5", *(row.name for row in DEATHS))

# (text, kind, argument, limit). Kinds are explained in harness/goals.py.
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
    ("free-all-full: the same of ten times as many blocks", "given_back", "free-all-full", 0.95),
    ("remote-t2-r90 over its best peer, ties aside", "row_time", ("remote-t2-r90",), 0.85),
    ("remote-t8-r90, plain and any, over its best peer", "row_time", ("remote-t8-r90", "remote-any-t8-r90"), 0.60),
    ("remote-t16-r50, plain and any, over its best peer", "row_time", ("remote-t16-r50", "remote-any-t16-r50"), 0.70),
    ("remote-t32-r90 over its best peer, ties aside", "row_time", ("remote-t32-r90",), 0.55),
    ("remote-any-t32-r90 over its best peer, ties aside", "row_time", ("remote-any-t32-r90",), 0.55),
    ("nothing remote: time over the best peer's, ties aside", "row_time", ("remote-t2-r0", "remote-t8-r0"), 1.00),
    (
        "remote blocks to 32 and 128 KiB: time over the best peer's, ties aside",
        "row_time",
        ("remote-t2-r90-32k", "remote-t8-r90-32k", "remote-t2-r90-128k", "remote-t8-r90-128k"),
        1.00,
    ),
    ("handover over its best peer, ties aside", "row_time", ("handover-t2", "handover-t8"), 0.50),
    ("xmalloc over its best peer, ties aside", "row_time", ("xmalloc-t2", "xmalloc-t8"), 0.90),
    ("scratch-t2 over its best peer, ties aside", "row_time", ("scratch-t2",), 1.05),
    (
        "slots, leaks and frees by many threads: time over the best peer's, ties aside",
        "row_time",
        ("slots-t8", "leak-t100", "fan-out-t410"),
        1.00,
    ),
    (
        "larson, slots, leaks and frees by many threads: peak RSS over the lowest of the fast peers",
        "peak_of_fast",
        ("larson-t2", "larson-t8", "slots-t8", "leak-t100", "fan-out-t410"),
        1.00,
    ),
    ("symmetric: time over gperftools', ties aside", "over_peer", ("symmetric", "tcmalloc"), 1.00),
    (
        "symmetric: resident bytes a string, 332 MB for 40 million",
        "most",
        ("bytes_a_string", ("symmetric-memory-full",)),
        8.30,
    ),
    ("asymmetric and mpsc: KiB of drift", "most", ("resident_drift_kib", ("asymmetric", "mpsc")), 1024),
    ("asymmetric: time over mimalloc 2's, ties aside", "over_peer", ("asymmetric-time", "mimalloc2"), 1.00),
    ("mpsc: time over mimalloc 2's, ties aside", "over_peer", ("mpsc-time", "mimalloc2"), 1.00),
    (
        "a stopped freer: the others' P99.9 over the same without a stop",
        "most",
        ("others_p999_ratio", ("stopped-ptrace", "stopped-signal", "stopped-idle")),
        1.10,
    ),
    (
        "threads that freed 1000 blocks and sleep: KiB that each adds above its stack, caches by cores",
        "kib_a_thread",
        (IDLE_BLOCKS_ROWS, "cores"),
        1.0,
    ),
    ("the same, caches by threads", "kib_a_thread", (IDLE_BLOCKS_ROWS, "threads"), 16.0),
    (
        "hz3's rows over the better of caches fixed at 256 and at 1024, geometric mean",
        "over_variants",
        (HZ3_ROWS, ("fixed256", "fixed1024")),
        1.00,
    ),
    ("every memory row's peak RSS over the best peer's", "row_peak", MEASURED, 1.10),
    ("peak RSS of the memory rows, geometric mean, over the best peer's", "group_peak_best", ("memory",), 0.95),
    (
        "threads that freed all and sleep: KiB above the start after being asked to give back",
        "most",
        ("above_start_trimmed_kib", ASLEEP_ROWS),
        1024,
    ),
    ("hole-churn: share of the wholly free pages back after 1 s", "least", ("back_1s_share", ("hole-churn",)), 0.90),
    ("large blocks written in full: resident over live, over the best peer's", "row_time", WRITTEN_ROWS, 1.10),
    ("large blocks written in full: CPU time over the best peer's, ties aside", "row_cpu", WRITTEN_ROWS, 1.10),
    ("sparse-64k: resident over the pages touched, over the best peer's", "row_time", ("sparse-64k",), 1.10),
    ("rounds-1g: share of 1 GiB given back 1 s later", "given_back", "rounds-1g", 0.95),
    ("after-work-t8: KiB that stay 1 s after the work", "most", ("resident_1s_kib", ("after-work-t8",)), 5120),
    ("retire: P99 of the end of a thread that freed 4 MiB, ns", "most", ("retire_p99_ns", ("retire",)), 500_000),
    ("retire: share of the 4 MiB that is back then", "least", ("back_share", ("retire",)), 0.95),
    ("blocks that nobody uses: time over the best peer's, ties aside", "row_time", UNTOUCHED_ROWS, 1.10),
    (
        "owners, deaths, stress, leaks in turn: time over the best peer's, ties aside",
        "row_time",
        THREADS_ROWS,
        1.10,
    ),
    ("tail-mixed: malloc's P99.9 over tcmalloc's, ties aside", "over_peer", ("tail-mixed-malloc", "tcmalloc"), 1.00),
    ("tail-mixed: free's P99.9 over tcmalloc's, ties aside", "over_peer", ("tail-mixed-free", "tcmalloc"), 1.00),
    ("tail-mixed: calls above 100 ns, of a million", "most", ("slow_a_million", ("tail-mixed-slow",)), 71),
    ("tail-mixed: the longest call over glibc's", "over_peer", ("tail-mixed-worst", "glibc"), 1 / 87),
    ("large blocks that grow: CPU time over the best peer's, ties aside", "row_time", GROW_ROWS, 1.10),
)
