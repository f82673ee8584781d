"""Keeps what documents say of figures generated: between two marker comments, from the raw lines of one run.

README has a block `summary` (programs, geometric means, one plot), docs/benchmarks.md a block `losses` (the worst
rows). A document without its markers is refused, not guessed at. What lies outside the markers is never touched.
"""

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Dict, List

from . import report_plots
from .base import REPOSITORY, Stop, note
from .report_data import Report
from .report_tables import (
    OVERVIEW,
    PROGRAMS,
    Table,
    markdown_table,
    overview_table,
    programs_table,
    quick_look,
    readme_peers,
    worst_table,
)

READING = "[How to read this, how it can be wrong, and where we lose](docs/benchmarks.md)."
MARKER = "<!-- {name}: {edge} of what `./calm bench report` writes -->"


def rewrite(document: Path, name: str, lines: List[str]) -> None:
    """Replaces what lies between the markers of block `name`."""
    try:
        text = document.read_text()
    except OSError as error:
        raise Stop(f"{document} cannot be read: {error.strerror}.")
    begin, end = (MARKER.format(name=name, edge=edge) for edge in ("begin", "end"))
    if text.count(begin) != 1 or text.count(end) != 1 or text.index(begin) > text.index(end):
        raise Stop(f"{document} does not have the lines {begin} and {end} once each, in this order.")
    before, after = text[: text.index(begin)], text[text.index(end) + len(end) :]
    document.write_text(before + "\n".join([begin, ""] + lines + ["", end]) + after)


def _origin(report: Report) -> List[str]:
    """Date, machine, versions and commit: without them a figure is not one."""
    machine = report.headers[-1]["machine"]
    counted = report.results.counted.items()
    rounds = [len(samples) // samples[0].get("slices", 1) for _, samples in counted]
    known: Dict[str, Dict] = {each["name"]: each for head in report.headers for each in head["libraries"]}
    versions = []
    for name in report.peers:
        settings = " ".join(f"{key}={value}" for key, value in known[name]["env"].items())
        words = " ".join(part for part in (known[name]["version"], settings) if part)
        versions.append(f"{name} {words}" if words else name)
    scales = sorted({head["scale"] for head in report.headers} - {1})
    scaled = "".join(f" **Scaled to {scale:g}: not for quoting.**" for scale in scales)
    files = ", ".join(f"`{os.path.relpath(file.resolve(), REPOSITORY)}`" for file in report.files)
    look = quick_look(report) + " " if quick_look(report) else ""
    return [
        f"{report.date or 'Date unknown'}, {machine['processor']}, {machine['cores']} cores, kernel "
        f"{machine['kernel']}, up to {max(rounds, default=0)} interleaved runs; calmalloc at "
        f"{report.commit[:12] or 'an unknown commit'}; {', '.join(versions)}. {look}Raw lines: {files}."
        f"{scaled}"
    ]


def summary_lines(report: Report) -> List[str]:
    """What is compared, the table of programs, the table of geometric means."""
    programs = programs_table(report)
    first = [PROGRAMS, "", *markdown_table(programs), ""] if programs else []
    means = [OVERVIEW.format(ours=report.ours), "", *markdown_table(overview_table(report, readme_peers(report)))]
    return [*_origin(report), "", *first, *means]


def _without(table: Table, name: str) -> Table:
    """The table without the column of this name."""
    at = table.head.index(name)
    return replace(
        table,
        head=table.head[:at] + table.head[at + 1 :],
        rows=[row[:at] + row[at + 1 :] for row in table.rows],
        words=tuple(each - (each > at) for each in table.words if each != at),
    )


def losses_lines(report: Report) -> List[str]:
    """The worst rows. Groups are in the report."""
    tables: List[Table] = [
        worst_table(report, None, "By each row's own figure"),
        worst_table(report, "peak", "By peak RSS"),
    ]
    lines = _origin(report)
    for table in tables:
        lines += [""] + markdown_table(_without(table, "group"))
    return lines


def write_summary(report: Report, document: Path) -> None:
    """The table of geometric means, and its plot in docs/images beside the document."""
    lines = summary_lines(report)
    folder = document.resolve().parent / "docs" / "images"
    pictures = report_plots.draw(report, folder, only="summary", with_png=False)
    if pictures:
        where = os.path.relpath(pictures[0].svg, document.resolve().parent)
        lines += ["", f"![{pictures[0].alt}]({where})"]
    else:
        note(report_plots.WITHOUT_MATPLOTLIB)
        kept = re.search(r"^!\[[^\]]*\]\(docs/images/summary\.svg\)$", document.read_text(), re.M)
        if kept:
            raise Stop(f"{document} has a plot that would no longer match its table; install matplotlib first.")
    lines += ["", READING]
    rewrite(document, "summary", lines)


def write_losses(report: Report, document: Path) -> None:
    """The worst rows, to be explained below by someone who looked."""
    rewrite(document, "losses", losses_lines(report))
