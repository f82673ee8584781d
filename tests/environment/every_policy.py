#!/usr/bin/env python3
"""Runs a program once under each policy of sites and each of cores' caches, with the heap's library preloaded.

    every_policy.py [--linked] LIBRARY PROGRAM [ARGUMENT...]

--linked: the program has the library already. Fails, when all have run, if one failed; skipped, 77, if all were.
"""

import argparse
import itertools
import os
import subprocess
import sys

SKIPPED = 77
SITES = ("off", "hash", "intern", "learned")
CORES = ("never", "always", "auto")
TIMEOUT_S = 120


def run(arguments, options):
    environment = dict(os.environ, CALM_OPTIONS=options)
    if not arguments.linked:
        environment["LD_PRELOAD"] = arguments.library
    try:
        done = subprocess.run(arguments.command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        print("%s: not done after %d s" % (options, TIMEOUT_S))
        return 1
    if done.returncode not in (0, SKIPPED):
        print("%s: ended with %d\n%s" % (options, done.returncode, done.stdout.decode(errors="replace")))
    return done.returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--linked", action="store_true")
    parser.add_argument("library")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    policies = itertools.product(SITES, CORES)
    codes = [run(arguments, "sites=%s,cores=%s" % policy) for policy in policies]
    if all(code == SKIPPED for code in codes):
        return SKIPPED
    return 0 if all(code in (0, SKIPPED) for code in codes) else 1


if __name__ == "__main__":
    sys.exit(main())
