"""A fork with 500 threads costs no more of the processor's time than MOST_PERCENT of what it costs without us.

usage: fork_cost_test.py MOST_PERCENT LIBRARY PROGRAM
"""
import os
import subprocess
import sys

RUNS = 5


def cost_us(program, preload):
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    if preload:
        environment["LD_PRELOAD"] = preload
    run = subprocess.run([program], env=environment, stdout=subprocess.PIPE, check=False, timeout=100)
    if run.returncode == 77:
        print("skipped: 500 threads are too many here")
        sys.exit(77)
    return float(run.stdout)


most_percent, library, program = sys.argv[1:]
costs = {preload: [] for preload in ("", library)}
for _ in range(RUNS):  # in turns, so that a busy machine is so for both
    for preload, seen in costs.items():
        seen.append(cost_us(program, preload))
without, with_ours = (min(seen) for seen in costs.values())
print(f"{without:.0f} us without, {with_ours:.0f} us with calmalloc; {most_percent} % are allowed")
sys.exit(with_ours * 100 > without * float(most_percent))
