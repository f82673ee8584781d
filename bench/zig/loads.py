#!/usr/bin/env python3
"""Measures calmalloc in Zig programs against the standard library's smp_allocator and libc's malloc: Carmen's three.

    loads.py [--loads symmetric,asymmetric,mpsc] [--allocators calm,smp,c] [--runs N] [--share F] [--ms N] [--out FILE]

Builds the program once with each allocator, with the newest pinned Zig, then runs them in turn, N times, and prints for
each load the medians and ours over smp's. All must compute the same. --share is the part of what was published that is
done (20 rounds, 10 million strings); --ms is how long an mpsc run is. --out appends each run as a line of JSON to FILE
(.jsonl.gz), after one that says of which machine and commit. Wall time wants a quiet machine. Builds lie in
build/bench/zig. The allocator `floor` never frees a small block: what no allocator can go below, for symmetric only.
`small` is calmalloc without huge pages. Neither is run unless named.
"""
import argparse
import gzip
import json
import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [os.path.join(ROOT, "tools"), os.path.join(ROOT, "bench")]

import zig  # noqa: E402
from harness import machine  # noqa: E402
from harness.loads import chosen, stop, turn  # noqa: E402

CACHE = os.environ.get("CALM_BENCH_CACHE") or os.path.join(ROOT, "build", "bench")
LOADS = ("symmetric", "asymmetric", "mpsc")
ALLOCATORS = ("calm", "smp", "c", "floor", "small")
SMALL_OPTIONS = "huge_from_mb=0"
SEED, THREADS, ROUNDS, TASKS, STRINGS, PRODUCERS = 1, 2, 20, 2000, 10_000_000, 4
FIGURES = {
    "symmetric": ("seconds", "cpu_s", "peak_rss_kib", "bytes_a_string"),
    "asymmetric": ("seconds", "cpu_s", "resident_max_kib", "resident_drift_kib"),
    "mpsc": ("resident_max_kib", "resident_drift_kib", "strings"),
}
GOALS = {("symmetric", "seconds"): 0.60, ("symmetric", "peak_rss_kib"): 1.0, ("asymmetric", "seconds"): 0.75}


def built(allocator):
    """The program with one allocator."""
    try:
        compiler = zig.compiler(zig.versions()[0])
    except zig.Trouble as trouble:
        stop(str(trouble))
    folder = os.path.abspath(os.path.join(CACHE, "zig"))
    environment = dict(os.environ, ZIG_GLOBAL_CACHE_DIR=os.path.join(folder, "global"),
                       ZIG_LOCAL_CACHE_DIR=os.path.join(folder, "local"))
    part = "calm" if allocator == "small" else allocator
    done = subprocess.run([compiler, "build", "-Dallocator=" + part, "--prefix", os.path.join(folder, allocator)],
                          cwd=HERE, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        stop("%s was not built:\n%s" % (allocator, done.stdout))
    return os.path.join(folder, allocator, "bin", "loads")


def words_of(load, share, milliseconds):
    numbers = {"symmetric": (THREADS, max(1, round(ROUNDS * share)), TASKS),
               "asymmetric": (SEED, max(50, round(STRINGS * share))),
               "mpsc": (SEED, PRODUCERS, milliseconds)}
    return [load] + [str(number) for number in numbers[load]]


def run(program, words, allocator):
    """The program's line, with processor time and peak; the peak is this interpreter's where that is higher, as it is
    while it becomes the program."""
    environment = dict(os.environ, CALM_OPTIONS=SMALL_OPTIONS) if allocator == "small" else None
    child = subprocess.Popen([program, *words], stdout=subprocess.PIPE, text=True, env=environment)
    said = child.stdout.read()
    child.stdout.close()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        stop("%s %s ended with %d" % (program, " ".join(words), child.returncode))
    return {**json.loads(said), "cpu_s": usage.ru_utime + usage.ru_stime, "peak_rss_kib": usage.ru_maxrss}


def judge(load, lines):
    """Prints the table of one load, and ours over smp's. `lines`: by allocator, its runs."""
    checks = {line["check"] for runs in lines.values() for line in runs}
    if len(checks) != 1:
        stop("%s computed different things: %s" % (load, checks))
    figures = FIGURES[load]
    medians = {name: [statistics.median(line[figure] for line in runs) for figure in figures]
               for name, runs in lines.items()}
    print("\n| %s | %s |\n|---|%s" % (load, " | ".join(figures), "--:|" * len(figures)))
    for name, values in medians.items():
        print("| %s | %s |" % (name, " | ".join("%.6g" % value for value in values)))
    for ours in [name for name in ("calm", "small") if name in medians and "smp" in medians]:
        ratios = [mine / theirs if theirs > 0 else float("nan") for mine, theirs in zip(medians[ours], medians["smp"])]
        print("| %s over smp | %s |" % (ours, " | ".join("%.3f" % ratio for ratio in ratios)))
        for figure, ratio in zip(figures, ratios):
            goal = GOALS.get((load, figure))
            if goal is not None:
                print("%s %s %s: %.3f of smp's, wanted at most %.2f" % (ours, load, figure, ratio, goal))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--loads", default=",".join(LOADS))
    parser.add_argument("--allocators", default="calm,smp,c")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--ms", type=int, default=8000)
    parser.add_argument("--out", help="append each run to FILE, compressed")
    options = parser.parse_args()
    loads = chosen(options.loads, LOADS, "load")
    allocators = chosen(options.allocators, ALLOCATORS, "allocator")
    if "floor" in allocators and loads != ["symmetric"]:
        stop("floor frees nothing small, so it is for --loads symmetric alone.")
    programs = {name: built(name) for name in allocators}
    records = [{"kind": "header", "machine": machine.describe(), "zig": zig.versions()[0]}]
    for load in loads:
        lines = {name: [] for name in programs}
        words = words_of(load, options.share, options.ms)
        for repeat in range(options.runs):
            for name in turn(list(programs), repeat):
                lines[name].append(run(programs[name], words, name))
                records.append({"kind": "run", "load": load, "words": words, "allocator": name, "repeat": repeat,
                                **lines[name][-1]})
        judge(load, lines)
    if options.out:
        with gzip.open(options.out, "at") as file:
            file.writelines(json.dumps(record) + "\n" for record in records)


if __name__ == "__main__":
    main()
