"""Computes the worst case of each pool operation from object code, and keeps the table that calm_pool_bound reads.

    bound FILE...                    prints the bounds of the operations in each file
    bound --check TABLE FILE...      fails when a file has more than TABLE says, or an operation that has no bound
    bound --exact TABLE FILE...      fails also when TABLE says more than the largest of the files
    bound --write TABLE FILE...      writes the largest of the files into TABLE
    bound --show NAME FILE           prints the instructions of the longest path of one operation, with all features

FILE is an object file, an archive or a shared library, for x86-64 or aarch64. How: docs/design/pool-bound.md.
"""
import argparse
import itertools
import json
import re
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
# The features that change an operation; each set of them has a row. src/pool/bound.c knows when each is there.
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
    parser.add_argument("--json", action="store_true", help="print the bounds as JSON")
    parser.add_argument("--operation", action="append", metavar="NAME", help="only this function; may be repeated")
    options = parser.parse_args()
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
