"""Draws the pictures of a report with matplotlib: ratios by row, percentile curves, memory over time, drift.

Takes plain numbers (see report_data.py) and knows nothing of raw samples. Every picture is written as SVG and PNG.
matplotlib is optional: `draw` returns nothing without it, and the report says so in one sentence.
"""

import math
import re
import statistics
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Dict, List, Optional, Sequence, Tuple

from .report_data import Curve, Dot, RatioPanel, Report

try:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.lines import Line2D
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator
except ImportError:
    matplotlib = None

WITHOUT_MATPLOTLIB = "matplotlib is not installed (bench/requirements.txt pins it), so there are tables but no plots."

# Colours of Okabe and Ito without black and yellow, and two of Tol's: told apart by colour-blind readers on white and
# on black. Markers differ too, so colour is never the only sign.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#aa4466", "#7a7a2a")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "h", "<", ">", "*", "p")
DASHES = ("-", "--", "-.", ":")
INK = "#1a2b3c"  # of text and axes; a page replaces it by its own
PAPER = '<rect width="100%" height="100%" fill="#ffffff"/>'
TIE = "#8f8f8f"
LANE_INCHES = 0.085  # of one peer within a row
WIDTH_INCHES = 8.6
RATIO_MIN, RATIO_MAX = 0.02, 50.0  # that an axis shows; what lies beyond is an arrow with its number at the edge
TALL_INCHES = 8  # above that, the numbers of the axis are at the top, too
NOTE_COLUMNS = 110
WIDE_RANGE = 8  # the largest over the smallest: from there on a linear axis hides what most of a curve does
STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 8.5,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "svg.fonttype": "path",
    "savefig.bbox": "tight",
    "savefig.pad_inches": 0.12,
    "savefig.dpi": 130,
}


@dataclass(frozen=True)
class Picture:
    """One plot, on disk as NAME.svg and NAME.png."""

    name: str
    group: str  # the group whose section of the page it belongs to
    alt: str
    svg: Path
    png: Path


Looks = Dict[str, Tuple[str, str, str]]


def looks_of(libraries: Sequence[str], ours: str) -> Looks:
    """Colour, marker and dashes of each peer; no two of 24 share both colour and marker."""
    peers = [name for name in libraries if name != ours]
    lists = (COLOURS, MARKERS, DASHES)
    return {name: tuple(each[index % len(each)] for each in lists) for index, name in enumerate(peers)}


# --- ratios ---


def _ratio_ticks(low: float, high: float) -> List[float]:
    decades = [10.0**power for power in range(-9, 10)]
    wide = [digit * decade for decade in decades for digit in (1, 2, 5)]
    narrow = [0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 1.75, 2]
    middle = [0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10]
    ticks = next(
        (ticks for reach, ticks in ((3, narrow), (30, middle), (10_000, wide)) if high / low < reach), decades
    )
    return [tick for tick in ticks if low <= tick <= high]


def _within(ratio: float) -> float:
    return min(max(ratio, RATIO_MIN), RATIO_MAX)


def _row_label(panel: RatioPanel, row: str) -> str:
    failed = panel.failed.get(row)
    mark = " †" if row in panel.disturbed else ""
    return row + mark + (f" ({'all' if failed == ['all'] else len(failed)} failed)" if failed else "")


def _notes(panel: RatioPanel) -> List[str]:
    """Below the axis, where no interval can cross them."""
    notes = ["†: other processes disturbed these runs"] if panel.disturbed else []
    failures = [f"{row} ({', '.join(names)})" for row, names in panel.failed.items()]
    text = "Failed: " + "; ".join(failures) if failures else ""
    return notes + textwrap.wrap(text, NOTE_COLUMNS, break_on_hyphens=False)


def _ratio_axis(axes, values: List[float], label: str) -> None:
    low, high = _within(min(values + [0.8])) / 1.06, _within(max(values + [1.25])) * 1.06
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    axes.xaxis.set_major_locator(FixedLocator(_ratio_ticks(low, high)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.axvline(1, color=INK, linewidth=0.9, zorder=1)
    axes.grid(axis="x", color=TIE, alpha=0.35, linewidth=0.5)
    axes.set_axisbelow(True)
    axes.set_xlabel(label)


def _edge_note(ratios: List[float]) -> str:
    return ", at the edge those beyond it" if any(_within(ratio) != ratio for ratio in ratios) else ""


def _legend(axes, peers: Sequence[str], looks: Looks, dots: Sequence[Dot] = ()) -> None:
    handles = [
        Line2D([], [], linestyle="", marker=looks[peer][1], color=looks[peer][0], markersize=6, label=peer)
        for peer in peers
    ]
    if any(dot.is_tie for dot in dots):
        handles.append(Line2D([], [], linestyle="-", marker="", color=TIE, linewidth=3, label="grey: a tie"))
    if any(dot.is_single for dot in dots):
        handles.append(Line2D([], [], linestyle="", marker="o", color=INK, fillstyle="none", label="hollow: one run"))
    axes.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0.0, title="over")


def _draw_dot(axes, dot: Dot, height: float, looks: Looks) -> None:
    colour, marker, _ = looks[dot.peer]
    colour = TIE if dot.is_tie else colour
    ends = [_within(dot.low), _within(dot.high)]
    axes.plot(ends, [height, height], color=colour, linewidth=1.4, solid_capstyle="butt", zorder=2)
    if _within(dot.ratio) != dot.ratio:
        is_low = dot.ratio < 1
        axes.annotate(f"{'◂ ' if is_low else ''}{dot.ratio:.1g}{'' if is_low else ' ▸'}", (_within(dot.ratio), height),
                      color=colour, fontsize=7, va="center", ha="left" if is_low else "right", zorder=4,
                      bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5})
        return
    fill = "none" if dot.is_single else "full"
    axes.plot([dot.ratio], [height], color=colour, marker=marker, markersize=4.2, fillstyle=fill, linestyle="",
              zorder=3)


def draw_ratios(panel: RatioPanel, looks: Looks):
    """A dot for each peer and an interval through it, row under row."""
    peers = panel.peers
    lane = 1.0 / (len(peers) + 1.2)
    height = max(1.4, LANE_INCHES * (len(peers) + 1.6) * len(panel.rows))
    figure, axes = pyplot.subplots(figsize=(WIDTH_INCHES, height))
    for index, row in enumerate(panel.rows):
        if index % 2 == 0:
            axes.axhspan(index - 0.5, index + 0.5, color=TIE, alpha=0.10, linewidth=0, zorder=0)
        for dot in panel.dots:
            if dot.row == row:
                _draw_dot(axes, dot, index + (peers.index(dot.peer) - (len(peers) - 1) / 2) * lane, looks)
    axes.set_ylim(len(panel.rows) - 0.5, -0.5)
    axes.set_yticks(range(len(panel.rows)), [_row_label(panel, row) for row in panel.rows])
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    values = [value for dot in panel.dots for value in (dot.ratio, dot.low, dot.high)]
    _ratio_axis(axes, values, "\n".join([panel.axis] + _notes(panel)))
    if height > TALL_INCHES:
        axes.tick_params(axis="x", labeltop=True)
    axes.set_title(panel.title)
    _legend(axes, peers, looks, panel.dots)
    return figure


def draw_summary(means: Dict[Tuple[str, str], List[float]], groups: List[str], peers: List[str], ours: str,
                 looks: Looks):
    """A mark for the geometric mean of a group's rows, a stroke for each row."""
    panel_height = max(1.8, 2 * LANE_INCHES * (len(peers) + 1.5) * len(groups))
    figure, axes = pyplot.subplots(figsize=(WIDTH_INCHES * 0.8, panel_height))
    lane = 1.0 / (len(peers) + 1.5)
    reach = []
    for index, group in enumerate(groups):
        if index % 2 == 0:
            axes.axhspan(index - 0.5, index + 0.5, color=TIE, alpha=0.10, linewidth=0, zorder=0)
        for place, peer in enumerate(peers):
            ratios = means.get((group, peer))
            if not ratios:
                continue
            height = index + (place - (len(peers) - 1) / 2) * lane
            colour, marker, _ = looks[peer]
            shown = [_within(ratio) for ratio in ratios]
            axes.plot(shown, [height] * len(shown), color=colour, marker="|", markersize=4.5, linestyle="",
                      alpha=0.65, zorder=2)
            mean = statistics.geometric_mean(ratios)
            axes.plot([_within(mean)], [height], color=colour, marker=marker, markersize=7, linestyle="", zorder=3)
            reach += ratios
    axes.set_ylim(len(groups) - 0.5, -0.5)
    axes.set_yticks(range(len(groups)), groups)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    _ratio_axis(axes, reach, f"{ours} over a peer, log scale: left of 1 is better for {ours}\n"
                             "large: geometric mean of the rows; strokes: the rows" + _edge_note(reach))
    axes.set_title(f"{ours} against its peers, by group of rows")
    _legend(axes, peers, looks)
    return figure


# --- curves ---


# Curves by percentile, and what they are of.
PERCENTILE_CURVES = {
    "malloc_ns": "malloc, a single call",
    "free_ns": "free, a single call",
    "pair32_ns": "a pair, mean of 32 in a row: not a tail",
    "running_ns": "the others, while nobody is held",
    "held_ns": "the others, while a thread is held",
}
TIME_OF = {"pair32_ns": "mean time of a pair"}  # else of one call
SHARE_OF = {  # else of calls
    "pair32_ns": "share of pairs that are faster",
    "running_ns": "share of calls that are faster, a long one counted once a µs",
    "held_ns": "share of calls that are faster, a long one counted once a µs",
}


def nines(percentile: float) -> float:
    """0 % is 0, 90 % is 1, 99 % is 2, and so on: each nine is as wide as the one before."""
    return -math.log10(1 - percentile / 100)


def _line(axes, points: Sequence[Tuple[float, float]], name: str, ours: str, looks: Looks, steps: bool = False):
    xs, ys = [x for x, _ in points], [y for _, y in points]
    more = {"drawstyle": "steps-post"} if steps else {}
    if name == ours:
        return axes.plot(xs, ys, color=INK, linewidth=2.2, zorder=5, label=name, **more)[0]
    colour, marker, style = looks[name]
    every = max(1, len(points) // 8)
    return axes.plot(xs, ys, color=colour, linewidth=1.2, linestyle=style, marker=marker, markersize=3.8,
                     markevery=every, zorder=3, label=name, **more)[0]


def _row_title(row: str, why: str) -> str:
    return f"{row}: {why}" if why else row


def _curve_legend(axes, *panels) -> None:
    """Beside `axes`: whoever has a curve in any of the panels."""
    lines = {line.get_label(): line for panel in panels or (axes,) for line in panel.get_lines()}
    axes.legend(handles=list(lines.values()), loc="upper left", bbox_to_anchor=(1.02, 1.0), borderaxespad=0.0)


def _nanoseconds(value: float, _position=None) -> str:
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if value >= size:
            return f"{value / size:g} {unit}"
    return f"{value:g} ns"


def draw_percentiles(row: str, why: str, curves: Dict[str, Dict[str, Curve]], ours: str, looks: Looks):
    """
    One panel for each kind of call. The largest value has no percentile below 100 %: it is drawn behind the last nine.
    What follows a colon in `why` names the row's own figure, of which the curve is not only made.
    """
    kinds = [kind for kind in PERCENTILE_CURVES if curves.get(kind)]
    figure, panels = pyplot.subplots(1, len(kinds), figsize=(WIDTH_INCHES * (0.62 + 0.38 * (len(kinds) - 1)), 3.7),
                                     sharey=True, squeeze=False)
    below = [x for kind in kinds for curve in curves[kind].values() for x, _ in curve if x < 100]
    last = max([nines(x) for x in below] + [2.0])
    end = last + 0.7
    for axes, kind in zip(panels[0], kinds):
        for name, curve in curves[kind].items():
            points = [(nines(x) if x < 100 else end, max(y, 1.0)) for x, y in curve]
            _line(axes, points, name, ours, looks)
        ticks = list(range(int(last + 1e-9) + 1))
        names = ["0 %", "90 %"] + [f"{100 - 10 ** (2 - tick):.{max(0, tick - 2)}f} %" for tick in ticks[2:]]
        axes.set_xticks(ticks + [end], names[: len(ticks)] + ["max"], rotation=35, ha="right",
                        rotation_mode="anchor")
        axes.set_xlim(0, end + 0.1)
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(FuncFormatter(_nanoseconds))
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.label_outer()
        axes.grid(color=TIE, alpha=0.35, linewidth=0.5)
        axes.set_title(PERCENTILE_CURVES[kind])
        axes.set_xlabel(SHARE_OF.get(kind, "share of calls that are faster") + "\n(each nine as wide)")
    panels[0][0].set_ylabel(f"{TIME_OF.get(kinds[0], 'time of one call')}, log scale; 1 ns or less is 1 ns")
    panels[0][0].set_ylim(bottom=1.0)  # of all panels, so only when all curves are there
    _curve_legend(panels[0][-1], *panels[0])
    figure.suptitle(_row_title(row, why.rsplit(": ", 1)[0]), x=0.01, ha="left", fontsize=11, fontweight="bold", y=1.02)
    return figure


def _named(figure, axes, row: str, why: str):
    """What a picture of one panel ends with: grid, title and legend."""
    axes.grid(color=TIE, alpha=0.35, linewidth=0.5)
    axes.set_title(_row_title(row, why))
    _curve_legend(axes)
    return figure


def draw_resident(row: str, why: str, curves: Dict[str, Curve], ours: str, looks: Looks):
    figure, axes = pyplot.subplots(figsize=(WIDTH_INCHES * 0.8, 3.4))
    for name, curve in curves.items():
        _line(axes, [(x, y / 1024) for x, y in curve], name, ours, looks)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("time since the work began, s")
    axes.set_ylabel("resident memory, MiB")
    return _named(figure, axes, row, why)


def draw_drift(row: str, why: str, curves: Dict[str, Curve], ours: str, looks: Looks):
    figure, axes = pyplot.subplots(figsize=(WIDTH_INCHES * 0.8, 3.4))
    for name, curve in curves.items():
        _line(axes, curve, name, ours, looks)
    levels = [y for curve in curves.values() for _, y in curve if y > 0]
    if levels and max(levels) > WIDE_RANGE * min(levels):
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_ylim(bottom=0)
    axes.set_xlabel("window of the run, in order")
    axes.set_ylabel("mean time of one operation, ns")
    return _named(figure, axes, row, why)


# --- files ---


def _plain(svg: str) -> str:
    """Without what matplotlib says about itself, on white: most viewers have no background of their own."""
    svg = re.sub(r"<\?xml.*?\?>|<!DOCTYPE.*?>|<metadata>.*?</metadata>|<!--.*?-->", "", svg, flags=re.S).strip()
    svg = re.sub(r"[ \t]+$", "", svg, flags=re.M)
    return re.sub(r"\n\n+", "\n", re.sub(r"(<svg[^>]*>)", r"\1\n" + PAPER, svg, count=1)) + "\n"


def save(figure, folder: Path, name: str, with_png: bool) -> Tuple[Path, Path]:
    svg, png = folder / f"{name}.svg", folder / f"{name}.png"
    with matplotlib.rc_context({"svg.hashsalt": name}):  # the same figures give the same file
        figure.savefig(svg, transparent=True)
    svg.write_text(_plain(svg.read_text()))
    if with_png:
        figure.savefig(png, facecolor="white")
    pyplot.close(figure)
    return svg, png


def file_name(*parts: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", "-".join(parts).lower()).strip("-")


def _plans(report: Report) -> List[Tuple[str, str, str, Callable]]:
    """What is to be drawn: name, group, words for who cannot see it, and how."""
    ours, looks = report.ours, looks_of(report.libraries, report.ours)
    plans: List[Tuple[str, str, str, Callable]] = []
    means = report.group_ratios()
    groups = list(dict.fromkeys(group for group, _ in means))
    if means:
        plans.append(("summary", "", "Geometric means by group and peer",
                      lambda: draw_summary(means, groups, report.peers, ours, looks)))
    for panel in report.ratio_panels():
        plans.append((file_name(panel.kind, panel.group), panel.group, panel.title,
                      lambda panel=panel: draw_ratios(panel, looks)))
    drawn = set()
    for row in report.rows:
        # Two rows may be two figures of the same work: one picture shows both.
        if (row.command, row.series) in drawn:
            continue
        drawn.add((row.command, row.series))
        tails = {kind: found for kind in PERCENTILE_CURVES if (found := report.curves(row, kind))}
        if tails:
            plans.append((file_name("latency", row.name), row.group, f"Percentiles of single calls: {row.name}",
                          lambda row=row, tails=tails: draw_percentiles(row.name, row.why, tails, ours, looks)))
        for kind, prefix, words, draw_one in (
            ("window_ns", "drift", "Time by window", draw_drift),
            ("resident_kib", "resident", "Resident memory over time", draw_resident),
        ):
            curves = report.curves(row, kind)
            if curves:
                plans.append((file_name(prefix, row.name), row.group, f"{words}: {row.name}",
                              lambda row=row, curves=curves, draw_one=draw_one:
                              draw_one(row.name, row.why, curves, ours, looks)))
    return plans


def draw(report: Report, folder: Path, only: Optional[str] = None, with_png: bool = True) -> List[Picture]:
    """Writes every picture the report has figures for. Empty without matplotlib."""
    if matplotlib is None:
        return []
    folder.mkdir(parents=True, exist_ok=True)
    pictures = []
    with matplotlib.rc_context(STYLE):
        for name, group, alt, make in _plans(report):
            if only is None or name == only:
                svg, png = save(make(), folder, name, with_png)
                pictures.append(Picture(name, group, alt, svg, png))
    return pictures
