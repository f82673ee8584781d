"""`calm pool plan FILE`: a pool's classes and their blocks, from the sizes that `calm run --sizes FILE` recorded."""
import ctypes
import json
import re
import sys

import build
import pool_plan
import say
from trouble import Trouble


class Config(ctypes.Structure):
    """struct calm_pool_config of calmalloc/pool.h."""
    _fields_ = [("block_bytes", ctypes.POINTER(ctypes.c_size_t)), ("percent", ctypes.POINTER(ctypes.c_uint32)),
                ("classes", ctypes.c_size_t), ("bytes", ctypes.c_size_t), ("flags", ctypes.c_uint),
                ("memory", ctypes.c_void_p), ("blocks", ctypes.POINTER(ctypes.c_uint32))]


class Cost(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint32) for name in ("instructions", "lines", "branches")]


class Limits(ctypes.Structure):
    """struct calm_pool_limits."""
    _fields_ = [(name, ctypes.c_size_t) for name in ("bytes", "usable_bytes", "lost_bytes", "meta_bytes")] + [
        ("stride_bytes", ctypes.c_size_t * pool_plan.CLASSES_MAX), ("blocks", ctypes.c_uint32 * pool_plan.CLASSES_MAX),
        ("remote_calls", ctypes.c_uint32 * pool_plan.CLASSES_MAX)
    ] + [("cost_code", ctypes.c_int)] + [(name, Cost)
                                         for name in ("alloc", "alloc_aligned", "free", "free_remote", "drain")]


class Library:
    """calm_pool_bound of the library itself, so that what is proposed is what a pool will have."""

    def __init__(self):
        self.handle = ctypes.CDLL(build.library())
        self.said = Limits()

    def bytes_of(self, sizes, blocks):
        """What a pool of so many blocks of each size takes; None: there is none."""
        config = Config((ctypes.c_size_t * len(sizes))(*sizes), None, len(sizes), 0, 0, None,
                        (ctypes.c_uint32 * len(sizes))(*blocks))
        if self.handle.calm_pool_bound(ctypes.byref(config), ctypes.byref(self.said)) != 0:
            return None
        return self.said.bytes


def read(path):
    """[(size, peak)] and the blocks left out: of a recorded file, or of lines `SIZE PEAK`."""
    try:
        with open(path) as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise Trouble("'%s' cannot be read: %s." % (path, reason)) from None
    if text.lstrip().startswith("{"):
        try:
            found = json.loads(text)
            rows = [(int(row["bytes"]), int(row["peak"])) for row in found["sizes"]]
            larger = int(found.get("larger", {}).get("peak", 0))
        except (ValueError, KeyError, TypeError):
            raise Trouble("'%s' is not a file that `calm run --sizes` wrote." % path) from None
    else:
        rows, larger = [], 0
        for number, line in enumerate(text.splitlines(), 1):
            words = re.sub(r"#.*", "", line).split()
            if not words:
                continue
            if len(words) != 2 or not all(word.isdigit() for word in words):
                raise Trouble("'%s', line %d: a line is 'SIZE PEAK', two whole numbers." % (path, number))
            rows.append((int(words[0]), int(words[1])))
    larger += sum(peak for size, peak in rows if size > pool_plan.BLOCK_MAX)
    rows = [(size, peak) for size, peak in rows if size <= pool_plan.BLOCK_MAX and peak > 0]
    if not rows:
        raise Trouble("'%s' has no block of at most 1 MiB: there is nothing to plan." % path)
    return rows, larger


def number(text, name, low, high):
    if not re.fullmatch(r"\d+", text) or not low <= int(text) <= high:
        raise Trouble("option '--%s' takes a number from %d to %d, not '%s'." % (name, low, high, text), 2)
    return int(text)


def as_json(made, larger):
    return {
        "bytes": made.bytes,
        "asked_bytes": sum(one.asked_bytes for one in made.classes),
        "lost_bytes": made.lost_bytes,
        "left_out_blocks": larger,
        "rounding_bytes_by_number_of_classes": made.by_count,
        "classes": [{"block_bytes": one.block_bytes, "blocks": one.blocks, "peak": one.peak,
                     "sizes": one.sizes, "asked_bytes": one.asked_bytes, "rounding_bytes": one.rounding_bytes}
                    for one in made.classes],
    }


def percentage(part, whole):
    """Of ten times the whole and more, how many times it is."""
    if not whole:
        return "-"
    return "%.1f %%" % (100.0 * part / whole) if part < 10 * whole else "%.0f times" % (part / whole)


def show(made, larger):
    asked = sum(one.asked_bytes for one in made.classes)
    say.table(["block", "blocks", "peak", "sizes", "rounding", "of what is asked"],
              [[str(one.block_bytes), format(one.blocks, ","), format(one.peak, ","),
                str(one.sizes), say.amount(one.rounding_bytes), percentage(one.rounding_bytes, one.asked_bytes)]
               for one in made.classes], sys.stdout)
    rounding = sum(one.rounding_bytes for one in made.classes)
    print("\n  pool %s for %s at the peaks: %s rounding (%s), %s bookkeeping and headroom" % (
        say.amount(made.bytes), say.amount(asked), say.amount(rounding), percentage(rounding, asked),
        say.amount(made.bytes - asked - rounding)))
    shown = [count for count in (1, 2, 4, 8, 16, 32, 64) if count <= len(made.by_count)]
    print("  rounding by number of classes: " + ", ".join(
        "%d: %s" % (count, percentage(made.by_count[count - 1], asked)) for count in shown))
    if larger:
        print("  left out: %s above 1 MiB, which no class can hold" % say.count(larger, "block"))
    print("\nstatic const size_t block_bytes[] = {%s};" % ", ".join(str(one.block_bytes) for one in made.classes))
    print("static const uint32_t blocks[] = {%s};" % ", ".join(str(one.blocks) for one in made.classes))
    print("struct calm_pool_config config = {.block_bytes = block_bytes, .blocks = blocks, .classes = %d};" %
          len(made.classes))


def start(action, file, classes, headroom, is_json):
    if action != "plan":
        raise Trouble("pool knows no '%s'; there are `calm pool plan FILE` and `calm pool measure`." % action, 2)
    if file is None:
        raise Trouble("`calm pool plan` needs a FILE that `calm run --sizes FILE` wrote.", 2)
    count = None if classes is None else number(classes, "classes", 1, pool_plan.CLASSES_MAX)
    extra = number(headroom, "headroom", 0, 1000)
    rows, larger = read(file)
    try:
        made = pool_plan.plan(rows, count, extra, Library().bytes_of)
    except ValueError as problem:
        raise Trouble("for '%s', %s." % (file, problem)) from None
    if is_json:
        print(json.dumps(as_json(made, larger), indent=2))
    else:
        show(made, larger)
