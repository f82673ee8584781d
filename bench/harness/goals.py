"""Holds results against the goals in rows/goals.py. Each kind is one function.

A kind takes (results, ours, argument) and returns (value, words).

A goal whose rows were not all measured, or failed under ours, has no verdict: a part of the rows is not the claim.
"""

from typing import List, Optional, Tuple

import rows as rows_module

from .results import Results, geometric_mean, ratio

Outcome = Tuple[Optional[float], str]
FAST = 1.25  # a peer is fast on a row that takes it no longer than this many times the best peer's time
MISSING: Outcome = (None, "no verdict: not measured")


def _peers(results: Results, ours: str) -> List[str]:
    """Variants of ours (those that are no peer) do not compete."""
    from .peers import NAMES

    return [name for name in results.libraries if name != ours and name in NAMES]


def group_mean(results: Results, ours: str, peer: str, groups, metric: str) -> Optional[float]:
    ratios = []
    for row in results.rows:
        if row.group in groups:
            here = row.metric if metric == "row" else metric
            pair = ratio(results.figure(row, ours, here), results.figure(row, peer, here))
            if pair:
                ratios.append(pair.median)
    return geometric_mean(ratios)


def _gap(results: Results, ours: str, groups=(), names=()) -> str:
    """Why rows of these groups or names cannot be judged, or an empty text. Programs that are not installed count."""
    wanted = [row for row in rows_module.ROWS if row.name in names or (row.default and row.group in groups)]
    failed = [row.name for row in wanted if (row.name, ours) in results.failures]
    if failed:
        return "falls short: failed " + ", ".join(failed)
    absent = [row.name for row in wanted if not results.counted.get((row.name, ours))]
    if absent:
        shown = ", ".join(absent[:3]) + (", ..." if absent[3:] else "")
        return f"no verdict: {len(absent)} of {len(wanted)} rows without a figure ({shown})"
    return ""


def best_peer(results: Results, ours: str, row, metric: str) -> Optional[str]:
    figures = [(results.figure(row, peer, metric), peer) for peer in _peers(results, ours)]
    figures = [(figure.median, peer) for figure, peer in figures if figure]
    return min(figures)[1] if figures else None


def _over_best(results: Results, ours: str, name: str, metric: Optional[str] = None):
    row = results.row(name)
    if row is None:
        return None, None
    peer = best_peer(results, ours, row, metric or row.metric)
    if peer is None:
        return None, None
    return (
        ratio(results.figure(row, ours, metric or row.metric), results.figure(row, peer, metric or row.metric)),
        peer,
    )


def _group_over(results: Results, ours: str, groups, metric: str, peers) -> Outcome:
    """The geometric mean over the rows, against that of the peers that is ahead."""
    gap = _gap(results, ours, groups)
    if gap:
        return None, gap
    means = [(group_mean(results, ours, peer, groups, metric), peer) for peer in peers]
    means = [pair for pair in means if pair[0]]
    if not means:
        return MISSING
    worst = max(means)
    return worst[0], f"against {worst[1]}"


def _group_time(results: Results, ours: str, group: str) -> Outcome:
    return _group_over(results, ours, (group,), "row", _peers(results, ours))


def _group_peak(results: Results, ours: str, groups) -> Outcome:
    peers = [peer for peer in ("snmalloc", "rpmalloc") if peer in results.libraries]
    return _group_over(results, ours, groups, "peak", peers)


def _group_peak_best(results: Results, ours: str, groups) -> Outcome:
    return _group_over(results, ours, groups, "peak", _peers(results, ours))


def _rows_over_best(results: Results, ours: str, names, metric: Optional[str], ties_aside: bool) -> Outcome:
    gap = _gap(results, ours, names=names)
    if gap:
        return None, gap
    found = []
    for name in names:
        pair, peer = _over_best(results, ours, name, metric)
        if pair is None:
            return None, f"no verdict: no peer on {name}"
        value = min(pair.median, 1.0) if ties_aside and pair.is_tie else pair.median
        found.append((value, f"{name} against {peer}" + (", a tie" if pair.is_tie else "")))
    return max(found)


def _row_time(results: Results, ours: str, names) -> Outcome:
    return _rows_over_best(results, ours, names, None, True)


def _row_cpu(results: Results, ours: str, names) -> Outcome:
    """CPU time of the timed part, where that is not the row's figure."""
    return _rows_over_best(results, ours, names, "cpu", True)


def _row_peak(results: Results, ours: str, names) -> Outcome:
    return _rows_over_best(results, ours, names, "peak", False)


def _worst_row(results: Results, ours: str, groups) -> Outcome:
    names = [row.name for row in rows_module.ROWS if row.default and row.group in groups]
    return _rows_over_best(results, ours, names, None, True)


def _tiny(results: Results, ours: str, name: str) -> Outcome:
    row = results.row(name)
    mine = row and results.figure(row, ours, "peak")
    plain = row and results.figure(row, "glibc", "peak")
    return (mine.median - plain.median, "") if mine and plain else MISSING


def _sites(results: Results, ours: str, names) -> Outcome:
    rows = [results.row(name) for name in names]
    grown = [row and results.number(row, ours, "grown_kib") for row in rows]
    return (grown[0] - grown[1], "") if None not in grown else MISSING


def _over_variants(results: Results, ours: str, argument) -> Outcome:
    """Ours over variants of ours: the geometric mean over the rows, against the variant that is ahead."""
    names, variants = argument
    gap = _gap(results, ours, names=names)
    if gap:
        return None, gap
    found = []
    for variant in variants:
        pairs = [results.ratio(results.row(name), ours, variant) for name in names]
        if None in pairs:
            return None, f"no verdict: {variant} has no figure in every row"
        ties = sum(pair.is_tie for pair in pairs)
        found.append((geometric_mean(pair.median for pair in pairs), f"against {variant}, {ties} of {len(pairs)} ties"))
    return max(found)


def _given_back(results: Results, ours: str, name: str) -> Outcome:
    row = results.row(name)
    parts = [row and results.number(row, ours, f"resident_{when}_kib") for when in ("start", "full", "1s")]
    if None in parts or parts[1] <= parts[0]:
        return MISSING
    return (parts[1] - parts[2]) / (parts[1] - parts[0]), ""


def _over_peer(results: Results, ours: str, argument) -> Outcome:
    """One row over a peer that the goal names."""
    name, peer = argument
    gap = _gap(results, ours, names=(name,))
    if gap:
        return None, gap
    pair = results.ratio(results.row(name), ours, peer)
    if pair is None:
        return None, f"no verdict: {peer} has no figure"
    return min(pair.median, 1.0) if pair.is_tie else pair.median, "a tie" if pair.is_tie else ""


def _peak_of_fast(results: Results, ours: str, names) -> Outcome:
    """Peak RSS over the lowest of the peers that are fast on that row: the row that is dearest."""
    gap = _gap(results, ours, names=names)
    if gap:
        return None, gap
    found = []
    for row in map(results.row, names):
        figures = {peer: results.figure(row, peer, row.metric) for peer in _peers(results, ours)}
        times = {peer: figure.median for peer, figure in figures.items() if figure}
        if not times:
            return None, f"no verdict: no peer on {row.name}"
        fast = [peer for peer, time in times.items() if time <= FAST * min(times.values())]
        pairs = [(results.ratio(row, ours, peer, "peak").median, peer) for peer in fast]
        value, peer = max(pairs)
        found.append((value, f"{row.name} against {peer}"))
    return max(found)


def _numbers_of_rows(results: Results, ours: str, argument, choose) -> Outcome:
    field, names = argument
    gap = _gap(results, ours, names=names)
    if gap:
        return None, gap
    found = [(results.number(results.row(name), ours, field), name) for name in names]
    return choose(found) if None not in [value for value, _ in found] else MISSING


def _most(results: Results, ours: str, argument) -> Outcome:
    """The largest of a number of the workload's own over the rows."""
    return _numbers_of_rows(results, ours, argument, max)


def _least(results: Results, ours: str, argument) -> Outcome:
    """The smallest of them, for what should be large."""
    return _numbers_of_rows(results, ours, argument, min)


def _kib_a_thread(results: Results, ours: str, argument) -> Outcome:
    """What a variant of ours needs for each thread more than for the first row's: the dearest of the other rows."""
    names, variant = argument
    rows = [results.row(name) for name in names]
    figures = [row and results.figure(row, variant, row.metric) for row in rows]
    if None in figures:
        return None, f"no verdict: {variant} has no figure in every row"
    first, count_of = figures[0].median, lambda row: row.command[2]
    return max(
        ((figure.median - first) / (count_of(row) - count_of(rows[0])), row.name)
        for row, figure in zip(rows[1:], figures[1:])
    )


KINDS = {
    "group_time": _group_time,
    "group_peak": _group_peak,
    "group_peak_best": _group_peak_best,
    "row_time": _row_time,
    "row_cpu": _row_cpu,
    "row_peak": _row_peak,
    "worst_row": _worst_row,
    "tiny": _tiny,
    "sites": _sites,
    "given_back": _given_back,
    "over_variants": _over_variants,
    "over_peer": _over_peer,
    "kib_a_thread": _kib_a_thread,
    "peak_of_fast": _peak_of_fast,
    "most": _most,
    "least": _least,
}
AT_LEAST = {"given_back", "least"}


def render(goals, results: Results, ours: str) -> List[str]:
    lines = ["| goal | limit | measured | |", "|---|--:|--:|---|"]
    for text, kind, argument, limit in goals:
        value, words = KINDS[kind](results, ours, argument)
        if value is None:
            lines.append(f"| {text} | {limit:g} | - | {words} |")
            continue
        holds = value >= limit if kind in AT_LEAST else value <= limit
        verdict = "holds" if holds else "falls short"
        shown = f"{value:.3f}" if abs(value) < 100 else f"{value:.0f}"
        lines.append(f"| {text} | {limit:g} | {shown} | {verdict}{': ' + words if words else ''} |")
    return lines
