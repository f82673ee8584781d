"""Sets figures that others published, made on other machines, beside this machine's: bench/published/*.json.

A file has a title, the machine in words, what the figures are, and rows. A row has `published` (figures by name) in its
`unit`, two for a range, and one way to find the same figure here, or none where no row measures it:

    row, figure       a number of the workload's own result; `over`: divided by another of them
    row, metric       peak, wall, cpu or process; `speed_over`: how much less of it than under that library, by pairs
    row, operations   millions a second: the product of these arguments of the row's command, over its wall time
    mean_over         the geometric mean over rows of `groups`, divided by that library's: `metric` time or peak
"""

import json
import math
from pathlib import Path
from typing import Dict, List, Optional

import rows as rows_module

from .base import BENCH, Stop
from .report_data import Report, unit_of
from .report_tables import Cell, Section, Table
from .results import geometric_mean, ratio

FOLDER = BENCH / "published"
SIZES = {"ns": 1.0, "us": 1e3, "ms": 1e6, "KiB": 1024.0, "MB": 1e6, "s": 1.0}
TIMES = ("s", "ns")
KEYS = {"what", "unit", "published", "row", "figure", "over", "metric", "operations", "mean_over", "groups"}
KEYS |= {"speed_over"}


def load(folder: Path = FOLDER) -> List[Dict]:
    tables = []
    for path in sorted(folder.glob("*.json")):
        try:
            table = json.loads(path.read_text())
        except ValueError as problem:
            raise Stop(f"{path.name} is not JSON: {problem}.")
        known = {row.name for row in rows_module.ROWS}
        for entry in table["rows"]:
            if set(entry) - KEYS:
                raise Stop(f"{path.name} has a row with an unknown key: {', '.join(sorted(set(entry) - KEYS))}.")
            if "row" in entry and entry["row"] not in known:
                raise Stop(f"{path.name} names a row that does not exist: {entry['row']}.")
        tables.append(table)
    return tables


def _operations(row, places: List[int], scale: float) -> float:
    return math.prod(
        max(1, round(part * scale)) if isinstance(part, rows_module.N) else part
        for part in (row.command[place] for place in places)
    )


def _mean_over(report: Report, entry: Dict, library: str) -> Optional[float]:
    """Both libraries' own figures, row by row, whichever of them is ours."""
    found = []
    for row in report.rows:
        metric = "peak" if entry["metric"] == "peak" else row.metric
        if row.group in entry["groups"] and (metric == "peak" or unit_of(metric) in TIMES):
            pair = ratio(report.figure(row, library, metric), report.figure(row, entry["mean_over"], metric))
            if pair:
                found.append(pair.median)
    return geometric_mean(found)


def here(report: Report, entry: Dict, library: str) -> Optional[float]:
    """The figure of this machine in the unit of the published one, or None where it was not measured."""
    if "mean_over" in entry:
        return _mean_over(report, entry, library)
    row = report.results.row(entry.get("row", ""))
    if row is None:
        return None
    if "speed_over" in entry:
        pair = report.results.ratio(row, entry["speed_over"], library, entry["metric"])
        return pair and pair.median
    if "operations" in entry:
        wall = report.figure(row, library, "wall")
        scale = report.scale_of(row)
        return wall and _operations(row, entry["operations"], scale) / wall.median / 1e6
    if "metric" in entry:
        figure = report.figure(row, library, entry["metric"])
        value, unit = figure and figure.median, unit_of(entry["metric"])
    else:
        value, unit = report.results.number(row, library, entry["figure"]), unit_of(entry["figure"])
    if value is None:
        return None
    if "over" in entry:
        other = report.results.number(row, library, entry["over"])
        return value / other if other else None
    return value * SIZES.get(unit, 1.0) / SIZES.get(entry["unit"], 1.0)


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _published(value) -> str:
    return " to ".join(map(_number, value)) if isinstance(value, list) else _number(value)


def _table(report: Report, table: Dict) -> Optional[Table]:
    lines, is_measured = [], False
    for entry in table["rows"]:
        cells = []
        for library in report.libraries:
            value = here(report, entry, library)
            failed = "row" in entry and (entry["row"], library) in report.results.failures
            is_measured = is_measured or value is not None
            cells.append(Cell("failed", "failed") if failed else Cell("-" if value is None else _number(value)))
        published = "; ".join(f"{name}: {_published(value)}" for name, value in entry["published"].items())
        unit = {"us": "µs"}.get(entry["unit"], entry["unit"])
        lines.append([entry["what"] + (f", {unit}" if unit else ""), Cell(published or "-", "elsewhere")] + cells)
    if not is_measured:
        return None
    head = ["figure", f"published ({table['machine']})"] + [f"{name}, here" for name in report.libraries]
    return Table(head, lines, table["title"], table["about"], words=(0, 1))


def section(report: Report, folder: Path = FOLDER) -> Section:
    tables = load(folder)
    shown = [_table(report, table) for table in tables]
    text = [
        "The second column was published by others and comes from another machine: compare its figures with each "
        "other, and those of this machine with each other, never across."
    ]
    absent = [table["title"] for table, made in zip(tables, shown) if made is None]
    if absent:
        text.append("Nothing was measured here for: " + ", ".join(absent) + ".")
    return Section("Published figures beside ours", text, tables=[table for table in shown if table])
