"""`calm docs WORD`: finds words in the documents, section by section, without a network."""
import os
import re

import say
from trouble import Trouble

PAGES = ("README.md", "TOUR.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
SECTIONS_MAX, LINES_MAX = 12, 2
HEADING = re.compile(r"#{1,6} (.*)")


def sections(root):
    """(page, line, headings, lines) of each section of each page."""
    pages = [page for page in PAGES if os.path.exists(os.path.join(root, page))]
    for folder, folders, names in os.walk(os.path.join(root, "docs")):
        folders.sort()
        pages += [os.path.relpath(os.path.join(folder, name), root) for name in sorted(names) if name.endswith(".md")]
    for page in pages:
        with open(os.path.join(root, page), encoding="utf-8", errors="replace") as file:
            yield from sections_of(page, file.read().split("\n"))


def sections_of(page, lines):
    title, is_code, starts, found = "", False, [], []
    for number, line in enumerate(lines):
        is_code ^= line.startswith("```")
        if not is_code and HEADING.match(line):
            starts.append(number)
    for first, end in zip(starts, starts[1:] + [len(lines)]):
        heading = HEADING.match(lines[first]).group(1)
        title = title or heading
        found.append((page, first + 1, heading if heading == title else "%s: %s" % (title, heading),
                      lines[first + 1:end]))
    return found


def find(words, root):
    """The sections that have all words, those with most of them in the heading first, then by how often."""
    words, found = [word.lower() for word in words], []
    for page, line, heading, lines in sections(root):
        low, text = heading.lower(), "\n".join(lines).lower()
        if all(word in low or word in text for word in words):
            score = (sum(word in low for word in words), min(sum(text.count(word) for word in words), 9))
            found.append((score, page, line, heading, [one for one in lines if any(word in one.lower() for word in
                                                                                    words)]))
    return sorted(found, key=lambda one: (-one[0][0], -one[0][1], one[1], one[2]))


def start(words, root):
    found = find(words, root)
    if not found:
        raise Trouble("no page has '%s'; `calm docs` builds them all as a site." % " ".join(words))
    for _, page, line, heading, lines in found[:SECTIONS_MAX]:
        print("%s:%d: %s" % (page, line, say.clean(heading)))
        for text in lines[:LINES_MAX]:
            print("    " + say.clean(text.strip()[:160]))
    if len(found) > SECTIONS_MAX:
        say.line("calm: %s more; another word makes it fewer." % say.count(len(found) - SECTIONS_MAX, "section"))
    return 0
