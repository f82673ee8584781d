"""Prints the tables of a raw file as Markdown."""

from pathlib import Path
from typing import List, Optional, Set

import rows as rows_module

from . import goals, measure
from .base import Stop
from .results import Figure, Ratio, Results, digest_samples, geometric_mean, ratio

FOREIGN_LIMIT = 0.15
REPEATS_WANTED = 7


def _cell(pair: Optional[Ratio]) -> str:
    if pair is None:
        return "-"
    noise = "?" if pair.noise is None else f"{pair.noise:.1%}" if pair.noise < 0.1 else f"{pair.noise:.0%}"
    return f"{pair.median:.2f} ({pair.best:.2f}) ±{noise}" + (" tie" if pair.is_tie else "")


def _amount(figure: Optional[Figure], metric: str) -> str:
    if figure is None:
        return "failed"
    if metric == "peak":
        return f"{figure.median / 1024:.1f} MiB"
    return f"{figure.median:.3f} s"


def _ratio_table(results: Results, rows: List, ours: str, others: List[str], metric: str) -> List[str]:
    lines = [
        "| row | " + ours + " | " + " | ".join(others) + " | best peer |",
        "|---|--:|" + "--:|" * len(others) + "---|",
    ]
    pairs = {other: [] for other in others}
    for row in rows:
        here = row.metric if metric == "row" else metric
        mine = results.figure(row, ours, here)
        cells = []
        for other in others:
            theirs = results.figure(row, other, here)
            pair = ratio(mine, theirs)
            if pair:
                pairs[other].append(pair)
            failed = (row.name, other) in results.failures
            cells.append(
                "failed" if failed else _cell(pair) if mine else f"({_amount(theirs, here)})" if theirs else "-"
            )
        best = goals.best_peer(results, ours, row, here)
        best_pair = ratio(mine, results.figure(row, best, here)) if best else None
        verdict = (
            ""
            if best is None
            else (
                best if best_pair is None else f"{best} {best_pair.median:.2f}" + (" tie" if best_pair.is_tie else "")
            )
        )
        mark = " †" if row.name in results.disturbed else ""
        lines.append(f"| {row.name}{mark} | {_amount(mine, here)} | " + " | ".join(cells) + f" | {verdict} |")
    if len(rows) == 1:
        return lines
    counted = max((len(found) for found in pairs.values()), default=0)
    for label, key in (("geometric mean", "median"), ("geometric mean of bests", "best")):
        cells = []
        for other in others:
            mean = geometric_mean(getattr(pair, key) for pair in pairs[other])
            short = f" ({len(pairs[other])} of {counted} rows)" if len(pairs[other]) < counted else ""
            cells.append("-" if mean is None else f"**{mean:.3f}**{short}")
        lines.append(f"| {label} | | " + " | ".join(cells) + " | |")
    return lines


def _fields_table(results: Results, row) -> List[str]:
    names = [name for name in row.fields]
    heads = [name.replace("resident_", "").replace("_kib", "").replace("_", " ") for name in names]
    lines = [
        f"### {row.name}: {row.why} (resident KiB, medians)",
        "",
        "| library | peak | " + " | ".join(heads) + " |",
        "|---|--:|" + "--:|" * len(names),
    ]
    for library in results.libraries:
        if (row.name, library) in results.failures:
            lines.append(f"| {library} | failed |" + " |" * len(names))
            continue
        peak = results.figure(row, library, "peak")
        if peak is None:
            continue
        cells = [results.number(row, library, name) for name in names]
        lines.append(
            f"| {library} | {peak.median:.0f} | " + " | ".join("-" if c is None else f"{c:.0f}" for c in cells) + " |"
        )
    return lines


def _identical(results: Results, headers: List) -> List[str]:
    """Pairs that are the same file with the same settings: what differs between them is noise."""
    last = {library["name"]: library for head in headers for library in head["libraries"]}
    lines = []
    for index, one in enumerate(results.libraries):
        for other in results.libraries[index + 1 :]:
            if (last[one]["sha256"], last[one]["env"]) != (last[other]["sha256"], last[other]["env"]):
                continue
            pairs = [
                (ratio(results.figure(row, one, row.metric), results.figure(row, other, row.metric)), row.name)
                for row in results.rows
            ]
            pairs = [(pair, name) for pair, name in pairs if pair]
            if not pairs:
                continue
            ties = sum(1 for pair, _ in pairs if pair.is_tie)
            widest = max(pairs, key=lambda item: abs(item[0].median - 1))
            lines.append(
                f"- {one} and {other} are the same library: {ties} of {len(pairs)} rows are ties, the widest "
                f"difference is {widest[0].median:.3f} on {widest[1]}."
            )
    return lines


def render(path: Path, ours: Optional[str], wanted: Optional[Set[str]], metric: str) -> str:
    headers, samples = measure.read(path)
    libraries = list(dict.fromkeys(library["name"] for head in headers for library in head["libraries"]))
    ours = ours or ("calm" if "calm" in libraries else libraries[0])
    if ours not in libraries:
        raise Stop(f"{path} has no library {ours}; it has {', '.join(libraries)}.")
    measured = {sample["row"] for sample in samples}
    rows = [row for row in rows_module.ROWS if row.name in measured and (wanted is None or row.name in wanted)]
    if not rows:
        raise Stop(f"{path} has no sample of such a row.")
    results = digest_samples(rows, libraries, samples, FOREIGN_LIMIT)
    others = [name for name in libraries if name != ours]
    lines = [f"# {ours} against {', '.join(others) or 'nothing'}", ""]
    lines += _head(headers[-1], libraries, headers)
    lines += [
        "",
        f"A cell is {ours} over the column: ratio of medians (ratio of the best runs) ± how far identical runs "
        "lie apart (the quartiles of the worse of the two). Below 1 is better. A difference within that spread is a "
        "tie, and so is one where these ranges overlap. † marks rows that other processes disturbed. CPU time, but "
        "wall time for the threads group, unless said.",
    ]
    for group in rows_module.GROUPS:
        here = [row for row in rows if row.group == group]
        if here and group != "memory":
            by = {"row": "each row's own figure"}.get(metric, metric)
            lines += ["", f"## Time: {group} ({by})", ""] + _ratio_table(results, here, ours, others, metric)
    threads = [row for row in rows if row.group == "threads"]
    if threads and metric == "row":
        lines += ["", "## CPU time: threads", ""] + _ratio_table(results, threads, ours, others, "cpu")
    for group in rows_module.GROUPS[1:]:
        here = [row for row in rows if row.group == group]
        if here:
            lines += ["", f"## Peak RSS: {group}", ""] + _ratio_table(results, here, ours, others, "peak")
    for row in rows:
        if row.fields:
            lines += [""] + _fields_table(results, row)
    lines += ["", "## Failures", ""]
    lines += [
        f"- {row} under {library}: {reason}." for (row, library), reason in sorted(results.failures.items())
    ] or ["None."]
    absent = [row.name for row in rows_module.ROWS if row.default and row.name not in measured]
    if absent and wanted is None:
        lines += ["", "Rows without a sample: " + ", ".join(absent) + "."]
    lines += ["", "## Noise", ""]
    lines += [
        f"- † {row}: others used over {FOREIGN_LIMIT:.0%} of a core even in the quietest try of {len(shares)} runs "
        f"(up to {max(shares):.0%})."
        for row, shares in results.disturbed.items()
    ]
    lines += _identical(results, headers)
    lines += [f"- Tries in the file: {len(samples)}; runs that count: {sum(map(len, results.counted.values()))}."]
    lines += ["", "## Goals", ""] + _caution(headers[-1], results) + goals.render(rows_module.GOALS, results, ours)
    return "\n".join(lines)


def _caution(head, results: Results) -> List[str]:
    """Why verdicts may not be quoted, where that is so."""
    slow = [
        len(samples)
        for (name, _), samples in results.counted.items()
        if results.row(name).repeats_max > REPEATS_WANTED
    ]
    reasons = []
    if head["scale"] != 1:
        reasons.append(f"the scale is {head['scale']:g}")
    if slow and min(slow) < REPEATS_WANTED:
        reasons.append(f"some rows have {min(slow)} of {REPEATS_WANTED} repeats")
    if results.disturbed:
        reasons.append(f"{len(results.disturbed)} rows were disturbed")
    return [f"Verdicts from this file are not for quoting: {', '.join(reasons)}.", ""] if reasons else []


def _head(head, libraries: List[str], headers: List) -> List[str]:
    machine = head["machine"]
    versions = {library["name"]: library for each in headers for library in each["libraries"]}
    lines = [
        f"- {machine['processor']}, {machine['cores']} cores, {machine['memory_kib'] / 1048576:.0f} GiB, "
        f"kernel {machine['kernel']}, {machine['c_library']}, {machine['compiler']}; seed {head['seed']}."
    ]
    if head["scale"] != 1:
        lines.append(f"- **Scaled to {head['scale']:g}: good for a look, not for a figure.**")
    for name in libraries:
        library = versions[name]
        settings = " ".join(f"{key}={value}" for key, value in library["env"].items())
        words = " ".join(part for part in (library["version"], library["sha256"][:12], settings) if part)
        lines.append(f"- {name}: {words}")
    return lines
