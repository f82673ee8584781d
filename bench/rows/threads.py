"""Several threads: wall time, and where that is not the question, a number of the workload's own."""

from .row import N, Row, threads, workload

STOPPED_FIELDS = (
    "others_p999_ratio",
    "stalled_stops_share",
    "running_p999_ns",
    "held_p999_ns",
    "running_max_ns",
    "held_max_ns",
)
RESIDENT_FIELDS = ("resident_max_kib", "resident_end_kib", "resident_drift_kib")


def number(name, field, program, *args, **more) -> Row:
    """A row whose figure is a number of the workload's own result."""
    return workload("threads", f"number:{field}", name, program, *args, **more)


def stopped(name, how, why) -> Row:
    return number(
        f"stopped-{name}",
        "held_p999_ns",
        "stopped",
        how,
        N(25),
        20,
        why=f"the others' P99.9 while a thread is {why}",
        fields=STOPPED_FIELDS,
        series=("running_ns", "held_ns"),
    )


# (threads, percent): hz3's matrix, and the same where any other thread may free; of two threads that is the next one.
HZ3 = ((2, 90), (8, 90), (16, 50), (32, 90))
HZ3_ROWS = tuple(f"hz3-t{count}-r{percent}" for count, percent in HZ3)
HZ3_ANY = HZ3[1:]
HZ3_ANY_ROWS = tuple(f"hz3-any-t{count}-r{percent}" for count, percent in HZ3_ANY)


def hz3(name, who, count, percent, *more) -> Row:
    return threads(
        name,
        "remote",
        count,
        percent,
        N(5 * 2_500_000),
        *more,
        why=f"{percent} % freed by {who} of {count} threads, each run as long as published",
        slices=5,
        default=False,
        counted=200_000 if count == 2 else None,  # more would work on cores' caches, but not under valgrind
    )


DYING = (("fifo", "oldest first"), ("lifo", "newest first"), ("mixed", "at both ends"))
DEATHS = tuple(
    threads(
        f"deaths-{replaced}-{dying}-t4",
        "deaths",
        4,
        10_000,
        10,
        1000,
        how,
        who,
        N(15),
        why=f"10,000 live of 10 to 1000 B, replaced {words}, that die {order}",
        slices=5,
    )
    for how, (replaced, words) in enumerate((("ordered", "in order"), ("random", "at random")))
    for who, (dying, order) in enumerate(DYING)
)

ROWS = (
    threads("medium-t8", "replace", 8, 200, 32 << 10, 1 << 20, N(25_000), why="medium-t1 on eight threads"),
    threads(
        "larson-t2", "larson", 2, 1000, 16, 500, N(200), 100_000, why="slots handed to successor threads", slices=4
    ),
    threads(
        "larson-t8", "larson", 8, 1000, 16, 500, N(200), 25_000, why="slots handed to successor threads", slices=4
    ),
    threads("remote-t2-r90", "remote", 2, 90, N(5_000_000), why="90 % freed by the next thread", slices=5),
    threads(
        "remote-t8-r90", "remote", 8, 90, N(1_000_000), why="90 % freed by the next thread", slices=5, quick=True
    ),
    threads(
        "xmalloc-t2", "handover", 0, 2, N(100_000), 64, 64, why="one allocates, one frees, batches of 120", slices=5
    ),
    threads(
        "handover-t2",
        "handover",
        1,
        2,
        N(40_000),
        16,
        512,
        why="everything freed by the other, batches of 120",
        slices=5,
    ),
    threads(
        "handover-t8",
        "handover",
        1,
        8,
        N(10_000),
        16,
        512,
        why="everything freed by the next, batches of 120",
        slices=5,
    ),
    threads(
        "xmalloc-t8",
        "handover",
        0,
        8,
        N(20_000),
        64,
        64,
        why="four allocate, four free, batches of 120",
        slices=5,
        quick=True,
    ),
    threads(
        "slots-t8",
        "replace",
        8,
        1000,
        64,
        64,
        N(5_000_000),
        why="1000 live blocks of 64 B on eight threads",
        slices=5,
    ),
    threads("remote-t2-r0", "remote", 2, 0, N(8_000_000), why="nothing crosses threads", slices=5),
    threads("remote-t8-r0", "remote", 8, 0, N(2_000_000), why="nothing crosses threads", slices=5),
    threads("remote-t16-r50", "remote", 16, 50, N(300_000), why="half freed by the next thread", slices=5),
    threads("remote-t32-r90", "remote", 32, 90, N(100_000), why="90 % freed by the next thread"),
    threads(
        "remote-any-t8-r90",
        "remote",
        8,
        90,
        N(400_000),
        2048,
        1,
        why="90 % freed by any other thread",
        slices=5,
        quick=True,
    ),
    threads("untouched-t8-r90", "untouched", 8, 90, N(1_000_000), 0, why="the same, and nobody uses a block", slices=5),
    threads(
        "untouched-matched-t8-r90",
        "untouched",
        8,
        90,
        N(1_000_000),
        1,
        why="the same, and who is ahead waits",
        slices=5,
    ),
    threads(
        "touched-t8-r90", "untouched", 8, 90, N(1_000_000), 0, 1, why="the same, one byte of each is used", slices=5
    ),
    threads("remote-any-t16-r50", "remote", 16, 50, N(200_000), 2048, 1, why="half freed by any other thread"),
    threads("remote-any-t32-r90", "remote", 32, 90, N(100_000), 2048, 1, why="90 % freed by any other of 32 threads"),
    threads("remote-t2-r90-32k", "remote", 2, 90, N(1_000_000), 32 << 10, why="90 % crosses, up to 32 KiB"),
    threads("remote-t8-r90-32k", "remote", 8, 90, N(150_000), 32 << 10, why="90 % crosses, up to 32 KiB"),
    threads("remote-t2-r90-128k", "remote", 2, 90, N(300_000), 128 << 10, why="90 % crosses, up to 128 KiB"),
    threads("remote-t8-r90-128k", "remote", 8, 90, N(50_000), 128 << 10, why="90 % crosses, up to 128 KiB"),
    threads(
        "leak-t100",
        "leak",
        100,
        N(10_000),
        32,
        512,
        why="100 threads that only allocate",
        fields=("overhead", "requested_kib", "grown_kib"),
    ),
    threads("fan-out-t410", "fan_out", 10, 40, N(1_500), 16, 512, why="10 threads allocate, 400 free"),
    threads(
        "scratch-t2",
        "scratch",
        2,
        16,
        N(200),
        20_000,
        why="two threads write to blocks of 16 B that a third had",
        fields=("shared_lines",),
    ),
    stopped("ptrace", 0, "held by a tracer"),
    stopped("signal", 1, "parked in a signal handler"),
    stopped("idle", 2, "in the idle class under a busy one"),
    threads(
        "symmetric",
        "symmetric",
        4,
        N(8),
        2000,
        why="16M strings of 1 to 4 B made by four threads and kept",
        fields=("bytes_a_string", "strings"),
    ),
    number(
        "symmetric-memory",
        "bytes_a_string",
        "symmetric",
        4,
        N(5),
        2000,
        why="resident for each of 10M strings of 1 to 4 B",
        fields=("bytes_a_string", "strings"),
        repeats_max=3,
    ),
    number(
        "symmetric-memory-full",
        "bytes_a_string",
        "symmetric",
        4,
        N(20),
        2000,
        why="resident for each of 40M strings of 1 to 4 B",
        fields=("bytes_a_string", "strings"),
        repeats_max=3,
        timeout=180,
        default=False,
    ),
    threads(
        "asymmetric",
        "asymmetric",
        N(3_000_000),
        why="one makes strings of 7 to 35 B, one frees them",
        fields=RESIDENT_FIELDS,
        series=("resident_kib",),
    ),
    threads(
        "asymmetric-time",
        "asymmetric",
        N(3_000_000),
        why="the same in short runs: the two threads' turns differ from run to run",
        slices=8,
    ),
    number(
        "asymmetric-memory-full",
        "resident_max_kib",
        "asymmetric",
        N(10_000_000),
        why="resident while 10M strings go from one thread to another",
        fields=RESIDENT_FIELDS,
        series=("resident_kib",),
        repeats_max=3,
        default=False,
    ),
    number(
        "mpsc",
        "resident_max_kib",
        "mpsc",
        4,
        N(8_000),
        why="resident for 8 s of four producers, a ring of 16 and a consumer",
        fields=RESIDENT_FIELDS + ("strings",),
        series=("resident_kib",),
        repeats_max=1,
    ),
    number(
        "mpsc-full",
        "resident_max_kib",
        "mpsc",
        4,
        N(100_000),
        why="the same for 100 s",
        fields=RESIDENT_FIELDS + ("strings",),
        series=("resident_kib",),
        repeats_max=1,
        timeout=180,
        default=False,
    ),
    number(
        "mpsc-time",
        "string_ns",
        "mpsc",
        4,
        N(2_000),
        why="time a string takes from four producers through a ring of 16 to a consumer",
        fields=("strings",),
        slices=4,
    ),
    threads(
        "owners-t8",
        "replace",
        8,
        1024,
        16,
        4096,
        N(2_000_000),
        why="1024 live of 16 to 4096 B on each of eight threads",
        slices=5,
    ),
    *DEATHS,
    threads("stress-t8", "stress", 8, N(20), 5_000, 25, 0, why="a quarter of 8 to 128 KiB, some freed by others"),
    threads(
        "leak-turns-t5",
        "leak",
        5,
        N(200_000),
        32,
        512,
        1,
        why="5 threads in turn that only allocate",
        fields=("overhead", "requested_kib", "grown_kib"),
    ),
    number(
        "retire",
        "retire_p99_ns",
        "retire",
        N(200),
        4 << 10,
        why="P99 of a thread's end that freed 4 MiB, and what of it is back then",
        fields=(
            "retire_p50_ns",
            "retire_p99_ns",
            "retire_max_ns",
            "back_share",
            "resident_kept_kib",
            "resident_kept_1s_kib",
        ),
        repeats_max=3,
    ),
    *(hz3(name, "the next", *each) for name, each in zip(HZ3_ROWS, HZ3)),
    *(hz3(name, "any other", *each, 2048, 1) for name, each in zip(HZ3_ANY_ROWS, HZ3_ANY)),
)
