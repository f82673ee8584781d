#!/usr/bin/env python3
"""Threads that free and allocate, in static programs: musl's own allocator beside calmalloc.

    bench/musl/churn.py [--build FOLDER] [--rounds N] [--operations N] [--threads N,N...]

The program is bench/workloads/replace.c, made twice by musl-gcc: alone, and with libcalmalloc.a of the preset musl. The
two take turns. A line for each count of threads: the median seconds of both, and how many times longer musl's takes,
round by round: the least, the median and the most. Exit 1 unless both compute the same in each run, 77 without
musl-gcc.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LIVE, BYTES_MIN, BYTES_MAX = 1000, 16, 256
SEED = 1
RUN_SECONDS_MAX = 120


def made(folder):
    """The two programs, by name."""
    for words in (["--preset", "musl", "-B", folder], ["--build", folder, "-j2", "--target", "calmalloc_static"]):
        done = subprocess.run(["cmake", *words], cwd=ROOT, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(done.stdout + done.stderr)
    source = os.path.join(ROOT, "bench", "workloads", "replace.c")
    programs = {}
    for name, library in (("musl", []), ("calmalloc", [os.path.join(folder, "libcalmalloc.a")])):
        programs[name] = os.path.join(folder, "churn_" + name)
        subprocess.run(["musl-gcc", "-std=gnu17", "-O2", "-static", "-fno-builtin-malloc", "-fno-builtin-free", source,
                        *library, "-lpthread", "-o", programs[name]], check=True)
        with open(programs[name], "rb") as file:
            if (b"calmalloc: " in file.read()) != bool(library):
                sys.exit("the program of %s has the other one's allocator" % name)
    return programs


def measured(program, threads, operations):
    """Seconds, and what was computed."""
    words = [program, *map(str, (SEED, threads, LIVE, BYTES_MIN, BYTES_MAX, operations))]
    done = subprocess.run(words, capture_output=True, text=True, timeout=RUN_SECONDS_MAX)
    if done.returncode != 0:
        sys.exit("failed with %d: %s\n%s" % (done.returncode, " ".join(words), done.stderr))
    line = json.loads(done.stdout)
    return line["seconds"], line["check"]


def compare(programs, threads, rounds, operations):
    seconds = {name: [] for name in programs}
    for turn in range(rounds):
        checks = set()
        for name in sorted(programs, reverse=turn % 2 == 1):
            time, check = measured(programs[name], threads, operations)
            seconds[name].append(time)
            checks.add(check)
        if len(checks) != 1:
            sys.exit("the programs do not compute the same")
    ratios = [musl / ours for musl, ours in zip(seconds["musl"], seconds["calmalloc"])]
    print("%7d  %9.3f  %9.3f  %6.1f  %6.1f  %6.1f" % (
        threads, *(statistics.median(seconds[name]) for name in ("musl", "calmalloc")),
        min(ratios), statistics.median(ratios), max(ratios)), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "musl"), help="where the programs are made")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--operations", type=int, default=400000, help="of each thread")
    parser.add_argument("--threads", default="1,2,8,16", help="counts, with commas between")
    arguments = parser.parse_args()
    if shutil.which("musl-gcc") is None:
        print("musl-gcc is missing; apt-get install musl-tools brings it.")
        return 77
    programs = made(os.path.abspath(arguments.build))
    print("threads  musl s     ours s     times: least, median, most")
    for threads in map(int, arguments.threads.split(",")):
        compare(programs, threads, arguments.rounds, arguments.operations)
    return 0


if __name__ == "__main__":
    sys.exit(main())
