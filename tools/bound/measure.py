"""Computes the worst case of each pool operation from object code, and writes it where calm_pool_bound reads it.

    bound FILE...                    prints the bounds of the operations in each file
    bound --stamp FILE...            writes each file's own bounds into it; exit code 1 where one has none
    bound --stamped FILE...          fails when what is written in a file is not what its code takes
    bound --check TABLE FILE...      fails when a file has more than TABLE says, or an operation that has no bound
    bound --exact TABLE FILE...      fails also when TABLE says more than the largest of the files
    bound --write TABLE FILE...      writes the largest of the files into TABLE
    bound --show NAME FILE           prints the instructions of the longest path of one operation, with all features

FILE is an object file, an archive, a shared library or a program, for x86-64 or aarch64, not stripped. How:
docs/design/pool-bound.md.
"""
import argparse
import itertools
import json
import re
import struct
import sys

import listing
import paths
from listing import Rejected

# In the table's order. Those of calm_pool_limits first.
OPERATIONS = ("calm_pool_alloc", "calm_pool_alloc_aligned", "calm_pool_free", "calm_pool_free_remote",
              "calm_pool_drain", "calm_pool_owns", "calm_pool_usable_size", "calm_region_alloc",
              "calm_region_release", "calm_bounded_alloc", "calm_bounded_free")
# Functions of the pool that operations may call; each is followed as if it stood in their place. The first has a longer
# name in the static libraries, where the heap shares it.
LEAVES = ("pool_look", "calm_pool_look", "publish_coded", "leave_word", "raise_word", "take_back", "refill",
          "hand_out_any", "lend", "alloc_slow", "alloc_large", "class_among", "free_any", "refuse")
# What a configuration can be without, and the function that is then never entered.
FEATURES = {"SPILL": "lend", "CODED": "publish_coded", "LARGE": "alloc_large",
            "MANY": "class_among"}
# The features that change an operation; each set of them has a row. src/pool/bound.c knows when each is there, and
# counts them by these bits.
BITS = {"SPILL": 1, "CODED": 2, "LARGE": 4, "MANY": 8}
VARIES = {
    "calm_pool_alloc": ("SPILL", "CODED", "LARGE"),
    "calm_pool_alloc_aligned": ("SPILL", "CODED"),
    "calm_pool_free": ("CODED", "MANY"),
    "calm_pool_free_remote": ("MANY",),
    "calm_pool_drain": ("CODED",),
}
FIELDS = ("instructions", "lines", "branches")
ENTRY = re.compile(r"^BOUND\((\w+), (\w+), ([\w |]+), (\d+), (\d+), (\d+)\)$", re.M)


def subsets(names):
    return [chosen for count in range(len(names) + 1) for chosen in itertools.combinations(names, count)]


def key(name, present):
    """A row's name: the operation, and the features that it is for."""
    return " ".join([name, *present])


def bounds_of(path, operations):
    found = {}
    code = listing.read(path)
    for name in operations:
        if name not in code.names:
            raise Rejected("'%s' has no function %s" % (path, name))
        try:
            for present in subsets(VARIES.get(name, ())):
                without = [FEATURES[one] for one in VARIES.get(name, ()) if one not in present]
                found[key(name, present)] = paths.bound(code, name, LEAVES, name.startswith("calm_pool_"), without)
        except Rejected as problem:
            raise Rejected("%s in '%s' has no bound: %s" % (name, path, problem)) from None
    return code.machine, found


# src/pool/bound.c: the stamp's head, and a row.
MAGIC = b"calm-bound-stamp\0\0\0\0"
HEAD = struct.Struct("<20sIIII")
ROW = struct.Struct("<24sIIII")
STAMP_VERSION = 1


def stamp_of(path):
    """The file's bytes, where its stamp begins, and how many rows that has."""
    with open(path, "rb") as file:
        content = bytearray(file.read())
    at = content.find(MAGIC)
    if at < 0 or content.find(MAGIC, at + 1) >= 0:
        how_many = "no" if at < 0 else "a second"
        raise Rejected("'%s' has %s stamp; is it of calmalloc, and built whole?" % (path, how_many))
    _, version, _, count, row_bytes = HEAD.unpack_from(content, at)
    if version != STAMP_VERSION or row_bytes != ROW.size or at + HEAD.size + count * ROW.size > len(content):
        raise Rejected("'%s' has a stamp of another version than this program's" % path)
    return content, at, count


def rows_of(content, at, count):
    """The place, the name and the costs of each row."""
    for place in range(at + HEAD.size, at + HEAD.size + count * ROW.size, ROW.size):
        name, features, *costs = ROW.unpack_from(content, place)
        name = "calm_" + name.rstrip(b"\0").decode()
        present = [one for one in VARIES.get(name, ()) if features & BITS[one]]
        yield place, key(name, present), costs


def write_stamp(path):
    """What the file's code takes goes into its stamp; where a bound is missing the stamp says that there is none."""
    content, at, count = stamp_of(path)
    try:
        found, reason = bounds_of(path, OPERATIONS)[1], None
    except Rejected as problem:
        found, reason = None, problem
    for place, row, _ in rows_of(content, at, count):
        costs = [getattr(found[row], field) for field in FIELDS] if found else [0, 0, 0]
        struct.pack_into("<III", content, place + ROW.size - 12, *costs)
    struct.pack_into("<I", content, at + HEAD.size - 12, int(found is not None))
    with open(path, "r+b") as file:
        file.write(content)
    if reason is not None:
        raise Rejected("%s; calm_pool_bound says that it was not checked" % reason)


def check_stamp(path):
    content, at, count = stamp_of(path)
    if struct.unpack_from("<I", content, at + HEAD.size - 12)[0] == 0:
        raise Rejected("'%s' is not stamped; --stamp does it" % path)
    found = bounds_of(path, OPERATIONS)[1]
    rows = list(rows_of(content, at, count))
    if sorted(row for _, row, _ in rows) != sorted(found):
        raise Rejected("the rows of '%s' are not those that the code has: src/pool/bound_rows.def" % path)
    for _, row, costs in rows:
        if costs != [getattr(found[row], field) for field in FIELDS]:
            raise Rejected("'%s' says %s of %s, and takes something else" % (path, costs, row))


def each(function, paths_given):
    """Of all files, each by itself; exit code 1 when one was refused."""
    code = 0
    for path in paths_given:
        try:
            function(path)
        except (Rejected, OSError) as problem:
            print("bound: %s." % problem, file=sys.stderr)
            code = 1
    return code


def read_table(path):
    """{machine: {operation: {field: number}}}"""
    with open(path) as file:
        rows = ENTRY.findall(file.read())
    table = {}
    for machine, name, present, *numbers in rows:
        row = key("calm_" + name, re.findall(r"HAS_(\w+)", present))
        table.setdefault(machine, {})[row] = dict(zip(FIELDS, map(int, numbers)))
    return table


def write_table(path, largest):
    with open(path) as file:
        text = file.read()
    kept = {**read_table(path), **largest}
    rows = []
    for machine in sorted(kept, reverse=True):
        for title, row in kept[machine].items():
            name, *present = title.split(" ")
            features = " | ".join("HAS_" + one for one in present) or "0"
            rows.append("BOUND(%s, %s, %s, %d, %d, %d)" %
                        (machine, name[len("calm_"):], features, *(row[field] for field in FIELDS)))
    first = ENTRY.search(text)
    head = text[:first.start()] if first else text
    with open(path, "w") as file:
        file.write(head + "\n".join(rows) + "\n")


def largest_of(measured):
    table = {}
    for machine, found in measured:
        for name, one in found.items():
            row = table.setdefault(machine, {}).setdefault(name, dict.fromkeys(FIELDS, 0))
            for field in FIELDS:
                row[field] = max(row[field], getattr(one, field))
    return table


def compare(table, largest, is_exact):
    wrong = []
    for machine, rows in largest.items():
        for name, row in rows.items():
            told = table.get(machine, {}).get(name)
            if told is None:
                wrong.append("%s on %s is not in the table" % (name, machine))
                continue
            for field in FIELDS:
                if row[field] > told[field] or (is_exact and row[field] != told[field]):
                    wrong.append("%s on %s: the code has %d %s, the table says %d" %
                                 (name, machine, row[field], field, told[field]))
    return wrong


def main():
    parser = argparse.ArgumentParser(prog="bound", description=__doc__.split("\n", 1)[0])
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("--check", metavar="TABLE")
    parser.add_argument("--exact", metavar="TABLE")
    parser.add_argument("--write", metavar="TABLE")
    parser.add_argument("--show", metavar="NAME")
    parser.add_argument("--stamp", action="store_true")
    parser.add_argument("--stamped", action="store_true")
    parser.add_argument("--json", action="store_true", help="print the bounds as JSON")
    parser.add_argument("--operation", action="append", metavar="NAME", help="only this function; may be repeated")
    options = parser.parse_args()
    if options.stamp or options.stamped:
        return each(write_stamp if options.stamp else check_stamp, options.files)
    try:
        if options.show:
            found = bounds_of(options.files[0], [options.show])[1]
            for instruction in found[list(found)[-1]].longest:
                print("%6x  %s" % (instruction.place[2], instruction.text))
            return 0
        measured = [bounds_of(path, options.operation or OPERATIONS) for path in options.files]
    except Rejected as problem:
        print("bound: %s." % problem, file=sys.stderr)
        return 1
    largest = largest_of(measured)
    if options.json:
        print(json.dumps(largest, indent=1))
    else:
        for path, (machine, found) in zip(options.files, measured):
            print("%s (%s)" % (path, machine))
            for name, one in found.items():
                print("  %-44s %4d instructions %3d lines %3d branches   %d ways, %d jumps backwards, no loop" %
                      (name, one.instructions, one.lines, one.branches, one.ways, one.backward))
    if options.write:
        write_table(options.write, largest)
    wrong = []
    if options.check or options.exact:
        wrong = compare(read_table(options.check or options.exact), largest, options.exact is not None)
    for sentence in wrong:
        print("bound: %s." % sentence, file=sys.stderr)
    return 1 if wrong else 0
