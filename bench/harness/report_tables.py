"""Turns a report's figures into sections of text and tables, and those into Markdown. report_page.py shows the same."""

from dataclasses import dataclass, field
from typing import Dict, List, Optional, Sequence, Tuple

import rows as rows_module
from rows.sets import ALL_PEERS

from . import goals
from .report_data import FOREIGN_LIMIT, REPEATS_WANTED, Report, unit_of, words_of_field, words_of_metric
from .results import TIES_WANTED, Figure, Ratio, geometric_mean

# What most programs run on today: README's columns.
README_PEERS = ("glibc", "jemalloc", "mimalloc3", "tcmalloc")
WORST_SHOWN = 10
SINGLE_RUN_MARGIN = 1.10  # rows that run once know no spread: a smaller loss is not listed


class Cell(str):
    """Text of a table's cell, and what it is: "better", "worse", "tie", "failed", "elsewhere", "total" or nothing."""

    kind: str

    def __new__(cls, text: str, kind: str = "") -> "Cell":
        cell = super().__new__(cls, text)
        cell.kind = kind
        return cell


@dataclass
class Table:
    head: List[str]
    rows: List[List[str]]
    title: str = ""
    note: str = ""
    words: Tuple[int, ...] = (0,)  # columns of words; the others hold figures and are set to the right


@dataclass
class Section:
    title: str
    text: List[str] = field(default_factory=list)
    items: List[str] = field(default_factory=list)
    tables: List[Table] = field(default_factory=list)
    group: Optional[str] = None  # pictures of this group belong here; "" are those of the whole


# --- cells ---


def _share(value: float) -> str:
    return f"{value:.1%}" if value < 0.1 else f"{value:.0%}"


def _ratio_text(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def ratio_cell(pair: Optional[Ratio]) -> Cell:
    if pair is None:
        return Cell("-")
    interval = "[?]" if pair.interval is None else "[{} {}]".format(*map(_ratio_text, pair.interval))
    text = f"{_ratio_text(pair.median)} {interval} ({_ratio_text(pair.best)})"
    if pair.is_tie:
        return Cell(text + " tie", "tie")
    return Cell(text, {"faster": "better", "slower": "worse"}.get(pair.verdict, ""))


def amount(value: Optional[float], unit: str) -> str:
    if value is None:
        return "-"
    if unit == "KiB":
        return f"{value / 1024:.1f} MiB" if value >= 1024 else f"{value:.0f} KiB"
    if unit == "%":
        return f"{100 * value:.3g} %"
    if unit == "ns" and value >= 1e4:
        return f"{value / 1e6:.2f} ms" if value >= 1e6 else f"{value / 1e3:.1f} µs"
    digits = f"{value:.3f}" if unit == "s" else f"{value:.4g}"
    return f"{digits} {unit}".strip()


def figure_cell(figure: Optional[Figure], metric: str) -> Cell:
    if figure is None:
        return Cell("failed", "failed")
    spread = "" if figure.spread is None else f" ±{_share(figure.spread)}"
    return Cell(amount(figure.median, unit_of(metric)) + spread)


def _visible(pairs: Sequence[Ratio]) -> str:
    """The smallest differences the row could have shown: for the quietest and for the noisiest peer."""
    seen = [_share(pair.smallest_visible) for pair in pairs if pair.smallest_visible is not None]
    if not seen:
        return "?"
    ordered = sorted(seen, key=lambda text: float(text.rstrip("%")))
    return ordered[0] if ordered[0] == ordered[-1] else f"{ordered[0]} to {ordered[-1]}"


# --- tables of ratios ---


def _row_cells(report: Report, row, metric: str, pairs: Dict[str, Ratio]) -> List[str]:
    mine = report.figure(row, report.ours, metric)
    cells: List[str] = []
    for peer in report.peers:
        if report.failure(row, peer):
            cells.append(Cell("failed", "failed"))
        elif mine is None and report.figure(row, peer, metric):
            cells.append(Cell(f"({amount(report.figure(row, peer, metric).median, unit_of(metric))})"))
        else:
            is_zero = mine and report.figure(row, peer, metric) and peer not in pairs
            cells.append(Cell("no ratio: zero") if is_zero else ratio_cell(pairs.get(peer)))
    best = report.best_peer(row, metric)
    verdict = Cell("")
    if best:
        best_pair = pairs.get(best)
        verdict = Cell(best)
        if best_pair:
            cell = ratio_cell(best_pair)
            verdict = Cell(f"{best} {_ratio_text(best_pair.median)}{' tie' if best_pair.is_tie else ''}", cell.kind)
    name = row.name + (" †" if row.name in report.results.disturbed else "")
    return [name, figure_cell(mine, metric)] + cells + [verdict, _visible(list(pairs.values()))]


def _verdicts(pairs: Sequence[Ratio]) -> str:
    """How many are better, tied, worse. Rows that ran once are none of these."""
    kinds = [ratio_cell(pair).kind for pair in pairs]
    return " / ".join(str(kinds.count(kind)) for kind in ("better", "tie", "worse"))


def _totals(found: Dict[str, List[Ratio]], peers: List[str]) -> List[List[str]]:
    """Geometric means of the medians and of the best runs, and how many rows are better, tied, worse."""
    most = max((len(pairs) for pairs in found.values()), default=0)
    lines = []
    for label, key in (("geometric mean", "median"), ("of the best runs", "best")):
        cells = []
        for peer in peers:
            mean = geometric_mean(getattr(pair, key) for pair in found[peer])
            short = f" ({len(found[peer])} of {most} rows)" if len(found[peer]) < most else ""
            cells.append(Cell("-" if mean is None else f"{mean:.3f}{short}"))
        lines.append([Cell(label, "total"), Cell("")] + cells + [Cell(""), Cell("")])
    counts = [Cell(_verdicts(found[peer])) for peer in peers]
    lines.append([Cell("better / tie / worse", "total"), Cell("")] + counts + [Cell(""), Cell("")])
    return lines


def ratio_table(report: Report, rows: List, metric: Optional[str], title: str = "") -> Table:
    """Rows by peers. `metric` None: each row's own."""
    found: Dict[str, List[Ratio]] = {peer: [] for peer in report.peers}
    lines = []
    for row in rows:
        here = metric or row.metric
        pairs = {}
        for peer in report.peers:
            pair = report.pair(row, peer, here)
            if pair:
                pairs[peer] = pair
                found[peer].append(pair)
        lines.append(_row_cells(report, row, here, pairs))
    if len(rows) > 1:
        lines += _totals(found, report.peers)
    head = ["row", report.ours] + report.peers + [_best_head(report), "smallest visible"]
    return Table(head, lines, title, words=(0, len(head) - 2))


def overview_table(report: Report, peers: List[str]) -> Table:
    """Geometric means, group by group: over each of these peers, and over the best peer of each row."""
    lines = []
    for group in report.groups:
        rows = report.rows_of(group)
        if group == "control":
            continue
        kinds = [(None, "own figure")] + ([("peak", "peak RSS")] if report.has_peaks(group) else [])
        for metric, words in kinds:
            cells, most = [], 0
            for peer in peers + [None]:
                pairs = [_pair_with(report, row, peer, metric or row.metric) for row in rows]
                pairs = [pair for pair in pairs if pair]
                mean = geometric_mean(pair.median for pair in pairs)
                most = max(most, len(pairs))
                cells.append(Cell("-" if mean is None else f"{mean:.2f} ({_verdicts(pairs)})"))
            lines.append([group, words, str(most)] + cells)
    return Table(["group", "figure", "rows"] + peers + [_best_head(report)], lines, words=(0, 1))


def _pair_with(report: Report, row, peer: Optional[str], metric: str) -> Optional[Ratio]:
    """The ratio over a peer; without one over the best peer of the row."""
    name = peer or report.best_peer(row, metric)
    return report.pair(row, name, metric) if name else None


def readme_peers(report: Report) -> List[str]:
    """Those of README_PEERS that were measured; all peers where none was."""
    return [peer for peer in README_PEERS if peer in report.peers] or report.peers


def programs_table(report: Report) -> Optional[Table]:
    """Medians of the real programs: CPU seconds and peak. None: no program was run."""
    rows = report.rows_of("programs")
    libraries = [report.ours] + readme_peers(report)
    lines = []
    for row in rows:
        cells = []
        for library in libraries:
            figures = [(report.figure(row, library, metric), metric) for metric in (row.metric, "peak")]
            known = [amount(figure.median, unit_of(metric)) for figure, metric in figures if figure]
            cells.append(Cell("failed", "failed") if report.failure(row, library) else Cell("; ".join(known) or "-"))
        lines.append([row.name] + cells)
    return Table(["program"] + libraries, lines, words=(0,)) if lines else None


# --- where we lose ---


def worst_rows(report: Report, metric: Optional[str]) -> List[Tuple]:
    """(row, best peer, ratio) of rows that are worse than their best peer and no tie; failures of ours come first."""
    failed, found = [], []
    for row in report.rows:
        here = metric or row.metric
        if row.group == "control" or (metric == "peak" and row.metric == "peak"):
            continue
        if report.failure(row, report.ours):
            failed.append((row, "", None))
            continue
        best = report.best_peer(row, here)
        pair = report.pair(row, best, here) if best else None
        if pair and (pair.verdict == "slower" or pair.verdict == "?" and pair.median > SINGLE_RUN_MARGIN):
            found.append((row, best, pair))
    return failed + sorted(found, key=lambda item: -item[2].median)


def _compared(row, metric: Optional[str]) -> str:
    """What a row compares; the metric of a whole table stands in the table's title."""
    if metric and row.why:
        return row.why
    return words_of_metric(metric or row.metric) + (f"; {row.why}" if row.why else "")


def worst_table(report: Report, metric: Optional[str], title: str) -> Table:
    lines = []
    for row, best, pair in worst_rows(report, metric)[:WORST_SHOWN]:
        if pair is None:
            lines.append([row.name, row.group, Cell("failed", "failed"), "", "", report.failure(row, report.ours)])
            continue
        lines.append(
            [
                row.name,
                row.group,
                ratio_cell(pair),
                best,
                "?" if pair.smallest_visible is None else _share(pair.smallest_visible),
                _compared(row, metric),
            ]
        )
    note = "" if lines else "No row is worse than its best peer by more than a tie."
    return Table(
        ["row", "group", "over the best peer", _best_head(report), "smallest visible", "what is compared"],
        lines,
        title,
        note,
        words=(0, 1, 3, 5),
    )


# --- a workload's own figures ---


def fields_table(report: Report, row) -> Table:
    """The named figures of a row, library by library: moments of memory, percentiles."""
    columns: List[Tuple[str, str]] = [(name, words_of_field(name)) for name in row.fields]
    values: Dict[str, Dict[str, Optional[float]]] = {}
    for library in report.libraries:
        values[library] = {name: report.results.number(row, library, name) for name, _ in columns}
        if row.group == "memory":
            peak = report.figure(row, library, "peak")
            values[library]["peak_kib"] = peak.median if peak else None
    if row.group == "memory":
        columns.insert(0, ("peak_kib", "peak"))
    heads, scales = [], {}
    for name, words in columns:
        largest = max((value[name] for value in values.values() if value[name] is not None), default=0)
        unit, scales[name] = _scale(unit_of(name), largest)
        heads.append(f"{words}, {unit}" if unit else words)
    lines = []
    for library in report.libraries:
        reason = report.failure(row, library)
        if reason:
            lines.append([library, Cell("failed", "failed")] + [""] * (len(columns) - 1))
            continue
        if all(value is None for value in values[library].values()):
            continue
        cells = []
        for name, _ in columns:
            value = values[library][name]
            cells.append("-" if value is None else _plain(value / scales[name]))
        lines.append([library] + cells)
    title = f"{row.name}: {row.why}" if row.why else row.name
    return Table(["library"] + heads, lines, title)


def _scale(unit: str, largest: float) -> Tuple[str, float]:
    """The unit of a whole column, and what its figures are divided by."""
    if unit == "%":
        return unit, 0.01
    if unit == "KiB" and largest >= 10 * 1024:
        return "MiB", 1024
    return ("µs", 1e3) if unit == "ns" and largest >= 1e5 else (unit, 1)


def _plain(value: float) -> str:
    if value == int(value) or abs(value) >= 1000:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 100 else f"{value:.3g}"


# --- sections ---


PROGRAMS = "Real programs: CPU time and peak RSS, medians."
OVERVIEW = (
    "Geometric means of {ours} over a peer, below 1 is better for {ours}; in brackets, in how many rows {ours} is "
    "better / tied / worse. The best peer is chosen row by row."
)
HOW_TO_READ = (
    "A cell such as 0.92 [0.89 0.95] (0.90) is {ours} over the peer of its column: the median of the "
    "ratios of runs that followed each other, its 95 % interval, and the ratio of the best runs. Below 1 is better for "
    "{ours}.",
    "A tie is a difference that the lab does not claim: one in a hundred comparisons of identical libraries would "
    "differ as much. [?] marks rows that ran once or twice: there the lab claims nothing, and lists a loss from 10 % "
    "on.",
    "Smallest visible is the smallest true difference that the row would have found; where two are given, against "
    "the quietest and against the noisiest peer. A tie says nothing about differences below it.",
    "After a figure, ± is how far identical runs lie apart, from quartile to quartile over the median.",
    "A failure is printed as a failure and takes the library out of that row; a mean that misses rows says so.",
    "† marks rows that other processes disturbed. The control row has no allocator in it: a difference there is "
    "noise, and so is one of that size elsewhere.",
)


def peers_lacking(report: Report) -> List[str]:
    """Of the peers that a row is to be judged by, those that were not measured."""
    return [name for name in ALL_PEERS if name not in report.libraries]


def quick_look(report: Report) -> str:
    """What a report says that has fewer peers than it takes to name the best one, or an empty text."""
    lacking = peers_lacking(report)
    if not lacking:
        return ""
    return (
        f"A quick look: the best peer is that of {len(ALL_PEERS) - len(lacking)} of {len(ALL_PEERS)}, without "
        f"{', '.join(lacking)}."
    )


def _best_head(report: Report) -> str:
    lacking = len(peers_lacking(report))
    return f"best peer ({len(ALL_PEERS) - lacking} of {len(ALL_PEERS)})" if lacking else "best peer"


def _caution(report: Report) -> List[str]:
    """Why figures may not be quoted or not be the last word, where that is so."""
    repeats = [
        len(samples) // samples[0].get("slices", 1)
        for (name, _), samples in report.results.counted.items()
        if report.results.row(name).repeats_max > REPEATS_WANTED
    ]
    reasons = []
    scales = sorted({head["scale"] for head in report.headers})
    if scales != [1]:
        reasons.append("the scale is " + " and ".join(f"{scale:g}" for scale in scales))
    if repeats and min(repeats) < REPEATS_WANTED:
        reasons.append(f"some rows have {min(repeats)} of {REPEATS_WANTED} repeats")
    if report.results.disturbed:
        reasons.append(f"{len(report.results.disturbed)} rows were disturbed")
    quoting = [f"Not for quoting: {', '.join(reasons)}."] if reasons else []
    return quoting + [text for text in (quick_look(report),) if text]


def _where_we_lose(report: Report) -> Section:
    tables = [worst_table(report, None, "The worst rows by each row's own figure")]
    if any(row.metric != "peak" for row in report.rows):
        tables.append(worst_table(report, "peak", "The worst rows by peak RSS"))
    text = f"At most {WORST_SHOWN} rows each, against the best peer of the row."
    return Section("Where we lose", [text], tables=tables)


def _group_sections(report: Report, metric: Optional[str]) -> List[Section]:
    sections = []
    for group in report.groups:
        rows = report.rows_of(group)
        section = Section(group[0].upper() + group[1:], group=group)
        own = metric if metric and group not in ("memory",) else None
        metrics = list(dict.fromkeys(own or row.metric for row in rows))
        named = words_of_metric(metrics[0]) if len(metrics) == 1 else "each row's own figure"
        section.tables.append(ratio_table(report, rows, own, f"{group}: {named}"))
        if group == "threads" and metric is None:
            section.tables.append(ratio_table(report, rows, "cpu", f"{group}: {words_of_metric('cpu')}"))
        if report.has_peaks(group):
            section.tables.append(ratio_table(report, rows, "peak", f"{group}: {words_of_metric('peak')}"))
        section.tables += [fields_table(report, row) for row in rows if row.fields]
        sections.append(section)
    return sections


def _instructions(report: Report) -> List[Section]:
    """Counts by callgrind, the companion of time that is the same in every run. They are no verdicts."""
    if not report.counts:
        return []
    lines, found = [], {peer: [] for peer in report.peers}
    for row in rows_module.ROWS:
        mine = report.counts.get((row.name, report.ours))
        theirs = {peer: report.counts.get((row.name, peer)) for peer in report.peers}
        if mine is None and not any(theirs.values()):
            continue
        cells = [Cell("-" if mine is None else f"{mine:.1f}")]
        for peer, count in theirs.items():
            is_pair = bool(mine and count)
            if is_pair:
                found[peer].append(mine / count)
            cells.append(Cell("-" if not count else f"{count:.1f}" + (f" ({mine / count:.2f})" if is_pair else "")))
        lines.append([row.name] + cells)
    means = [geometric_mean(found[peer]) for peer in report.peers]
    shown = [
        Cell("-" if mean is None else f"{mean:.3f} ({len(found[peer])} rows)")
        for peer, mean in zip(report.peers, means)
    ]
    lines.append([Cell("geometric mean", "total"), Cell("")] + shown)
    text = (
        "Counted by callgrind, the workload's own loop with it; behind a peer's figure is ours over it. The same in "
        "every run, and blind to cache misses, page faults and waiting."
    )
    return [Section("Instructions an operation", [text], tables=[Table(["row", report.ours] + report.peers, lines)])]


def _identical(report: Report) -> List[str]:
    """Pairs that are the same file with the same settings: what differs between them is noise."""
    lines = []
    for index, one in enumerate(report.libraries):
        for other in report.libraries[index + 1 :]:
            if report.build_of(one) != report.build_of(other):
                continue
            pairs = [(report.results.ratio(row, one, other), row.name) for row in report.rows]
            # Of rows that ran once or twice nothing is claimed, so they cannot be wrong either.
            pairs = [(pair, name) for pair, name in pairs if pair and pair.verdict != "?"]
            if not pairs:
                continue
            ties = sum(1 for pair, _ in pairs if pair.is_tie)
            widest = max(pairs, key=lambda item: abs(item[0].median - 1))
            verdict = "holds" if ties >= TIES_WANTED * len(pairs) else "falls short"
            lines.append(
                f"{one} and {other} are the same library: {ties} of {len(pairs)} rows are ties "
                f"({ties / len(pairs):.0%}, wanted {TIES_WANTED:.0%}: {verdict}), the widest difference is "
                f"{widest[0].median:.3f} on {widest[1]}."
            )
    return lines


def _failures(report: Report) -> Section:
    reasons = sorted(report.results.failures.items())
    section = Section("Failures", items=[f"{row} under {library}: {reason}." for (row, library), reason in reasons])
    if not reasons:
        section.text.append("None.")
    measured = {row.name for row in report.rows}
    absent = [row.name for row in rows_module.ROWS if row.default and row.name not in measured]
    if absent and report.is_whole:
        section.items.append("Rows without a sample: " + ", ".join(absent) + ".")
    return section


def _noise(report: Report) -> Section:
    items = [
        f"† {row}: others used over {FOREIGN_LIMIT:.0%} of a core even in the quietest try, in {len(shares)} "
        f"{'run' if len(shares) == 1 else 'runs'} (up to {max(shares):.0%})."
        for row, shares in report.results.disturbed.items()
    ]
    counted = sum(map(len, report.results.counted.values()))
    items += _identical(report) + [f"Tries in the file: {len(report.samples)}; runs that count: {counted}."]
    return Section("Noise", items=items)


def _goals(report: Report) -> Section:
    lines = goals.render(rows_module.GOALS, report.results, report.ours)
    # That is a table in Markdown; a page needs its cells.
    cells = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines]
    kinds = {"holds": "better", "falls": "worse"}
    rows = [row[:-1] + [Cell(row[-1], kinds.get(row[-1].split()[0] if row[-1] else "", ""))] for row in cells[2:]]
    return Section("Goals", _caution(report), tables=[Table(cells[0], rows, words=(0, 3))])


def _machine(report: Report) -> Section:
    head = report.headers[-1]
    machine = head["machine"]
    items = [
        f"{machine['processor']}, {machine['cores']} cores, {machine['memory_kib'] / 1048576:.0f} GiB, kernel "
        f"{machine['kernel']}, {machine['c_library']}, {machine['compiler']}; seed {head['seed']}"
        f"{', first and last bytes of blocks touched' if head.get('touch') == 'last' else ''}; "
        f"measured until {report.date or 'an unknown day'}"
        + (f", calmalloc at {report.commit[:12]}." if report.commit else ".")
    ]
    items += [f"{name}: {report.version_words(name) or 'version not recorded'}" for name in report.libraries]
    programs = {name: words for name, words in machine.get("programs", {}).items() if words}
    if any(row.group == "programs" for row in report.rows):
        items.append("Programs: " + "; ".join(f"{name} ({words})" for name, words in programs.items()))
    return Section("Machine and versions", items=items)


def sections(report: Report, metric: Optional[str], more: Sequence[Section] = ()) -> List[Section]:
    """Everything a report says, in order. `metric` other than None replaces the rows' own in the time tables."""
    how = Section("How to read this", _caution(report), [text.format(ours=report.ours) for text in HOW_TO_READ])
    overview = Section(
        "Where we stand",
        [OVERVIEW.format(ours=report.ours)],
        tables=[overview_table(report, report.peers)],
        group="",
    )
    return (
        [how, _where_we_lose(report), overview]
        + _group_sections(report, metric)
        + _instructions(report)
        + list(more)
        + [_failures(report), _noise(report), _goals(report), _machine(report)]
    )


# --- Markdown ---


def markdown_table(table: Table) -> List[str]:
    lines = [f"### {table.title}", ""] if table.title else []
    if table.rows:
        safe = lambda cells: [cell.replace("|", "\\|") for cell in cells]
        rule = ["---" if index in table.words else "--:" for index in range(len(table.head))]
        lines += ["| " + " | ".join(safe(table.head)) + " |", "|" + "|".join(rule) + "|"]
        lines += ["| " + " | ".join(safe(row)) + " |" for row in table.rows]
    if table.note:
        lines += ([""] if table.rows else []) + [table.note]
    return lines


def markdown(title: str, parts: Sequence[Section], pictures: Sequence = ()) -> str:
    lines = [f"# {title}"]
    for section in parts:
        lines += ["", f"## {section.title}"]
        for text in section.text:
            lines += ["", text]
        if section.items:
            lines += [""] + [f"- {item}" for item in section.items]
        for picture in pictures:
            if section.group is not None and picture.group == section.group:
                lines += ["", f"![{picture.alt}]({picture.svg.name})"]
        for table in section.tables:
            lines += [""] + markdown_table(table)
    return "\n".join(lines) + "\n"
