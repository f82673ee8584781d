#!/usr/bin/env python3
"""Holds docs/guarantees.md to the tests that exist, and the headers, models and proofs to it.

    guarantees_check.py ROOT TESTS      TESTS: what `ctest --show-only=json-v1` says of a release build

  a table has the columns promise, limits, held by, and each row of it all three
  a name behind a promise is a test of ctest, a case of GoogleTest or of a Python script; * stands for any letters
  (full) stands behind the tests that only `./calm test --full` runs, and behind no other
  each part has promises; the last part says what no test holds
  each group of functions of a public header, and each class of pool.hpp, is mentioned; what is mentioned is declared
  each model and each proof is named, and says in its first lines what it does not cover; so does a page that has one
  links lead somewhere, to the heading as well
Of docs/mechanisms.md: the tests that it names exist.
One line for each finding; exit 1 when any.
"""

import fnmatch
import glob
import json
import os
import re
import sys

PAGE = "docs/guarantees.md"
MECHANISMS = "docs/mechanisms.md"
PARTS = (
    "Heap: correctness",
    "Heap: misuse",
    "Heap: memory given back",
    "Heap: bounded work",
    "Heap: no hidden thread",
    "Heap: signals and fork",
    "Sites",
    "Profiler, `calm heap` and `calm top`",
    "Pools",
    "Bounded heap and regions",
    "Executor and dispatch",
    "calmq",
    "Packages and bindings",
)
UNHELD = "Promised, and held by no test"
COLUMNS = ["promise", "limits", "held by"]
LIMITS = "Not covered"
PAGE_LIMITS_LINES, SOURCE_LIMITS_LINES = 6, 25  # in how many lines the limits of a model must stand

NAME = re.compile(r"`([^`]+)`(\s*\(full\))?")
TEST_NAME = re.compile(r"`(\w+\.(?!h`)[\w*]+)`")
GTEST = re.compile(r"^\s*TEST(?:_F|_P)?\((\w+),\s*(\w+)\)", re.M)
PYTHON_CASE = re.compile(r"^\s*def (test_\w+)\(", re.M)
MENTIONED = re.compile(r"\b(calm_[a-z_]+)\(\)|\b(calm::[a-z_]+)")
DECLARED = re.compile(r"\b(calm_\w+)\s*\(")
CLASS = re.compile(r"^(?:template <[^>]*> )?(?:class|struct|using) (\w+)", re.M)
DETAIL = re.compile(r"^namespace detail$.*?^\} // namespace detail$", re.M | re.S)
MACRO = re.compile(r"^#(?:.*\\\n)*.*$", re.M)
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.M)
COMMENT = re.compile(r"/\*.*?\*/", re.S)


def slug(heading):
    """The anchor of a heading, as sites make it."""
    return re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", heading.lower()).strip())


class Checker:
    def __init__(self, root, tests):
        self.root = root
        self.findings = []
        self.labels = {}  # of each test of ctest
        for test in tests["tests"]:
            properties = {each["name"]: each["value"] for each in test.get("properties", ())}
            self.labels[test["name"]] = properties.get("LABELS", ())
        self.cases = {
            ".".join(case) for path in self.paths("tests/**/*.cpp") for case in GTEST.findall(self.read(path))
        }
        self.cases.update(*(PYTHON_CASE.findall(self.read(path)) for path in self.paths("tests/**/*.py")))
        self.text = self.read(PAGE)
        self.named = set()  # what of ctest the page names

    def read(self, path):
        with open(os.path.join(self.root, path), encoding="utf-8") as file:
            return file.read()

    def paths(self, pattern):
        found = glob.glob(os.path.join(self.root, pattern), recursive=True)
        return sorted(os.path.relpath(path, self.root) for path in found)

    def find(self, path, sentence):
        self.findings.append("%s: %s" % (path, sentence))

    def check_name(self, number, name, is_said_full):
        place = "%s:%d" % (PAGE, number)
        tests = fnmatch.filter(self.labels, name)
        self.named.update(tests)
        if not tests and not fnmatch.filter(self.cases, name):
            self.find(place, "there is no test %s." % name)
        is_full = bool(tests) and all("full" in self.labels[test] for test in tests)
        if is_full != is_said_full:
            self.find(place, "%s %s (full)." % (name, "is" if is_full else "is not"))

    def check_row(self, number, cells):
        place = "%s:%d" % (PAGE, number)
        if len(cells) != len(COLUMNS) or not cells[0]:
            return self.find(place, "a row has a promise, limits and tests, no more and no less.")
        if not re.search(r"\w", cells[1]):
            self.find(place, "the promise has no limits; None, if so.")
        names = NAME.findall(cells[2])
        if not names:
            self.find(place, "the promise is held by no test.")
        for name, full in names:
            self.check_name(number, name, bool(full))

    def check_tables(self):
        rows = {}
        part, is_head = "", True
        for number, line in enumerate(self.text.split("\n"), 1):
            if line.startswith("## "):
                part = line[3:]
            if not line.startswith("|"):
                is_head = True
                continue
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if is_head and cells != COLUMNS:
                self.find("%s:%d" % (PAGE, number), "a table's columns are %s." % ", ".join(COLUMNS))
            elif not is_head and not re.match(r"^\|[-|]+$", line):
                rows[part] = rows.get(part, 0) + 1
                self.check_row(number, cells)
            is_head = False
        for part in PARTS:
            if not rows.get(part):
                self.find(PAGE, "there is no promise of the part %s." % part)
        if not re.search(r"^## %s\n+- " % UNHELD, self.text, re.M):
            self.find(PAGE, "there is no list of what is promised, and held by no test.")

    def check_headers(self):
        declared = set()
        mentioned = {one or other for one, other in MENTIONED.findall(self.text)}
        for path in self.paths("include/calmalloc/*.h"):
            text = MACRO.sub("", COMMENT.sub("", self.read(path)))
            for group in re.split(r"\n[ \t]*\n", text):
                names = set(DECLARED.findall(group))
                declared |= names
                if names and not names & mentioned:
                    self.find(path, "nothing is said of %s()." % sorted(names)[0])
        for path in self.paths("include/calmalloc/*.hpp"):
            outside = DETAIL.sub("", self.read(path))
            for name in CLASS.findall(outside):
                if "calm::" + name not in mentioned:
                    self.find(path, "nothing is said of calm::%s." % name)
        for name in sorted(mentioned - declared):
            if name.startswith("calm_"):
                self.find(PAGE, "no header declares %s()." % name)

    def check_limits(self):
        for path in (
            self.paths("tests/model/*_model.c") + self.paths("tests/model/*.pml") + self.paths("tests/proof/*_test.py")
        ):
            if LIMITS not in "\n".join(self.read(path).split("\n")[:SOURCE_LIMITS_LINES]):
                self.find(path, "its first lines do not say what is not covered.")
        for path in self.paths("docs/protocols/*.md") + self.paths("docs/design/*-proof.md"):
            text = self.read(path)
            is_model = path.endswith("-proof.md") or re.search(r"tests/(model|proof)/", text)
            if is_model and LIMITS not in "\n".join(text.split("\n")[:PAGE_LIMITS_LINES]):
                self.find(path, "its first lines do not say what is not covered.")
        for test in sorted(self.labels):
            if test.startswith(("model.", "proof.")) and test not in self.named:
                self.find(PAGE, "nothing is held by %s." % test)

    def check_links(self):
        for number, line in enumerate(self.text.split("\n"), 1):
            for target in LINK.findall(line):
                path, _, anchor = target.partition("#")
                if "://" in target:
                    continue
                path = os.path.normpath(os.path.join(os.path.dirname(PAGE), path)) if path else PAGE
                if not os.path.exists(os.path.join(self.root, path)):
                    self.find("%s:%d" % (PAGE, number), "the link to %s leads nowhere." % target)
                elif anchor and anchor not in map(slug, HEADING.findall(self.read(path))):
                    self.find("%s:%d" % (PAGE, number), "%s has no heading %s." % (path, anchor))

    def check_mechanisms(self):
        if not os.path.exists(os.path.join(self.root, MECHANISMS)):
            return self.find(MECHANISMS, "there is no page of mechanisms.")
        for number, line in enumerate(self.read(MECHANISMS).split("\n"), 1):
            for name in TEST_NAME.findall(line):
                if not fnmatch.filter(self.labels, name) and not fnmatch.filter(self.cases, name):
                    self.find("%s:%d" % (MECHANISMS, number), "there is no test %s." % name)

    def run(self):
        self.check_tables()
        self.check_mechanisms()
        self.check_headers()
        self.check_limits()
        self.check_links()
        return self.findings


def main():
    root, tests = sys.argv[1:]
    with open(tests, encoding="utf-8") as file:
        checker = Checker(os.path.abspath(root), json.load(file))
    findings = checker.run()
    for finding in findings:
        print(finding)
    print("guarantees_check: %d tests named, %d findings." % (len(checker.named), len(findings)))
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
