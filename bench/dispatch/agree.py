#!/usr/bin/env python3
"""Holds the simulator against the real executor: the same tasks, two cores, every kind of traffic.

    agree.py BUILD_DIR [--tasks N] [--service NS] [--policies a,b] [--settings open,inbox,pools] [--spin]

BUILD_DIR has calm_simulator and calm_exec_real. Each row is a run of the executor, which records when each task came
and how long it had its worker, and the simulator given just that, and how long an idle worker took to begin in the
middle. `drawn` is the simulator alone, before the run: it knows neither the kernel's timer nor what else the machine
did. Prints a table in Markdown; exit code 1 when P50, P99, or the share of tasks rejected or failed for want of a block
differ by more than 15 % in some row.
"""
import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

TRAFFICS = ("fixed", "exponential", "bimodal", "heavy")
LIMIT = 0.15
SHARE_MIN = 0.005  # shares differ by less than chance below a tenth of it
BLOCKS, HOLD = 3, 10  # of each class; service times that a block is kept
LOADS = {"open": 0.7, "inbox": 1.1, "pools": 0.8}


def words_of(setting, service):
    """What the simulator and the executor are told beside the traffic."""
    hold = HOLD * service
    return {"open": ([], []), "inbox": (["--inbox", "4"], ["inbox=4"]),
            "pools": (["--blocks", str(BLOCKS), "--hold", str(hold), "--remote", "1"],
                      [f"blocks={BLOCKS}", f"hold={hold}"])}[setting]


def output_of(command):
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


class Row:
    """One policy under one traffic and setting: the executor's run, its replay, and the simulator alone."""

    def __init__(self, options, policy, traffic, setting):
        self.name = (setting, policy, traffic)
        load = str(LOADS[setting])
        to_simulator, to_executor = words_of(setting, options.service)
        simulator = [options.build / "calm_simulator", "--policy", policy, "--traffic", traffic, "--cores", "2",
                     "--load", load, "--seed", str(options.seed), "--tasks", str(options.tasks),
                     "--service", str(options.service), *to_simulator]
        with tempfile.TemporaryDirectory() as folder:
            trace = Path(folder) / "trace"
            self.real = output_of([options.build / "calm_exec_real", policy, "2", load, traffic, str(options.seed),
                                   str(options.tasks), str(options.service), f"trace={trace}",
                                   f"spin={int(options.spin)}", *to_executor])
            self.replayed = output_of([*simulator, "--trace", trace, "--wake", str(self.real["wake_ns"])])
        self.drawn = output_of(simulator)
        self.is_apart = False

    def times(self, name):
        """Cells of a quantile: executor, replay with its distance, drawn with its distance."""
        real = self.real["sojourn"][name]
        replayed, drawn = (found["sojourn"][name] for found in (self.replayed, self.drawn))
        self.is_apart |= abs(replayed / real - 1) > LIMIT
        return [f"{real / 1e6:.2f}", f"{replayed / 1e6:.2f} ({replayed / real - 1:+.1%})", f"{drawn / real - 1:+.0%}"]

    def shares(self, name):
        """Cell of a share: executor's, replay's, drawn."""
        real, replayed, drawn = (found[name] / found["offered"] for found in (self.real, self.replayed, self.drawn))
        self.is_apart |= abs(replayed - real) > LIMIT * max(real, SHARE_MIN)
        return f"{real:.2%}, {replayed:.2%}, {drawn:.2%}"

    def cells(self):
        cells = [*self.name, *self.times("p50"), *self.times("p99"), self.shares("rejected"), self.shares("failed")]
        return cells + ["apart" if self.is_apart else ""]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=Path)
    parser.add_argument("--tasks", type=int, default=6000)
    parser.add_argument("--service", type=int, default=1000000)
    parser.add_argument("--policies", default="jsq,steal")
    parser.add_argument("--traffics", default=",".join(TRAFFICS))
    parser.add_argument("--settings", default=",".join(LOADS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--spin", action="store_true")
    options = parser.parse_args()
    print("| setting | policy | traffic | P50, ms: executor | replayed | drawn | P99, ms: executor | replayed | drawn |"
          " rejected: executor, replayed, drawn | no block | |\n|---|---|---|--:|--:|--:|--:|--:|--:|--:|--:|---|")
    apart = 0
    for setting in options.settings.split(","):
        for policy in options.policies.split(","):
            for traffic in options.traffics.split(","):
                row = Row(options, policy, traffic, setting)
                print("| " + " | ".join(row.cells()) + " |", flush=True)
                apart += row.is_apart
    return 1 if apart else 0


sys.exit(main())
