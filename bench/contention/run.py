#!/usr/bin/env python3
"""Counts what cores take from each other, on a simulated machine of many cores, and says what is full first.

    run.py                          builds, runs every workload for 2, 8, 64 and 256 cores, prints the tables (minutes)
    run.py --page                   the same, and puts a table into docs/design/contention.md
    run.py --check                  a short run; fails when a count is above bench/contention/bounds.json
    run.py --write-bounds           writes bounds.json from a short run
    run.py --shards                 with and without shards, --cores 64 256, and prints a table
    run.py --sizes                  caches that find their sizes, and fixed ones
    run.py --chiplet 8              every 8 cores share a last-level cache; --one-shard: the allocator does not know

The allocator's own sources are built with the compiler's thread instrumentation, which calls a function before every
load, store and atomic; watch.c takes these calls and machine.c keeps, for each line of 64 bytes, which core may write
it and which may read it. Cores have clocks and take turns, so that locks are found held and compare-and-swaps fail as
they would. Every figure is exact and the same in every run.

Assumed, not measured: a line that one core takes from another takes 70 ns (--transfer-ns), one after the other for one
line. Measured medians between cores of one socket are 51 ns (Xeon 8375C), 72 ns (Kunpeng 920), 115 ns (EPYC 7773X):
github.com/nviennot/core-to-core-latency. Other costs are in machine.h. The machine's caches never overflow, memory has
no nodes, kernel calls for memory are free, the purger's helper does not run, and there are as many threads as cores.
Not seen: prefetches, and calls of memset and memcpy.

The check was seen to fail on an atomic addition in the fast path of malloc, on one more counter in depot_flush(), and
on batches that never reuse the empty ones of their own depot.
"""
import argparse
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BOUNDS = os.path.join(HERE, "bounds.json")
PAGE = os.path.join(ROOT, "docs", "design", "contention.md")
BEGIN, END = "<!-- figures: bench/contention/run.py --page -->", "<!-- end of figures -->"
SIZES = (0, 255, 1023)  # blocks of a bin in a cache from the first, and no budget; 0: found by misses
SHARED = ["private-2048", "remote", "handover", "one-way", "churn"]  # workloads whose batches cores share
CHIPLET = 8
SKIPPED = 77
WORKLOADS = {
    "same": "replaces its own blocks, 16..512 B, each by one of the same size",
    "private-512": "replaces its own blocks, 16..512 B, by other sizes",
    "private-2048": "replaces its own blocks, 16..2048 B, by other sizes",
    "remote": "as private-512, but the next core frees nine of ten",
    "handover": "allocates batches of 120 for the next core, frees those it is given",
    "one-way": "half of the cores allocate batches of 120, the others free them",
    "producer": "one core allocates, all others free",
    "churn": "grows, churns, shrinks, frees all: 15 sizes to 8192 B",
}
CHECK_CORES, CHECK_OPERATIONS = 16, 20000
TOLERANCE = 1.15  # another compiler lays out variables in other lines, and takes other times
TOLERANCES = {"remote": 2.0}  # which cores gather blocks, and which run short, hangs on times
SLACK = 0.7  # of a count for 1000 operations


class Program:
    def __init__(self, options, blocks=0):
        self.options = options
        self.blocks = blocks
        self.build = os.path.join(options.build, str(blocks)) if blocks else options.build
        self.path = os.path.join(self.build, "contention")

    def sources(self):
        source = self.options.source
        watched = [os.path.join(HERE, "calls.c"), os.path.join(source, "os", "lock.c"),
                   os.path.join(source, "site", "site.c")]
        for layer in ("base", "mem", "core"):
            folder = os.path.join(source, layer)
            watched += [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.endswith(".c")]
        kernel = ("auxiliary.c", "memory.c", "claim.c", "clock.c", "lines.c", "swap.c", "cgroup.c")
        plain = [os.path.join(source, "os", "linux", name) for name in kernel]
        plain.append(os.path.join(source, "front", "options.c"))
        pools = os.path.join(source, "pool")
        plain += [os.path.join(pools, name) for name in sorted(os.listdir(pools)) if name.endswith(".c")]
        plain += [os.path.join(HERE, name + ".c") for name in ("machine", "watch", "kernel", "names", "workloads")]
        return watched, plain

    def compile(self):
        os.makedirs(self.build, exist_ok=True)
        flags = [self.options.cc, "-std=gnu17", "-O2", "-fno-pie", "-Wall", "-Wextra", "-DCALM_CHECKS=1",
                 "-DCALM_CACHE_BLOCKS=%d" % self.blocks,
                 "-I" + os.path.join(HERE, "shim"), "-I" + HERE, "-I" + self.options.source,
                 "-I" + os.path.join(self.options.source, "..", "include")]
        watched, plain = self.sources()
        objects = []
        for path in watched + plain:
            layer, name = path.split(os.sep)[-2:]
            target = os.path.join(self.build, layer + "_" + name[:-2] + ".o")
            extra = ["-fsanitize=thread"] if path in watched else []
            subprocess.run(flags + extra + ["-c", path, "-o", target], check=True)
            objects.append(target)
        wraps = "-Wl,--wrap=meta_alloc"
        subprocess.run([self.options.cc, "-no-pie", wraps] + objects + ["-o", self.path], check=True)
        self.symbols = read_symbols(self.path)

    def run(self, workload, cores, operations, is_one_shard=False):
        command = [self.path, workload, str(cores), str(operations), str(self.options.transfer_ns),
                   str(self.options.sites), str(self.options.chiplet), "1" if is_one_shard else "0"]
        output = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
        result = json.loads(output)
        for part in ("words", "lines"):
            for item in result[part]:
                item["name"] = self.name(item["name"])
        result["words"].sort(key=str)
        return result

    def name(self, name):
        """Of a static variable: the program's symbol."""
        if not name.startswith("@"):
            return name
        address = int(name[1:], 16)
        for start, size, symbol in self.symbols:
            if start <= address < start + size:
                return symbol.split(".")[0]
        return name


def read_symbols(path):
    symbols = []
    for line in subprocess.run(["nm", "-S", path], check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines():
        parts = line.split()
        if len(parts) == 4:
            symbols.append((int(parts[0], 16), int(parts[1], 16), parts[3]))
    return symbols


def a_thousand(result, count):
    return count * 1000 / result["operations"]


def figures(result):
    """What the tables and the bounds are made of: counts for 1000 operations, without the blocks' own lines."""
    moves = result["moves"] - result["block_moves"]
    copies = result["copies"] - result["block_copies"]
    return {
        "atomics": a_thousand(result, result["atomics"]),
        "atomics_moved": a_thousand(result, result["atomics_moved"]),
        "moves": a_thousand(result, moves),
        "copies": a_thousand(result, copies),
        "block_moves": a_thousand(result, result["block_moves"]),
        "far": a_thousand(result, result["moves_far"] - result["block_moves_far"]),
        "block_far": a_thousand(result, result["block_moves_far"]),
        "worst_line": a_thousand(result, result["lines"][0]["moves"]) if result["lines"] else 0,
    }


def rate(result):
    """Millions of operations a second, all cores together."""
    return result["operations"] * 1000 / result["ns"]


def busiest(result):
    """The line that is taken most: name, share of the time it is on its way, rate at which that would be all of it."""
    if not result["lines"]:
        return "none", 0.0, None
    line = result["lines"][0]
    moved_ns = line["moves"] * result["transfer_ns"]
    return line["name"], moved_ns / result["ns"], result["operations"] * 1000 / moved_ns


def longest_held(result):
    held = [word for word in result["words"] if word["held_ns"] > 0 and "lock" in word["name"]]
    if not held:
        return "none", 0.0
    worst = max(held, key=lambda word: word["held_ns"])
    return worst["name"], worst["held_ns"] / result["ns"]


def number(value):
    return "%.0f" % value if value >= 100 else "%.1f" % value if value >= 10 else "%.2f" % value


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "|".join("---" if i == 0 else "--:" for i in range(len(head))) + "|"]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]


def count_table(results):
    rows = []
    for result in results:
        found = figures(result)
        rows.append([result["workload"], str(result["cores"]), number(found["atomics"]),
                     number(found["atomics_moved"]), number(found["moves"]), str(result["moved_lines"]),
                     number(found["block_moves"]), str(result["shards"]), number(found["far"]),
                     number(found["block_far"]), number(rate(result))])
    return table(["workload", "cores", "atomics", "of these, on a line another core had", "lines taken, bookkeeping",
                  "different lines", "lines taken, blocks", "shards", "lines from another chiplet, bookkeeping",
                  "the same, blocks", "M operations a second"], rows)


def word_table(results):
    rows = []
    for result in results:
        words = [word for word in result["words"] if word["name"] != "blocks"]
        words.sort(key=lambda word: -word["moves"])
        parts = ["%s %s" % (word["name"], number(a_thousand(result, word["moves"]))) for word in words[:5]]
        if words:
            rows.append([result["workload"], str(result["cores"]), ", ".join(parts)])
    return table(["workload", "cores", "what is taken, for 1000 operations"], rows)


def limit_table(results):
    rows = []
    for result in results:
        name, share, full_at = busiest(result)
        lock, held = longest_held(result)
        if full_at is None:
            continue
        scale = result["transfer_ns"]
        rows.append([result["workload"], str(result["cores"]), name, "%.0f %%" % (100 * share),
                     "%s to %s" % (number(full_at * scale / 100), number(full_at * scale / 50)),
                     "%s %.0f %%" % (lock, 100 * held)])
    return table(["workload", "cores", "busiest line", "of the time on its way",
                  "full at, M operations a second, with 100 to 50 ns", "lock held longest"], rows)


def page_table(results):
    """A row for each workload and the largest machine: a page is short."""
    rows = []
    for result in results:
        found, (name, share, _) = figures(result), busiest(result)
        if result["cores"] == max(each["cores"] for each in results):
            rows.append([result["workload"], str(result["cores"]), number(found["atomics"]), number(found["moves"]),
                         number(rate(result)), "%s %.0f %%" % (name, 100 * share)])
    return "\n".join(table(["workload", "cores", "atomics", "lines", "M/s", "busiest"], rows))


def shards_table(pairs):
    """For each pair of results what one stack costs, and what stacks by shards do."""
    rows = []
    for one, by_shards in pairs:
        before, after = figures(one), figures(by_shards)
        cells = [number(before[what]) + ", " + number(after[what]) for what in ("atomics", "moves", "far", "block_far")]
        rows.append([one["workload"], str(one["cores"]), str(by_shards["shards"])] + cells +
                    ["%s, %s" % (number(rate(one)), number(rate(by_shards))),
                     "%.0f, %.0f" % (100 * busiest(one)[1], 100 * busiest(by_shards)[1])])
    return "\n".join(table(["workload", "cores", "shards", "atomics", "lines", "far", "blocks far", "M/s", "busiest %"],
                           rows))


def measure_pairs(program, options):
    options.chiplet = options.chiplet or CHIPLET
    pairs = []
    for workload in SHARED:
        for cores in options.cores:
            pairs.append([program.run(workload, cores, options.operations, is_one) for is_one in (True, False)])
            print("%s on %d cores: %s and %s M operations a second" %
                  (workload, cores, *(number(rate(result)) for result in pairs[-1])), file=sys.stderr, flush=True)
    return pairs


def sizes_table(options):
    """The same work by caches that find their sizes and by fixed ones, in that order."""
    programs = [Program(options, blocks) for blocks in SIZES]
    rows = []
    for program in programs:
        program.compile()
    for workload in SHARED:
        for cores in options.cores:
            results = [program.run(workload, cores, options.operations) for program in programs]
            found = [figures(result) for result in results]
            rows.append([workload, str(cores)] +
                        [", ".join(number(each[what]) for each in found) for what in ("atomics", "moves")] +
                        [", ".join(number(rate(result)) for result in results)])
            print("%s on %d cores: %s" % (workload, cores, rows[-1][-1]), file=sys.stderr, flush=True)
    return "\n".join(table(["workload", "cores", "atomics", "lines", "M/s"], rows))


def measure(program, options):
    results = []
    for workload in options.workloads:
        for cores in options.cores:
            results.append(program.run(workload, cores, options.operations, options.one_shard))
            print("%s on %d cores: %s M operations a second" % (workload, cores, number(rate(results[-1]))),
                  file=sys.stderr, flush=True)
    return results


def report(results, options):
    tail = [result for result in results if result["cores"] >= min(64, max(options.cores))]
    return "\n".join(["For 1000 operations; a call of malloc or of free is one.", ""] + count_table(results) +
                     ["", "Which words:", ""] + word_table(tail) + ["", "What is full first:", ""] +
                     limit_table(results))


def write_page(text):
    with open(PAGE, encoding="utf-8") as file:
        before, rest = file.read().split(BEGIN)
    after = rest.split(END)[1]
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(before + BEGIN + "\n\n" + text + "\n\n" + END + after)


def check_control(program):
    """One word that all cores add to: every addition takes the line, and nothing else takes time."""
    result = program.run("control", CHECK_CORES, 1000)
    found = figures(result)
    expected_rate = 1000 / result["transfer_ns"]
    findings = []
    if found["atomics"] != 1000 or not 990 <= found["moves"] <= 1000:
        findings.append("control: %s atomics and %s lines taken for 1000 additions" %
                        (found["atomics"], found["moves"]))
    if abs(rate(result) / expected_rate - 1) > 0.02:
        findings.append("control: %s M additions a second, not %s" % (number(rate(result)), number(expected_rate)))
    return findings


def check_equal(program):
    first, second = (program.run("churn", CHECK_CORES, CHECK_OPERATIONS) for _ in range(2))
    different = [part for part in first if part != "lines" and first[part] != second[part]]  # in order of addresses
    return ["churn: two runs differ in %s" % ", ".join(different)] if different else []


def check(program):
    with open(BOUNDS, encoding="utf-8") as file:
        bounds = json.load(file)
    findings = check_control(program) + check_equal(program)
    for workload in WORKLOADS:
        result = program.run(workload, CHECK_CORES, CHECK_OPERATIONS)
        found = figures(result)
        if workload == "same" and (found["atomics"] != 0 or found["moves"] + found["copies"] != 0):
            findings.append("same: the fast paths have %s atomics, and take %s lines" %
                            (number(found["atomics"]), number(found["moves"] + found["copies"])))
        for what, bound in bounds[workload].items():
            words = "%s: %s %s for 1000 operations; %s when the bounds were written" % \
                (workload, what, number(found[what]), number(bound))
            if found[what] > bound * TOLERANCES.get(workload, TOLERANCE) + SLACK:
                findings.append(words)
            elif found[what] < bound / 2 - SLACK:
                print("better, write new bounds: " + words)
    for finding in findings:
        print(finding)
    return 1 if findings else 0


def write_bounds(program):
    bounds = {}
    for workload in WORKLOADS:
        found = figures(program.run(workload, CHECK_CORES, CHECK_OPERATIONS))
        bounds[workload] = {what: round(value, 3) for what, value in found.items() if "far" not in what}
    with open(BOUNDS, "w", encoding="utf-8") as file:
        json.dump(bounds, file, indent=1)
        file.write("\n")


def has_instrumentation(options):
    """Whether the compiler can build for us, and says where symbols are."""
    os.makedirs(options.build, exist_ok=True)
    try:
        subprocess.run([options.cc, "-fsanitize=thread", "-x", "c", "-c", "-", "-o",
                        os.path.join(options.build, "probe.o")], input="int x;", text=True, check=True,
                       stderr=subprocess.DEVNULL)
        subprocess.run(["nm", "--version"], check=True, stdout=subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--shards", action="store_true")
    parser.add_argument("--sizes", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--write-bounds", action="store_true")
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "contention"), help="where to build")
    parser.add_argument("--source", default=os.path.join(ROOT, "src"), help="the allocator's sources")
    parser.add_argument("--cc", default=os.environ.get("CC", "cc"))
    parser.add_argument("--cores", type=int, nargs="+", default=[2, 8, 64, 256])
    parser.add_argument("--operations", type=int, default=20000, help="for each core, once to warm up, once counted")
    parser.add_argument("--transfer-ns", type=int, default=70)
    parser.add_argument("--sites", type=int, default=1, help="call sites that allocate; 1 is the worst case")
    parser.add_argument("--chiplet", type=int, default=0, help="cores that share a last-level cache; 0: all do")
    parser.add_argument("--one-shard", action="store_true", help="the allocator takes all cores for one group")
    parser.add_argument("--workloads", nargs="+", choices=sorted(WORKLOADS), default=list(WORKLOADS))
    options = parser.parse_args()
    if not has_instrumentation(options):
        print("skipped: %s cannot build with -fsanitize=thread, or there is no nm" % options.cc)
        return SKIPPED
    if options.sizes:
        print(sizes_table(options))
        return 0
    program = Program(options)
    program.compile()
    if options.check:
        return check(program)
    if options.write_bounds:
        return write_bounds(program)
    if options.shards:
        print(shards_table(measure_pairs(program, options)))
        return 0
    results = measure(program, options)
    print(report(results, options))
    if options.page:
        write_page(page_table(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
