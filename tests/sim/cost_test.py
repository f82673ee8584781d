"""Counts the instructions of a decision with callgrind, for every policy, and holds the default to its bound.

    cost_test.py SIMULATOR [--all]      --all prints one JSON line for each policy, 16 and 256 cores

Instructions and not time: they are the same on a busy machine. At 3 GHz and 2.5 instructions a cycle 450 are 60 ns.
"""
import json
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import needs  # noqa: E402

STEAL_MAX = 160  # a decision on average, stealing not counted
SLOW_MAX = 320  # the same where a quarter of the cores is slow: more decisions look at candidates
SLOW = ("--slow", "4:4", "--tasks", "60000")
ENTRIES = {"steal": "steal_choose", "jsq": "jsq_choose", "jbsq1": "jbsq1_choose", "jbsq2": "jbsq2_choose",
           "hash": "hash_choose", "affine": "affine_choose", "p2c": "p2c_choose", "prequal": "prequal_choose"}


def counted(simulator, policy, cores, function, more=()):
    """Instructions in `function` and what it calls, and calls of it, over one run."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out")
        done = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=" + out, simulator, "--policy",
                               policy, "--cores", str(cores), "--load", "0.7", "--tasks", "20000", "--warmup", "0",
                               "--blocks", "64", *more],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            sys.exit("cost_test: valgrind failed: " + done.stderr[-500:])
        with open(out) as file:
            text = file.read()
    return parse(text, function)


def parse(text, function):
    """Sums the calls of `function` in callgrind's format: `calls=COUNT ...` and, a line on, the inclusive cost."""
    names, calls, cost = {}, 0, 0
    lines = iter(text.split("\n"))
    callee = ""
    for line in lines:
        match = re.match(r"(c?)fn=\((\d+)\)(?: (.*))?$", line)
        if match:
            if match.group(3):
                names[match.group(2)] = match.group(3)
            if match.group(1):
                callee = names[match.group(2)]
        elif line.startswith("calls=") and callee.split("'")[0] == function:
            calls += int(line[6:].split()[0])
            cost += int(next(lines).split()[1])
    return cost, calls


def per_call(simulator, policy, cores, function, more=()):
    cost, calls = counted(simulator, policy, cores, function, more)
    if calls < 10000:
        sys.exit("cost_test: %s was called %d times: renamed, or inlined?" % (function, calls))
    return cost / calls


def main():
    simulator = sys.argv[1]
    needs.need("valgrind")
    if sys.argv[2:] == ["--all"]:
        for policy, function in ENTRIES.items():
            for cores in (16, 256):
                print(json.dumps({"set": "cost", "policy": policy, "cores": cores,
                                  "instructions": round(per_call(simulator, policy, cores, function))}), flush=True)
        slow = per_call(simulator, "steal", 16, "steal_choose", SLOW)
        print(json.dumps({"set": "cost", "policy": "steal, slow", "cores": 16, "instructions": round(slow)}))
        return
    choose = per_call(simulator, "steal", 16, "steal_choose")
    cheap = per_call(simulator, "hash", 16, "hash_choose")
    slow = per_call(simulator, "steal", 16, "steal_choose", SLOW)
    print("steal: %.0f instructions a decision, %.0f with slow cores; hash: %.0f" % (choose, slow, cheap))
    if not 5 < cheap < 60:  # the counting itself: a decision of hash is a few multiplications
        sys.exit("cost_test: %.0f instructions for hash cannot be right." % cheap)
    if choose > STEAL_MAX or slow > SLOW_MAX:
        sys.exit("cost_test: more than %d a decision, or %d with slow cores." % (STEAL_MAX, SLOW_MAX))


if __name__ == "__main__":
    main()
