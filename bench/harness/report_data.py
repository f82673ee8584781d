"""What a report is made of: the raw files read and digested once, asked for by tables, plots and page alike.

Figures, ratios, ties and spreads are computed in results.py; here they are only looked up and put in order.
"""

import gzip
import json
import re
import statistics
from dataclasses import dataclass, field
from pathlib import Path
from typing import Dict, List, Optional, Sequence, Set, Tuple

import rows as rows_module

from . import goals, measure
from .base import Stop
from .results import Figure, Ratio, Results, digest_samples

FOREIGN_LIMIT = 0.15
REPEATS_WANTED = 7

Curve = List[Tuple[float, float]]


@dataclass(frozen=True)
class Dot:
    """One ratio of a plot, with the interval it may lie in."""

    row: str
    peer: str
    ratio: float
    low: float
    high: float
    is_tie: bool
    is_single: bool = False  # one run each: no interval, no claim


@dataclass
class RatioPanel:
    """Everything one plot of ratios shows."""

    kind: str  # "ratios" or "peak"
    group: str
    title: str
    axis: str
    peers: List[str]
    rows: List[str]
    dots: List[Dot]
    failed: Dict[str, List[str]] = field(default_factory=dict)  # by row: libraries
    disturbed: Set[str] = field(default_factory=set)  # rows during which others used the processors


class PackedFile:
    """Looks like a path to measure.read(), and unpacks what is compressed."""

    def __init__(self, path: Path):
        self.path = path

    def __str__(self) -> str:
        return str(self.path)

    def read_text(self) -> str:
        try:
            if self.path.suffix != ".gz":
                return self.path.read_text()
            with gzip.open(self.path, "rt", encoding="utf-8") as file:
                return file.read()
        except (gzip.BadGzipFile, EOFError):
            raise OSError(0, "it is not a whole gzip file")
        except UnicodeDecodeError:
            raise OSError(0, "it is not text")


def words_of_metric(metric: str) -> str:
    """A metric as a reader would say it."""
    known = {
        "cpu": "CPU time of the timed part",
        "wall": "wall time of the timed part",
        "process": "CPU time of the whole process",
        "peak": "peak RSS",
    }
    return known.get(metric) or words_of_field(metric.replace("number:", ""))


def words_of_field(name: str) -> str:
    """A field of a workload's result without its unit: resident_1s_kib is "resident 1s", p999 is "P99.9"."""
    words = [part for part in name.split("_") if part not in ("kib", "ns", "share", "seconds")]
    percentile = re.compile(r"p(\d\d)(\d*)")
    for index, word in enumerate(words):
        found = percentile.fullmatch(word)
        if found:
            words[index] = f"P{found.group(1)}" + (f".{found.group(2)}" if found.group(2) else "")
    return " ".join(words)


def unit_of(metric: str) -> str:
    """What a metric, or a field by its name's last words, is counted in."""
    if metric in ("cpu", "wall", "process"):
        return "s"
    parts = metric.replace("number:", "").split("_")
    if metric == "peak" or "kib" in parts:
        return "KiB"
    if "ns" in parts or "seconds" in parts:
        return "ns" if "ns" in parts else "s"
    return "%" if parts[-1] == "share" else ""


def typical_curve(runs: List[List[List[float]]]) -> Curve:
    """
    One curve for several runs: the median at each point where all runs have the same points, as percentiles and windows
    do. Points in time differ from run to run: then the run whose highest point is the middle one.
    """
    if all([x for x, _ in run] == [x for x, _ in runs[0]] for run in runs):
        return [(points[0][0], statistics.median(y for _, y in points)) for points in zip(*runs)]
    ordered = sorted(runs, key=lambda run: max((y for _, y in run), default=0.0))
    return [(x, y) for x, y in ordered[(len(ordered) - 1) // 2]]


@dataclass
class Report:
    ours: str
    libraries: List[str]
    rows: List  # in the order of the list of rows
    results: Results
    headers: List[Dict]
    samples: List[Dict]
    files: List[Path]
    scales: Dict[str, float]  # by row
    is_whole: bool  # all rows of the files, not a choice of them
    counts: Dict[Tuple[str, str], float] = field(default_factory=dict)  # instructions, by row and library

    @property
    def peers(self) -> List[str]:
        """A twin of ours, the same build with the same settings, is the lab's control and has no column of its own."""
        others = [name for name in self.libraries if name != self.ours]
        return [name for name in others if self.build_of(name) != self.build_of(self.ours)] or others

    def build_of(self, library: str) -> Tuple:
        known = {each["name"]: each for head in self.headers for each in head["libraries"]}[library]
        return known["sha256"], known["env"]

    @property
    def groups(self) -> List[str]:
        return [group for group in rows_module.GROUPS if any(row.group == group for row in self.rows)]

    def rows_of(self, group: str) -> List:
        return [row for row in self.rows if row.group == group]

    def has_peaks(self, group: str) -> bool:
        """Whether peak RSS is a figure beside the rows' own."""
        return group != "control" and any(row.metric != "peak" for row in self.rows_of(group))

    def figure(self, row, library: str, metric: str) -> Optional[Figure]:
        return self.results.figure(row, library, metric)

    def pair(self, row, peer: str, metric: str) -> Optional[Ratio]:
        return self.results.ratio(row, self.ours, peer, metric)

    def failure(self, row, library: str) -> Optional[str]:
        return self.results.failures.get((row.name, library))

    def best_peer(self, row, metric: str) -> Optional[str]:
        return goals.best_peer(self.results, self.ours, row, metric)

    def version_words(self, library: str) -> str:
        known = {each["name"]: each for head in self.headers for each in head["libraries"]}[library]
        settings = " ".join(f"{key}={value}" for key, value in known["env"].items())
        return " ".join(part for part in (known["version"], known["sha256"][:12], settings) if part)

    def scale_of(self, row) -> float:
        """What the work of each of the row's runs was multiplied by; a row is in one file only, which has one scale."""
        return self.scales[row.name] / self.results.slices(row)

    @property
    def commit(self) -> str:
        return self.headers[-1]["machine"].get("commit", "")

    @property
    def date(self) -> str:
        """Of the last sample: the report may be made much later."""
        return max((sample.get("time", "") for sample in self.samples), default="")[:10]

    def curves(self, row, name: str) -> Dict[str, Curve]:
        """By library: the curve `name` of a row."""
        found = {}
        for library in [self.ours] + self.peers:
            runs = self.results.cell(row, library).series.get(name)
            if runs:
                found[library] = typical_curve(runs)
        return found

    def group_ratios(self) -> Dict[Tuple[str, str], List[float]]:
        """By group and peer: the median ratios, each row by its own figure."""
        found: Dict[Tuple[str, str], List[float]] = {}
        for row in self.rows:
            if row.group == "control":
                continue
            for peer in self.peers:
                pair = self.pair(row, peer, row.metric)
                if pair:
                    found.setdefault((row.group, peer), []).append(pair.median)
        return found

    def ratio_panels(self) -> List[RatioPanel]:
        """A panel a group by its own figure, and one for peak RSS where that is another figure."""
        panels = []
        for group in self.groups:
            panels.append(self._panel(group, "ratios", None))
            if self.has_peaks(group):
                panels.append(self._panel(group, "peak", "peak"))
        return [panel for panel in panels if panel.dots or panel.failed]

    def _panel(self, group: str, kind: str, metric: Optional[str]) -> RatioPanel:
        rows = self.rows_of(group)
        dots, failed = [], {}
        for row in rows:
            broken = [name for name in self.libraries if self.failure(row, name)]
            if broken:
                failed[row.name] = broken if len(broken) < len(self.libraries) else ["all"]
            for peer in self.peers:
                pair = self.pair(row, peer, metric or row.metric)
                if pair:
                    low, high = pair.interval or (pair.median, pair.median)
                    dots.append(Dot(row.name, peer, pair.median, low, high, pair.is_tie, pair.interval is None))
        metrics = list(dict.fromkeys(metric or row.metric for row in rows))
        what = words_of_metric(metrics[0]) if len(metrics) == 1 else "each row's own figure"
        return RatioPanel(
            kind=kind,
            group=group,
            title=f"{group}: {what}",
            axis=f"{self.ours} over a peer, log scale: left of 1 is better for {self.ours}\n"
            "dot: median ratio; line: 95 % interval",
            peers=[peer for peer in self.peers if any(dot.peer == peer for dot in dots)],
            rows=[row.name for row in rows],
            dots=dots,
            failed=failed,
            disturbed={row.name for row in rows if row.name in self.results.disturbed and metric != "peak"},
        )


def _merge(files: Sequence[Path]) -> Tuple[List[Dict], List[Dict], Dict[str, float], List[Dict]]:
    """
    Headers, samples, the rows' scales and the counts of several files, which must be of one machine and must not share
    a row.
    """
    headers: List[Dict] = []
    counts: List[Dict] = []
    samples: List[Dict] = []
    row_from: Dict[str, Path] = {}
    builds: Dict[str, Tuple] = {}
    scales: Dict[str, float] = {}
    for path in files:
        heads, lines = measure.read(PackedFile(path))
        counts += [line for line in measure.read_others(PackedFile(path)) if line["kind"] == "count"]
        for head in heads:
            for key in ("processor", "cores", "kernel"):
                if headers and head["machine"][key] != headers[0]["machine"][key]:
                    raise Stop(f"{path} was measured on another machine ({key} differs); report it by itself.")
            if headers and head.get("touch", "first") != headers[0].get("touch", "first"):
                raise Stop(f"{path} was measured with another --touch; report it by itself.")
            for library in head["libraries"]:
                build = (library["sha256"], json.dumps(library["env"], sort_keys=True))
                if builds.setdefault(library["name"], build) != build:
                    raise Stop(f"{path} holds another build of {library['name']}; report it by itself.")
            headers.append(head)
        # Every set brings the control row; one run of it is enough.
        lines = [line for line in lines if line["row"] != "control" or row_from.get("control", path) == path]
        for name in dict.fromkeys(line["row"] for line in lines):
            if row_from.setdefault(name, path) != path:
                raise Stop(
                    f"The row {name} is in {row_from[name]} and in {path}; a ratio needs both sides from one run."
                )
            scales[name] = heads[0]["scale"]
        samples += lines
    return headers, samples, scales, counts


def load(files: Sequence[Path], ours: Optional[str], wanted: Optional[Set[str]]) -> Report:
    headers, samples, scales, counted = _merge(files)
    names = ", ".join(str(path) for path in files)
    libraries = list(dict.fromkeys(library["name"] for head in headers for library in head["libraries"]))
    ours = ours or ("calm" if "calm" in libraries else libraries[0])
    if ours not in libraries:
        raise Stop(f"{names} has no library {ours}; it has {', '.join(libraries)}.")
    measured = {sample["row"] for sample in samples}
    chosen = [row for row in rows_module.ROWS if wanted is None or row.name in wanted]
    rows = [row for row in chosen if row.name in measured]
    names_chosen = {row.name for row in chosen}
    counts = {
        (line["row"], line["library"]): line["instructions"] for line in counted if line["row"] in names_chosen
    }
    if not rows and not counts:
        raise Stop(f"{names} has no sample of such a row.")
    results = digest_samples(rows, libraries, samples, FOREIGN_LIMIT)
    return Report(ours, libraries, rows, results, headers, samples, list(files), scales, wanted is None, counts)
