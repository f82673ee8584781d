"""Raw samples made into figures: which try counts, which run is a failure, medians, bests, spreads, ratios, ties.

Runs are compared in pairs, one of each library and of the same round: what the machine did to a round is in both. The
figure of a comparison is the median of the pairs' ratios.

The tie rule of the lab, used everywhere and nowhere else written: two libraries **tie** when 99 of 100 comparisons of
this many identical runs would differ as much: when the 99 % bootstrap interval of that median holds 1, or when it is
within a per cent of 1. Fewer than seven pairs cannot tell as much, so there a difference within the spread of
identical runs of either library is a tie as well (from quartile to quartile; below five runs from the smallest to the
largest). Below three pairs nothing is claimed at all. `smallest_visible` is the smallest true difference that this rule
finds in 19 of 20 such comparisons.
"""

import functools
import math
import statistics
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Dict, Iterable, List, Optional, Tuple

DISTURBED_SHARE = 0.05  # of a row's runs under a library that may be disturbed without a mark: medians pass over them
NOISE_FLOOR = 0.01  # below a per cent nothing is claimed: two processes of one library are laid out as differently
INTERVAL = 0.95  # that is shown
TIE_INTERVAL = 0.99  # that decides
PAIRS_MIN = 3  # two pairs agree by chance in one of two rows
TIES_WANTED = 0.95  # of the rows of one library under two names
PAIRS_ENOUGH = 7  # as many agree by chance in one of 64
POWER_DEVIATIONS = 1.645  # of a normal distribution: 19 of 20 lie above the mean less this many
EXACT_EVEN_RUNS_MAX = 12  # above that, an even number of runs is resampled by its lower median, which needs n^2 less


@dataclass
class Figure:
    """One row under one library by one metric."""

    values: List[float]
    rounds: Optional[List[int]] = None  # of each value; None: in order

    def by_round(self) -> Dict[int, float]:
        return dict(zip(self.rounds or range(len(self.values)), self.values))

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
    """Ours over a peer's. `interval` and `smallest_visible` are None below three pairs."""

    median: float  # of the ratios of pairs
    best: float  # ours over theirs
    is_tie: bool
    interval: Optional[Tuple[float, float]] = None
    smallest_visible: Optional[float] = None  # 0.03: a library 3 % slower would have been found

    @property
    def verdict(self) -> str:
        """Ours: "tie", "faster" or "slower" by the tie rule; "?" where too few runs allow no claim."""
        if self.interval is None:
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


def _resampled_medians(logs: List[float]) -> List[Tuple[float, float]]:
    """(median, its probability) over all resamples, in order."""
    ordered = sorted(logs)
    weights = _median_weights(len(ordered))
    return sorted(((ordered[low] + ordered[high]) / 2, weight) for low, high, weight in weights if weight > 0)


def _expanded(share: float, count: int) -> float:
    """The share of a normal distribution that is as wide as `share` of Student's is, for as many runs."""
    normal, free = statistics.NormalDist(), count - 1
    z = normal.inv_cdf((1 + share) / 2)
    student = z + (z**3 + z) / (4 * free) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * free**2)  # Cornish and Fisher
    return 2 * normal.cdf(student * math.sqrt(count / free)) - 1


def _percentiles(resamples: List[Tuple[float, float]], share: float) -> Tuple[float, float]:
    """
    Between which the middle `share` of the resamples lies, and of few runs more of them: percentiles alone are too
    narrow then (the expanded percentile interval of Hesterberg, What Teachers Should Know About the Bootstrap, 2014).
    """
    low = high = None
    passed = 0.0
    for value, weight in resamples:
        passed += weight
        if low is None and passed > (1 - share) / 2:
            low = value
        if high is None and passed >= (1 + share) / 2:
            high = value
    return low, resamples[-1][0] if high is None else high


def ratio(ours: Optional[Figure], peer: Optional[Figure]) -> Optional[Ratio]:
    """None where either has no figure, or one of zero, of which there is no ratio, or no round in common."""
    if ours is None or peer is None or min(ours.best, peer.best) <= 0:
        return None
    theirs = peer.by_round()
    logs = [math.log(value / theirs[index]) for index, value in ours.by_round().items() if index in theirs]
    if not logs:
        return None
    middle, best = statistics.median(logs), ours.best / peer.best
    floor = math.log1p(NOISE_FLOOR)
    if len(logs) < PAIRS_MIN:
        return Ratio(math.exp(middle), best, abs(middle) <= floor)
    resamples = _resampled_medians(logs)
    low, high = _percentiles(resamples, _expanded(TIE_INTERVAL, len(logs)))
    noise = floor if len(logs) >= PAIRS_ENOUGH else max(floor, math.log1p(max(ours.spread, peer.spread)))
    mean = sum(value * weight for value, weight in resamples)
    deviation = math.sqrt(sum(weight * (value - mean) ** 2 for value, weight in resamples))
    visible = math.expm1(max(noise, high - middle, middle - low) + POWER_DEVIATIONS * deviation)
    interval = tuple(map(math.exp, _percentiles(resamples, _expanded(INTERVAL, len(logs)))))
    return Ratio(math.exp(middle), best, low <= 0 <= high or abs(middle) <= noise, interval, visible)


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
    # By row: shares of a core that others used, where that was more than seldom.
    disturbed: Dict[str, List[float]] = field(default_factory=dict)
    foreign_limit: float = 0.15

    def figure(self, row, library: str, metric: str) -> Optional[Figure]:
        """None when there is nothing, or when any run failed: a library that fails a row has no figure there."""
        samples = self._samples(row, library)
        if not samples:
            return None
        return Figure([value_of(row, sample, metric) for sample in samples], [each["repeat"] for each in samples])

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

    def slices(self, row) -> int:
        """Runs that made a round of the row when it was measured; rows and files change."""
        found = (runs[0].get("slices", 1) for (name, _), runs in self.counted.items() if name == row.name)
        return max(found, default=1)

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
    for (name, _library), runs in results.counted.items():
        shares = [run["foreign_share"] for run in runs if run["foreign_share"] > foreign_limit]
        if known[name].is_disturbable and len(shares) > DISTURBED_SHARE * len(runs):
            results.disturbed.setdefault(name, []).extend(shares)
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
