"""The lab's own positive controls: what is alike must tie, and a known delay must be found.

One library is measured under two names, `one` and `two`. It is also measured below the wrapper of controls/delay.c,
without a delay (`plain`) and with one (`slow`): the two differ in the delay alone, not in the wrapper's own cost. The
delay of a row is chosen from runs before it: the wrapper counts the calls, a larger delay shows how much of it reaches
the row's figure (calls outside the timed part do not), and a tenth of the figure follows. Rows whose figure is no time
have no delay: of them only the two names are compared.
"""

import statistics
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Dict, List, Optional, Sequence, Tuple

import rows as rows_module

from . import build, measure, peers, plan
from .base import Stop, note
from .libraries import Library
from .measure import RawFile, Settings, run_once
from .report_data import FOREIGN_LIMIT, PackedFile
from .results import TIES_WANTED, Ratio, Results, digest_samples, number_of, value_of

NAMES = ("one", "two", "plain", "slow")
WRAPPED = NAMES[2:]
DELAY = 0.10
TRIAL = 0.40  # well above the noise, near enough to the delay for a straight line between them
TRIAL_USABLE = (0.20, 0.80)
TRIALS_MAX = 4
PAIRS_A_GAIN = 5  # of runs without and with a delay, at least; and two of each slice
CALLS_MIN = 20
TURNS_A_SECOND = 2.5e9  # a first guess, put right by the trial
FEW_TURNS = 64  # below so many a call, they are spent every 64th call: fractions of a cycle
OF_ONE_CALL = ("malloc_", "free_", "held_")  # figures that every call must be delayed for
FOUND_WANTED = 0.90


class Delays(plan.Fit):
    """Fits `plain` and `slow` to a row; remembers in the raw file what was found out about it."""

    def __init__(self, settings: Settings):
        self.settings = settings
        self.raw: Optional[RawFile] = None
        self.known: Dict[str, Dict] = {}

    def open(self, raw: RawFile) -> None:
        self.raw = raw
        self.known = {line["row"]: line for line in raw.others if line["kind"] == "delay"}

    def library(self, row, library: Library) -> Optional[Library]:
        if library.name not in WRAPPED:
            return library
        if row.name not in self.known:
            line = {"kind": "delay", "row": row.name, **self._calibrate(row, library)}
            self.raw.append(line)
            self.known[row.name] = line
        found = self.known[row.name]
        if found["reason"]:
            return None
        return _delayed(library, found["turns"] if library.name == "slow" else 0, found["every"])

    def _figure(self, row, library: Library) -> float:
        sample = run_once(row, library, self.settings)
        if sample["failed"]:
            raise Stop(sample["failed"])
        return value_of(row, sample, row.metric)

    def _gain(self, row, library: Library, turns: int, every: int) -> float:
        """How much a delay adds to the row's figure. The way through the wrapper is the same without and with it."""
        ratios = []
        for index in range(_pairs(row)):
            wanted = (0, turns) if index % 2 == 0 else (turns, 0)
            figures = {each: self._figure(row, _delayed(library, each, every)) for each in wanted}
            ratios.append(figures[turns] / figures[0])
        return statistics.median(ratios) - 1

    def _calibrate(self, row, library: Library) -> Dict:
        if not row.is_disturbable:
            return {"reason": "its figure is no time"}
        try:
            calls = self._count(row, library)
            if calls < CALLS_MIN:
                return {"reason": "it makes too few calls", "calls": calls}
            without = self._figure(row, _delayed(library, 0, 1))
            seconds_a_call = without / calls if row.is_time else without * 1e-9
            wanted = TRIAL * seconds_a_call * TURNS_A_SECOND  # turns a call
            for _ in range(TRIALS_MAX):
                turns, every = _spread(row, wanted)
                gain = self._gain(row, library, turns, every)
                if TRIAL_USABLE[0] <= gain <= TRIAL_USABLE[1]:
                    turns, every = _spread(row, turns / every * DELAY / gain)
                    return {"reason": "", "calls": calls, "turns": turns, "every": every, "trial_gain": round(gain, 4)}
                wanted = turns / every * min(10.0, max(0.1, TRIAL / max(gain, 1e-9)))
            return {"reason": "its timed part makes too few calls for a delay to reach it", "calls": calls}
        except Stop as problem:
            return {"reason": f"it failed below the wrapper: {problem}"}

    def _count(self, row, library: Library) -> int:
        with tempfile.TemporaryDirectory(prefix="calm-bench-") as folder:
            path = Path(folder) / "calls"
            sample = run_once(row, replace(library, env=dict(library.env, CALM_DELAY_COUNT=str(path))), self.settings)
            if sample["failed"]:
                raise Stop(sample["failed"])
            return sum(map(int, path.read_text().split())) if path.exists() else 0


def _pairs(row) -> int:
    return max(PAIRS_A_GAIN, 2 * row.slices)


def _spread(row, turns_a_call: float) -> Tuple[int, int]:
    """Turns, and every how many calls they are spent."""
    is_of_one_call = number_of(row).startswith(OF_ONE_CALL)
    every = FEW_TURNS if turns_a_call < FEW_TURNS and not is_of_one_call else 1
    return max(1, round(turns_a_call * every)), every


def _delayed(library: Library, turns: int, every: int) -> Library:
    return replace(library, env=dict(library.env, CALM_DELAY_TURNS=str(turns), CALM_DELAY_EVERY=str(every)))


def _libraries(base: Library) -> List[Library]:
    wrapper = build.binaries() / "libdelay.so"
    peers.prove(base.name, base.path, base.env)
    one, two = (replace(base, name=name) for name in NAMES[:2])
    plain, slow = (replace(base, name=name, path=str(wrapper), under=base.path) for name in WRAPPED)
    peers.prove("the wrapper", plain.path)
    return [one, two, plain, slow]


def run(label: str, rows: List, base: Library, settings: Settings, out: Optional[Path]) -> str:
    measured = _libraries(base)
    plan.announce(label, rows, measured, settings)
    more = max((2 + 2 * TRIALS_MAX * _pairs(row) for row in rows if row.is_disturbable), default=0)
    note(f"Rows of time take up to {more} runs more, to choose their delay.")
    out = out or plan.default_file(label, rows, measured, settings)
    delays = Delays(settings)
    raw = plan.run(rows, measured, settings, out, delays)
    note(f"The raw lines are in {out}.")
    return render(rows, raw, delays.known, settings)


def _cells(pair: Optional[Ratio]) -> List[str]:
    if pair is None:
        return ["-", "-", "-"]
    visible = "?" if pair.smallest_visible is None else f"{pair.smallest_visible:.1%}"
    return [f"{pair.median:.3f}", visible, pair.verdict]


def render(rows: List, raw: RawFile, delays: Dict[str, Dict], settings: Settings) -> str:
    samples = [line for lines in raw.cells.values() for line in lines]
    return _render([(digest_samples(rows, list(NAMES), samples, settings.foreign_limit), delays)])


def show(files: Sequence[Path]) -> str:
    """The table of controls that were recorded, of several runs as one; nothing is measured."""
    parts = []
    for path in files:
        packed = PackedFile(path)
        headers, samples = measure.read(packed)
        if not {each["name"] for head in headers for each in head["libraries"]} >= set(NAMES):
            raise Stop(f"{path} was not written by `./calm bench prove`; `./calm bench report` reads it.")
        measured = {sample["row"] for sample in samples}
        rows = [row for row in rows_module.ROWS if row.name in measured]
        delays = {line["row"]: line for line in measure.read_others(packed) if line["kind"] == "delay"}
        parts.append((digest_samples(rows, list(NAMES), samples, FOREIGN_LIMIT), delays))
    return _render(parts)


def _render(parts: Sequence[Tuple[Results, Dict[str, Dict]]]) -> str:
    lines = [
        "# The lab's own controls",
        "",
        "Every row of one library under two names, which must tie, and below a wrapper with and without a delay of "
        f"{DELAY:.0%}, which must be found wherever the row could have seen it.",
        "",
        "| row | one over two | smallest visible | verdict | slow over plain | smallest visible | verdict |",
        "|---|--:|--:|---|--:|--:|---|",
    ]
    alike, seeing, reasons = [], [], []
    for results, delays in parts:
        for row in results.rows:
            same, slowed = results.ratio(row, "one", "two"), results.ratio(row, "slow", "plain")
            lines.append(f"| {row.name} | " + " | ".join(_cells(same) + _cells(slowed)) + " |")
            if same and same.verdict != "?":
                alike.append(same.is_tie)
            if slowed and slowed.smallest_visible is not None and slowed.smallest_visible < DELAY:
                seeing.append(slowed.verdict == "slower")
            reason = delays.get(row.name, {}).get("reason")
            if reason:
                reasons.append(f"- {row.name} has no delay: {reason}.")
        reasons += [f"- {row} under {name} failed: {words}." for (row, name), words in sorted(results.failures.items())]
    lines += ["", _verdict("rows of one library under two names are ties", alike, TIES_WANTED)]
    lines += [_verdict(f"rows that could have seen {DELAY:.0%} found the slower library", seeing, FOUND_WANTED)]
    return "\n".join(lines + reasons)


def _verdict(words: str, outcomes: List[bool], wanted: float) -> str:
    if not outcomes:
        return f"- No verdict: none of the {words}, because none has more than one run or could see it."
    share = sum(outcomes) / len(outcomes)
    holds = "holds" if share >= wanted else "falls short"
    return f"- {sum(outcomes)} of {len(outcomes)} {words} ({share:.0%}, wanted {wanted:.0%}): {holds}."
