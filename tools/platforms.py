#!/usr/bin/env python3
"""Writes the table of what runs where into docs/platforms.md, from the results that ctest leaves.

    tools/platforms.py --commit HASH --date DATE PRESET=JUNIT_FILE...
    tools/platforms.py --check

A JUNIT_FILE is what `ctest --output-junit FILE` wrote in the build of PRESET. Tests of other platforms, which the
release build runs, are known by the first word of their names. A row replaces the row of the same platform and tests;
the others stay, with the commit and the day that they were seen on. --check says whether the page's table is one that
this script writes.
"""
import argparse
import os
import re
import subprocess
import sys
import xml.etree.ElementTree

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BEGIN = "<!-- platforms: begin of what tools/platforms.py writes -->"
END = "<!-- platforms: end of what tools/platforms.py writes -->"
HEAD = "| platform | tests | passed | failed | skipped | not run | commit | day |"
RULE = "|---|---|--:|--:|--:|--:|---|---|"

# What a preset's build is, and what its tests of other platforms are, by the first word of their names.
PLATFORMS = {
    "release": "x86-64, glibc, gcc",
    "clang": "x86-64, glibc, clang",
    "asan": "x86-64, address and undefined-behaviour sanitizers",
    "ubsan": "x86-64, undefined-behaviour sanitizer",
    "tsan": "x86-64, thread sanitizer",
    "dev": "x86-64, every assertion",
    "musl_static": "x86-64, musl, static",
    "musl_dynamic": "x86-64, musl, shared",
    "aarch64_4k": "aarch64, emulated, pages of 4 KiB",
    "aarch64_64k": "aarch64, emulated, pages of 64 KiB",
    "aarch64-tests": "aarch64, emulated, pages of 4 KiB",
    "aarch64-tests-64k": "aarch64, emulated, pages of 64 KiB",
}
OTHERS = ("musl_static", "musl_dynamic", "aarch64_4k", "aarch64_64k")
OUTCOMES = ("passed", "failed", "skipped", "not run")


class Trouble(Exception):
    """What is wrong, in one sentence."""


def group_of(name):
    """unit_core.Slab.Test is of the group unit, musl_static.stress.forks of stress, stress.lines of stress."""
    return re.split(r"[._]", name, maxsplit=1)[0]


def outcome_of(case):
    status = case.get("status")
    if status == "run":
        return "passed"
    if status == "fail" or case.find("failure") is not None:
        return "failed"
    skipped = case.find("skipped")
    if status == "notrun" and skipped is not None and skipped.get("message", "").startswith("SKIP_"):
        return "skipped"
    return "not run"


def rows_of(preset, path, commit, day):
    """(platform, group): the row's cells."""
    if preset not in PLATFORMS:
        raise Trouble("there is no preset '%s' here; choose one of %s." % (preset, ", ".join(PLATFORMS)))
    counts = {}
    for case in xml.etree.ElementTree.parse(path).getroot().iter("testcase"):
        first, _, rest = case.get("name").partition(".")
        platform, name = (first, rest) if first in OTHERS else (preset, case.get("name"))
        key = (PLATFORMS[platform], group_of(name))
        counts.setdefault(key, dict.fromkeys(OUTCOMES, 0))[outcome_of(case)] += 1
    if not counts:
        raise Trouble("%s holds no test." % path)
    return {key: [*key, *(str(of[outcome]) for outcome in OUTCOMES), commit, day] for key, of in counts.items()}


def table_in(text, path):
    """The page before its table, the table's rows, the page after it."""
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise Trouble("%s has no place for the table: the lines '%s' and '%s'." % (path, BEGIN, END))
    before, rest = text.split(BEGIN)
    table, after = rest.split(END)
    rows = {}
    for line in table.strip().split("\n")[2:]:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        rows[tuple(cells[:2])] = cells
    return before, rows, after


def page_with(before, rows, after):
    order = list(dict.fromkeys(PLATFORMS.values()))
    lines = [HEAD, RULE]
    for key in sorted(rows, key=lambda key: (order.index(key[0]) if key[0] in order else len(order), key[1])):
        lines.append("| %s |" % " | ".join(rows[key]))
    return "%s%s\n\n%s\n\n%s%s" % (before, BEGIN, "\n".join(lines), END, after)


def findings(rows):
    """What this script would not have written."""
    for key, cells in rows.items():
        if key[0] not in PLATFORMS.values():
            yield "there is no platform '%s'" % key[0]
        if len(cells) != 8 or not all(cell.isdigit() for cell in cells[2:6]):
            yield "the row of %s has no four counts" % ", ".join(key)
        elif not re.fullmatch(r"[0-9a-f]{7,40}", cells[6]) or not re.fullmatch(r"\d{4}-\d\d-\d\d", cells[7]):
            yield "the row of %s does not say which commit was seen, and when" % ", ".join(key)
        elif sum(map(int, cells[2:6])) == 0:
            yield "the row of %s counts no test" % ", ".join(key)


def check(path):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    before, rows, after = table_in(text, path)
    found = list(findings(rows))
    if not rows:
        found.append("the table has no row")
    if not found and page_with(before, rows, after) != text:
        found.append("the table is not laid out as the script does it")
    for sentence in found:
        print("%s: %s." % (path, sentence))
    return 1 if found else 0


def write(path, results, commit, day):
    with open(path, encoding="utf-8") as file:
        before, rows, after = table_in(file.read(), path)
    fresh = {}
    for result in results:
        preset, _, file = result.partition("=")
        for key, cells in rows_of(preset, file, commit, day).items():
            fresh[key] = cells
    with open(path, "w", encoding="utf-8") as file:
        file.write(page_with(before, {**rows, **fresh}, after))


def git(*words):
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--page", default=os.path.join(ROOT, "docs", "platforms.md"))
    parser.add_argument("--check", action="store_true", help="say whether the table is one that this script writes")
    parser.add_argument("--commit", help="what was tested; else the checkout's")
    parser.add_argument("--date", help="when; else the day of that commit")
    parser.add_argument("results", nargs="*", metavar="PRESET=JUNIT_FILE")
    arguments = parser.parse_args()
    try:
        if arguments.check:
            return check(arguments.page)
        commit = arguments.commit or git("rev-parse", "--short=12", "HEAD")
        day = arguments.date or git("show", "-s", "--format=%cs", commit)
        write(arguments.page, arguments.results, commit, day)
    except (Trouble, OSError, xml.etree.ElementTree.ParseError) as trouble:
        print("platforms: %s" % trouble, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
