#!/usr/bin/env python3
"""Writes src/core/class_tables.c from the rule for block sizes. Run it after changing the rule; a test compares.

The rule: 8; then steps of 16 to 256; of 32 to 512; of 64 to 1024; of 128 to 2048; then four classes a
doubling up to 32 KiB; and 4608, as a page with a header is a common request.
A slab is one unit of 64 KiB. For a block size d the check constants are M = floor(2^32 / d) + 1 and e = M * d - 2^32,
which is not 0: an offset n < 2^16 is the start of one of the first k blocks exactly when (n * M mod 2^32) <
(k - 1) * e + 1 (Lemire, Kaser, Kurz 2019, with the limit lowered to the last block that counts). Limits have 16 bits.
"""

import sys
from pathlib import Path

UNIT = 65536
GRAIN_SMALL, SMALL_MAX = 8, 4096
GRAIN_MEDIUM, MEDIUM_MAX = 256, 32768
PAGE_AND_HEADER = 4608
CACHE_BYTES_PER_BIN = 64 * 1024
CACHE_BLOCKS_MIN, CACHE_BLOCKS_MAX = 16, 1023
LISTS_LOG2 = 3
ENTRY_BYTES = 16


def block_sizes():
    sizes = [8]
    sizes += range(16, 257, 16)
    sizes += range(288, 513, 32)
    sizes += range(576, 1025, 64)
    sizes += range(1152, 2049, 128)
    top = 2048
    while top < MEDIUM_MAX:
        sizes += [top + top // 4 * i for i in (1, 2, 3, 4)]
        top *= 2
    return sorted([*sizes, PAGE_AND_HEADER])


def class_for(sizes, need):
    return next(i for i, size in enumerate(sizes) if size >= need) + 1


def table(name, kind, values, per_line=12):
    lines = [f"const {kind} {name}[{len(values)}] = {{"]
    for at in range(0, len(values), per_line):
        lines.append("    " + ", ".join(str(v) for v in values[at : at + per_line]) + ",")
    return "\n".join(lines + ["};"])


def row(member, values):
    """One array of a struct; what is not listed is 0."""
    lines = [", ".join(str(v) for v in values[at : at + 12]) + "," for at in range(0, len(values), 12)]
    return f"    .{member} = {{" + "\n              ".join(lines)[:-1] + "},"


def main():
    sizes = block_sizes()
    count = len(sizes) + 1
    assert count <= 64
    nothing = "    {0, 0, 0, 1, 0, 0, 0},"
    facts = [nothing]
    checks = ["    {0, 0},"]
    for size in sizes:
        capacity = UNIT // size
        multiplier = (1 << 32) // size + 1
        limit = (capacity - 1) * (multiplier * size - (1 << 32)) + 1
        assert limit < 1 << 16
        cached = max(CACHE_BLOCKS_MIN, min(CACHE_BLOCKS_MAX, CACHE_BYTES_PER_BIN // size))
        words = (capacity + 63) // 64
        shift = max(0, (capacity - 1).bit_length() - LISTS_LOG2)
        facts.append(f"    {{{size}, {capacity}, {cached}, {words}, {shift}, {multiplier}u, {limit}}},")
        checks.append(f"    {{{multiplier}u, {limit}}},")
    facts += [nothing] * (64 - count)
    checks += ["    {0, 0},"] * (64 - count)
    # Sizes that a free may be told: what the class serves, and what realloc shrinks to in place, down to a half.
    least = [0] + [0 if at == 0 else min(size // 2, sizes[at - 1] + 1) for at, size in enumerate(sizes)]
    told = [0] + [size - low + 1 for size, low in zip(sizes, least[1:])]
    small = [class_for(sizes, max(i * GRAIN_SMALL, 1)) * ENTRY_BYTES for i in range(SMALL_MAX // GRAIN_SMALL + 1)]
    medium = [class_for(sizes, max(i * GRAIN_MEDIUM, 1)) * ENTRY_BYTES for i in range(MEDIUM_MAX // GRAIN_MEDIUM + 1)]
    text = "\n\n".join(
        [
            "/*\n * class_tables.c: written by tools/make_classes.py, which has the rule. Constant.\n */\n"
            '#include "core/class.h"',
            f'_Static_assert(CLASS_COUNT == {count}, "run tools/make_classes.py");',
            "/* bytes, capacity, cached at most, bitmap words, list shift, multiplier, limit */\n"
            "const struct class_facts class_facts[CLASS_LIMIT] = {\n" + "\n".join(facts) + "\n};",
            "const struct class_check class_checks[CLASS_LIMIT] = {\n" + "\n".join(checks) + "\n};",
            "/* By class: the least size that a free may be told, and how many sizes from there on. */\n"
            "const struct class_given class_given = {\n" + row("least", least) + "\n" + row("count", told) + "\n};",
            "/* By size, the class times the bytes of a cache entry. */\n"
            + table("class_small", "uint32_t", small)
            + "\n\n"
            + table("class_medium", "uint16_t", medium),
        ]
    )
    target = Path(__file__).resolve().parent.parent / "src/core/class_tables.c"
    if "--check" in sys.argv:
        if target.read_text() != text + "\n":
            sys.exit(f"{target.name} is stale: run tools/make_classes.py")
        return
    target.write_text(text + "\n")


main()
