#!/usr/bin/env python3
"""Holds the documents to the code: what TOUR.md and docs/ name must exist, and so must every page that a source names.

    tour_check.py [ROOT]

In `backticks`, in PAGES, docs/design and docs/protocols:
  a path such as core/cache.c or tests/unit/mem/span_test.cpp   is a file, below the root or below src/
  name()                                                        is a function or macro defined or declared in src/
  NAME_IN_CAPITALS                                              occurs in src/ as a word
Links from any page of docs/ lead somewhere. A page named in src/ or include/ as docs/... exists. Pages of the two
folders have at most WORDS_A_PAGE_MAX words. One line for each finding; exit 1 when any.
"""
import os
import re
import sys

PATH = re.compile(r"^[\w.-]+(/[\w.-]+)+$")
FILE_KINDS = (".c", ".h", ".cpp", ".py", ".md", ".def", ".json", ".txt", ".pml")
CALL = re.compile(r"^([A-Za-z_]\w*)\(\)$")
CAPITALS = re.compile(r"^[A-Z][A-Z0-9]*(_[A-Z0-9]+)+$")
CODE_SPAN = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)#\s]+)\)")
PAGE_NAME = re.compile(r"docs/[\w/-]+\.md")
PAGES = ("TOUR.md", "README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "docs/mechanisms.md")
KERNEL_WORDS = {"MADV_DONTNEED", "CALM_OPTIONS", "LD_PRELOAD"}
LIBRARY_CALLS = {"malloc", "free"}
WORDS_A_PAGE_MAX = 950  # of one subject; it was 750 when a subject had two or three pages
FENCE = re.compile(r"```.*?```", re.S)


def without_fences(text):
    """The text with empty lines in the place of fenced ones."""
    return FENCE.sub(lambda match: "\n" * match.group(0).count("\n"), text)


class Checker:
    def __init__(self, root):
        self.root = root
        self.findings = []
        self.names_checked = 0
        kinds = (".c", ".h", ".def")
        self.sources = {path: self.read(path) for top in ("src", "include") for path in self.files(top, kinds)}
        code = "\n".join(self.sources.values())
        self.called = set(re.findall(r"\b([A-Za-z_]\w*)\s*\(", code))
        self.words = set(re.findall(r"\b[A-Za-z_]\w*\b", code))

    def read(self, path):
        with open(os.path.join(self.root, path), encoding="utf-8") as file:
            return file.read()

    def files(self, top, kinds):
        for folder, folders, names in os.walk(os.path.join(self.root, top)):
            folders.sort()
            for name in sorted(names):
                if name.endswith(kinds):
                    yield os.path.relpath(os.path.join(folder, name), self.root)

    def exists(self, path):
        return any(os.path.exists(os.path.join(self.root, top, path)) for top in ("", "src"))

    def find(self, path, number, sentence):
        self.findings.append("%s:%d: %s" % (path, number, sentence))

    def check_word(self, path, number, word):
        call = CALL.match(word)
        if call:
            self.names_checked += 1
            if call.group(1) not in self.called and call.group(1) not in LIBRARY_CALLS:
                self.find(path, number, "no function %s() in src." % call.group(1))
        elif PATH.match(word) and word.endswith(FILE_KINDS):
            self.names_checked += 1
            if not self.exists(word):
                self.find(path, number, "no file %s." % word)
        elif PATH.match(word.rstrip("/")) and word.endswith("/"):
            self.names_checked += 1
            if not self.exists(word):
                self.find(path, number, "no folder %s." % word)
        elif CAPITALS.match(word):
            self.names_checked += 1
            if word not in self.words and word not in KERNEL_WORDS:
                self.find(path, number, "no %s in src." % word)

    def check_page(self, path):
        text = self.read(path)
        if path.startswith(("docs/design", "docs/protocols")) and len(text.split()) > WORDS_A_PAGE_MAX:
            self.find(path, 1, "the page has %d words; %d are allowed." % (len(text.split()), WORDS_A_PAGE_MAX))
        for number, line in enumerate(without_fences(text).split("\n"), 1):
            for word in CODE_SPAN.findall(line):
                self.check_word(path, number, word)

    def check_links(self, path):
        for number, line in enumerate(without_fences(self.read(path)).split("\n"), 1):
            for target in LINK.findall(line):
                if "://" in target:
                    continue
                self.names_checked += 1
                if not os.path.exists(os.path.join(self.root, os.path.dirname(path), target)):
                    self.find(path, number, "the link to %s leads nowhere." % target)

    def check_sources(self):
        for path, text in self.sources.items():
            for number, line in enumerate(text.split("\n"), 1):
                for page in PAGE_NAME.findall(line):
                    self.names_checked += 1
                    if not self.exists(page):
                        self.find(path, number, "no page %s." % page)

    def run(self):
        pages = [page for page in PAGES if os.path.exists(os.path.join(self.root, page))]
        if "TOUR.md" not in pages:
            self.find("TOUR.md", 1, "there is no tour.")
        for top in ("docs/design", "docs/protocols"):
            pages += self.files(top, (".md",))
        for page in pages:
            self.check_page(page)
        for page in sorted({*pages, *self.files("docs", (".md",))}):
            self.check_links(page)
        self.check_sources()
        return self.findings


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    checker = Checker(os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "..", "..")))
    findings = checker.run()
    for finding in findings:
        print(finding)
    print("tour_check: %d names, %d findings." % (checker.names_checked, len(findings)))
    return 1 if findings or checker.names_checked == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
