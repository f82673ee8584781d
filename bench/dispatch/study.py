#!/usr/bin/env python3
"""Runs the sets of sets.py and keeps their lines; writes tables and plots from them.

    study.py run SIMULATOR [SET...]   replaces the sets' lines in bench/results/dispatch.jsonl.gz
    study.py report                   deciding tables into docs/dispatch-figures.md, plots into docs/images/
    study.py tables                   prints every table

All are deterministic, but for the sets `clock` and `held-back`, whose seeds are those of the day: the same simulator
gives the same lines, the same lines the same files.
Each line has the commit that its sources were of, and the report tells when they differ.
"""
import collections
import datetime
import gzip
import io
import json
import math
import os
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
RESULTS = ROOT / "bench" / "results" / "dispatch.jsonl.gz"

sys.path.insert(0, str(HERE))
sys.path.insert(0, str(ROOT / "bench"))
import sets  # noqa: E402

SPECIAL_STEPS = {"clock": 52, "held-back": 60}
DROPPED = ("cpu_s", "tasks_a_cpu_s", "service")  # of the machine, or always the same
SOURCES = ("src/exec", "include", "tools/sim", "tools/exec")  # what a line depends on, beside its options
CHOICE = ("policy", "traffic", "load")


def shrunk(line):
    """A result without what depends on the machine, its numbers with five digits."""
    def short(value):
        if isinstance(value, float):
            return float(f"{value:.5g}")
        if isinstance(value, dict):
            return {key: short(part) for key, part in value.items()}
        return [short(part) for part in value] if isinstance(value, list) else value
    return {key: short(value) for key, value in json.loads(line).items() if key not in DROPPED}


def simulate(simulator, words):
    """The results of one command of the simulator."""
    command = [simulator] + words.split()
    if "--seeds" not in words:
        command += ["--seeds", str(sets.SEEDS)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"study: '{' '.join(command)}' failed with exit code {done.returncode}.")
    return [shrunk(line) for line in done.stdout.splitlines()]


def cost(simulator, say):
    """Instructions of a decision, counted by callgrind."""
    say("cost: instructions of a decision")
    script = ROOT / "tests" / "sim" / "cost_test.py"
    done = subprocess.run([sys.executable, script, simulator, "--all"], stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit("study: the instructions could not be counted.")
    return [json.loads(line) for line in done.stdout.splitlines()]


def clock(simulator, say):
    """ns of a decision, and from a submission to its start, by the clock: of this machine, unlike the rest."""
    program = Path(simulator).resolve().parent / "calm_exec_cost"
    if not os.access(program, os.X_OK):
        sys.exit(f"study: the set 'clock' needs '{program.name}' beside the simulator; 'cmake --build' makes it there.")
    commands = [["decide", policy, str(cores), "200000"] for policy in sets.OWN for cores in sets.CLOCKED]
    commands += [["decide", "steal", str(cores), "200000", str(cores // 4)] for cores in sets.CLOCKED if cores >= 4]
    commands += [["start", "2000", str(gap_ns)] for gap_ns in sets.GAPS_NS]
    results = []
    for words in commands:
        say("clock: " + " ".join(words))
        for _ in range(sets.CLOCK_ROUNDS):
            done = subprocess.run([program, *words], stdout=subprocess.PIPE, text=True)
            if done.returncode != 0:
                sys.exit(f"study: '{program} {' '.join(words)}' failed with exit code {done.returncode}.")
            results.append(json.loads(done.stdout))
    return results


def held_back(simulator, say):
    """Ten seeds that begin with the day's date."""
    first = int(datetime.date.today().strftime("%Y%m%d")) * 100
    results = []
    for setting, words in sets.HELD_BACK.items():
        for traffic in ("exponential", "bimodal"):
            for policy in sets.GOOD:
                say(f"held-back: {policy}, {traffic}, {setting}")
                found = simulate(simulator, f"--policy {policy} --traffic {traffic} {words} --seed {first}")
                results += [dict(result, setting=setting) for result in found]
    return results


SPECIAL = {"held-back": held_back, "cost": cost, "clock": clock}


class Progress:
    """A bar on a terminal, a line now and then elsewhere; standard error only."""

    def __init__(self, total):
        self.total, self.done, self.said, self.start = total, -1, 0.0, time.monotonic()

    def __call__(self, what):
        self.done += 1
        share = self.done / self.total
        if sys.stderr.isatty():
            print(f"\r\x1b[K[{'#' * int(share * 30):.<30}] {share:4.0%}  {what}", end="", file=sys.stderr, flush=True)
        elif time.monotonic() - self.said > 10:
            self.said = time.monotonic()
            print(f"study: {share:4.0%} after {self.said - self.start:.0f} s: {what}", file=sys.stderr, flush=True)


def commit():
    """Of the last change to the sources, with a plus if more was changed since."""
    def git(*words):
        return subprocess.run(["git", "-C", str(ROOT), *words], stdout=subprocess.PIPE, text=True, check=True).stdout

    try:
        last = git("log", "-1", "--abbrev=9", "--format=%h", "--", *SOURCES).strip()
        return last + ("+" if git("status", "--porcelain", "--", *SOURCES).strip() else "")
    except (OSError, subprocess.CalledProcessError):
        return ""


def load():
    """The lines that are kept, none before the first run."""
    if not RESULTS.exists():
        return []
    try:
        texts = gzip.decompress(RESULTS.read_bytes()).decode().splitlines()
    except (OSError, EOFError, zlib.error, UnicodeDecodeError):
        sys.exit(f"study: {RESULTS.name} is no gzip file of text, or is cut short.")
    results = []
    for index, text in enumerate(texts):
        try:
            result = json.loads(text)
        except json.JSONDecodeError:
            sys.exit(f"study: line {index + 1} of {RESULTS.name} is not JSON.")
        if not isinstance(result, dict) or result.get("set") not in every_set():
            sys.exit(f"study: line {index + 1} of {RESULTS.name} is of no set that there is.")
        results.append(result)
    return results


def wanted(name):
    """How many lines a set should have of each policy, traffic, load and seed."""
    counts = collections.Counter()
    for command in sets.SETS[name]:
        words = command.split()
        told = dict(zip(words, words[1:]))
        first = int(told.get("--seed", 1))
        for load_of in told["--load"].split(","):
            for seed in range(first, first + sets.SEEDS):
                counts[told["--policy"], told.get("--traffic", "exponential"), float(load_of), seed] += 1
    return counts


def complaint(results):
    """What keeps the lines from being reported, in a sentence; None: nothing."""
    if not results:
        return f"there are no lines in {RESULTS.name}; 'study.py run SIMULATOR' makes them."
    for name in every_set():
        of_set = [result for result in results if result["set"] == name]
        if not of_set:
            return f"there are no lines of the set '{name}'; 'study.py run SIMULATOR {name}' makes them."
        if name in SPECIAL:
            continue
        missing = [result for result in of_set if any(key not in result for key in CHOICE + ("seed",))]
        if missing:
            return f"a line of the set '{name}' does not say its policy, traffic, load or seed."
        there = collections.Counter(tuple(result[key] for key in CHOICE + ("seed",)) for result in of_set)
        expected = wanted(name)
        for key in sorted(set(there) | set(expected)):
            if there[key] != expected.get(key, 0):
                policy, traffic, load_of, seed = key
                return (f"the set '{name}' should have {expected.get(key, 0)} and has {there[key]} of the lines of"
                        f" {policy}, {traffic}, load {load_of:g}, seed {seed}.")
        for result in of_set:
            figure = result.get("sojourn", {}).get("p99")
            if isinstance(figure, bool) or not isinstance(figure, (int, float)) or not 0 < figure < math.inf:
                return (f"a line of the set '{name}' has no P99 above zero: {result['policy']}, {result['traffic']},"
                        f" load {result['load']:g}, seed {result['seed']}.")
    return None


def keep(results):
    """Without the time of day, so that the same results are the same bytes."""
    text = "".join(json.dumps(result, separators=(",", ":")) + "\n" for result in results)
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0, compresslevel=9) as file:
        file.write(text.encode())
    RESULTS.write_bytes(packed.getvalue())


def every_set():
    return list(sets.SETS) + list(SPECIAL)


def place_of(result):
    """Rows of the tables are in the order of lines, whichever were run last."""
    policy = result.get("policy")
    return every_set().index(result["set"]), sets.ALL.index(policy) if policy in sets.ALL else len(sets.ALL)


def run(simulator, names):
    every = every_set()
    unknown = [name for name in names if name not in every]
    if unknown:
        sys.exit(f"study: there is no set '{unknown[0]}'; there are {', '.join(every)}.")
    names = names or every
    sources = commit()
    progress = Progress(sum(len(sets.SETS.get(name, range(SPECIAL_STEPS.get(name, 1)))) for name in names))
    for name in names:
        if name in SPECIAL:
            found = SPECIAL[name](simulator, progress)
        else:
            found = []
            for words in sets.SETS[name]:
                progress(f"{name}: {words}")
                found += simulate(simulator, words)
        others = [result for result in load() if result["set"] != name]
        merged = others + [dict({"set": name}, **result, commit=sources) for result in found]
        keep(sorted(merged, key=place_of))
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr)


def stop_with(sentence):
    print("study: " + sentence, file=sys.stderr)
    return 2


def main(words):
    if not words or {"--help", "-h"} & set(words):
        print(__doc__.strip(), file=sys.stdout if words else sys.stderr)
        return 0 if words else 2
    wrong = [word for word in words if word.startswith("-")]
    if wrong:
        return stop_with(f"there is no option {wrong[0]}; --help lists what there is.")
    names = words[1:]
    if words[0] == "run":
        if not names:
            return stop_with("'run' needs the simulator's path; 'build/lib/calm_simulator' is it after './calm lib'.")
        if not os.access(names[0], os.X_OK) or Path(names[0]).is_dir():
            return stop_with(f"'{names[0]}' is no program; './calm lib' builds build/lib/calm_simulator.")
        run(names[0], names[1:])
    elif words in (["report"], ["tables"]):
        import pages
        results = load()
        trouble = complaint(results)
        if trouble is not None:
            sys.exit("study: " + trouble)
        print("study: " + pages.commits(results), file=sys.stderr)
        if words == ["report"]:
            pages.write(results)
        else:
            print(pages.everything(results), end="")
    else:
        return stop_with(f"'{' '.join(words)}' is neither 'run SIMULATOR [SET...]' nor 'report' nor 'tables'.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
