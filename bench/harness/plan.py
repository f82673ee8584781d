"""What is run in which order, how long it takes, and where it is written.

The order is row by row, and within a row round by round: A B C, C B A, B C A, A C B, ... so that what drifts on the
machine drifts for all, and nobody always runs after the same neighbour. A run during which other processes used too
much CPU is done again, as long as that keeps within its share of the time; the quietest try counts. A library that
fails twice in a row is left out of the rest of it.
"""

import hashlib
import json
import time
from pathlib import Path
from typing import Dict, List, Optional, Tuple

import rows as rows_module

from .base import CACHE, Stop, need_space, note
from .libraries import Library
from .measure import RawFile, Settings, missing, run_once
from .progress import Progress, duration
from .results import digest_samples

FAILURES_MAX = 2  # of one row under one library; then its other rounds are left out
AGAIN_SHARE = 0.3  # of the time that runs were expected to take so far may go into doing disturbed ones again
OVERHEAD_SECONDS = 0.02  # of starting a run and reading what it said
FOLDER = CACHE / "runs"
SPACE_MIB = 50

Cell = Tuple  # (row, round, library)


def order(libraries: List[Library], index: int) -> List[Library]:
    first = index // 2 % len(libraries)
    rotated = libraries[first:] + libraries[:first]
    return rotated if index % 2 == 0 else rotated[::-1]


def cells(rows: List, libraries: List[Library], settings: Settings) -> List[Cell]:
    return [
        (row, index, library)
        for row in rows
        for index in range(min(settings.rounds * row.slices, row.repeats_max))
        for library in order(libraries, index)
    ]


def runnable(rows: List) -> List:
    """The rows that can run here; says which cannot."""
    found = []
    for row in rows:
        reason = missing(row)
        if reason:
            note(f"Row {row.name} is left out: {reason}; bench/programs/install.sh brings what programs need.")
        else:
            found.append(row)
    return found


def wants_run(raw: RawFile, cell: Cell, settings: Settings) -> bool:
    """Whether a cell needs another try."""
    row, index, library = cell
    tries = raw.tries(row.name, library.name, index)
    allowed = settings.tries if row.is_disturbable else 1
    if any(line["failed"] or line["foreign_share"] <= settings.foreign_limit for line in tries):
        return False
    return len(tries) < allowed and raw.failures(row.name, library.name) < FAILURES_MAX


def has_run(raw: RawFile, cell: Cell) -> bool:
    row, index, library = cell
    return bool(raw.tries(row.name, library.name, index)) or raw.failures(row.name, library.name) >= FAILURES_MAX


class Fit:
    """Changes a library for a row, or leaves it out of the row by None."""

    def open(self, raw: RawFile) -> None:
        """Called once, before anything is measured."""

    def library(self, row, library: Library) -> Optional[Library]:
        return library


class Pace:
    """Expects of a run what it took before in this file, or what its row usually takes."""

    def __init__(self, settings: Settings, raw: Optional[RawFile] = None):
        self.settings, self.raw = settings, raw

    def seconds(self, cell: Cell) -> float:
        row, _index, library = cell
        samples = self.raw.cells.get((row.name, library.name), []) if self.raw else []
        known = [line["cost"]["wall"] for line in samples if "cost" in line]
        if known:
            return sum(known) / len(known) + OVERHEAD_SECONDS
        scales = any(isinstance(part, rows_module.N) for part in row.command + row.client)
        return row.seconds * (self.settings.scale if scales else 1) + OVERHEAD_SECONDS

    def total(self, planned: List[Cell]) -> float:
        return sum(self.seconds(cell) for cell in planned)


def announce(label: str, rows: List, libraries: List[Library], settings: Settings) -> None:
    planned = cells(rows, libraries, settings)
    note(
        f"{label}: {len(rows)} rows under {len(libraries)} libraries ({', '.join(each.name for each in libraries)}), "
        f"{settings.rounds} rounds at most, {len(planned)} runs: about {duration(Pace(settings).total(planned))} on a "
        "machine like ours, more where others disturb it."
    )


def default_file(label: str, rows: List, libraries: List[Library], settings: Settings) -> Path:
    """The newest file of the very same command that is not complete, else a new one with today's date."""
    command = [
        [row.name for row in rows],
        [library.record() for library in libraries],
        [settings.rounds, settings.seed, settings.scale, settings.tries, settings.foreign_limit, settings.touch],
    ]
    key = hashlib.sha256(json.dumps(command).encode()).hexdigest()[:8]
    for path in sorted(FOLDER.glob(f"*-{label}-{key}.jsonl"), reverse=True):
        raw = RawFile(path, settings, libraries)
        left = sum(not has_run(raw, cell) for cell in cells(rows, libraries, settings))
        raw.file.close()
        if left:
            note(f"Going on with {path}.")
            return path
        break
    return FOLDER / f"{time.strftime('%Y-%m-%d-%H%M%S')}-{label}-{key}.jsonl"


class Standing:
    """The running table: of each row, ours over each other library so far."""

    def __init__(self, raw: RawFile, libraries: List[Library]):
        self.raw, self.names = raw, [library.name for library in libraries]
        self.shown: Dict[str, List[str]] = {}

    def update(self, row) -> List[str]:
        samples = [line for name in self.names for line in self.raw.cells.get((row.name, name), [])]
        results = digest_samples([row], self.names, samples, 1.0)
        ours = self.names[0]
        texts = []
        for name in self.names[1:]:
            pair = results.ratio(row, ours, name)
            text = ""
            if (row.name, name) in results.failures:
                text = "failed"
            elif (row.name, ours) in results.failures:
                text = f"{ours} failed"
            elif pair is not None:
                text = f"{pair.median:.2f}" + ("" if pair.verdict == "faster" else " " + pair.verdict)
            texts.append(text)
        self.shown[row.name] = texts
        return texts


def run(rows: List, libraries: List[Library], settings: Settings, path: Path, fit: Fit = Fit()) -> RawFile:
    need_space(path.parent, SPACE_MIB, "--out name a file elsewhere")
    raw = RawFile(path, settings, libraries)
    fit.open(raw)
    pace, standing = Pace(settings, raw), Standing(raw, libraries)
    planned = cells(rows, libraries, settings)
    waiting = [cell for cell in planned if wants_run(raw, cell, settings)]
    if len(waiting) < len(planned):
        note(f"{len(planned) - len(waiting)} of {len(planned)} runs are in {path} already.")
    last = {row.name: (row, index, library) for row, index, library in waiting}
    with Progress(pace.total(waiting), standing) as progress:
        for cell in waiting:
            row, index, library = cell
            expected = pace.seconds(cell)
            progress.step(f"{row.name} · {library.name} · {index + 1}")
            _measure(raw, cell, settings, progress, fit)
            progress.advance(expected)
            progress.show(row, is_last=last[row.name] == cell)
    return raw


def _measure(raw: RawFile, cell: Cell, settings: Settings, progress: Progress, fit: Fit) -> None:
    row, index, library = cell
    while wants_run(raw, cell, settings):
        is_again = bool(raw.tries(row.name, library.name, index))
        if is_again and progress.again > AGAIN_SHARE * progress.done:
            return
        start = time.monotonic()
        fitted = fit.library(row, library)
        if fitted is None:
            return
        sample = {
            "kind": "sample",
            "row": row.name,
            "library": library.name,
            "repeat": index,
            "slices": row.slices,
            "try": len(raw.tries(row.name, library.name, index)),
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }
        sample.update(run_once(row, fitted, settings))
        raw.append(sample)
        progress.again += is_again * (time.monotonic() - start)
        if sample["failed"]:
            progress.say(f"{row.name} under {library.name} failed: {sample['failed']}")
