"""What the report holds the results against."""

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
)
