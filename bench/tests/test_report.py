"""Checks the report: tables from known samples, failures and ties shown, one page that needs nothing else, pictures.

Run with `python3 bench/tests/test_report.py`. Takes seconds, needs no compiler and no network; the pictures are checked
where matplotlib is there.
"""

import contextlib
import gzip
import io
import json
import re
import shutil
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml
from html.parser import HTMLParser
from pathlib import Path

BENCH = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(BENCH))

import rows as rows_module  # noqa: E402
from harness import report, report_data, report_documents, report_page, report_plots, report_published  # noqa: E402
from harness import report_tables  # noqa: E402
from harness.base import Stop  # noqa: E402

FOLDER = Path(tempfile.mkdtemp(prefix="calm-report-test-"))
STEADY = (1.00, 1.01, 1.00, 0.99, 1.00, 1.01, 0.99)  # seven runs that lie close together
PERCENTILES = (0.0, 50.0, 90.0, 99.0, 99.9, 99.99, 100.0)
WITH_CURVES = next(row for row in rows_module.ROWS if "malloc_ns" in row.series and "free_ns" in row.series)
WITH_WINDOWS = next(row for row in rows_module.ROWS if "window_ns" in row.series)
WITH_MEMORY = next(row for row in rows_module.ROWS if "resident_kib" in row.series and row.repeats_max == 1)
WITH_FIELDS = next(row for row in rows_module.ROWS if row.name == "sites-mixed")


def header(*names: str, **more) -> dict:
    machine = {
        "processor": "a <fast> one",
        "cores": 2,
        "memory_kib": 8 << 20,
        "kernel": "6.1",
        "c_library": "glibc 2.36",
        "compiler": "gcc 12",
        "commit": "abcdef0123456789",
        "programs": {},
    }
    libraries = [{"name": name, "version": "1.2", "sha256": name * 3, "env": {}} for name in names]
    return {"kind": "header", "seed": 1, "scale": 1.0, "machine": machine, "libraries": libraries, **more}


def samples(row: str, library: str, seconds: float, peak_kib: int = 2048, runs=STEADY, failed: str = "", **result):
    for repeat in range(len(runs)):
        time = seconds * runs[(repeat + len(library)) % len(runs)]  # pairs differ
        yield {
            "kind": "sample",
            "row": row,
            "library": library,
            "repeat": repeat,
            "try": 0,
            "time": "2026-11-21T10:00:00Z",
            "failed": failed if repeat == 1 else "",
            "check": "1",
            "foreign_share": 0.0,
            "cost": {"user": time, "system": 0.0, "wall": time, "peak_kib": peak_kib},
            "result": {"seconds": time, "cpu_seconds": time, **result},
        }


def small() -> list:
    """
    Three libraries: calm twice as fast as glibc on `slots`, tied with it on `batch`, slower than mimalloc3 on `mixed`.
    mimalloc3 fails `slots`; `sites-mixed` has memory; `control` is the loop alone.
    """
    fields = lambda kib: {"grown_kib": kib}
    figures = (
        ("slots", 1.0, 2.0, 0.5, {}),
        ("batch", 1.0, 1.0, 4.0, {}),
        ("mixed", 3.0, 6.0, 1.5, {}),
        ("sites-mixed", 1.0, 1.0, 1.0, {"calm": fields(20480), "glibc": fields(40960), "mimalloc3": fields(512)}),
    )
    lines = [header("calm", "glibc", "mimalloc3")]
    for row, calm, glibc, mimalloc, result in figures:
        lines += samples(row, "calm", calm, 2048, **result.get("calm", {}))
        lines += samples(row, "glibc", glibc, 4096, **result.get("glibc", {}))
        failed = "it ended by signal 11: <b>|" if row == "slots" else ""
        lines += samples(row, "mimalloc3", mimalloc, 1024, failed=failed, **result.get("mimalloc3", {}))
    return lines


def curve_of(scale: float, xs) -> list:
    return [[x, scale * (1 + index)] for index, x in enumerate(xs)]


def curved(*names: str) -> list:
    """Libraries with every kind of curve, the second without one of its curves."""
    lines = [header(*names)]
    for place, name in enumerate(names):
        scale = 10.0 * (1 + place)
        tails = {"series_malloc_ns": curve_of(scale, PERCENTILES), "series_free_ns": curve_of(2 * scale, PERCENTILES)}
        if place == 1:
            del tails["series_free_ns"]
        for row in (WITH_CURVES, WITH_WINDOWS, WITH_MEMORY):
            result = {field: 100.0 * scale for field in row.fields}
            if row.metric.startswith("number:"):
                result[row.metric[len("number:") :]] = 100.0 * scale
            if row is WITH_CURVES:
                result.update(tails)
            elif row is WITH_WINDOWS:
                result["series_window_ns"] = curve_of(scale, range(10))
            else:
                result["series_resident_kib"] = curve_of(1024 * scale, range(12))
            lines += samples(row.name, name, scale, runs=STEADY[: row.repeats_max], **result)
    return lines


def write(name: str, lines: list) -> Path:
    path = FOLDER / name
    text = "".join(json.dumps(line) + "\n" for line in lines)
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path


def load(name: str, lines: list) -> report_data.Report:
    return report_data.load([write(name, lines)], None, None)


def quietly(function, *arguments):
    with contextlib.redirect_stderr(io.StringIO()) as errors, contextlib.redirect_stdout(io.StringIO()):
        done = function(*arguments)
    return done, errors.getvalue()


class Tables(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.text = report.render([write("small.jsonl.gz", small())], None, None, "row")

    def part(self, title: str) -> str:
        return re.search(rf"^#+ {re.escape(title)}$(.*?)(?=^#)", self.text + "\n#", re.M | re.S).group(1)

    def test_the_table_of_known_samples_is_known(self):
        expected = """
| row | calm | glibc | mimalloc3 | best peer (2 of 9) | smallest visible |
|---|--:|--:|--:|---|--:|
| slots | 1.000 s ±1.0% | 0.50 [0.49 0.51] (0.50) | failed | glibc 0.50 | 4.7% |
| mixed | 3.000 s ±1.0% | 0.50 [0.49 0.51] (0.50) | 2.00 [1.96 2.04] (2.00) | mimalloc3 2.00 | 3.5% to 4.7% |
| batch | 1.000 s ±1.0% | 0.99 [0.99 1.02] (1.00) tie | 0.25 [0.25 0.26] (0.25) | glibc 0.99 tie | 3.5% to 4.7% |
| geometric mean |  | 0.624 | 0.707 (2 of 3 rows) |  |  |
| of the best runs |  | 0.630 | 0.707 (2 of 3 rows) |  |  |
| better / tie / worse |  | 2 / 1 / 0 | 1 / 0 / 1 |  |  |
"""
        self.assertEqual(self.part("one thread: CPU time of the timed part").strip(), expected.strip())

    def test_fewer_peers_than_name_the_best_are_a_quick_look_and_all_of_them_are_not(self):
        absent = "jemalloc, mimalloc2, mimalloc23, snmalloc, tcmalloc, tcmalloc_percpu, rpmalloc"
        words = f"A quick look: the best peer is that of 2 of 9, without {absent}."
        self.assertIn(words, self.part("How to read this"))
        beside_rows = self.text.count("| smallest visible |")
        self.assertEqual(self.text.count("best peer (2 of 9)"), beside_rows + 1)  # and the means of groups
        whole = small()
        whole[0]["libraries"] += [
            dict(whole[0]["libraries"][0], name=name, sha256=name) for name in absent.split(", ")
        ]
        text = report.render([write("whole.jsonl", whole)], None, None, "row")
        self.assertIn("| best peer | smallest visible |", text)
        self.assertNotIn("A quick look", text)
        self.assertNotIn("of 9)", text)

    def test_a_failure_is_shown_as_one_with_its_reason(self):
        self.assertIn("- slots under mimalloc3: it ended by signal 11: <b>|.", self.part("Failures"))
        self.assertIn("| failed |", self.part("one thread: peak RSS"))

    def test_a_failure_of_ours_heads_the_worst_rows(self):
        lines = [dict(line, failed="it hung") if line.get("library") == "calm" and line["row"] == "batch" else line
                 for line in small()]
        found = load("ours.jsonl", lines)
        worst = report_tables.worst_table(found, None, "worst").rows
        self.assertEqual([row[:3] for row in worst[:2]], [["batch", "one thread", "failed"],
                                                          ["mixed", "one thread", "2.00 [1.96 2.04] (2.00)"]])
        table = report_tables.ratio_table(found, found.rows_of("one thread"), None)
        batch = next(row for row in table.rows if row[0] == "batch")
        self.assertEqual((batch[1], batch[2]), ("failed", "(1.000 s)"))

    def test_ties_wins_and_losses_are_marked(self):
        found = load("kinds.jsonl", small())
        table = report_tables.ratio_table(found, found.rows_of("one thread"), None)
        kinds = {row[0]: [cell.kind for cell in row[2:4]] for row in table.rows[:3]}
        self.assertEqual(kinds, {"slots": ["better", "failed"], "mixed": ["better", "worse"],
                                 "batch": ["tie", "better"]})

    def test_where_we_lose_comes_first_and_leaves_ties_out(self):
        lost = self.part("The worst rows by each row's own figure")
        self.assertIn("| mixed | one thread | 2.00 [1.96 2.04] (2.00) | mimalloc3 |", lost)
        self.assertNotIn("batch", lost)
        self.assertLess(self.text.index("## Where we lose"), self.text.index("## One thread"))

    def test_no_more_than_ten_rows_are_the_worst(self):
        lines = [header("calm", "glibc")]
        names = [row.name for row in rows_module.ROWS if row.group == "one thread"][:12]
        for place, name in enumerate(names):
            lines += list(samples(name, "calm", 2.0 + place)) + list(samples(name, "glibc", 1.0))
        worst = report_tables.worst_table(load("many.jsonl", lines), None, "worst").rows
        self.assertEqual([row[0] for row in worst], names[:1:-1])

    def test_moments_of_memory_are_in_one_unit_a_column(self):
        moments = self.part(f"sites-mixed: {WITH_FIELDS.why}")
        for line in ("| library | peak, KiB | grown, MiB |", "| calm | 2048 | 20 |", "| mimalloc3 | 1024 | 0.5 |"):
            self.assertIn(line, moments)

    def test_a_single_run_claims_nothing_but_a_great_loss_is_listed(self):
        lines = [header("calm", "glibc")]
        for name, seconds in (("slots", 1.05), ("mixed", 1.5)):
            lines += list(samples(name, "calm", seconds, runs=(1.0,))) + list(samples(name, "glibc", 1.0, runs=(1.0,)))
        found = load("single.jsonl", lines)
        self.assertEqual([row[0] for row in report_tables.worst_table(found, None, "worst").rows], ["mixed"])
        cell = report_tables.ratio_cell(found.pair(found.rows[0], "glibc", "cpu"))
        self.assertEqual((cell, cell.kind), ("1.05 [?] (1.05)", ""))

    def test_of_a_figure_of_zero_there_is_no_ratio_and_it_is_said(self):
        lines = [header("calm", "glibc")] + list(samples("slots", "calm", 1.0)) + list(samples("slots", "glibc", 0.0))
        found = load("zero.jsonl", lines)
        self.assertEqual(report_tables.ratio_table(found, found.rows, None).rows[0][2], "no ratio: zero")

    def test_a_bar_in_a_cell_does_not_make_a_column(self):
        lines = report_tables.markdown_table(report_tables.Table(["a"], [["x|y"]]))
        self.assertEqual(lines[-1], "| x\\|y |")

    def test_fields_say_their_units(self):
        for name, words, unit in (("malloc_p999_ns", "malloc P99.9", "ns"), ("resident_1s_kib", "resident 1s", "KiB"),
                                  ("kib_a_thread", "a thread", "KiB"), ("free_over_1us_share", "free over 1us", "%"),
                                  ("fill_ns_a_block", "fill a block", "ns"), ("overhead", "overhead", "")):
            self.assertEqual((report_data.words_of_field(name), report_data.unit_of(name)), (words, unit))


class Twins(unittest.TestCase):
    def report(self, *slower: float) -> report_data.Report:
        """calm, its twin, which is slower in the last rows, and glibc; one row ran once, so it claims nothing."""
        names = ("slots", "batch", "mixed", "pairs-64")
        lines = [header("calm", "again", "glibc")]
        lines[0]["libraries"][1]["sha256"] = lines[0]["libraries"][0]["sha256"]
        for name, factor in zip(names, (1.0,) * (len(names) - len(slower)) + slower):
            for library, seconds in (("calm", 1.0), ("again", factor), ("glibc", 2.0)):
                lines += samples(name, library, seconds)
        for library, seconds in (("calm", 1.0), ("again", 1.5)):
            lines += samples("order-lifo", library, seconds, runs=(1.0,))
        return load("twins.jsonl", lines)

    def test_have_no_column_and_their_ties_are_counted(self):
        found = self.report()
        self.assertEqual(found.peers, ["glibc"])
        self.assertEqual(report_tables.ratio_table(found, found.rows, None).head[:3], ["row", "calm", "glibc"])
        said, = report_tables._identical(found)
        self.assertIn("calm and again are the same library: 4 of 4 rows are ties (100%, wanted 95%: holds)", said)

    def test_that_differ_are_a_control_that_failed(self):
        said, = report_tables._identical(self.report(1.5))
        self.assertIn("3 of 4 rows are ties (75%, wanted 95%: falls short)", said)
        self.assertRegex(said, r"difference is 0\.6\d+ on pairs-64")

    def test_alone_are_shown(self):
        lines = [line for line in small() if line.get("library") in (None, "calm", "glibc")]
        lines[0]["libraries"][1]["sha256"] = lines[0]["libraries"][0]["sha256"]
        lines[0]["libraries"].pop()
        self.assertEqual(load("two.jsonl", lines).peers, ["glibc"])


class Counts(unittest.TestCase):
    COUNTS = (("slots", "calm", 90.0), ("slots", "glibc", 180.0), ("batch", "calm", 50.0), ("batch", "mimalloc3", 25.0))

    def lines(self, *names: str) -> list:
        made = [{"kind": "count", "row": row, "library": name, "seed": 1, "sha256": name * 3, "instructions": count}
                for row, name, count in self.COUNTS if name in names]
        return [header(*names)] + made

    def table(self, *files: Path) -> list:
        section, = report_tables._instructions(report_data.load(list(files), None, None))
        return [list(row) for row in section.tables[0].rows]

    def test_are_a_table_beside_the_samples_or_alone(self):
        counts = write("counts.jsonl.gz", self.lines("calm", "glibc", "mimalloc3"))
        expected = [["slots", "90.0", "180.0 (0.50)", "-"], ["batch", "50.0", "-", "25.0 (2.00)"],
                    ["geometric mean", "", "0.500 (1 rows)", "2.000 (1 rows)"]]
        self.assertEqual(self.table(counts), expected)
        self.assertEqual(self.table(write("samples.jsonl", small()), counts), expected)
        text = report.render([counts], None, None, "row")
        self.assertIn("## Instructions an operation", text)
        self.assertNotIn("Instructions an operation", report.render([write("none.jsonl", small())], None, None, "row"))

    def test_of_another_build_are_refused(self):
        lines = self.lines("calm")
        lines[0]["libraries"][0]["sha256"] = "another"
        with self.assertRaisesRegex(Stop, "another build of calm"):
            self.table(write("base.jsonl", small()), write("other.jsonl", lines))


class Files(unittest.TestCase):
    def refusal(self, *paths: Path) -> str:
        with self.assertRaises(Stop) as stopped:
            report_data.load(list(paths), None, None)
        return str(stopped.exception)

    def test_packed_and_plain_lines_give_the_same_tables(self):
        texts = [report.render([write(name, small())], None, None, "row") for name in ("a.jsonl", "a.jsonl.gz")]
        self.assertEqual(*texts)

    def test_several_files_are_one_report(self):
        whole = small()
        one = [line for line in whole if line.get("row") in (None, "slots")]
        two = [line for line in whole if line.get("row") != "slots"]
        found = report_data.load([write("one.jsonl", one), write("two.jsonl.gz", two)], None, None)
        self.assertEqual([row.name for row in found.rows], ["slots", "mixed", "batch", "sites-mixed"])

    def test_what_must_not_be_mixed_is_refused(self):
        path = write("base.jsonl", small())
        self.assertIn("a ratio needs both sides from one run", self.refusal(path, write("again.jsonl", small())))
        other = header("calm", "glibc", "mimalloc3")
        other["libraries"][0]["sha256"] = "another"
        self.assertIn("another build of calm", self.refusal(path, write("build.jsonl", [other])))
        other = header("calm")
        other["machine"]["cores"] = 64
        self.assertIn("another machine", self.refusal(path, write("machine.jsonl", [other])))

    def test_what_is_no_raw_file_is_one_sentence(self):
        cut = FOLDER / "cut.jsonl.gz"
        cut.write_bytes(write("base.jsonl.gz", small()).read_bytes()[:200])
        binary = FOLDER / "binary.jsonl"
        binary.write_bytes(b"\xff\xfe\x00\x80")
        for path, words in ((cut, "not a whole gzip file"), (binary, "not text"), (FOLDER / "none", "cannot be read")):
            self.assertIn(words, self.refusal(path))

    def test_the_folder_is_beside_the_file(self):
        self.assertEqual(report.default_folder(Path("x/run.jsonl.gz")), Path("x/run-report"))


class Curves(unittest.TestCase):
    def test_runs_with_the_same_points_are_joined_by_their_medians(self):
        runs = [[[0, 1], [1, 9]], [[0, 2], [1, 8]], [[0, 30], [1, 7]]]
        self.assertEqual(report_data.typical_curve(runs), [(0, 2), (1, 8)])

    def test_of_runs_with_other_points_the_middle_one_is_shown(self):
        runs = [[[0.0, 50]], [[0.1, 10], [0.3, 20]], [[0.2, 30]]]
        self.assertEqual(report_data.typical_curve(runs), [(0.2, 30)])

    def test_a_library_without_a_curve_is_left_out_of_that_picture_only(self):
        found = load("curved.jsonl", curved("calm", "glibc", "mimalloc3"))
        self.assertEqual(list(found.curves(WITH_CURVES, "malloc_ns")), ["calm", "glibc", "mimalloc3"])
        self.assertEqual(list(found.curves(WITH_CURVES, "free_ns")), ["calm", "mimalloc3"])
        self.assertEqual(found.curves(WITH_MEMORY, "window_ns"), {})

    def test_each_nine_is_as_wide(self):
        for percentile, wide in ((0, 0), (90, 1), (99, 2), (99.9, 3)):
            self.assertAlmostEqual(report_plots.nines(percentile), wide)


class Published(unittest.TestCase):
    def test_every_file_is_sound_and_says_where_it_is_from(self):
        tables = report_published.load()
        self.assertGreaterEqual(len(tables), 5)
        for table in tables:
            self.assertIn("another machine", table["machine"])
            self.assertTrue(table["rows"])

    def test_a_row_that_does_not_exist_is_refused(self):
        folder = FOLDER / "published"
        folder.mkdir(exist_ok=True)
        entry = {"what": "x", "unit": "", "published": {}, "row": "no-such-row", "metric": "peak"}
        (folder / "x.json").write_text(json.dumps({"title": "t", "machine": "m", "about": "", "rows": [entry]}))
        with self.assertRaisesRegex(Stop, "a row that does not exist: no-such-row"):
            report_published.load(folder)

    def test_figures_from_here_are_in_the_published_unit(self):
        found = load("here.jsonl", small())
        entry = {"unit": "MB", "row": "sites-mixed", "figure": "grown_kib"}
        self.assertAlmostEqual(report_published.here(found, entry, "calm"), 20480 * 1024 / 1e6)
        entry = {"unit": "", "row": "mixed", "metric": "wall", "speed_over": "glibc"}
        speeds = [report_published.here(found, entry, name) for name in ("calm", "glibc", "mimalloc3")]
        for speed, expected in zip(speeds, (2.0, 1.0, 4.0)):
            self.assertAlmostEqual(speed, expected, places=1)
        entry = {"unit": "", "mean_over": "mimalloc3", "metric": "time", "groups": ["one thread"]}
        self.assertAlmostEqual(report_published.here(found, entry, "glibc"), (0.25 * 4.0) ** 0.5)
        entry = {"unit": "", "row": "lat-64", "figure": "pair32_p50_ns"}
        self.assertIsNone(report_published.here(found, entry, "calm"))

    def test_operations_a_second_follow_the_scale(self):
        row = next(row for row in rows_module.ROWS if row.name == "remote-t8-r90")
        threads, operations = row.command[2], int(row.command[4])
        lines = [header("calm", scale=0.5)] + list(samples(row.name, "calm", 2.0))
        entry = {"unit": "M/s", "row": row.name, "operations": [2, 4]}
        value = report_published.here(load("scaled.jsonl", lines), entry, "calm")
        self.assertAlmostEqual(value, threads * operations * 0.5 / 2.0 / 1e6)


class Reader(HTMLParser):
    """Notes what a browser would fetch or run, and whether elements are closed in order."""

    ALONE = {"meta", "link", "br", "img", "hr", "input"}

    def __init__(self):
        super().__init__()
        self.open, self.outside, self.names, self.kinds = [], [], [], []

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.kinds.append(tag)
        self.names += [given["id"]] if "id" in given else []
        for key, value in attributes:
            if key in ("src", "href", "data", "action", "xlink:href") and not (value or "").startswith("#"):
                self.outside.append((tag, key, value))
        if tag not in self.ALONE:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in self.ALONE:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-3:]}"
        self.open.pop()


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        lines = small() + [line for line in curved("calm", "glibc", "mimalloc3") if line["kind"] == "sample"]
        cls.out = FOLDER / "page"
        _, cls.said = quietly(report.make, [write("page.jsonl", lines)], cls.out, None, None, "row")
        cls.text = (cls.out / "report.html").read_text()
        cls.reader = Reader()
        cls.reader.feed(cls.text)

    def test_it_is_whole_and_its_names_are_its_own(self):
        self.assertEqual(self.reader.open, [])
        self.assertEqual(len(set(self.reader.names)), len(self.reader.names))

    def test_nothing_lies_outside(self):
        self.assertEqual(self.reader.outside, [])
        for word in ("http:", "https:", "@import", "<script", "<link"):
            self.assertNotIn(word, self.text)
        self.assertEqual(set(re.findall(r"url\((.)", self.text)) - {"#"}, set())
        wanted = set(re.findall(r'(?:href="|url\()#([^")]+)', self.text))
        self.assertEqual(wanted - set(self.reader.names), set())

    def test_what_samples_say_is_text_and_no_markup(self):
        self.assertNotIn("<b>", self.text)
        self.assertIn("it ended by signal 11: &lt;b&gt;|", self.text)
        self.assertIn("a &lt;fast&gt; one", self.text)

    def test_failures_ties_wins_and_losses_look_different(self):
        for kind in ("failed", "tie", "better", "worse"):
            self.assertIn(f'<td class="{kind}">', self.text)
            self.assertIn(f".{kind} {{", report_page.STYLE)

    def test_reading_and_losing_come_first(self):
        titles = re.findall(r"<h2>(.*?)</h2>", self.text)
        self.assertEqual(titles[:2], ["How to read this", "Where we lose"])

    def test_it_says_what_the_tables_say(self):
        plain = re.sub(r"\\([|])", r"\1", (self.out / "report.md").read_text())
        cells = {part.strip() for line in plain.splitlines() if line.startswith("| ") for part in line.split(" | ")}
        shown = {cell.strip("| ") for cell in cells}
        page = re.sub(r"<[^>]+>", "\n", self.text).replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
        self.assertEqual([cell for cell in shown if cell and cell not in page], [])

    def test_without_matplotlib_there_is_one_sentence_and_every_table(self):
        kept, report_plots.matplotlib = report_plots.matplotlib, None
        try:
            out = FOLDER / "bare"
            _, said = quietly(report.make, [write("bare.jsonl", small())], out, None, None, "row")
        finally:
            report_plots.matplotlib = kept
        self.assertEqual(said.splitlines(), [report_plots.WITHOUT_MATPLOTLIB])
        self.assertEqual(sorted(path.name for path in out.iterdir()), ["report.html", "report.md"])
        self.assertIn("| mixed |", (out / "report.md").read_text())


class Documents(unittest.TestCase):
    BEGIN, END = (report_documents.MARKER.format(name="summary", edge=edge) for edge in ("begin", "end"))

    def document(self, text: str) -> Path:
        path = FOLDER / "document" / "README.md"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return path

    def test_only_what_lies_between_the_markers_changes(self):
        path = self.document(f"above\n{self.BEGIN}\nold\n{self.END}\nbelow\n")
        quietly(report_documents.write_summary, load("readme.jsonl", small()), path)
        text = path.read_text()
        self.assertTrue(text.startswith(f"above\n{self.BEGIN}\n") and text.endswith(f"\n{self.END}\nbelow\n"))
        self.assertNotIn("old", text)
        for words in ("2026-11-21", "abcdef012345", "glibc 1.2", "| one thread | own figure | 3 | 0.62 (2 / 1 / 0) |"):
            self.assertIn(words, text)
        again = path.read_text()
        quietly(report_documents.write_summary, load("readme.jsonl", small()), path)
        self.assertEqual(path.read_text(), again)

    def test_programs_come_first_with_their_medians_then_means_over_few_peers_and_the_best(self):
        lines = small() + [header("calm", "glibc", "mimalloc3", "rpmalloc")]
        for library, seconds, peak in (("calm", 2.0, 4096), ("glibc", 3.0, 6144), ("rpmalloc", 1.0, 2048)):
            lines += samples("lua", library, seconds, peak)
        path = self.document(f"{self.BEGIN}\n{self.END}\n")
        quietly(report_documents.write_summary, load("programs.jsonl", lines), path)
        said = path.read_text()
        self.assertIn("| lua | 2.000 s; 4.0 MiB | 3.000 s; 6.0 MiB | - |", said)
        self.assertLess(said.index("| lua |"), said.index("| one thread | own figure |"))
        self.assertIn("| group | figure | rows | glibc | mimalloc3 | best peer (3 of 9) |", said)
        means = next(line for line in said.splitlines() if line.startswith("| programs | own figure |"))
        self.assertRegex(means, r"^\| programs \| own figure \| 1 \| 0\.6. .* \| - \| 2\.00 ")

    def test_what_documents_say_is_what_the_report_makes_of_the_raw_lines_they_name(self):
        root = BENCH.parent
        for name, document, lines_of in (("summary", root / "README.md", report_documents.summary_lines),
                                         ("losses", root / "docs" / "benchmarks.md", report_documents.losses_lines)):
            begin, end = (report_documents.MARKER.format(name=name, edge=edge) for edge in ("begin", "end"))
            said = document.read_text().split(begin)[1].split(end)[0]
            named = re.search(r"Raw lines: (.*?)\.(?: \*\*|$)", said, re.M)
            with self.subTest(document=document.name):
                self.assertIsNotNone(named, "the block names no raw lines")
                files = [root / each for each in re.findall(r"`([^`]+)`", named.group(1))]
                expected = lines_of(report_data.load(files, None, None))
                self.assertEqual([line for line in expected if line not in said.splitlines()], [])
                rows = [line for line in said.splitlines() if line.startswith("| ")]
                self.assertEqual([line for line in rows if line not in expected], [])

    def test_recorded_raw_lines_are_small(self):
        sizes = {path.name: path.stat().st_size for path in (BENCH / "results").iterdir()}
        self.assertEqual([name for name, size in sizes.items() if size > 5_000_000], [])

    def test_a_document_without_its_markers_is_left_alone(self):
        for text in ("nothing\n", f"{self.END}\n{self.BEGIN}\n", f"{self.BEGIN}\n{self.BEGIN}\n{self.END}\n"):
            path = self.document(text)
            with self.assertRaisesRegex(Stop, "once each, in this order"):
                quietly(report_documents.write_summary, load("readme.jsonl", small()), path)
            self.assertEqual(path.read_text(), text)

    def test_a_plot_is_not_left_beside_figures_it_does_not_show(self):
        path = self.document(f"{self.BEGIN}\n![x](docs/images/summary.svg)\n{self.END}\n")
        kept, report_plots.matplotlib = report_plots.matplotlib, None
        try:
            with self.assertRaisesRegex(Stop, "no longer match its table"):
                quietly(report_documents.write_summary, load("readme.jsonl", small()), path)
        finally:
            report_plots.matplotlib = kept

    def test_the_worst_rows_go_where_they_are_explained(self):
        begin, end = (report_documents.MARKER.format(name="losses", edge=edge) for edge in ("begin", "end"))
        path = self.document(f"{begin}\n{end}\nBecause.\n")
        report_documents.write_losses(load("losses.jsonl", small()), path)
        self.assertIn("| mixed | 2.00", path.read_text())
        self.assertTrue(path.read_text().endswith(f"{end}\nBecause.\n"))


@unittest.skipIf(report_plots.matplotlib is None, report_plots.WITHOUT_MATPLOTLIB)
class Pictures(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        lines = small() + [line for line in curved("calm", "glibc", "mimalloc3") if line["kind"] == "sample"]
        cls.report = load("pictures.jsonl", lines)
        cls.pictures = report_plots.draw(cls.report, FOLDER / "pictures")

    def picture(self, name: str) -> report_plots.Picture:
        return next(picture for picture in self.pictures if picture.name == name)

    def test_there_is_one_of_each_kind(self):
        names = {picture.name for picture in self.pictures}
        expected = {"summary", "ratios-one-thread", "peak-one-thread", "ratios-memory"}
        expected |= {report_plots.file_name("latency", WITH_CURVES.name),
                     report_plots.file_name("drift", WITH_WINDOWS.name),
                     report_plots.file_name("resident", WITH_MEMORY.name)}
        self.assertEqual(expected - names, set())

    def test_none_is_blank(self):
        from matplotlib import image

        for picture in self.pictures:
            pixels = image.imread(picture.png)[:, :, :3]
            inked = (pixels.min(axis=2) < 0.9).mean()
            colours = {tuple(pixel) for pixel in pixels.reshape(-1, 3)[::7].round(2).tolist()}
            self.assertGreater(inked, 0.005, picture.name)
            self.assertGreater(len(colours), 20, picture.name)
            self.assertGreater(min(pixels.shape[:2]), 180, picture.name)

    def test_vector_pictures_are_sound_and_need_nothing(self):
        for picture in self.pictures:
            text = picture.svg.read_text()
            self.assertTrue(xml.fromstring(text).tag.endswith("svg"))
            self.assertEqual(set(re.findall(r'https?://[^"<> ]*', text)),
                             {"http://www.w3.org/1999/xlink", "http://www.w3.org/2000/svg"})

    def colours_of(self, name: str) -> str:
        return self.picture(name).svg.read_text()

    def test_every_curve_is_drawn(self):
        """Once in the legend, and once in each panel that has the curve; the first peer has none of free."""
        first, second = report_plots.COLOURS[:2]
        for prefix, row, panels in (("latency", WITH_CURVES, (1, 2)), ("drift", WITH_WINDOWS, (1, 1)),
                                    ("resident", WITH_MEMORY, (1, 1))):
            text = self.colours_of(report_plots.file_name(prefix, row.name))
            drawn = [len(re.findall(rf'<path d="[^"]*"[^>]*stroke: {colour}; stroke-width: 1.2', text))
                     for colour in (first, second)]
            self.assertEqual(drawn, [panels[0] + 1, panels[1] + 1], prefix)

    def test_every_curve_that_a_row_names_is_one_that_is_drawn(self):
        drawn = set(report_plots.PERCENTILE_CURVES) | {"window_ns", "resident_kib"}
        self.assertEqual({name for row in rows_module.ROWS for name in row.series} - drawn, set())

    def test_a_curve_of_means_is_not_called_one_of_calls(self):
        looks = report_plots.looks_of(self.report.libraries, "calm")
        for kind, words in (("malloc_ns", "time of one call"), ("pair32_ns", "mean time of a pair")):
            figure = report_plots.draw_percentiles("r", "", {kind: {"calm": [(0, 1.0), (100, 9.0)]}}, "calm", looks)
            self.assertTrue(figure.axes[0].get_ylabel().startswith(words))
            report_plots.pyplot.close(figure)

    def test_two_rows_of_the_same_work_share_a_picture(self):
        chosen = [row for row in rows_module.ROWS if {"malloc_ns", "free_ns"} <= set(row.series)]
        lines = [header("calm", "glibc")]
        for row in chosen:
            figures = {row.metric[len("number:") :]: 5.0, "series_malloc_ns": curve_of(1, PERCENTILES)}
            lines += list(samples(row.name, "calm", 1.0, **figures))
        names = [plan[0] for plan in report_plots._plans(load("shared.jsonl", lines)) if plan[0].startswith("latency")]
        first = {row.command: row.name for row in reversed(chosen)}
        self.assertLess(len(first), len(chosen))
        self.assertEqual(sorted(names), sorted(report_plots.file_name("latency", name) for name in first.values()))

    def test_no_curve_leaves_its_panel(self):
        looks = report_plots.looks_of(self.report.libraries, "calm")
        curves = {kind: self.report.curves(WITH_CURVES, kind) for kind in ("malloc_ns", "free_ns")}
        curves["free_ns"]["calm"] = [(0.0, 1.0), (100.0, 1e7)]
        figure = report_plots.draw_percentiles("row", "", curves, "calm", looks)
        for axes in figure.axes:
            low, high = axes.get_ylim()
            levels = [level for line in axes.get_lines() for level in line.get_ydata()]
            self.assertLessEqual(low, min(levels))
            self.assertGreaterEqual(high, max(levels))
        report_plots.pyplot.close(figure)

    def test_each_peer_has_its_colour_and_marker_and_a_tie_is_grey(self):
        looks = report_plots.looks_of(["calm"] + [f"peer {place}" for place in range(24)], "calm")
        self.assertEqual(len({(colour, marker) for colour, marker, _ in looks.values()}), 24)
        self.assertEqual(len({marker for _, marker, _ in list(looks.values())[:12]}), 12)
        text = self.colours_of("ratios-one-thread")
        for colour in report_plots.COLOURS[:2]:
            self.assertIn(colour, text)
        dots = {(dot.row, dot.peer): dot for panel in self.report.ratio_panels() for dot in panel.dots
                if panel.kind == "ratios"}
        axes = report_plots.pyplot.figure().add_subplot()
        for peer, place in (("glibc", 0), ("mimalloc3", 1)):
            looks = report_plots.looks_of(self.report.libraries, "calm")
            report_plots._draw_dot(axes, dots["batch", peer], place, looks)
        self.assertEqual([line.get_color() for line in axes.lines],
                         [report_plots.TIE] * 2 + [report_plots.COLOURS[1]] * 2)

    def test_a_ratio_beyond_the_axis_is_a_number_at_its_edge(self):
        for far, words in ((2e-5, "◂ 2e-05"), (900.0, "9e+02 ▸")):
            dots = [report_data.Dot("one", "a", 1.1, 1.0, 1.2, False),
                    report_data.Dot("two", "a", far, far / 2, far * 2, False)]
            panel = report_data.RatioPanel("ratios", "g", "t", "over", ["a"], ["one", "two"], dots)
            looks = report_plots.looks_of(["calm", "a"], "calm")
            figure = report_plots.draw_ratios(panel, looks)
            axes = figure.axes[0]
            self.assertEqual([text.get_text() for text in axes.texts], [words])
            low, high = axes.get_xlim()
            self.assertTrue(low <= axes.texts[0].xy[0] <= high)
            self.assertLess(high / low, 10_000)
            report_plots.pyplot.close(figure)
            figure = report_plots.draw_summary({("g", "a"): [1.0, far]}, ["g"], ["a"], "calm", looks)
            self.assertIn("at the edge", figure.axes[0].get_xlabel())
            low, high = figure.axes[0].get_xlim()
            strokes = figure.axes[0].lines[0].get_xdata()
            self.assertTrue(all(low <= stroke <= high for stroke in strokes))
            report_plots.pyplot.close(figure)

    def test_failures_and_disturbed_rows_are_named(self):
        dots = [report_data.Dot(row, "a", 1.1, 1.0, 1.2, False) for row in ("one", "two")]
        panel = report_data.RatioPanel("ratios", "g", "t", "over", ["a", "b"], ["one", "two", "three"], dots,
                                       {"two": ["b"], "three": ["all"]}, {"one"})
        figure = report_plots.draw_ratios(panel, report_plots.looks_of(["calm", "a", "b"], "calm"))
        labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
        note = figure.axes[0].get_xlabel()
        report_plots.pyplot.close(figure)
        self.assertEqual(labels, ["one †", "two (1 failed)", "three (all failed)"])
        self.assertEqual(note.splitlines()[1:], ["†: other processes disturbed these runs",
                                                 "Failed: two (b); three (all)"])

    def test_text_stays_apart(self):
        """Names of rows and ticks, titles, legend: no two of a full picture overlap, and the legend is outside."""
        names = ["calm"] + [f"peer-number-{place}" for place in range(7)]
        chosen = [row.name for row in rows_module.ROWS][:30]
        dots = [report_data.Dot(row, peer, 0.3 + 0.1 * place, 0.25, 1.5 + place, place == 2)
                for row in chosen for place, peer in enumerate(names[1:])]
        panel = report_data.RatioPanel("ratios", "all", "all: time", "calm over a peer\nline two", names[1:], chosen,
                                       dots, {chosen[3]: ["peer-number-2"]})
        with report_plots.matplotlib.rc_context(report_plots.STYLE):
            figure = report_plots.draw_ratios(panel, report_plots.looks_of(names, "calm"))
            figure.canvas.draw()
        axes = figure.axes[0]
        texts = axes.get_yticklabels() + axes.get_xticklabels() + [axes.title, axes.xaxis.label]
        boxes = [(text.get_text(), text.get_window_extent()) for text in texts if text.get_text()]
        boxes.append(("legend", axes.get_legend().get_window_extent()))
        overlaps = [(one[0], other[0]) for place, one in enumerate(boxes) for other in boxes[place + 1 :]
                    if one[1].overlaps(other[1])]
        report_plots.pyplot.close(figure)
        self.assertEqual(overlaps, [])
        self.assertGreater(boxes[-1][1].x0, axes.get_window_extent().x1)

    def test_the_same_figures_give_the_same_file(self):
        before = self.picture("summary").svg.read_bytes()
        report_plots.draw(self.report, FOLDER / "again", only="summary", with_png=False)
        self.assertEqual((FOLDER / "again" / "summary.svg").read_bytes(), before)
        self.assertEqual([path.name for path in (FOLDER / "again").iterdir()], ["summary.svg"])


if __name__ == "__main__":
    try:
        unittest.main()
    finally:
        shutil.rmtree(FOLDER, ignore_errors=True)
