#!/usr/bin/env python3
"""Holds the simulator against the real executor: the same tasks, two cores, every kind of traffic.

    agree.py BUILD_DIR [--tasks N] [--service NS] [--policies a,b] [--load L]

BUILD_DIR has calm_simulator and calm_exec_real. Prints a table in Markdown; exit code 1 when P50, P99 or the rejected
share of some row differ by more than 15 %.
"""
import argparse
import json
import subprocess
import sys
from pathlib import Path

TRAFFICS = ("fixed", "exponential", "bimodal", "heavy")
LIMIT = 0.15


def simulate(build, policy, traffic, options):
    words = ["--policy", policy, "--traffic", traffic, "--cores", "2", "--load", str(options.load), "--seed", "1",
             "--tasks", str(options.tasks), "--service", str(options.service)]
    done = subprocess.run([build / "calm_simulator", *words], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def run(build, policy, traffic, options):
    words = [policy, "2", str(options.load), traffic, "1", str(options.tasks), str(options.service)]
    done = subprocess.run([build / "calm_exec_real", *words], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=Path)
    parser.add_argument("--tasks", type=int, default=8000)
    parser.add_argument("--service", type=float, default=2e6)
    parser.add_argument("--load", type=float, default=0.7)
    parser.add_argument("--policies", default="jsq,steal,rr")
    options = parser.parse_args()
    print("| policy | traffic | P50, ms: simulated | real | P99, ms: simulated | real | rejected |\n"
          "|---|---|--:|--:|--:|--:|---|")
    apart = 0
    for policy in options.policies.split(","):
        for traffic in TRAFFICS:
            simulated = simulate(options.build, policy, traffic, options)
            real = run(options.build, policy, traffic, options)
            cells, is_apart = [], False
            for name in ("p50", "p99"):
                wanted, found = simulated["sojourn"][name], real["sojourn"][name]
                is_apart |= abs(found / wanted - 1) > LIMIT
                cells += [f"{wanted / 1e6:.2f}", f"{found / 1e6:.2f} ({found / wanted - 1:+.0%})"]
            rejected = simulated.get("rejected", 0)
            is_apart |= abs(real["rejected"] - rejected) > LIMIT * max(rejected, options.tasks / 1000)
            print(f"| {policy} | {traffic} | {' | '.join(cells)} | {rejected} and {real['rejected']} |"
                  f"{' apart' if is_apart else ''}", flush=True)
            apart += is_apart
    return 1 if apart else 0


sys.exit(main())
