"""Checks the dispatch study: tables from made-up lines whose answers are known, and lines that cannot be reported.

Run with `python3 bench/tests/test_dispatch.py [SIMULATOR]`. Takes half a minute; with a simulator it also checks that
the kept lines of the default policy are what that one says. The pictures are not checked.
"""

import contextlib
import datetime
import gzip
import io
import json
import re
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

BENCH = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(BENCH / "dispatch"), str(BENCH)]

import agree  # noqa: E402
import pages  # noqa: E402
import sets  # noqa: E402
import study  # noqa: E402

FOLDER = Path(tempfile.mkdtemp(prefix="calm-dispatch-test-"))
SIMULATOR = None
SEEDS = range(1, 11)
REACH = 2.262 * 3.0276503541 / 10**0.5  # half the 95 % interval of ten values that lie 1 apart: Student, by hand
PLACE = {policy: place + 1 for place, policy in enumerate(sets.ALL)}  # steal 1, jsq 2 ... prequal 8, least-work 9


def result_of(name, policy, traffic, load, seed, **more):
    """
    A made-up line. Of seed 1 to 10 P99 is ten service times for each place of the policy, 1 % apart: 10 ± 0.217 for
    steal, 20 ± 0.433 for jsq. Other percentiles are that, twice and more; shares are the place in percent.
    """
    p99 = 10000 * PLACE[policy] * (1 + 0.01 * (seed - 5.5))
    times = {"p50": p99 / 10, "p90": p99 / 2, "p95": p99 / 1.5, "p99": p99, "p999": 2 * p99, "p9999": 4 * p99}
    return {"set": name, "policy": policy, "cores": 16, "load": load, "traffic": traffic, "seed": seed, **more,
            "sojourn": times, "slowdown": {key: value / 5000 for key, value in times.items()}, "imbalance": 1.5,
            "null_share": PLACE[policy] / 100, "rejected_share": PLACE[policy] / 200, "stranded": 0.5,
            "stranded_blocks": 0.25, "commit": "abc"}


def lines_of_set(name):
    for command in sets.SETS[name]:
        words = command.split()
        told = {word[2:].replace("-", "_"): value for word, value in zip(words, words[1:]) if word.startswith("--")}
        more = {key: told[key] for key in ("slow", "tight", "then") if key in told}
        more.update({key: int(told[key]) for key in ("delay", "drift", "cores") if key in told})
        if told.get("key_skew", "0") != "0":
            more["key_skew"] = float(told["key_skew"])
        for load in told["load"].split(","):
            for seed in SEEDS:
                result = result_of(name, told["policy"], told.get("traffic", "exponential"), float(load), seed, **more)
                yield dict(result, seed=seed + int(told.get("seed", 1)) - 1)


def clocked(policy, cores, slow, p50, reading):
    return {"set": "clock", "kind": "decide", "policy": policy, "cores": cores, "slow": slow, "reading_ns": reading,
            "decision": {"p50": p50, "p99": 3 * p50}, "commit": "abc"}


def made():
    """All sets, whole."""
    lines = [line for name in sets.SETS for line in lines_of_set(name)]
    lines += [result_of("held-back", policy, traffic, 0.5, 2026010100 + seed, setting=setting)
              for setting in sets.HELD_BACK for traffic in ("exponential", "bimodal") for policy in sets.GOOD
              for seed in SEEDS]
    lines += [{"set": "cost", "policy": "jsq", "cores": cores, "instructions": 31 + cores, "commit": "abc"}
              for cores in (16, 256)]
    lines += [clocked("jsq", 2, 0, p50, reading) for p50, reading in ((30, 20), (8, 25), (50, 20))]
    return lines + [{"set": "clock", "kind": "start", "gap_ns": 20000, "reading_ns": 20, "commit": "abc",
                     "start": {"p50": p50, "p99": 5000}} for p50 in (1300, 1200)]


def section(text, title):
    return re.search(rf"^## {re.escape(title)}$(.*?)(?=^## |\Z)", text, re.M | re.S).group(1)


def table_after(text, words):
    """Rows of the first table behind some words, by their first cell."""
    lines = text[text.index(words) + len(words):].splitlines()
    start = next(index for index, line in enumerate(lines) if line.startswith("|"))
    rows = {}
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0] != "---":
            rows[cells[0]] = cells[1:]
    return rows


def said_by(function, *arguments):
    """The sentence that a function ends the program with."""
    try:
        function(*arguments)
    except SystemExit as end:
        return end.code
    raise AssertionError("it did not end the program")


class Sentence(unittest.TestCase):
    def assert_sentence(self, said, expected):
        self.assertEqual(said, expected)
        self.assertRegex(said, r"\A\w+: [^\n]+\.\Z")


class Figures(unittest.TestCase):
    def test_an_interval_is_students(self):
        mean, reach = pages.interval(list(SEEDS))
        self.assertEqual(mean, 5.5)
        self.assertAlmostEqual(reach, REACH, 9)
        self.assertAlmostEqual(pages.interval([1, 2, 3])[1], 4.303 / 3**0.5, 9)
        self.assertEqual(pages.interval([7]), (7, 0))
        self.assertEqual(agree.interval([7]), (7, 0))
        self.assertAlmostEqual(agree.interval(list(SEEDS))[1], REACH, 9)

    def test_numbers_have_three_digits_and_never_an_exponent(self):
        for value, text in ((0, "0"), (0.12345, "0.123"), (12.345, "12.3"), (999.4, "999"), (999.6, "1,000"),
                            (-999.6, "-1,000"), (12345.6, "12,346")):
            self.assertEqual(pages.number(value), text)

    def test_an_interval_too_small_to_see_is_left_out(self):
        self.assertEqual(pages.cell([2.0, 2.0, 2.0]), "2")
        self.assertEqual(pages.cell(list(SEEDS)), "5.5 ±2.17")
        self.assertEqual(pages.cell([1000, 1000.1, 1000.2]), "1,000")

    def test_shares_have_the_digits_that_their_size_needs(self):
        self.assertEqual(pages.percent([0.0, 0.0]), "0")
        self.assertEqual(pages.percent([seed / 100 + 0.1 for seed in SEEDS]), "15.5 % ±2.2")
        self.assertEqual(pages.percent([seed / 1000 for seed in SEEDS]), "0.55 % ±0.22")
        self.assertEqual(pages.percent([(seed + 1) / 100000 for seed in SEEDS]), "0.006 % ±0.002")

    def test_a_target_between_two_loads_is_found_by_logarithms(self):
        self.assertAlmostEqual(pages.reached([(0.1, 1), (0.5, 1), (0.7, 100), (0.9, 1000)]), 0.6)
        self.assertIsNone(pages.reached([(0.1, 1), (0.95, 10)]))
        self.assertEqual(pages.reached([(0.1, 10.5), (0.3, 20)]), 0)

    def test_what_must_fail_is_nothing_with_blocks_enough_and_all_without(self):
        self.assertLess(pages.must_fail(0.8, blocks=10**6), 1e-9)
        self.assertGreater(pages.must_fail(0.8, blocks=0), 1 - 1e-9)
        shares = [pages.must_fail(load) for load in (0.5, 0.8, 0.9, 0.95)]
        self.assertEqual(shares, sorted(shares))


class Choosing(unittest.TestCase):
    def best(self, means):
        lines = pages.Lines([dict(result_of("equal", policy, "fixed", 0.5, 1), figure=figure)
                             for policy, figure in means.items()])
        return pages.best_other(lines, "equal", lambda result: result["figure"], traffic="fixed")

    def test_the_best_other_is_neither_the_oracle_nor_the_default(self):
        self.assertEqual(self.best({"p2c": 4, "least-work": 1, "jbsq1": 3, "steal": 2, "jsq": 5}), ("jbsq1", 3))

    def test_of_a_tie_the_first_is_named(self):
        self.assertEqual(self.best({"p2c": 4, "jbsq1": 3, "jsq": 3}), ("jbsq1", 3))
        self.assertEqual(self.best({"p2c": 4, "jsq": 3, "jbsq1": 3}), ("jsq", 3))

    def test_ratios_are_of_the_same_seeds_in_whatever_order_the_lines_come(self):
        pairs = [(result_of("equal", "jsq", "fixed", 0.5, seed), result_of("equal", "steal", "fixed", 0.5, seed))
                 for seed in SEEDS]
        for seed, (jsq, steal) in zip(SEEDS, pairs):
            jsq["sojourn"]["p99"] = 1000.0 * 3**seed  # unpaired means would say something else
            steal["sojourn"]["p99"] = jsq["sojourn"]["p99"] * (1 + 0.1 * (seed - 5.5))
        lines = pages.Lines([pair[0] for pair in pairs] + [pair[1] for pair in reversed(pairs)])
        ratios = lines.ratios(pages.p99, *(lines.of("equal", policy=policy) for policy in ("steal", "jsq")))
        mean, reach = pages.interval(ratios)
        self.assertAlmostEqual(mean, 1)
        self.assertAlmostEqual(reach, 0.1 * REACH)


class Page(unittest.TestCase):
    """A page of made-up lines: each kind of table by rows that are known beforehand."""

    @classmethod
    def setUpClass(cls):
        cls.lines = made()
        cls.text = pages.everything(cls.lines)

    def rows(self, title, words):
        return table_after(section(self.text, title), words)

    def test_each_policy_has_its_own_cells(self):
        for title, words in (("Equal cores", "\nheavy\n"), ("Unequal cores", "P99.\n\nfixed\n"), ("Bursts", "P99."),
                             ("Tight pools", "exponential: P99"), ("Scarce pools", "bimodal: P99"),
                             ("Delay", "exponential, delay 0.3"), ("Full inboxes", "bimodal: P99")):
            with self.subTest(table=title):
                rows = self.rows(title, words)
                for policy in set(rows) - {"policy"}:
                    mean = 10 * PLACE[policy]
                    expected = f"{mean} ±{0.01 * mean * REACH:.3g}"
                    self.assertEqual(set(rows[policy]), {expected})
                self.assertEqual(rows["steal"][0], "10 ±0.217")
                self.assertEqual(len(rows["policy"]), len(rows["steal"]))

    def test_each_load_has_its_own_cells(self):
        lines = [line for line in self.lines if line["set"] != "equal"]
        for line in lines_of_set("equal"):
            line["sojourn"]["p99"] = 1000 * (100 * line["load"] + sets.TRAFFICS.index(line["traffic"]))
            lines.append(line)
        text = pages.everything(lines)
        rows = table_after(section(text, "Equal cores"), "\nbimodal\n")
        self.assertEqual(rows["policy"], [f"load {load}" for load in sets.LOADS.split(",")])
        self.assertEqual(rows["jsq"], ["12", "32", "52", "72", "82", "92", "97"])

    def test_percentiles_stand_under_their_names(self):
        rows = self.rows("Equal cores", "bimodal, load 0.95")
        self.assertEqual(rows["policy"],
                         ["P50", "P90", "P99", "P99.9", "P99.99", "slow-down P50", "P99", "P99.9"])
        self.assertEqual(rows["steal"], ["1 ±0.0217", "5 ±0.108", "10 ±0.217", "20 ±0.433", "40 ±0.866",
                                        "0.2 ±0.00433", "2 ±0.0433", "4 ±0.0866"])

    def test_the_default_is_held_against_one_queue(self):
        title = "The default against one shared queue"
        self.assertEqual(set(self.rows(title, "steal over jbsq1")["heavy"]), {"0.333±0.000"})

    def test_the_default_is_held_against_the_best_of_the_others(self):
        rows = [line for line in section(self.text, "Unequal cores").splitlines() if line.startswith("| bimodal | 0.8")]
        self.assertEqual(rows, ["| bimodal | 0.8 | jsq | 0.50 ±0.00 |"] * 2)
        rows = [line for line in section(self.text, "Seeds that nobody saw").splitlines() if "tight" in line]
        self.assertEqual(rows[0], "| four tight pools | exponential | 0.5 | jsq | 0.50 ±0.00 |"
                                  " 1.50 % ±0.00 for 3.00 % ±0.00 |")

    def test_the_page_has_the_deciding_tables_and_no_other(self):
        text = pages.page(self.lines)
        self.assertEqual(re.findall(r"^## (.*)$", text, re.M), [
            "The default against one shared queue", "The default over the best other", "Tight pools",
            "Seeds that nobody saw"])
        rows = [line for line in section(text, "The default over the best other").splitlines() if "| heavy" in line]
        self.assertEqual(rows[0], "| unequal | heavy | 0.50±0.00 jsq | 0.50±0.00 jsq | 0.50±0.00 jsq |")
        rows = [line for line in section(text, "Seeds that nobody saw").splitlines() if "tight" in line]
        self.assertTrue(rows[0].startswith("| four tight pools | exponential | 0.50±0.00 jsq |"), rows[0])
        self.assertIn(section(text, "The default against one shared queue").strip(), self.text)

    def test_small_inboxes_are_held_against_large_ones(self):
        lines = [dict(line, sojourn={"p99": 5000}, null_share=0.25) if line["set"] == "tight-8" else line
                 for line in self.lines]
        row = next(line for line in section(pages.everything(lines), "Inboxes as small as pools").splitlines()
                   if line.startswith("| tight | exponential | 0.8 |"))
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        self.assertEqual(cells[3:8], ["1.00 % ±0.00", "1.50 % ±0.00", "1.00 % ±0.00", "1.50 % ±0.00", "1.00 ±0.00"])
        self.assertEqual(cells[8:11], ["25.0 % ±0.0", "25.5 % ±0.0", "0.50 ±0.01"])

    def test_throughput_says_when_the_target_is_nowhere_reached(self):
        rows = self.rows("Throughput at a P99 of ten service times", "logarithmic scale")
        self.assertEqual(rows["steal"], ["above 0.95"] * 4)
        self.assertEqual(rows["jsq"], ["below 0.1"] * 4)

    def test_shares_are_in_percent_and_under_their_names(self):
        self.assertEqual(set(self.rows("Tight pools", "bimodal: NULL share")["jsq"]), {"2.00 % ±0.00"})
        self.assertEqual(set(self.rows("Tight pools", "bimodal: rejected share")["jsq"]), {"1.00 % ±0.00"})
        self.assertEqual(set(self.rows("Scarce pools", "exponential: stranded, as above")["jsq"]), {"50.0 % ±0.0"})
        self.assertEqual(set(self.rows("Scarce pools", "of all there are")["jsq"]), {"25.0 % ±0.0"})
        self.assertEqual(set(self.rows("Full inboxes", "exponential: rejected share")["jsq"]), {"1.00 % ±0.00"})

    def test_that_nothing_was_rejected_is_said_only_where_it_is_so(self):
        sentence = "No policy rejected a task: some core always had a block."
        self.assertNotIn(sentence, self.text)
        quiet = [dict(line, rejected_share=0) if line["set"] == "tight" else line for line in self.lines]
        self.assertIn(sentence, pages.everything(quiet))

    def test_change_tells_moving_from_turning(self):
        lines = []
        for line in self.lines:
            if line["set"] == "drift" and "then" in line:
                line = dict(line, sojourn={"p99": 7000})
            lines.append(line)
        part = section(pages.everything(lines), "Change")
        self.assertEqual(table_after(part, "P99.")["p2c"], ["70 ±1.52", "7"])

    def test_cores_and_keys(self):
        rows = self.rows("Cores", "P99.")
        self.assertEqual(rows["policy"], [f"{cores} cores" for cores in (2, 4, 8, 64, 256, 1024)])
        self.assertEqual((rows["jbsq1"][-1], rows["jsq"][-1]), ("", "20 ±0.433"))
        self.assertEqual(self.rows("Keys", "over the mean."), {
            "exponent": ["P99", "imbalance"], "0": ["50 ±1.08", "1.5"], "0.5": ["50 ±1.08", "1.5"],
            "1": ["50 ±1.08", "1.5"]})

    def test_instructions_and_the_least_disturbed_of_several_rounds(self):
        self.assertEqual(self.rows("Instructions a decision", "four times as long.")["jsq"], ["47", "287"])
        part = section(self.text, "ns a decision")
        self.assertEqual(table_after(part, "clock`.")["jsq"], ["13, 29", "", "", ""])  # 8 and 24, with 5 ns of reading
        self.assertEqual(table_after(part, "before it sleeps.")["20 us"], ["1,200", "5,000"])

    def test_it_says_which_commits_the_lines_are_of(self):
        self.assertIn("\nAll lines are of abc.\n", self.text)
        mixed = [dict(line) for line in self.lines if line["set"] in ("keys", "bursty", "cost")]
        for line in mixed:
            if (line["set"], line["policy"]) in (("keys", "hash"), ("bursty", "steal")):
                line["commit"] = "def"
        self.assertEqual(pages.commits(mixed), "All lines are of def, but for `bursty` in part, `cost` of abc.")
        for line in mixed:
            del line["commit"]
        self.assertEqual(pages.commits(mixed), "All lines are of a commit that was not recorded.")


class Complaint(unittest.TestCase):
    """Lines that would make a wrong page are told in one sentence."""

    @classmethod
    def setUpClass(cls):
        cls.lines = made()

    def assert_complaint(self, lines, expected):
        said = study.complaint(lines)
        self.assertEqual(said, expected)
        self.assertNotIn("\n", said)

    def at(self, **wanted):
        return next(index for index, line in enumerate(self.lines)
                    if all(line.get(key) == value for key, value in wanted.items()))

    def changed(self, index, **more):
        return self.lines[:index] + [dict(self.lines[index], **more)] + self.lines[index + 1:]

    def test_a_whole_study_has_none(self):
        self.assertIsNone(study.complaint(self.lines))

    def test_nothing_and_a_set_of_nothing(self):
        self.assert_complaint([], "there are no lines in dispatch.jsonl.gz; 'study.py run SIMULATOR' makes them.")
        for name in ("bursty", "cost", "clock"):
            self.assert_complaint([line for line in self.lines if line["set"] != name], "there are no lines of the set"
                                  f" '{name}'; 'study.py run SIMULATOR {name}' makes them.")

    def test_a_seed_that_is_missing_or_there_twice(self):
        index = self.at(set="unequal", policy="steal", traffic="heavy", load=0.8, seed=3)
        rest = "of the lines of steal, heavy, load 0.8, seed 3."
        self.assert_complaint(self.lines[:index] + self.lines[index + 1:],
                              f"the set 'unequal' should have 1 and has 0 {rest}")
        self.assert_complaint(self.lines + [self.lines[index]], f"the set 'unequal' should have 1 and has 2 {rest}")

    def test_a_policy_that_was_not_asked_for(self):
        self.assert_complaint(self.changed(self.at(set="bursty", policy="p2c", load=0.5, seed=1), policy="magic"),
                              "the set 'bursty' should have 0 and has 1 of the lines of magic, exponential, load 0.5,"
                              " seed 1.")

    def test_a_line_without_its_options_or_its_figure(self):
        index = self.at(set="equal", policy="jsq", traffic="fixed", load=0.1, seed=2)
        without = dict(self.lines[index])
        del without["seed"]
        self.assert_complaint(self.lines[:index] + [without] + self.lines[index + 1:],
                              "a line of the set 'equal' does not say its policy, traffic, load or seed.")
        for figure in (0, -1, "12", None, True, float("nan"), float("inf")):
            self.assert_complaint(self.changed(index, sojourn={"p99": figure}),
                                  "a line of the set 'equal' has no P99 above zero: jsq, fixed, load 0.1, seed 2.")


class Kept(Sentence):
    """The file of lines: read, written, merged."""

    def setUp(self):
        self.file = FOLDER / "kept.jsonl.gz"
        self.file.unlink(missing_ok=True)
        for name, value in (("RESULTS", self.file), ("commit", lambda: "new")):
            patch = mock.patch.object(study, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def run_quietly(self, *arguments):
        with contextlib.redirect_stderr(io.StringIO()):
            study.run(*arguments)

    def test_what_cannot_be_read_is_told_by_its_line(self):
        self.assertEqual(study.load(), [])
        good = json.dumps({"set": "equal"}) + "\n"
        packed = gzip.compress(good.encode() * 100)
        for content, said in (
                (b"{}", "study: kept.jsonl.gz is no gzip file of text, or is cut short."),
                (packed[:-9], "study: kept.jsonl.gz is no gzip file of text, or is cut short."),
                (gzip.compress(b"\xff"), "study: kept.jsonl.gz is no gzip file of text, or is cut short."),
                (gzip.compress((good + "{").encode()), "study: line 2 of kept.jsonl.gz is not JSON."),
                (gzip.compress((good + good + '{"set":"other"}').encode()),
                 "study: line 3 of kept.jsonl.gz is of no set that there is."),
                (gzip.compress(b"7"), "study: line 1 of kept.jsonl.gz is of no set that there is.")):
            self.file.write_bytes(content)
            self.assert_sentence(said_by(study.load), said)

    def test_the_report_of_too_few_lines_ends_with_the_complaint_and_writes_nothing(self):
        study.keep([line for line in made() if line["set"] != "delay"])
        with mock.patch.object(pages, "write", side_effect=AssertionError("written")):
            self.assert_sentence(said_by(study.main, ["report"]), "study: there are no lines of the set 'delay';"
                                 " 'study.py run SIMULATOR delay' makes them.")

    def test_the_report_tells_of_commits(self):
        study.keep(made())
        with mock.patch.object(pages, "write") as write, contextlib.redirect_stderr(io.StringIO()) as errors:
            study.main(["report"])
        write.assert_called_once_with(study.load())
        self.assertEqual(errors.getvalue(), "study: All lines are of abc.\n")

    def test_the_same_lines_are_the_same_bytes(self):
        with mock.patch("time.time", return_value=1e9):
            study.keep([{"set": "equal", "a": 1.5}])
        first = self.file.read_bytes()
        study.keep([{"set": "equal", "a": 1.5}])
        self.assertEqual(self.file.read_bytes(), first)
        self.assertEqual(study.load(), [{"set": "equal", "a": 1.5}])

    def test_numbers_have_five_digits_and_the_machine_is_left_out(self):
        line = {"policy": "rr", "cpu_s": 1.5, "tasks_a_cpu_s": 2.5, "service": 1000, "offered": 1234567,
                "sojourn": {"p99": 1.23456789, "few": [0.000123456789, 7]}}
        self.assertEqual(study.shrunk(json.dumps(line)),
                         {"policy": "rr", "offered": 1234567, "sojourn": {"p99": 1.2346, "few": [0.00012346, 7]}})

    def test_a_run_replaces_its_set_and_no_other(self):
        study.keep([{"set": "equal", "policy": "rr", "old": 1}, {"set": "keys", "policy": "hash", "old": 2}])
        with mock.patch.object(study, "simulate", side_effect=lambda _, words: [{"policy": words.split()[1]}]):
            self.run_quietly("sim", ["keys"])
        self.assertEqual(study.load(), [{"set": "equal", "policy": "rr", "old": 1}] +
                         [{"set": "keys", "policy": "hash", "commit": "new"}] * 3)

    def test_lines_are_in_the_order_of_policies_whichever_were_run_last(self):
        study.keep([{"set": "bursty", "policy": policy, "old": 1} for policy in ("p2c", "jsq", "steal")])
        with mock.patch.object(study, "simulate", side_effect=lambda _, words: [{"policy": words.split()[1]}]):
            self.run_quietly("sim", ["keys"])
            self.assertEqual([line["policy"] for line in study.load()][:4], ["steal", "jsq", "p2c", "hash"])
            self.run_quietly("sim", ["bursty"])
        self.assertEqual([line["policy"] for line in study.load()],
                         [policy for policy in sets.ALL if policy in sets.GOOD] + ["hash"] * 3)

    def test_lines_without_a_policy_are_kept_too(self):
        study.keep([{"set": "clock", "kind": "start", "old": 1}])
        started = [{"kind": "decide", "policy": "rr"}, {"kind": "start", "gap_ns": 20000}]
        with mock.patch.dict(study.SPECIAL, clock=lambda *_: started):
            self.run_quietly("sim", ["clock"])
        self.assertEqual(study.load(), [dict({"set": "clock"}, **line, commit="new") for line in started])

    def test_the_seeds_of_the_day_are_held_back(self):
        commands, day = [], datetime.date(2031, 2, 3)
        with mock.patch.object(study, "simulate", side_effect=lambda _, words: commands.append(words) or [{}]), \
                mock.patch.object(study.datetime, "date") as date:
            date.today.return_value = day
            found = study.held_back("sim", lambda _: None)
        self.assertEqual({line["setting"] for line in found}, set(sets.HELD_BACK))
        self.assertEqual(len(found), len(sets.HELD_BACK) * 2 * len(sets.GOOD))
        self.assertTrue(all(words.endswith("--seed 2031020300") for words in commands))

    def test_an_unknown_set_and_a_simulator_that_fails(self):
        self.assert_sentence(said_by(study.run, "sim", ["keys", "nokeys"]),
                             "study: there is no set 'nokeys'; there are " + ", ".join(study.every_set()) + ".")
        self.assert_sentence(said_by(study.simulate, "false", "--load 1"),
                             f"study: 'false --load 1 --seeds {sets.SEEDS}' failed with exit code 1.")


    def test_the_clock_is_told_where_its_program_is_not(self):
        self.assertIn("calm_exec_cost", said_by(study.clock, FOLDER / "calm_simulator", lambda _: None))


class Words(unittest.TestCase):
    """What is typed behind study.py and agree.py."""

    def run_script(self, name, *words):
        done = subprocess.run([sys.executable, BENCH / "dispatch" / name, *words], capture_output=True, text=True)
        return done.returncode, done.stdout, done.stderr

    def test_help_is_the_page_wherever_it_stands_and_runs_nothing(self):
        # Seen to fail: `run --help` took the option for the simulator's path, and ended in a traceback.
        for words in (("--help",), ("run", "--help"), ("run", "sim", "keys", "-h"), ("report", "--help")):
            code, said, errors = self.run_script("study.py", *words)
            self.assertEqual((code, errors), (0, ""), words)
            self.assertIn("study.py run SIMULATOR", said)

    def test_wrong_words_get_one_sentence_and_code_2(self):
        for words, part in ((("run",), "simulator's path"), (("run", "/no/such"), "'/no/such' is no program"),
                            (("run", str(FOLDER)), "is no program"), (("run", "sim", "--learnt"), "--learnt"),
                            (("rum", "sim"), "'rum sim'"), (("report", "keys"), "'report keys'")):
            code, said, errors = self.run_script("study.py", *words)
            self.assertEqual((code, said), (2, ""), words)
            self.assertRegex(errors, r"\Astudy: [^\n]+\.\n\Z")
            self.assertIn(part, errors)

    def test_agreement_says_which_program_or_word_there_is_not(self):
        for words, part in (((str(FOLDER),), "calm_simulator"), ((str(FOLDER), "--seeds", "x"), "--seeds")):
            code, said, errors = self.run_script("agree.py", *words)
            self.assertEqual((code, said), (2, ""), words)
            self.assertNotIn("Traceback", errors)
            self.assertIn(part, errors.splitlines()[-1])


class Commit(unittest.TestCase):
    def test_is_that_of_the_sources_with_a_plus_where_they_were_changed(self):
        root = FOLDER / "repository"
        (root / "src" / "exec").mkdir(parents=True)
        git = ["git", "-C", str(root), "-c", "user.name=a", "-c", "user.email=a@b", "-c", "core.hooksPath=/dev/null"]

        def commit(name):
            (root / name).write_text(name)
            for words in (["add", "-A"], ["commit", "-q", "-m", name]):
                subprocess.run(git + words, check=True, stdout=subprocess.DEVNULL)
            return subprocess.run(git + ["rev-parse", "--short=9", "HEAD"], check=True, stdout=subprocess.PIPE,
                                  text=True).stdout.strip()

        subprocess.run(git + ["init", "-q"], check=True)
        for folder in study.SOURCES:
            (root / folder).mkdir(parents=True, exist_ok=True)
        of_sources = commit("src/exec/a.c")
        commit("readme")
        with mock.patch.object(study, "ROOT", root):
            self.assertEqual(study.commit(), of_sources)
            (root / "readme").write_text("other")
            self.assertEqual(study.commit(), of_sources)
            (root / "src" / "exec" / "a.c").write_text("other")
            self.assertEqual(study.commit(), of_sources + "+")
            with mock.patch("subprocess.run", side_effect=OSError):
                self.assertEqual(study.commit(), "")


def agreed(seed=1, p50=1.0, p99=1.0, rejected=(0.0, 0.0), failed=(0.0, 0.0), traffic="fixed", spread=0.0):
    """A run of 1 and 4 ms whose two replays are that much longer, on average."""
    real = {"p50": 1e6, "p99": 4e6, "rejected": rejected[0], "failed": failed[0]}
    replays = [{"p50": 1e6 * p50, "p99": 4e6 * (p99 + more), "rejected": rejected[1], "failed": failed[1]}
               for more in (-spread, spread)]
    return {"setting": "open", "policy": "jsq", "traffic": traffic, "seed": seed, "executor": real, "replays": replays,
            "drawn": {"p50": 0.5e6, "p99": 5e6, "rejected": 0, "failed": 0}}


class Agreement(Sentence):
    def cells(self, *lines):
        row, = agree.rows_of(lines)
        return dict(zip([f"{place} {head}" for place, head in enumerate(agree.HEAD)], row.cells())), row.is_apart

    def test_the_middle_has_the_interval_of_the_binomial_distribution(self):
        self.assertEqual(agree.middle([3, 1, 2, 5, 4]), (3, None))
        self.assertEqual(agree.middle([6, 3, 1, 2, 5, 4]), (3.5, (1, 6)))
        self.assertEqual(agree.middle(list(range(1, 11))), (5.5, (2, 9)))
        self.assertEqual(agree.middle(list(range(1, 43))), (21.5, (15, 28)))

    def test_a_row_of_known_runs_is_known(self):
        cells, is_apart = self.cells(*(agreed(seed, p50=p50, p99=1.1, spread=0.2, rejected=(0.2, 0.21))
                                       for seed, p50 in ((1, 2.0), (2, 0.5))))
        self.assertEqual(list(cells.values()), [
            "open", "jsq", "fixed", "2", "1", "+0.0 ±881.0 %", "+25.0 %",  # ln 2 and -ln 2; 12.71 s / sqrt(2)
            "4", "+10.0 ±0.0 %", "+10.0 %", "-10 to +30 %", "20.0 %", "+1.0 ±0.0", "", "", "-50 %", "+25 %"])
        self.assertFalse(is_apart)

    def test_fifteen_percent_is_the_limit_on_either_side(self):
        for times in ("p50", "p99"):
            for ratio, apart in ((1.14, False), (1.16, True), (0.86, False), (0.84, True)):
                cells, is_apart = self.cells(agreed(**{times: ratio}))
                self.assertEqual(is_apart, apart)
                self.assertEqual([cell for cell in cells.values() if cell.startswith("**")],
                                 [f"**{100 * (ratio - 1):+.1f} ±0.0 %**"] if apart else [])
        for share in ("rejected", "failed"):
            for of, apart in (((0.02, 0.0228), False), ((0.02, 0.0232), True), ((0.02, 0.0168), True),
                              ((0.001, 0.0017), False), ((0.001, 0.0018), True), ((0.0, 0.0008), True)):
                self.assertEqual(self.cells(agreed(**{share: of}))[1], apart, (share, of))

    def test_of_a_row_the_runs_of_the_most_tasks_count(self):
        # Seen to fail: with all runs of the row, ±881 % and three seeds.
        lines = [agreed(1, p50=2.0), agreed(2, p50=0.5), dict(agreed(101), tasks=60000), agreed(1, traffic="heavy")]
        rows = agree.rows_of(lines)
        self.assertEqual([row.cells()[2:6] for row in rows],
                         [["fixed", "1", "1", "+0.0 ±0.0 %"], ["heavy", "1", "1", "+0.0 ±0.0 %"]])

    def test_the_report_fails_where_one_row_is_apart(self):
        lines = [agreed(), agreed(2), agreed(traffic="heavy", p50=1.2)]
        for part, code in ((lines[:2], 0), (lines, 1)):
            with contextlib.redirect_stdout(io.StringIO()) as said:
                self.assertEqual(agree.report(part), code)
            self.assertEqual([line.split(" | ")[2:4] for line in said.getvalue().splitlines()[2:]],
                             [["fixed", "2"], ["heavy", "1"]][:1 + code])

    def test_lines_that_cannot_be_are_told(self):
        path = FOLDER / "agreed.jsonl.gz"
        no_replay, nothing, negative = agreed(), agreed(), agreed()
        no_replay["replays"], nothing["executor"]["p50"], negative["drawn"]["p99"] = [], 0, -1
        no_figure = agreed()
        del no_figure["replays"][1]["failed"]
        for lines, said in (
                ([], "agree: there are no lines in agreed.jsonl.gz."),
                ([agreed(), {"set": "equal"}],
                 "agree: line 2 of agreed.jsonl.gz is not a run of the executor and its replays."),
                ([no_figure], "agree: line 1 of agreed.jsonl.gz is not a run of the executor and its replays."),
                ([agreed(), agreed(2), agreed()],
                 "agree: line 3 of agreed.jsonl.gz is of a seed that the row has already."),
                *(([line], "agree: line 1 of agreed.jsonl.gz has a figure that cannot be.")
                  for line in (no_replay, nothing, negative))):
            path.write_bytes(gzip.compress("".join(json.dumps(line) + "\n" for line in lines).encode()))
            self.assert_sentence(said_by(agree.load, path), said)
        for content in (b"{}", path.read_bytes()[:-9]):
            path.write_bytes(content)
            self.assert_sentence(said_by(agree.load, path),
                                 "agree: agreed.jsonl.gz is no gzip file of text that can be read.")

    def test_a_disturbed_run_is_repeated_but_not_for_ever(self):
        runs = []

        def output(command):
            runs.append(command)
            return {"late": 0.2 if len(runs) < disturbed else 0.05, "run": len(runs)}

        options = SimpleNamespace(build=Path("build"), tasks=10, service=1000, spin=False)
        with mock.patch.object(agree, "output_of", output):
            disturbed = agree.TRIES
            folder = tempfile.mkdtemp(dir=FOLDER)
            found, _ = agree.executed(options, ("open", "jsq", "fixed"), 1, [], folder)
            self.assertEqual(found["run"], agree.TRIES)
            again, _ = agree.executed(options, ("open", "jsq", "fixed"), 1, [], folder)
            self.assertEqual((again, len(runs)), (found, agree.TRIES))  # an earlier run is not made again
            runs, disturbed = [], 100
            self.assert_sentence(said_by(agree.executed, options, ("open", "jsq", "heavy"), 1, [], folder),
                                 "agree: others on the machine took the CPU in 4 runs of open-jsq-heavy-1;"
                                 " try when it is quiet.")
            self.assertEqual(len(runs), agree.TRIES)

    def test_replays_wake_from_forty_percent_sooner_to_forty_later(self):
        wakes = []

        def output(command):
            words = [str(word) for word in command]
            if "--wake" in words:
                wakes.append(int(words[words.index("--wake") + 1]))
            times = {"p50": 1, "p99": 2}
            return {"late": 0, "wake_ns": 1000, "sojourn": times, "offered": 8, "rejected": 2, "failed": 1}

        options = SimpleNamespace(build=Path("build"), tasks=10, service=1000, spin=False, traces=None)
        with mock.patch.object(agree, "output_of", output):
            line = agree.compared(options, ("inbox", "steal", "heavy"), 5)
        self.assertEqual(wakes, [600, 700, 800, 900, 1000, 1100, 1200, 1300, 1400])
        self.assertEqual(line["executor"], {"p50": 1, "p99": 2, "rejected": 0.25, "failed": 0.125})
        self.assertEqual([line[key] for key in ("setting", "policy", "traffic", "seed", "tasks")],
                         ["inbox", "steal", "heavy", 5, 10])


class Repository(unittest.TestCase):
    """What is kept and shown in this repository."""

    @classmethod
    def setUpClass(cls):
        cls.lines = study.load()

    def test_the_lines_are_whole_and_know_nothing_of_the_machine(self):
        self.assertIsNone(study.complaint(self.lines))
        agreed_lines = agree.load(study.RESULTS.parent / "agree.jsonl.gz")
        text = json.dumps([self.lines, agreed_lines])
        self.assertEqual(set(re.findall(r'"[^"]*/[^"]*"', text)), set())

    def test_the_page_is_what_the_lines_say(self):
        self.assertEqual(pages.page(self.lines).splitlines(), pages.PAGE.read_text().splitlines())

    def test_the_lines_of_the_default_policy_are_what_the_simulator_says(self):
        if SIMULATOR is None:
            self.skipTest("no simulator was given")
        for name, commands in sets.SETS.items():
            words = next((words for words in commands if "--policy steal" in words), None)
            if words is None:
                continue
            with self.subTest(set=name):
                found = [json.loads(json.dumps(line)) for line in study.simulate(SIMULATOR, words + " --seeds 1")]
                kept = [{key: value for key, value in line.items() if key not in ("set", "commit")}
                        for line in self.lines if line["set"] == name]
                self.assertEqual([line for line in found if line not in kept], [],
                                 "the kept lines are of another simulator: study.py run SIMULATOR")


def tearDownModule():
    shutil.rmtree(FOLDER, ignore_errors=True)


if __name__ == "__main__":
    if len(sys.argv) > 1 and Path(sys.argv[1]).is_file():
        SIMULATOR = sys.argv.pop(1)
    unittest.main(verbosity=2)
