"""Which classes a pool should have for a histogram of sizes, and how many blocks of each.

A histogram says how many blocks of each size are alive at once at most. Classes are chosen so that the bytes lost to
rounding at those peaks are fewest: for each number of classes the best choice is computed, not searched for. Peaks of
different sizes need not come at the same moment, so a class that holds the sum of its sizes' peaks holds enough.

The cost of one class over sizes i to j is stride(j) times their blocks, less their bytes. Strides ascend, so the cost
satisfies the quadrangle inequality, and the best place for the last cut moves only upwards with j: a row of the
table takes n log n steps (Galil and Park, Theoretical Computer Science 92, 1992).
"""
from dataclasses import dataclass, field
from typing import Dict, List, Tuple

CLASSES_MAX = 64
BLOCK_MAX = 1 << 20
BLOCKS_MAX = 1 << 24
PERCENT = 100
WASTE_WANTED = 0.05  # of the bytes asked for: more classes than this needs are not proposed


def stride(size):
    """What a block of `size` takes: plan.c rounds so."""
    if size < 8:
        return 1 << max(0, (size - 1).bit_length())
    return -(-size // 8) * 8


@dataclass
class Class:
    block_bytes: int
    sizes: int  # distinct ones that it serves
    peak: int  # blocks of these sizes alive, at most
    asked_bytes: int  # of those
    blocks: int = 0  # of the pool

    @property
    def rounding_bytes(self):
        return self.peak * stride(self.block_bytes) - self.asked_bytes


@dataclass
class Plan:
    classes: List[Class]
    bytes: int = 0
    lost_bytes: int = 0  # of the whole pool, at the peaks
    by_count: List[int] = field(default_factory=list)  # rounding bytes with 1, 2, 3... classes


def merge(histogram):
    """[(size, peak)] of the sizes that a pool can serve, one for each stride, ascending."""
    rows: Dict[int, List[int]] = {}
    for size, peak in histogram:
        row = rows.setdefault(stride(max(1, size)), [0, 0, 0])
        row[0] += peak
        row[1] += peak * size
        row[2] += 1
    return [(size, *row) for size, row in sorted(rows.items()) if row[0] > 0]


def best(rows, count_max):
    """The cuts for 1 to count_max classes: a list of (rounding bytes, [last row of each class])."""
    n = len(rows)
    blocks, asked = [0], [0]
    for _, peak, total, _ in rows:
        blocks.append(blocks[-1] + peak)
        asked.append(asked[-1] + total)

    def cost(first, last):
        return rows[last][0] * (blocks[last + 1] - blocks[first]) - (asked[last + 1] - asked[first])

    before = [cost(0, last) for last in range(n)]
    cuts: List[List[int]] = [[0] * n]
    found = [(before[-1], [n - 1])]
    for count in range(2, min(count_max, n) + 1):
        now, cut = [float("inf")] * n, [0] * n
        _row(before, now, cut, cost, count - 1, n - 1, count - 1, n - 1)
        cuts.append(cut)
        lasts, last = [], n - 1
        for level in range(count - 1, -1, -1):
            lasts.append(last)
            last = cuts[level][last] - 1
        found.append((now[-1], lasts[::-1]))
        before = now
    return found


def _row(before, now, cut, cost, low, high, first, last):
    """now[j], the least of before[i - 1] + cost(i, j), for j from low to high; the best i lies from first to last."""
    stack = [(low, high, first, last)]
    while stack:
        low, high, first, last = stack.pop()
        if low > high:
            continue
        middle = (low + high) // 2
        now[middle], cut[middle] = min((before[i - 1] + cost(i, middle), i)
                                       for i in range(first, min(middle, last) + 1))
        stack.append((low, middle - 1, first, cut[middle]))
        stack.append((middle + 1, high, cut[middle], last))


def classes_of(rows, lasts, headroom):
    made, first = [], 0
    for last in lasts:
        part = rows[first:last + 1]
        peak = sum(row[1] for row in part)
        made.append(Class(part[-1][0], sum(row[3] for row in part), peak, sum(row[2] for row in part),
                          -(-peak * (PERCENT + headroom) // PERCENT)))
        first = last + 1
    return made


def plan(histogram, count=None, headroom=0, bytes_of=None):
    """The classes for [(size, peak)]. `count` of them, or as few as lose at most WASTE_WANTED to rounding. `bytes_of`
    says what the library needs for (sizes, blocks); without it the pool's bytes stay 0."""
    rows = merge([(size, peak) for size, peak in histogram if size <= BLOCK_MAX])
    if not rows:
        raise ValueError("there is no size that a pool can serve")
    found = best(rows, CLASSES_MAX)
    asked = sum(row[2] for row in rows)
    if count is None:
        floor = found[-1][0]
        count = next(i for i, (lost, _) in enumerate(found, 1) if lost <= floor + WASTE_WANTED * asked)
    count = min(count, len(found))
    made = Plan(classes_of(rows, found[count - 1][1], headroom), by_count=[lost for lost, _ in found])
    if max(one.blocks for one in made.classes) > BLOCKS_MAX:
        raise ValueError("a class would have more than %s blocks; plan more classes" % format(BLOCKS_MAX, ","))
    if bytes_of is not None:
        made.bytes = bytes_of([one.block_bytes for one in made.classes], [one.blocks for one in made.classes])
        if made.bytes is None:
            raise ValueError("no pool holds so much")
        made.lost_bytes = made.bytes - sum(one.asked_bytes for one in made.classes)
    return made
