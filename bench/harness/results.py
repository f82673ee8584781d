"""Raw samples made into figures: which try counts, which run is a failure, medians, bests, spreads, ratios, ties.

The tie rule of the lab, used everywhere and nowhere else written: two figures are a **tie** when the 95 % bootstrap
interval of the ratio of their medians holds 1, or when the difference of the medians is within the spread of identical
runs of either library (from quartile to quartile; below five runs from the smallest to the largest), or below half a
per cent. Below three runs of either nothing is claimed at all. `smallest_visible` is the smallest true difference that
this rule finds in 19 of 20 such comparisons.
"""

import functools
import math
import statistics
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Dict, Iterable, List, Optional, Tuple

NOISE_FLOOR = 0.005  # below half a per cent nothing is claimed, however still the machine was
INTERVAL = 0.95
RUNS_MIN = 3  # two runs each differ by chance in one of five rows
POWER_DEVIATIONS = 1.645  # of a normal distribution: 19 of 20 lie above the mean less this many
EXACT_EVEN_RUNS_MAX = 12  # above that, an even number of runs is resampled by its lower median, which needs n^2 less


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
        """Where identical runs lie: from quartile to quartile, or all of them below five runs."""
        if len(self.values) < 5:
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
    """Ours over a peer's. `noise`, `interval` and `smallest_visible` are None below three runs of either."""

    median: float
    best: float
    noise: Optional[float]  # the wider of the two spreads, at least the floor
    is_tie: bool
    interval: Optional[Tuple[float, float]] = None  # of the ratio of medians
    smallest_visible: Optional[float] = None  # 0.03: a library 3 % slower would have been found

    @property
    def verdict(self) -> str:
        """Ours: "tie", "faster" or "slower" by the tie rule; "?" where too few runs allow no claim."""
        if self.noise is None:
            return "?"
        return "tie" if self.is_tie else "faster" if self.median < 1 else "slower"


@functools.lru_cache(maxsize=None)
def _median_weights(count: int) -> Tuple[Tuple[int, int, float], ...]:
    """
    How likely each pair of ordered runs is to be the middle of a resample of `count` runs: all resamples at once, so
    that the bootstrap needs no random numbers and no seed.
    """
    middle = count // 2 if count % 2 == 0 else count // 2 + 1
    ways = [math.comb(count, taken) for taken in range(count + 1)]

    def at_most(rank: int) -> float:
        """The chance that the middle of a resample is among the `rank` smallest runs."""
        share = rank / count
        return sum(
            ways[taken] * share**taken * (1 - share) ** (count - taken) for taken in range(middle, count + 1)
        )

    is_pair = count % 2 == 0 and count <= EXACT_EVEN_RUNS_MAX
    weights = []
    for low in range(count):
        left = at_most(low + 1) - at_most(low)
        for high in range(low + 1, count) if is_pair else ():
            # Exactly the lower half of the draws up to `low`, touching it, and the upper half from `high` on.
            below = ((low + 1) / count) ** middle - (low / count) ** middle
            above = ((count - high) / count) ** middle - ((count - high - 1) / count) ** middle
            both = ways[middle] * below * above
            weights.append((low, high, both))
            left -= both
        weights.append((low, low, left))
    return tuple(weights)


def _resampled_medians(values: List[float]) -> List[Tuple[float, float]]:
    """(logarithm of the median, its probability) over all resamples."""
    ordered = sorted(values)
    return [
        (math.log((ordered[low] + ordered[high]) / 2), weight)
        for low, high, weight in _median_weights(len(ordered))
        if weight > 0
    ]


def _bootstrap(ours: Figure, peer: Figure) -> Tuple[float, float, float]:
    """
    The percentile interval of the ratio of medians, and the standard deviation of its logarithm. With seven runs each
    the interval covers the truth in 95 to 97 of 100 cases; with three in 90, where the spread decides about ties.
    """
    peers = _resampled_medians(peer.values)
    resamples = sorted((one - other, p * q) for one, p in _resampled_medians(ours.values) for other, q in peers)
    low = high = None
    passed = mean = square = 0.0
    for value, weight in resamples:
        passed += weight
        mean += weight * value
        square += weight * value * value
        if low is None and passed > (1 - INTERVAL) / 2:
            low = value
        if high is None and passed >= (1 + INTERVAL) / 2:
            high = value
    high = resamples[-1][0] if high is None else high
    return math.exp(low), math.exp(high), math.sqrt(max(0.0, square - mean * mean))


def ratio(ours: Optional[Figure], peer: Optional[Figure]) -> Optional[Ratio]:
    """None where either has no figure, or one of zero, of which there is no ratio."""
    if ours is None or peer is None or min(ours.best, peer.best) <= 0:
        return None
    median, best = ours.median / peer.median, ours.best / peer.best
    # The same verdict whichever of the two is called ours.
    difference = max(median, 1 / median) - 1
    if min(len(ours.values), len(peer.values)) < RUNS_MIN:
        return Ratio(median, best, None, difference <= NOISE_FLOOR)
    noise = max(ours.spread, peer.spread, NOISE_FLOOR)
    low, high, deviation = _bootstrap(ours, peer)
    is_tie = low <= 1 <= high or difference <= noise
    threshold = max(math.log1p(noise), math.log(high / low) / 2)
    visible = math.expm1(threshold + POWER_DEVIATIONS * deviation)
    return Ratio(median, best, noise, is_tie, (low, high), visible)


def geometric_mean(values: Iterable[float]) -> Optional[float]:
    logs = [math.log(value) for value in values if value > 0]
    return math.exp(sum(logs) / len(logs)) if logs else None


def number_of(row) -> str:
    """The field of the result that the row's own figure is, or an empty text for a metric of cost."""
    return row.metric[len("number:") :] if row.metric.startswith("number:") else ""


def lacking(row, result: Optional[Dict]) -> str:
    """What is wrong with a result whose field is the row's figure, or an empty text."""
    name = number_of(row)
    value = (result or {}).get(name)
    if not name or (isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)):
        return ""
    return f"its result has no number {name}"


def value_of(row, sample: Dict, metric: str) -> float:
    cost, result = sample["cost"], sample.get("result")
    if metric.startswith("number:"):
        return result[metric[len("number:") :]]
    if metric == "peak":
        return cost["peak_kib"]
    if metric == "process" or (metric == "cpu" and result is None):
        return cost["user"] + cost["system"]
    if metric == "wall":
        return cost["wall"] if result is None else result["seconds"]
    return result["cpu_seconds"]


SERIES = "series_"


@dataclass
class Cell:
    """All that is known of one row under one library. No figure and no failure: it was not measured."""

    figure: Optional[Figure]  # values, median, best, spread
    failure: str
    fields: Dict[str, float]  # every number of the workload's own result: the median over the runs
    series: Dict[str, List[List[List[float]]]]  # by name without its prefix: one curve of [x, y] points for each run
    is_disturbed: bool  # others used the processors even in the quietest try of some run of this cell


@dataclass
class Results:
    """
    Samples that count, by row and library.

        results = digest_samples(rows, libraries, samples, foreign_limit)
        cell = results.cell(row, "calm")       # one row under one library by the row's own metric; or metric="peak"
        pair = results.ratio(row, "calm", "mimalloc3")
        pair.median, pair.best, pair.interval, pair.smallest_visible, pair.is_tie, pair.verdict
    """

    rows: List
    libraries: List[str]
    counted: Dict[Tuple[str, str], List[Dict]] = field(default_factory=dict)
    failures: Dict[Tuple[str, str], str] = field(default_factory=dict)
    disturbed: Dict[str, List[float]] = field(default_factory=dict)  # by row: shares of a core that others used
    foreign_limit: float = 0.15

    def figure(self, row, library: str, metric: str) -> Optional[Figure]:
        """None when there is nothing, or when any run failed: a library that fails a row has no figure there."""
        samples = self._samples(row, library)
        return Figure([value_of(row, sample, metric) for sample in samples]) if samples else None

    def ratio(self, row, ours: str, peer: str, metric: Optional[str] = None) -> Optional[Ratio]:
        here = metric or row.metric
        return ratio(self.figure(row, ours, here), self.figure(row, peer, here))

    def number(self, row, library: str, name: str) -> Optional[float]:
        """Median of one of the workload's own figures."""
        samples = self._samples(row, library)
        values = [sample["result"][name] for sample in samples if name in sample.get("result", {})]
        return statistics.median(values) if values else None

    def cell(self, row, library: str, metric: Optional[str] = None) -> Cell:
        samples = self._samples(row, library)
        results = [sample.get("result", {}) for sample in samples]
        numbers = [key for result in results[:1] for key, value in result.items() if isinstance(value, (int, float))]
        curves: Dict[str, List] = {}
        for result in results:
            for key, value in result.items():
                if key.startswith(SERIES):
                    curves.setdefault(key[len(SERIES) :], []).append(value)
        return Cell(
            self.figure(row, library, metric or row.metric),
            self.failures.get((row.name, library), ""),
            {name: self.number(row, library, name) for name in numbers},
            curves,
            row.is_disturbable and any(sample["foreign_share"] > self.foreign_limit for sample in samples),
        )

    def row(self, name: str):
        return next((row for row in self.rows if row.name == name), None)

    def _samples(self, row, library: str) -> List[Dict]:
        return [] if (row.name, library) in self.failures else self.counted.get((row.name, library), [])


def digest_samples(rows: List, libraries: List[str], samples: List[Dict], foreign_limit: float) -> Results:
    by_run = defaultdict(list)
    for sample in samples:
        by_run[sample["row"], sample["library"], sample["repeat"]].append(sample)
    results = Results(rows, libraries, foreign_limit=foreign_limit)
    known = {row.name: row for row in rows}
    for (name, library, _repeat), tries in sorted(by_run.items()):
        row = known.get(name)
        if row is None:
            continue
        complaints = (sample["failed"] or lacking(row, sample.get("result")) for sample in tries)
        failed = [words for words in complaints if words]
        if failed:
            results.failures[name, library] = failed[0]
            continue
        quietest = min(tries, key=lambda sample: sample["foreign_share"])
        results.counted.setdefault((name, library), []).append(quietest)
        if quietest["foreign_share"] > foreign_limit and row.is_disturbable:
            results.disturbed.setdefault(name, []).append(quietest["foreign_share"])
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
