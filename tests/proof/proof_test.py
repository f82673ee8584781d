#!/usr/bin/env python3
"""Proves the index-only core of the pools with Frama-C's WP, and that the proof fails when the code is wrong.

    proof_test.py [--controls]

Not covered: other threads, and all of an operation that is not in src/pool/levels.h.

Without --controls: every goal must be proved. With it: each of some bugs is put into a copy of the source, and some
goal must then fail. What is proved: docs/design/pool-proof.md. Needs frama-c-base, why3, z3 and cvc4 of Debian 12;
what is missing is a failure.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import needs  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
TOOLS = ("frama-c", "why3", "z3", "cvc4")
SECONDS = 60  # of one goal by the clock; most need a tenth of one
SECONDS_AGAIN = 300  # of functions with a goal that was not: a busy machine may have held the provers up

# The functions of one word are proved by what a bit is, the others by what those promise.
BY_BITS = ("level_bit", "level_with", "level_without", "word_found", "word_with", "keys_below", "level_count")
BY_CONTRACTS = ("word_take", "level_set", "level_clear", "levels_set", "levels_clear", "levels_first")

# (what is wrong, old, new, the function whose proof must fail, how its word is read)
BUGS = (
    ("the root is not set", "    level_set(root, w / 4096);\n", "", "levels_set", "opaque"),
    ("far is cleared though near has words left", "    if (near[w / 64] != 0)\n        return;\n", "", "levels_clear",
     "opaque"),
    ("the lowest word is taken for the second level's", "return n * 64 + bit_lowest(near[n]);",
     "return n * 64 + bit_lowest(far[f]);", "levels_first", "opaque"),
    ("a block is handed out and stays free", "*after = level_without(free, i);", "*after = free;", "word_take",
     "opaque"),
    ("a bit too many is cleared", "return word & ~((uint64_t)1 << i);", "return word & ~((uint64_t)3 << i);",
     "level_without", "defined"),
    ("what the owner has is found again", "return freed & ~free;", "return freed;",
     "word_found", "defined"),
    ("a key is read behind the last", "at += keys[at + 31] < value ? 32u : 0u;",
     "at += keys[at + 63] < value ? 32u : 0u;", "keys_below", "defined"),
)


def prove(source, reading, functions, seconds):
    """(proved, all, text) of WP on src/pool/levels.h below `source`."""
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "levels.c")
        with open(file, "w") as out:
            out.write('#include "pool/levels.h"\n')
        config = os.path.join(folder, "why3.conf")
        environment = dict(os.environ, WHY3CONFIG=config)
        subprocess.run(["why3", "config", "detect"], env=environment, capture_output=True, check=True)
        include = "-I%s -include %s" % (source, os.path.join(HERE, "word_%s.h" % reading))
        done = subprocess.run(
            ["frama-c", "-machdep", "gcc_x86_64", "-c11", "-cpp-extra-args=" + include, "-wp", "-wp-rte", "-wp-split",
             "-wp-prover", "cvc4,z3", "-wp-timeout", str(seconds), "-wp-par", "2", "-wp-cache", "none",
             "-wp-fct", ",".join(functions), file], env=environment, capture_output=True, text=True, cwd=folder)
    text = done.stdout + done.stderr
    found = re.search(r"Proved goals:\s+(\d+) / (\d+)", text)
    if found is None:
        sys.exit("proof_test: Frama-C did not get as far as proving:\n" + text)
    return int(found.group(1)), int(found.group(2)), text


def is_proved(reading, functions, seconds):
    """Whether every goal of the functions is proved, and the functions that have one which is not."""
    proved, goals, text = prove(os.path.join(ROOT, "src"), reading, functions, seconds)
    print("%s: %d of %d goals proved" % (", ".join(functions), proved, goals), flush=True)
    failed = re.findall(r"\[Failed\] Goal typed_(\w+)", text)
    for goal in failed:
        print("not proved in %d s: %s" % (seconds, goal), flush=True)
    left = [name for name in functions if any(goal.startswith(name + "_") for goal in failed)]
    return proved == goals and goals > 0, left


def prove_all():
    wrong = 0
    for reading, functions in (("defined", BY_BITS), ("opaque", BY_CONTRACTS)):
        is_all, left = is_proved(reading, functions, SECONDS)
        if not is_all and left:
            is_all, _ = is_proved(reading, left, SECONDS_AGAIN)
        wrong |= not is_all
    return int(wrong)


def control():
    with open(os.path.join(ROOT, "src", "pool", "levels.h")) as file:
        text = file.read()
    wrong = 0
    for what, old, new, function, reading in BUGS:
        if text.count(old) != 1:
            sys.exit("proof_test: the place for '%s' is not in levels.h" % what)
        with tempfile.TemporaryDirectory() as folder:
            for part in ("base", "pool"):
                shutil.copytree(os.path.join(ROOT, "src", part), os.path.join(folder, part))
            with open(os.path.join(folder, "pool", "levels.h"), "w") as file:
                file.write(text.replace(old, new))
            proved, goals, _ = prove(folder, reading, [function], 5)
        print("%s: %d of %d goals of %s proved" % (what, proved, goals, function))
        wrong |= proved == goals
    return int(wrong)


def main():
    needs.need(*TOOLS)
    return control() if "--controls" in sys.argv[1:] else prove_all()


if __name__ == "__main__":
    sys.exit(main())
