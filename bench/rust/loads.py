#!/usr/bin/env python3
"""Measures calmalloc in Rust programs against the mimalloc and jemalloc crates and the C library.

    loads.py [--loads json,tokio,rayon] [--allocators calm,small,mimalloc,jemalloc,glibc,floor] [--runs N] [--rounds N]
             [--counts] [--raw FILE] [--show FILE]

Builds each program once with each allocator as its own (pinned in Cargo.toml), runs them in turn, N times, and prints
for each load the median of wall time, processor time and peak memory, and ours over the better of the two crates. All
must compute the same. --counts runs each once under callgrind instead, and prints instructions: the figure that is
the same on a busy machine. Wall time wants a quiet one. --raw appends every run to FILE (.jsonl.gz), one line each
after one that describes the machine; --show prints the tables of such a file and runs nothing. Builds lie in
build/bench/rust, or CALM_BENCH_CACHE/rust. The allocator `floor` has a list for each size, looks at nothing and is for
one thread: about the fewest instructions that a load can take, for json alone, and not run unless named. `small` is
calmalloc without huge pages; not run unless named, either.
"""
import argparse
import gzip
import itertools
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from harness import machine  # noqa: E402
from harness.loads import chosen, stop, turn  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
CACHE = os.environ.get("CALM_BENCH_CACHE") or os.path.join(HERE, "..", "..", "build", "bench")
LOADS = ("json", "tokio", "rayon")
ALLOCATORS = ("calm", "mimalloc", "jemalloc", "glibc")
FLOOR, SMALL, SMALL_OPTIONS = "floor", "small", "huge_from_mb=0"
CRATES = ("mimalloc", "jemalloc")
FIGURES = (("wall_s", "wall s"), ("cpu_s", "cpu s"), ("peak_rss_kib", "peak KiB"))


def built(allocator, loads):
    """The folder with the programs of one allocator. What does not know the allocator is compiled once for all."""
    shared, folder = (os.path.abspath(os.path.join(CACHE, "rust", name)) for name in ("target", allocator))
    features = [] if allocator == "glibc" else ["--features", "calm" if allocator == SMALL else allocator]
    programs = itertools.chain.from_iterable(("--bin", load) for load in loads)
    done = subprocess.run(["cargo", "build", "--release", "--locked", "--target-dir", shared, *programs, *features],
                          cwd=HERE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        stop("%s was not built:\n%s" % (allocator, done.stderr))
    os.makedirs(folder, exist_ok=True)
    for load in loads:
        shutil.copy(os.path.join(shared, "release", load), folder)
    return folder


def run(words, allocator=None):
    environment = dict(os.environ, CALM_OPTIONS=SMALL_OPTIONS) if allocator == SMALL else None
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    if done.returncode != 0:
        stop("%s ended with %d: %s" % (" ".join(words), done.returncode, done.stderr.strip()[-500:]))
    line = json.loads(done.stdout)
    return {**line, "allocator": allocator or line["allocator"]}, done.stderr


def counted(words, allocator):
    """A run under callgrind: its line, with instructions in the place of times."""
    with tempfile.TemporaryDirectory(prefix="calm-loads-") as folder:
        out = "--callgrind-out-file=" + os.path.join(folder, "out")
        line, said = run(["valgrind", "--tool=callgrind", out, *words], allocator)
    return {**line, "instructions": int(re.search(r"Collected : (\d+)", said).group(1))}


def judge(load, lines):
    """Prints the table of one load. `lines`: by allocator, its runs."""
    checks = {line["check"] for runs in lines.values() for line in runs}
    if len(checks) != 1:
        stop("%s computed different things: %s" % (load, checks))
    figures = FIGURES if "instructions" not in next(iter(lines.values()))[0] else (("instructions", "instructions"),)
    print("\n| %s | %s |\n|---|%s" % (load, " | ".join(title for _, title in figures), "--:|" * len(figures)))
    medians = {allocator: [statistics.median(line[key] for line in runs) for key, _ in figures]
               for allocator, runs in lines.items()}
    for allocator, values in medians.items():
        print("| %s | %s |" % (allocator, " | ".join("%.10g" % value for value in values)))
    rivals = [medians[crate] for crate in CRATES if crate in medians]
    for name in ("calm", SMALL):
        if name in medians and rivals:
            ratios = [ours / min(theirs) if min(theirs) else 1
                      for ours, theirs in zip(medians[name], zip(*rivals))]
            print("| %s over the better crate | %s |" % (name, " | ".join("%.3f" % ratio for ratio in ratios)))


def shown(path):
    """The tables of a file of raw lines, a set for each run of this program."""
    with gzip.open(path, "rt") as file:
        lines = [json.loads(line) for line in file]
    for at, line in enumerate(lines):
        if "machine" in line:
            runs = list(itertools.takewhile(lambda run: "machine" not in run, lines[at + 1:]))
            print("\n%s, commit %s" % (line["machine"]["processor"], line["machine"]["commit"][:12]))
            for load in dict.fromkeys(run["load"] for run in runs):
                of_load = [run for run in runs if run["load"] == load]
                judge(load, {name: [run for run in of_load if run["allocator"] == name]
                             for name in dict.fromkeys(run["allocator"] for run in of_load)})


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--loads", default=",".join(LOADS))
    parser.add_argument("--allocators", default=",".join(ALLOCATORS))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--rounds", type=int, help="how often each program does its work; its own default if not said")
    parser.add_argument("--counts", action="store_true", help="instructions instead of times (valgrind)")
    parser.add_argument("--raw", help="append the runs to this file of compressed JSON lines")
    parser.add_argument("--show", help="print the tables of such a file and run nothing")
    options = parser.parse_args()
    if options.show:
        return shown(options.show)
    loads = chosen(options.loads, LOADS, "load")
    allocators = chosen(options.allocators, (*ALLOCATORS, FLOOR, SMALL), "allocator")
    if FLOOR in allocators and loads != ["json"]:
        stop("floor is for one thread, so it is for --loads json alone.")
    folders = {name: built(name, loads) for name in allocators}
    arguments = [] if options.rounds is None else [str(options.rounds)]
    raw = [{"machine": machine.describe(), "counts": options.counts, "rounds": options.rounds,
            "options": os.environ.get("CALM_OPTIONS", "")}]
    for load in loads:
        lines = {allocator: [] for allocator in folders}
        for number in range(1 if options.counts else options.runs):
            for allocator in turn(list(folders), number):
                words = [os.path.join(folders[allocator], load), *arguments]
                lines[allocator].append(counted(words, allocator) if options.counts else run(words, allocator)[0])
                raw.append({**lines[allocator][-1], "run": number})
        judge(load, lines)
    if options.raw:
        with gzip.open(options.raw, "at") as file:
            file.writelines(json.dumps(line) + "\n" for line in raw)


if __name__ == "__main__":
    main()
