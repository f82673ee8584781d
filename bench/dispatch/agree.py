#!/usr/bin/env python3
"""Holds the simulator against the real executor: the same tasks, two cores, every kind of traffic.

    agree.py BUILD_DIR [--seeds N] [--traces DIR] [--out FILE.jsonl.gz] [--settings open,inbox,pools] [--policies a,b]
             [--traffics a,b] [--tasks N] [--service NS] [--spin]
    agree.py --report FILE.jsonl.gz [FILE.jsonl.gz...]

BUILD_DIR has calm_simulator and calm_exec_real. Each row is N runs of the executor with different seeds. A run records
when each task came and how long it had its worker, and the simulator is given just that, REPLAYS times: an idle worker
takes so long to begin as it took in the middle, and from 40 % less to 40 % more. Where those replays spread, a few
tasks decide. A run in which tasks had their workers 10 % longer than they asked was disturbed, and is repeated. `drawn`
is the simulator alone: it knows neither the kernel's timer nor what else the machine did.

--traces keeps recorded runs in DIR, and replays those that are there instead of running the executor. Prints a table
in Markdown; exit code 1 when P50, P99, or the share of tasks rejected or failed for want of a block differ by more than
15 % in the mean over the seeds of some row.
"""
import argparse
import gzip
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

TRAFFICS = ("fixed", "exponential", "bimodal", "heavy")
LIMIT = 0.15
SHARE_MIN = 0.005  # shares differ by less than chance below a tenth of it
BLOCKS, HOLD = 3, 10  # of each class; service times that a block is kept
LOADS = {"open": 0.7, "inbox": 1.1, "pools": 0.8}
TASKS = 6000  # of a run, also where a line does not say
REPLAYS = 9
FIGURES = ("p50", "p99", "rejected", "failed")
LATE_MAX = 0.1  # of what tasks asked: workers had them longer, as others on the machine took the CPU
TRIES = 4
STUDENT = (0, 12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)
HEAD = ("setting", "policy", "traffic", "seeds", "P50, ms", "replay", "middle seed", "P99, ms", "replay",
        "middle seed", "one seed's replays",
        "rejected", "replay", "no block", "replay", "drawn: P50", "P99")


def words_of(setting, service):
    """What the simulator and the executor are told beside the traffic."""
    hold = HOLD * service
    return {"open": ([], []), "inbox": (["--inbox", "4"], ["inbox=4"]),
            "pools": (["--blocks", str(BLOCKS), "--hold", str(hold), "--remote", "1"],
                      [f"blocks={BLOCKS}", f"hold={hold}"])}[setting]


def output_of(command):
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def figures(line):
    return {"p50": line["sojourn"]["p50"], "p99": line["sojourn"]["p99"],
            "rejected": line["rejected"] / line["offered"], "failed": line["failed"] / line["offered"]}


def executed(options, name, seed, words, folder):
    """A run of the executor and its trace, of this time or an earlier one."""
    setting, policy, traffic = name
    command = [options.build / "calm_exec_real", policy, "2", str(LOADS[setting]), traffic, str(seed),
               str(options.tasks), str(options.service), f"spin={int(options.spin)}", *words]
    stem = Path(folder) / f"{setting}-{policy}-{traffic}-{seed}"
    trace, said = stem.with_suffix(".trace"), stem.with_suffix(".json")
    for _ in range(TRIES):
        if not said.exists():
            said.write_text(json.dumps(output_of([*command, f"trace={trace}"])))
        found = json.loads(said.read_text())
        if found["late"] <= LATE_MAX:
            return found, trace
        said.unlink()
    sys.exit(f"agree: others on the machine took the CPU in {TRIES} runs of {stem.name}; try when it is quiet.")


def compared(options, name, seed):
    """One seed of a row: the executor's run, its replays, and the simulator alone."""
    setting, policy, traffic = name
    to_simulator, to_executor = words_of(setting, options.service)
    simulator = [options.build / "calm_simulator", "--policy", policy, "--traffic", traffic, "--cores", "2", "--load",
                 str(LOADS[setting]), "--seed", str(seed), "--tasks", str(options.tasks), "--service",
                 str(options.service), *to_simulator]
    with tempfile.TemporaryDirectory() as folder:
        real, trace = executed(options, name, seed, to_executor, options.traces or folder)
        wakes = [real["wake_ns"] * (0.6 + 0.8 * turn / (REPLAYS - 1)) for turn in range(REPLAYS)]
        replays = [figures(output_of([*simulator, "--trace", trace, "--wake", f"{wake:.0f}"])) for wake in wakes]
    return {"setting": setting, "policy": policy, "traffic": traffic, "seed": seed, "tasks": options.tasks,
            "executor": figures(real), "replays": replays, "drawn": figures(output_of(simulator))}


def interval(values):
    if len(values) < 2:
        return values[0], 0.0
    student = STUDENT[len(values) - 1] if len(values) <= len(STUDENT) else 1.96
    return statistics.fmean(values), student * statistics.stdev(values) / math.sqrt(len(values))


def middle(values):
    """The median, and by the binomial distribution an interval that has it in 95 of 100 cases, whatever the tails;
    None where there are too few values for one."""
    values, count = sorted(values), len(values)
    below, index = 0.0, 0
    while below + math.comb(count, index) / 2**count <= 0.025:
        below += math.comb(count, index) / 2**count
        index += 1
    return statistics.median(values), (values[index - 1], values[count - index]) if index > 0 else None


def ratio(line, name, other):
    return other[name] / line["executor"][name]


class Row:
    def __init__(self, lines):
        self.lines = lines
        self.is_apart = False

    def replay(self, line, name):
        return statistics.fmean(replay[name] for replay in line["replays"])

    def times(self, name):
        """The executor's, and by how much the replay's differs: a geometric mean over the seeds."""
        real = statistics.fmean(line["executor"][name] for line in self.lines)
        mean, reach = interval([math.log(self.replay(line, name) / line["executor"][name]) for line in self.lines])
        self.is_apart |= abs(math.exp(mean) - 1) > LIMIT
        mark = "**" if abs(math.exp(mean) - 1) > LIMIT else ""
        half, within = middle([self.replay(line, name) / line["executor"][name] - 1 for line in self.lines])
        between = f" [{100 * within[0]:+.1f} {100 * within[1]:+.1f}]" if within else ""
        return [f"{real / 1e6:.3g}", f"{mark}{100 * (math.exp(mean) - 1):+.1f} ±{100 * reach:.1f} %{mark}",
                f"{100 * half:+.1f}{between} %"]

    def spread(self, name):
        """How far the replays of one seed lie from the executor, of all seeds."""
        ratios = [ratio(line, name, replay) - 1 for line in self.lines for replay in line["replays"]]
        return [f"{100 * min(ratios):+.0f} to {100 * max(ratios):+.0f} %"]

    def shares(self, name):
        real = statistics.fmean(line["executor"][name] for line in self.lines)
        mean, reach = interval([self.replay(line, name) - line["executor"][name] for line in self.lines])
        if real == 0 and mean == 0:
            return ["", ""]
        is_apart = abs(mean) > LIMIT * max(real, SHARE_MIN)
        self.is_apart |= is_apart
        mark = "**" if is_apart else ""
        return [f"{100 * real:.1f} %", f"{mark}{100 * mean:+.1f} ±{100 * reach:.1f}{mark}"]

    def cells(self):
        first = self.lines[0]
        drawn = [statistics.fmean(math.log(ratio(line, name, line["drawn"])) for line in self.lines)
                 for name in ("p50", "p99")]
        return [first["setting"], first["policy"], first["traffic"], str(len(self.lines)), *self.times("p50"),
                *self.times("p99"), *self.spread("p99"), *self.shares("rejected"), *self.shares("failed"),
                *(f"{100 * (math.exp(value) - 1):+.0f} %" for value in drawn)]


def load(path):
    """The lines of a file; one that cannot be read, or is not what compared() makes, ends the program."""
    try:
        texts = gzip.decompress(path.read_bytes()).decode().splitlines()
    except (OSError, EOFError, zlib.error, UnicodeDecodeError):
        sys.exit(f"agree: {path.name} is no gzip file of text that can be read.")
    lines = []
    for index, text in enumerate(texts):
        try:
            line = json.loads(text)
            whole = all(line["executor"][name] >= 0 and line["drawn"][name] >= 0 and
                        all(replay[name] >= 0 for replay in line["replays"]) for name in FIGURES)
            whole = whole and line["executor"]["p50"] > 0 and len(line["replays"]) > 0
            name = (line["setting"], line["policy"], line["traffic"], line["seed"])
        except (json.JSONDecodeError, KeyError, TypeError):
            sys.exit(f"agree: line {index + 1} of {path.name} is not a run of the executor and its replays.")
        if not whole:
            sys.exit(f"agree: line {index + 1} of {path.name} has a figure that cannot be.")
        if any(name == (other["setting"], other["policy"], other["traffic"], other["seed"]) for other in lines):
            sys.exit(f"agree: line {index + 1} of {path.name} is of a seed that the row has already.")
        lines.append(line)
    if not lines:
        sys.exit(f"agree: there are no lines in {path.name}.")
    return lines


def rows_of(lines):
    """Of each row the runs of the most tasks: where a few long tasks decide, longer runs replace many short ones."""
    found = {}
    for line in lines:
        found.setdefault((line["setting"], line["policy"], line["traffic"]), []).append(line)
    most = {name: max(line.get("tasks", TASKS) for line in of) for name, of in found.items()}
    return [Row([line for line in of if line.get("tasks", TASKS) == most[name]]) for name, of in found.items()]


def report(lines):
    print("| " + " | ".join(HEAD) + " |\n|---|---|---|" + "--:|" * (len(HEAD) - 3))
    rows = rows_of(lines)
    for row in rows:
        print("| " + " | ".join(row.cells()) + " |")
    return 1 if any(row.is_apart for row in rows) else 0


def measured(options):
    for setting in options.settings.split(","):
        for policy in options.policies.split(","):
            for traffic in options.traffics.split(","):
                for seed in range(options.seed, options.seed + options.seeds):
                    print(f"agree: {setting} {policy} {traffic} {seed}", file=sys.stderr)
                    yield compared(options, (setting, policy, traffic), seed)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=Path, nargs="?")
    parser.add_argument("--tasks", type=int, default=TASKS)
    parser.add_argument("--service", type=int, default=1000000)
    parser.add_argument("--policies", default="jsq,steal")
    parser.add_argument("--traffics", default=",".join(TRAFFICS))
    parser.add_argument("--settings", default=",".join(LOADS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--traces", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--report", type=Path, nargs="+")
    parser.add_argument("--spin", action="store_true")
    options = parser.parse_args()
    if options.report is not None:
        return report([line for path in options.report for line in load(path)])
    if options.build is None:
        parser.error("BUILD_DIR or --report FILE is needed")
    for name in ("calm_simulator", "calm_exec_real"):
        if not os.access(options.build / name, os.X_OK):
            parser.error(f"'{options.build}' has no {name}; 'cmake --build {options.build}' makes it")
    known = (("settings", tuple(LOADS)), ("traffics", TRAFFICS))
    for name, choices in known:
        wrong = [word for word in getattr(options, name).split(",") if word not in choices]
        if wrong:
            parser.error(f"--{name} knows no '{wrong[0]}'; there are {', '.join(choices)}")
    if options.seeds < 1:
        parser.error("--seeds needs at least 1")
    lines = list(measured(options))
    if options.out is not None:
        with gzip.open(options.out, "wt") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
    return report(lines)


if __name__ == "__main__":
    sys.exit(main())
