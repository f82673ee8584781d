#!/usr/bin/env python3
"""Reads our public headers: every declaration with its comment. The manual is made of what this finds.

    headers.py [--root FOLDER]      prints it as JSON

Other scripts `import headers` and call read_all(root). How a header is read:
  the comment at the top is the header's; its first paragraph is "name: what it is for";
  a declaration has the comment above it; those below one comment without an empty line between share it;
  a comment behind a declaration, a field or a constant, on its line, belongs to that alone;
  "Cost:" begins the last words of a paragraph and goes to `cost`;
  a comment that begins with "Internal:" hides what is below it, and `namespace detail` is not looked into.
A declaration without a comment is an error. Backticks in comments are left as they are.
"""
import argparse
import dataclasses
import json
import os
import re
import sys
from typing import List, Optional

from amalgamate import tokens

HIDDEN = "Internal:"
ATTRIBUTES = {"CALM_NONBLOCKING"}  # of a prototype: not for readers
COMPOUND = ("struct", "union", "enum", "class")
SKIPPED_SCOPES = {"detail"}


class Trouble(Exception):
    """Something wrong in a header, in one sentence."""


@dataclasses.dataclass
class Parameter:
    text: str  # "const char *name"
    type: str  # "const char *"
    name: str


@dataclasses.dataclass
class Member:
    """A field, a constant, or what a C++ class offers."""
    name: str
    text: str
    comment: str


@dataclasses.dataclass
class Declaration:
    kind: str  # function, struct, union, enum, class, type, macro
    name: str  # an enum without a name has that of its first constant
    text: str  # a prototype in one line; of a struct or an enum the source, comments included
    paragraphs: List[str]
    cost: str
    group: List[str]  # the names that share the comment, in order, this one included
    header: str  # "calmalloc/pool.h"
    line: int
    returns: str = ""
    parameters: List[Parameter] = dataclasses.field(default_factory=list)
    members: List[Member] = dataclasses.field(default_factory=list)
    is_inline: bool = False

    @property
    def brief(self):
        """The first sentence, without its full stop and without "NAME: "."""
        return first_sentence(re.sub(r"^%s[^:]*: " % re.escape(self.name), "", self.paragraphs[0]))


@dataclasses.dataclass
class Header:
    name: str
    brief: str
    paragraphs: List[str]  # of the introduction, after the first sentence
    declarations: List[Declaration]


@dataclasses.dataclass
class Note:
    """A comment on its way to what is below it."""
    paragraphs: List[str]
    cost: str
    is_hidden: bool
    names: List[str] = dataclasses.field(default_factory=list)


def first_sentence(paragraph):
    match = re.match(r"(.+?)(?:[.:;](?=\s|$))", paragraph, re.S)
    return (match.group(1) if match else paragraph).strip()


def paragraphs_of(comment):
    """The words of a comment, a string a paragraph."""
    body = re.sub(r"^//", "", comment) if comment.startswith("//") else comment[2:-2]
    lines = [re.sub(r"^\s*\*? ?", "", line).rstrip() for line in body.strip("*").split("\n")]
    return [" ".join(part.split()) for part in "\n".join(lines).strip().split("\n\n") if part.strip()]


def note_of(comment):
    """A comment, with the words from "Cost:" on apart."""
    kept, costs = [], []
    for paragraph in paragraphs_of(comment):
        before, _, cost = paragraph.partition("Cost: ")
        kept += [before.strip()] if before.strip() else []
        costs += [cost.strip()] if cost.strip() else []
    is_hidden = bool(kept) and kept[0].startswith(HIDDEN)
    return Note(kept, " ".join(costs), is_hidden)


class Token:
    def __init__(self, kind, text, line, begins_line):
        self.kind, self.text, self.line, self.begins_line = kind, text, line, begins_line


def numbered(text):
    found, line, begins_line = [], 1, True
    for kind, word in tokens(text):
        found.append(Token(kind, word, line, begins_line))
        line += word.count("\n")
        if kind == "space":
            begins_line = begins_line or "\n" in word
        else:
            begins_line = False
        if word.endswith("\n"):
            begins_line = True
    return found


def joined(items):
    """The source of some tokens in one line, without comments and attributes."""
    words = "".join(" " if item.kind in ("comment", "line") or item.text in ATTRIBUTES else item.text
                    for item in items)
    words = re.sub(r"\[\[\w+\]\]", "", words)
    return re.sub(r" (?=[;,)])", "", " ".join(words.split()))


def split_commas(text):
    parts, depth, part = [], 0, ""
    for letter in text:
        depth += (letter in "(<[{") - (letter in ")>]}")
        if letter == "," and depth == 0:
            parts.append(part.strip())
            part = ""
        else:
            part += letter
    return [one for one in parts + [part.strip()] if one and one != "void"]


def parameter_of(text):
    text_before_default = text.split("=")[0].strip()
    pointer = re.search(r"\(\*(\w+)\)", text_before_default)
    if pointer:
        return Parameter(text, text_before_default.replace(pointer.group(1), "", 1), pointer.group(1))
    match = re.match(r"^(.*?[\s*&])(\w+)(\[\w*\])?$", text_before_default)
    if not match:
        return Parameter(text, text_before_default, "")
    return Parameter(text, (match.group(1) + (match.group(3) or "")).strip(), match.group(2))


class Reader:
    """Walks the tokens of one header."""

    def __init__(self, name, text):
        self.name = name
        self.text = text
        self.items = numbered(text)
        self.index = 0
        self.scopes = []
        self.note: Optional[Note] = None
        self.last: Optional[Declaration] = None
        self.found = []

    def trouble(self, line, sentence):
        return Trouble("%s:%d: %s" % (self.name, line, sentence))

    def read(self):
        introduction = self.introduction()
        guard = None
        while self.index < len(self.items):
            item = self.items[self.index]
            if item.kind == "comment":
                self.take_comment(item)
            elif item.kind == "line":
                name = re.match(r"\s*#\s*(ifndef|define)\s+(\w+)", item.text)
                if name and guard is None and name.group(1) == "ifndef":
                    guard = name.group(2)
                elif name and name.group(1) == "define" and name.group(2) != guard:
                    self.take_macro(item)
                self.index += 1
            elif item.kind == "space":
                if item.text.count("\n") > 1 and (self.note is None or self.note.names):
                    self.note = self.last = None
                self.index += 1
            elif item.text == "}":
                self.scopes.pop()
                self.note = self.last = None
                self.index += 1
            else:
                self.take_declaration()
        brief = re.sub(r"^\S+: ", "", introduction[0])
        sentence = first_sentence(brief) if "." in brief.rstrip(".") else brief.rstrip(".")
        rest = brief[len(sentence):].lstrip(".:; ")
        return Header(self.name, sentence, ([rest] if rest else []) + introduction[1:], self.found)

    def introduction(self):
        if not self.items or self.items[0].kind != "comment":
            raise self.trouble(1, "no comment at the top says what the header is for.")
        self.index = 1
        return paragraphs_of(self.items[0].text)

    def take_comment(self, item):
        self.index += 1
        if item.begins_line:
            self.note, self.last = note_of(item.text), None
        elif self.last is not None:
            self.last.paragraphs = self.last.paragraphs + paragraphs_of(item.text)

    def take_macro(self, item):
        match = re.match(r"\s*#\s*define\s+(\w+(?:\([^)]*\))?)", item.text)
        name = match.group(1).split("(")[0]
        if any(other.name == name for other in self.found):
            return  # the other branch of a conditional
        self.add(Declaration("macro", name, match.group(1), [], "", [], self.name, item.line))

    def add(self, declaration):
        note = self.note
        if note is None:
            raise self.trouble(declaration.line, "'%s' has no comment; say above it what it is for." % declaration.name)
        if note.is_hidden:
            self.note.names.append(declaration.name)
            return
        note.names.append(declaration.name)
        declaration.paragraphs, declaration.cost, declaration.group = list(note.paragraphs), note.cost, note.names
        self.found.append(declaration)
        self.last = declaration

    def end_of_braces(self, index):
        depth = 0
        while index < len(self.items):
            if self.items[index].kind == "mark":
                depth += (self.items[index].text == "{") - (self.items[index].text == "}")
                if depth == 0:
                    return index
            index += 1
        raise self.trouble(self.items[-1].line, "a brace is not closed.")

    def take_declaration(self):
        """From the current token to the end of what it begins."""
        first, depth, index = self.index, 0, self.index
        while True:
            if index >= len(self.items):
                raise self.trouble(self.items[first].line, "a declaration does not end.")
            item = self.items[index]
            if item.kind == "mark":
                depth += (item.text in "([") - (item.text in ")]")
                if depth == 0 and item.text == ";":
                    break
                if depth == 0 and item.text == "{":
                    if self.enters_scope(first, index):
                        return
                    end = self.end_of_braces(index)
                    if not self.is_compound(first, index):
                        self.finish(first, index, end + 1, is_inline=True)
                        return
                    index = end
            index += 1
        self.finish(first, index, index + 1, is_inline=False)

    def words(self, first, last):
        return [item.text for item in self.items[first:last] if item.kind in ("word", "mark", "string")]

    def enters_scope(self, first, brace):
        """Steps into extern "C" and namespaces, over those that are not for readers."""
        words = self.words(first, brace)
        if words[:1] == ["extern"] and len(words) == 2:
            self.scopes.append("")
        elif words[:1] == ["namespace"]:
            if words[1] in SKIPPED_SCOPES:
                self.index = self.end_of_braces(brace) + 1
                self.note = None
                return True
            self.scopes.append(words[1])
        else:
            return False
        self.index, self.note = brace + 1, None
        return True

    def is_compound(self, first, brace):
        words = self.words(first, brace)
        return "(" not in words and any(word in COMPOUND for word in words)

    def scoped(self, name):
        return "::".join([scope for scope in self.scopes if scope] + [name])

    def finish(self, first, last, following, is_inline):
        """Makes a declaration of the tokens from first; `last` is its semicolon, or the brace of its body."""
        items = self.items[first:last]
        line = self.items[first].line
        words = self.words(first, last)
        self.index = following
        braces = next((index for index in range(first, last) if self.items[index].text == "{"), None)
        if braces is not None and self.is_compound(first, braces):
            self.add(self.compound(first, braces, last, line))
        elif words[0] == "typedef" and "(" not in words:
            self.add(Declaration("type", words[-1], joined(items) + ";", [], "", [], self.name, line))
        elif words[0] == "typedef":
            name = re.search(r"\(\*(\w+)\)", joined(items)).group(1)
            self.add(Declaration("type", name, joined(items) + ";", [], "", [], self.name, line))
        else:
            self.add(self.function(joined(items), line, is_inline))

    def function(self, text, line, is_inline):
        text = re.sub(r"^(?:(?:static|inline|extern \"C\")\s+)+", "", text)
        match = re.match(r"^(.*?[\s*&])(operator [\w\[\]]+|\w+)\((.*)\)(?:\s+(?:const|noexcept))*$", text)
        if not match:
            raise self.trouble(line, "'%s' is no declaration that headers.py can read." % text)
        return Declaration("function", self.scoped(match.group(2)), text + ";", [], "", [], self.name, line,
                           returns=match.group(1).strip(), is_inline=is_inline,
                           parameters=[parameter_of(part) for part in split_commas(match.group(3))])

    def compound(self, first, brace, last, line):
        words = self.words(first, brace)
        kind = next(word for word in words if word in COMPOUND)
        at = len(words) - 1 - words[::-1].index(kind)  # enum class: the last of both
        kind = "enum" if "enum" in words else kind
        tail = words[at + 1:]
        name = next((word for word in tail if word not in ("class", "struct")), "")
        is_cpp = bool([scope for scope in self.scopes if scope])
        members = self.members(brace, self.end_of_braces(brace), kind, name)
        text = "".join(item.text for item in self.items[first:last]) + ";"
        if is_cpp and kind != "enum":
            head = joined(self.items[first:brace])
            text = "%s {\n%s};" % (head, "".join("    %s\n" % member.text for member in members))
        return Declaration(kind, self.scoped(name or members[0].name), text, [], "", [], self.name, line,
                           members=members)

    def members(self, brace, end, kind, name):
        """What braces hold: constants up to commas, fields up to semicolons; of C++ what is public."""
        found, start, index, comment, inner = [], brace + 1, brace + 1, "", ""
        is_public = kind != "class"
        mark = "," if kind == "enum" else ";"
        depth = 0
        while index <= end:
            item = self.items[index]
            if item.kind == "comment" and not joined(self.items[start:index]):
                words = " ".join(paragraphs_of(item.text))
                if item.begins_line or not found:
                    comment = words
                elif is_public:
                    found[-1].comment = words
                start = index + 1
            elif item.kind == "comment" and kind == "enum":
                inner = " ".join(paragraphs_of(item.text))  # behind a last constant that no comma ends
            elif item.text in ("public", "private", "protected") and self.items[index + 1].text == ":":
                is_public = item.text == "public"
                index += 1
                start = index + 1
            elif item.kind == "mark":
                depth += (item.text in "([{") - (item.text in ")]}")
                is_body = item.text == "{" and depth == 1 and ")" in self.words(start, index)
                if is_body or (item.text == mark and depth == 0) or index == end:
                    words = joined(self.items[start:index])
                    if words and is_public:
                        add_member(found, words, inner if kind == "enum" else comment, mark if kind != "enum" else "")
                    comment = inner = ""
                    if is_body:
                        index, depth = self.end_of_braces(index), 0
                    start = index + 1
            index += 1
        return found


def add_member(found, text, comment, mark):
    if re.search(r"\bfriend\b", text):
        return
    text = re.sub(r"\s*=\s*default$", "", text)
    if "(" in text:
        text = re.sub(r"(?<=[)\w]) : .*$", "", text)  # what a constructor initialises
    operator = re.search(r"operator\s*[^\s(]+(?:\s*\[\])?", text)
    pointer = re.search(r"\(\*(\w+)\)", text)
    name = operator.group(0) if operator else pointer.group(1) if pointer else \
        re.split(r"[=(\[]", text.split("}")[-1])[0].split()[-1].lstrip("*&")
    found.append(Member(name, text + mark, comment))


def header_names(root):
    """Ours, as programs include them: the general one first, C++ last."""
    folder = os.path.join(root, "include")
    names = sorted("calmalloc/" + name for name in os.listdir(os.path.join(folder, "calmalloc")) if name.endswith(".h"))
    first = "calmalloc/calmalloc.h"
    return [first] + [name for name in names if name != first] + \
        sorted(name for name in os.listdir(folder) if name.endswith(".hpp"))


def read_text(name, text):
    return Reader(name, text).read()


def read_all(root):
    found = []
    for name in header_names(root):
        with open(os.path.join(root, "include", name)) as file:
            found.append(read_text(name, file.read()))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--root", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    options = parser.parse_args()
    try:
        headers = read_all(options.root)
    except Trouble as trouble:
        sys.exit("headers: %s" % trouble)
    json.dump([dataclasses.asdict(header) for header in headers], sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
