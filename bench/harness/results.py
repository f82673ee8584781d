"""Raw samples made into figures: which try counts, which run is a failure, medians, bests, spreads, ratios, ties."""

import math
import statistics
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Dict, Iterable, List, Optional, Tuple

NOISE_FLOOR = 0.005  # below half a per cent nothing is claimed, however still the machine was


@dataclass
class Figure:
    """One row under one library by one metric."""

    values: List[float]

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def best(self) -> float:
        return min(self.values)

    @property
    def usual(self) -> Tuple[float, float]:
        """Where identical runs lie: from quartile to quartile, or all of them below four runs."""
        if len(self.values) < 4:
            return min(self.values), max(self.values)
        low, _, high = statistics.quantiles(self.values, n=4, method="inclusive")
        return low, high

    @property
    def spread(self) -> Optional[float]:
        """The width of that, over the median. None: a single run says nothing about the next."""
        low, high = self.usual
        if len(self.values) < 2:
            return None
        return (high - low) / self.median if self.median else 0.0


@dataclass
class Ratio:
    """
    Ours over a peer's. A tie when the difference of the medians is within the spread of identical runs of either, or
    when the ranges where they usually lie overlap.
    """

    median: float
    best: float
    noise: Optional[float]
    is_tie: bool


def ratio(ours: Optional[Figure], peer: Optional[Figure]) -> Optional[Ratio]:
    if ours is None or peer is None or peer.median <= 0 or peer.best <= 0:
        return None
    spreads = [ours.spread, peer.spread]
    noise = None if None in spreads else max(spreads + [NOISE_FLOOR])
    median = ours.median / peer.median
    overlap = ours.usual[0] <= peer.usual[1] and peer.usual[0] <= ours.usual[1]
    # The same verdict whichever of the two is called ours.
    difference = max(median, 1 / median) - 1
    is_tie = overlap or difference <= (noise or NOISE_FLOOR)
    return Ratio(median, ours.best / peer.best, noise, is_tie)


def geometric_mean(values: Iterable[float]) -> Optional[float]:
    logs = [math.log(value) for value in values if value > 0]
    return math.exp(sum(logs) / len(logs)) if logs else None


def value_of(row, sample: Dict, metric: str) -> float:
    cost, result = sample["cost"], sample.get("result")
    if metric == "peak":
        return cost["peak_kib"]
    if metric == "process" or (metric == "cpu" and result is None):
        return cost["user"] + cost["system"]
    if metric == "wall":
        return cost["wall"] if result is None else result["seconds"]
    return result["cpu_seconds"]


@dataclass
class Results:
    rows: List
    libraries: List[str]
    counted: Dict[Tuple[str, str], List[Dict]] = field(default_factory=dict)
    failures: Dict[Tuple[str, str], str] = field(default_factory=dict)
    disturbed: Dict[str, List[float]] = field(default_factory=dict)  # by row: shares of a core that others used

    def figure(self, row, library: str, metric: str) -> Optional[Figure]:
        """None when there is nothing, or when any run failed: a library that fails a row has no figure there."""
        samples = self.counted.get((row.name, library))
        if not samples or (row.name, library) in self.failures:
            return None
        return Figure([value_of(row, sample, metric) for sample in samples])

    def number(self, row, library: str, name: str) -> Optional[float]:
        """Median of one of the workload's own figures."""
        samples = self.counted.get((row.name, library))
        if not samples or (row.name, library) in self.failures:
            return None
        values = [sample["result"][name] for sample in samples if name in sample.get("result", {})]
        return statistics.median(values) if values else None

    def row(self, name: str):
        return next((row for row in self.rows if row.name == name), None)


def digest_samples(rows: List, libraries: List[str], samples: List[Dict], foreign_limit: float) -> Results:
    by_run = defaultdict(list)
    for sample in samples:
        by_run[sample["row"], sample["library"], sample["repeat"]].append(sample)
    results = Results(rows, libraries)
    metrics = {row.name: row.metric for row in rows}
    for (row, library, _repeat), tries in sorted(by_run.items()):
        if row not in metrics:
            continue
        failed = [sample for sample in tries if sample["failed"]]
        if failed:
            results.failures[row, library] = failed[0]["failed"]
            continue
        quietest = min(tries, key=lambda sample: sample["foreign_share"])
        results.counted.setdefault((row, library), []).append(quietest)
        if quietest["foreign_share"] > foreign_limit and metrics[row] != "peak":
            results.disturbed.setdefault(row, []).append(quietest["foreign_share"])
    _compare_checks(results)
    return results


def _compare_checks(results: Results) -> None:
    """The same work must have the same outcome under every library: the dissenters failed."""
    for row in results.rows:
        checks = Counter(
            sample["check"]
            for library in results.libraries
            for sample in results.counted.get((row.name, library), [])
        )
        if len(checks) < 2:
            continue
        agreed = checks.most_common(1)[0][0]
        for library in results.libraries:
            if any(sample["check"] != agreed for sample in results.counted.get((row.name, library), [])):
                results.failures[row.name, library] = "its result differs from the others'"
