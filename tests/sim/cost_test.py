"""Counts the instructions of a decision with callgrind, for every policy, and holds the learned one to its bound.

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

LEARNED_MAX = 400  # a decision on average, learning from samples and steals not counted
SLOW_MAX = 700  # the same where a quarter of the cores is slow: more decisions look at candidates
SLOW = ("--slow", "4:4", "--tasks", "60000")  # long enough that turns with the fixed policy are the smaller part
LEARN_MAX = 800  # a task on average for what is learned at its end
ENTRIES = {"hash": "hash_choose", "rr": "rr_choose", "random": "random_choose", "p2c": "p2c_choose",
           "p2c-occupancy": "p2c_occupancy_choose", "jsq": "jsq_choose", "jiq": "jiq_choose",
           "jbsq1": "jbsq1_choose", "jbsq2": "jbsq2_choose", "prequal": "prequal_choose", "steal": "steal_choose",
           "learned": "learned_choose"}


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
        slow = per_call(simulator, "learned", 16, "learned_choose", SLOW)
        print(json.dumps({"set": "cost", "policy": "learned, slow", "cores": 16, "instructions": round(slow)}))
        return
    choose = per_call(simulator, "learned", 16, "learned_choose")
    cost, calls = counted(simulator, "learned", 16, "learned_finished")
    learn = cost / max(calls, 1)
    cheap = per_call(simulator, "rr", 16, "rr_choose")
    slow = per_call(simulator, "learned", 16, "learned_choose", SLOW)
    print("learned: %.0f instructions a decision, %.0f with slow cores, %.0f a sample; rr: %.0f" % (choose, slow, learn,
                                                                                                 cheap))
    if not 5 < cheap < 60:  # the counting itself: a decision of rr is one look at one core
        sys.exit("cost_test: %.0f instructions for rr cannot be right." % cheap)
    if choose > LEARNED_MAX or slow > SLOW_MAX or learn > LEARN_MAX:
        sys.exit("cost_test: more than %d a decision, %d with slow cores, or %d a sample." % (LEARNED_MAX, SLOW_MAX,
                                                                                           LEARN_MAX))


if __name__ == "__main__":
    main()
