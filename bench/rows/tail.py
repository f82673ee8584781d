"""Single calls and their tails, how times drift, what blocks cost in memory, and how fast a heap is ready."""

from typing import Tuple

from .row import N, Row, tail, workload

ORDERS = (("lifo", 0, "last first"), ("fifo", 1, "first first"), ("random", 2, "at random"))


def number(name, field, program, *args, **more) -> Row:
    """A row whose figure is a number of the workload's own result."""
    return workload("tail", f"number:{field}", name, program, *args, **more)


def call_fields(call: str) -> Tuple[str, ...]:
    return (
        f"{call}_trimmed_ns",
        f"{call}_p50_ns",
        f"{call}_p99_ns",
        f"{call}_p999_ns",
        f"{call}_p9999_ns",
        f"{call}_max_ns",
        f"{call}_over_100ns_share",
        f"{call}_over_1us_share",
        f"{call}_over_10us_share",
    )


# Of nothing, and of waits as long as a call: what the machine alone does.
MACHINE = (
    "nothing_p9999_ns",
    "nothing_max_ns",
    "nothing_over_1us_share",
    "malloc_wait_trimmed_ns",
    "malloc_wait_over_1us_share",
    "free_wait_trimmed_ns",
    "free_wait_over_1us_share",
)


def single_calls(
    name: str, program: str, *args, why: str, quick: Tuple[str, ...] = (), fields: Tuple[str, ...] = ()
) -> Tuple[Row, ...]:
    """Two rows of the same work, one for the tail of malloc and one for that of free."""
    return tuple(
        number(
            f"{name}-{call}",
            f"{call}_p999_ns",
            program,
            *args,
            why=f"{why}: {call}'s P99.9",
            fields=call_fields(call) + ("grain_ns", "empty_p999_ns") + fields,
            series=("malloc_ns", "free_ns"),
            quick=call in quick,
        )
        for call in ("malloc", "free")
    )


ROWS: Tuple[Row, ...] = (
    *(
        number(
            f"lat-{size}",
            "pair32_p50_ns",
            "lat",
            0,
            size,
            N(16_000_000),
            why=f"malloc, touch, free of {size} B: median of blocks of 32",
            slices=10,
            fields=("pair32_p50_ns", "pair32_p99_ns", "pair32_p999_ns"),
            series=("pair32_ns",),
            quick=size == 64,
        )
        for size in (16, 64, 256, 1024, 4096)
    ),
    *single_calls("lat-64", "lat", 1, 64, N(5_000_000), why="one block of 64 B at a time"),
    *single_calls(
        "tail-churn-64",
        "churn",
        0,
        262_144,
        64,
        N(2_500_000),
        why="262,144 live of 64 B",
        quick=("free",),
        fields=MACHINE,
    ),
    *single_calls(
        "tail-churn-1024", "churn", 0, 262_144, 1024, N(1_500_000), why="262,144 live of 1024 B", fields=MACHINE
    ),
    *(
        number(
            f"shrink-{size}{'-random' if order else ''}",
            "free_p9999_ns",
            "shrink",
            N(count),
            size,
            order,
            why=f"1 GiB of blocks of {size} B is freed {'at random' if order else 'in order'}: free's P99.99",
            fields=call_fields("free") + ("grain_ns", "empty_p9999_ns"),
        )
        for size, count, order in ((120, 8_500_000, 0), (1000, 1_000_000, 1), (100_000, 10_000, 0))
    ),
    *(
        number(
            f"frames-{size}",
            "faults_a_frame",
            "frames",
            120,
            100_000_000,
            size,
            10,
            why=f"100 MB of blocks of {size} B in each frame: page faults a frame, once it goes on",
        )
        for size in (500, 20_000, 20_000_000)
    ),
    *(
        number(
            f"{name}-full",
            "malloc_p999_ns",
            program,
            *args,
            why=f"{what}: malloc's P99.9, as many calls as were published",
            fields=call_fields("malloc") + call_fields("free") + ("grain_ns", "empty_p999_ns"),
            series=("malloc_ns", "free_ns"),
            repeats_max=3,
            default=False,
        )
        for name, program, args, what in (
            ("lat-64", "lat", (1, 64, N(20_000_000)), "one block of 64 B at a time"),
            ("tail-churn-64", "churn", (0, 262_144, 64, N(64_000_000)), "262,144 live of 64 B"),
            ("tail-churn-1024", "churn", (0, 262_144, 1024, N(64_000_000)), "262,144 live of 1024 B"),
        )
    ),
    *(
        number(
            f"tail-churn-{size}-fifo",
            "malloc_p999_ns",
            "churn",
            0,
            262_144,
            size,
            N(750_000),
            1,
            why=f"262,144 live of {size} B on a core of its own, by SCHED_FIFO: malloc's P99.9",
            fields=call_fields("malloc") + call_fields("free") + MACHINE,
            series=("malloc_ns", "free_ns"),
            default=False,
        )
        for size in (64, 1024)
    ),
    *(
        number(
            f"drift-{size}",
            "window_p90_ns",
            "churn",
            100,
            262_144,
            size,
            N(operations),
            why=f"262,144 live of {size} B: the slow windows of 100",
            fields=("window_p50_ns", "window_p90_ns", "window_max_ns", "window_drift"),
            series=("window_ns",),
        )
        for size, operations in ((64, 8_000_000), (1024, 5_000_000))
    ),
    *(
        number(
            f"reuse-{order}",
            "malloc_trimmed_ns",
            "reuse",
            number_of_order,
            1_000_000,
            N(2),
            why=f"a malloc after 1M of 64 B were freed {how}",
            fields=call_fields("malloc"),
            series=("malloc_ns", "free_ns"),
        )
        for order, number_of_order, how in ORDERS
    ),
    *(
        tail(
            f"throughput-{size}",
            "batch",
            size,
            blocks,
            N(rounds),
            why=f"{blocks:,} mallocs of {size} B, then their frees in order",
        )
        for size, blocks, rounds in (
            (16, 100_000, 200),
            (64, 100_000, 200),
            (256, 100_000, 100),
            (1024, 100_000, 50),
            (4096, 10_000, 500),
        )
    ),
    *(
        number(
            f"owner-{name}",
            "malloc_p9999_ns",
            "owner",
            is_remote,
            64,
            N(1_000_000),
            why=f"P99.99 of a malloc whose blocks of 64 B {how}",
            fields=call_fields("malloc") + ("most_instructions", "calls_counted", "bound_instructions"),
            series=("malloc_ns",),
            default=False,
        )
        for name, is_remote, how in (
            ("local", 0, "another core reads and hands back"),
            ("remote", 1, "another core reads and frees"),
        )
    ),
    *(
        number(
            f"footprint-{name}",
            "overhead",
            "footprint",
            500_000,
            low,
            high,
            why=f"resident over requested, 500,000 of {what}",
            fields=("overhead", "overhead_anonymous", "requested_kib", "grown_kib"),
            repeats_max=3,
        )
        for name, low, high, what in (
            ("16", 16, 16, "16 B"),
            ("64", 64, 64, "64 B"),
            ("1024", 1024, 1024, "1024 B"),
            ("mixed", 16, 1015, "16 to 1015 B"),
        )
    ),
    *(
        number(
            f"most-{name}",
            "most_instructions",
            "most",
            262_144,
            low,
            high,
            N(operations),
            then,
            why=f"the most instructions of any single call, 262,144 live of {what}",
            fields=("most_instructions_malloc", "most_instructions_free", "calls_counted"),
            repeats_max=1,
            default=False,
        )
        for name, low, high, what, operations, then in (
            ("64", 64, 64, "64 B", 64_000_000, 0),
            ("1024", 1024, 1024, "1024 B", 16_000_000, 0),
            ("mixed", 16, 1015, "16 to 1015 B", 8_000_000, 0),
            ("64-then-1024", 64, 64, "64 B, which are freed, then of 1024 B", 2_000_000, 1024),
        )
    ),
    *single_calls("tail-mixed", "mixed_churn", 262_144, N(1_500_000), why="262,144 live of seven sizes, 16 to 1024 B"),
    *(
        number(
            f"tail-mixed-{name}",
            figure,
            "mixed_churn",
            262_144,
            N(1_500_000),
            why=f"262,144 live of seven sizes, 16 to 1024 B: {what}",
            fields=("slow_a_million", "nothing_a_million", "worst_ns", "nothing_max_ns", "grain_ns", "empty_max_ns"),
            repeats_max=3,
        )
        for name, figure, what in (
            ("slow", "slow_a_million", "calls above 100 ns, of a million"),
            ("worst", "worst_ns", "the longest call"),
        )
    ),
    number(
        "init-ready",
        "ready_ns",
        "init",
        1,
        N(200),
        why="from a program's start to its first malloc and free",
        fields=("ready_ns", "ready_best_ns"),
    ),
    number(
        "init-fill",
        "fill_ns_a_block",
        "init",
        1_000_000,
        N(5),
        why="a fresh heap's first 1M of 64 B",
        fields=("ready_ns", "fill_ns_a_block"),
    ),
)
