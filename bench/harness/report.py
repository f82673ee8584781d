"""The `report` command: raw files in, a folder with tables (Markdown), plots (SVG, PNG) and one HTML page out.

report_data.py reads, report_tables.py writes tables, report_plots.py draws, report_page.py makes the page,
report_published.py sets other machines' figures beside ours, report_documents.py keeps the figures in documents.
"""

from pathlib import Path
from typing import List, Optional, Sequence, Set

from . import report_data, report_documents, report_page, report_plots, report_published, report_tables
from .base import note

METRICS = ("row", "cpu", "wall", "process")


def add_arguments(parser) -> None:
    parser.add_argument("file", type=Path, nargs="+", metavar="FILE", help="raw lines, .jsonl or .jsonl.gz")
    parser.add_argument(
        "--out", type=Path, default=None, metavar="DIR", help="where to write; default: beside the first FILE"
    )
    parser.add_argument(
        "--ours", default=None, metavar="NAME", help="default: calm, else the first library of the file"
    )
    parser.add_argument("--rows", default=None, metavar="REGEX", help="whole row or group names; default: all")
    parser.add_argument(
        "--metric",
        choices=METRICS,
        default="row",
        help="figure for the time tables; row: the one each row names",
    )
    parser.add_argument(
        "--readme", type=Path, metavar="README.md", help="only rewrite the table and the plot between its markers"
    )
    parser.add_argument(
        "--losses", type=Path, metavar="FILE.md", help="only rewrite the table of the worst rows between its markers"
    )
    parser.add_argument("--tables", action="store_true", help="print the tables and write nothing")


def default_folder(file: Path) -> Path:
    name = file.name
    for ending in (".gz", ".jsonl", ".json"):
        name = name[: -len(ending)] if name.endswith(ending) else name
    return file.with_name(name + "-report")


def title_of(report: report_data.Report) -> str:
    return f"{report.ours} against {', '.join(report.peers) or 'nothing'}"


def _sections(report: report_data.Report, metric: str) -> List[report_tables.Section]:
    more = [report_published.section(report)]
    return report_tables.sections(report, None if metric == "row" else metric, more)


def make(files: Sequence[Path], out: Path, ours: Optional[str], wanted: Optional[Set[str]], metric: str) -> str:
    """Writes the folder and returns the tables' text."""
    report = report_data.load(files, ours, wanted)
    out.mkdir(parents=True, exist_ok=True)
    pictures = report_plots.draw(report, out)
    if report_plots.matplotlib is None:
        note(report_plots.WITHOUT_MATPLOTLIB)
    parts = _sections(report, metric)
    text = report_tables.markdown(title_of(report), parts, pictures)
    (out / "report.md").write_text(text)
    subtitle = f"{report.headers[-1]['machine']['processor']}, {report.headers[-1]['machine']['cores']} cores; "
    subtitle += f"measured until {report.date}."
    (out / "report.html").write_text(report_page.page(title_of(report), subtitle, parts, pictures))
    return text


def render(files: Sequence[Path], ours: Optional[str], wanted: Optional[Set[str]], metric: str) -> str:
    """The tables alone."""
    report = report_data.load([files] if isinstance(files, Path) else files, ours, wanted)
    return report_tables.markdown(title_of(report), _sections(report, metric))


def run(options, wanted: Optional[Set[str]]) -> int:
    """`options` as add_arguments() made them; `wanted`: names of the rows to report, None for all."""
    if options.readme or options.losses:
        report = report_data.load(options.file, options.ours, wanted)
        if options.readme:
            report_documents.write_summary(report, options.readme)
        if options.losses:
            report_documents.write_losses(report, options.losses)
        return 0
    if options.tables:
        print(render(options.file, options.ours, wanted, options.metric), end="")
        return 0
    out = options.out or default_folder(options.file[0])
    print(make(options.file, out, options.ours, wanted, options.metric), end="")
    note(f"Written to {out}.")
    return 0
