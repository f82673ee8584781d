"""tiny_size.py: a program that allocates almost nothing stays within 512 KiB of what it needs on the C library's heap.

Pages of files do not count: how many of a library's pages are there is the kernel's choice, and others share them.
Seen to fail with a library that touches 512 KiB when it is loaded.

usage: tiny_size.py PROGRAM LIBRARY
"""

import os
import statistics
import subprocess
import sys

RUNS = 7
ALLOWED_KIB = 512


def anonymous_kib(program, preload):
    environment = dict(os.environ)
    environment.pop("LD_PRELOAD", None)
    if preload:
        environment["LD_PRELOAD"] = preload
    printed = subprocess.run([program], env=environment, stdout=subprocess.PIPE, check=True, timeout=20)
    return int(printed.stdout.split()[1])


def main():
    program, library = sys.argv[1:]
    plain = statistics.median(anonymous_kib(program, None) for _ in range(RUNS))
    ours = statistics.median(anonymous_kib(program, library) for _ in range(RUNS))
    print(f"{plain} KiB of no file on the C library's heap, {ours} KiB on calmalloc")
    if ours - plain >= ALLOWED_KIB:
        sys.exit(f"calmalloc costs {ours - plain} KiB, {ALLOWED_KIB} are allowed")


main()
