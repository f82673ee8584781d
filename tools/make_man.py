#!/usr/bin/env python3
"""Writes the manual: man pages of every public call, of each header, of the command calm and of calmalloc itself.

    make_man.py [--root FOLDER] --out FOLDER      makes FOLDER/man1, FOLDER/man3 and FOLDER/man7 anew

One source for each fact: calls come from the headers' comments (headers.py), calm(1) from the command's own table of
commands, options from src/front/options.def. Calls that share a comment share a page; their other names are links.
The date is that of the newest entry of debian/changelog, or of SOURCE_DATE_EPOCH: the same tree, the same bytes.
"""
import argparse
import datetime
import email.utils
import os
import re
import shutil
import sys
import textwrap

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import headers as public  # noqa: E402
from roff import code, heading, item, page, see_also, words  # noqa: E402

C_NAME = re.compile(r"^(calm_|CALM_)\w+$")

# What to link with, and the page about the whole header.
LIBRARY = {
    "calmalloc/calmalloc.h": ("calmalloc", "-lcalmalloc"),
    "calmalloc/adapter.h": ("calmalloc-adapter", "-lcalmalloc"),
    "calmalloc/tag.h": ("calmalloc-tag", "-lcalmalloc"),
    "calmalloc/pool.h": ("calmalloc-pool", "-lcalmalloc, or -lcalmpool for the pools alone"),
    "calmalloc/exec.h": ("calmalloc-exec", "-lcalmexec -lcalmpool -pthread"),
    "calmalloc.hpp": ("calmalloc-cpp", "-lcalmalloc"),
}

OVERVIEW = """
calmalloc takes the place of the C library's memory allocator in programs for Linux on x86-64 and aarch64. A program
needs no change: start it with the library preloaded,

    LD_PRELOAD=libcalmalloc.so.0 program

or link it with `-lcalmalloc`. Then malloc, free, their relatives and C++'s operator new and delete are calmalloc's.

A pointer that is freed twice, freed in the middle or freed with a wrong size stops the program with one sentence. Idle
memory goes back to the kernel, also from a process that never calls malloc again. The places that ask for blocks, call
sites, can be given memory of their own, so that blocks of different places never share an address, or so that those
that live long lie apart: option `sites`.
"""


def version_of(root):
    with open(os.path.join(root, "include", "calmalloc", "calmalloc.h")) as file:
        return re.search(r'CALM_VERSION_TEXT "([^"]+)"', file.read()).group(1)


def date_of(root):
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given:
        return datetime.datetime.fromtimestamp(int(given), datetime.timezone.utc).strftime("%Y-%m-%d")
    with open(os.path.join(root, "debian", "changelog")) as file:
        newest = re.search(r"^ -- .*>  (.*)$", file.read(), re.M).group(1)
    return email.utils.parsedate_to_datetime(newest).strftime("%Y-%m-%d")


class Manual:
    """All pages: their text by path below the manual's folder; and links, by path as well."""

    def __init__(self, root):
        self.root = root
        self.source = "calmalloc " + version_of(root)
        self.date = date_of(root)
        self.headers = public.read_all(root)
        self.types = {one.name: one for header in self.headers for one in header.declarations
                      if one.kind in ("struct", "enum", "union", "type")}
        self.calls = {one.name: one for header in self.headers for one in header.declarations if is_call(one)}
        self.pages = {}
        self.links = {}

    def add(self, section, name, title, parts):
        head = (name.upper(), section, self.date, self.source, title)
        self.pages["man%d/%s.%d" % (section, name, section)] = page(head, parts)

    def words(self, text, own=(), parameters=()):
        return words(text, {name for name in self.calls if name not in own}, set(own), set(parameters))

    def fill(self):
        for header in self.headers:
            for group in groups_of(header):
                self.add_call(header, group)
            if header.name != "calmalloc/calmalloc.h":
                self.add_header(header)
        self.add_overview()
        self.add_command()
        return self

    def add_call(self, header, group):
        first = group[0]
        names = [one.name for one in group]
        parameters = {parameter.name for one in group for parameter in one.parameters}
        brief = first.brief[0].lower() + first.brief[1:] if first.brief[1:2].islower() else first.brief
        overview = LIBRARY[header.name][0]
        parts = [("NAME", ["%s \\- %s" % (", ".join(names), words(brief, plain=True))]),
                 ("LIBRARY", [self.words("calmalloc (`%s`)" % LIBRARY[header.name][1])]),
                 ("SYNOPSIS", code("\n".join(["#include <%s>" % header.name, ""] + [synopsis(one) for one in group])))]
        texts = list(first.paragraphs)
        for one in group[1:]:
            texts += ["`%s`: %s" % (one.name, text) for text in one.paragraphs if text not in first.paragraphs]
        parts.append(("DESCRIPTION", [self.words(text, names, parameters) for text in texts]))
        if first.cost:
            parts.append(("COST", [self.words(first.cost[0].upper() + first.cost[1:], names, parameters)]))
        shown = self.types_of(group)
        if shown:
            parts.append(("TYPES", [line for one in shown for line in code(one.text)]))
        parts.append(("NOTES", ["What holds for all of <%s>:" % header.name] +
                      [self.words(text, names) for text in header.paragraphs]))
        others = {name for text in texts + [first.cost] for name in re.findall(r"\bcalm_\w+", text)
                  if name in self.calls and name not in names}
        parts.append(("SEE ALSO", see_also([(self.calls[name].group[0], 3) for name in others] +
                                           [(overview, 7), ("calmalloc", 7)])))
        self.add(3, names[0], "calmalloc", parts)
        for name in names[1:]:
            self.links["man3/%s.3" % name] = "%s.3" % names[0]

    def types_of(self, group):
        """The types that prototypes mention, and those that these mention; not what is one opaque line."""
        found, texts = [], [one.text for one in group]
        while texts:
            for name in re.findall(r"\bcalm_\w+", texts.pop(0)):
                one = self.types.get(name)
                if one is not None and one not in found and not re.match(r"typedef struct (\w+) \1;", one.text):
                    found.append(one)
                    texts.append(one.text)
        return found

    def add_header(self, header):
        name, link = LIBRARY[header.name]
        parts = [("NAME", ["%s \\- %s" % (name, words(header.brief, plain=True))]),
                 ("SYNOPSIS", code("#include <%s>" % header.name) + ["Link with " + self.words("`%s`." % link)]),
                 ("DESCRIPTION", [self.words(text) for text in header.paragraphs])]
        parts += self.contents_of(header)
        parts.append(("SEE ALSO", see_also([("calmalloc", 7)])))
        self.add(7, name, "calmalloc", parts)

    def contents_of(self, header):
        calls, types = [], []
        for group in groups_of(header):
            calls.append(item(", ".join("\\fB%s\\fP(3)" % one.name for one in group),
                              self.words(sentence(group[0].brief))))
        for one in header.declarations:
            if not is_call(one) and one.name == one.group[0]:
                block = "\n".join(other.text for other in header.declarations if other.group is one.group)
                types += [self.words(text) for text in one.paragraphs] + code(block)
                types += [self.words("%s: %s" % (member.name, member.comment)) for member in one.members
                          if one.kind == "class" and member.comment]
        return ([("FUNCTIONS", calls)] if calls else []) + ([("TYPES", types)] if types else [])

    def add_overview(self):
        sys.path.insert(0, os.path.join(HERE, "calm"))
        import options
        header = self.headers[0]
        body = [line for part in OVERVIEW.strip().split("\n\n")
                for line in (code(textwrap.dedent(part)) if part.startswith("    ") else [self.words(part)])]
        listed = [self.words("One variable holds all options: `CALM_OPTIONS=\"name=value,name=value\"`. Those marked * "
                             "may also be changed while the program runs, by calm_option_set. Set-user-id programs "
                             "ignore the variable.")]
        for one in options.read(self.root):
            listed.append(item(self.words("`%s`%s" % (one.name, " *" if one.is_anytime else "")),
                               self.words("%s Values: %s; default: %s." % (sentence(one.help), one.values,
                                                                           one.default))))
        pages = [(name, 7) for name, _ in list(LIBRARY.values())[1:]] + [("calm", 1), ("ld.so", 8), ("malloc", 3)]
        self.add(7, "calmalloc", "calmalloc", [
            ("NAME", ["calmalloc \\- a memory allocator for Linux"]),
            ("SYNOPSIS", code("LD_PRELOAD=libcalmalloc.so.0 program\n\n#include <%s>" % header.name) +
             ["Link with " + self.words("`-lcalmalloc`.")]),
            ("DESCRIPTION", body),
            ("ENVIRONMENT", listed),
            ("INTERFACE", [self.words(text) for text in header.paragraphs]),
            *self.contents_of(header),
            ("SEE ALSO", see_also(pages))])

    def add_command(self):
        sys.path.insert(0, os.path.join(HERE, "calm"))
        import commands
        import face
        listed = []
        for one in commands.COMMANDS.values():
            if one.is_hidden:
                continue
            listed.append(heading("calm " + face.usage(one)))
            listed += [self.words(" ".join(part.split())) for part in one.help.split("\n\n")]
            if one.needs_checkout:
                listed.append(self.words("Only in a checkout of calmalloc's sources."))
            for parameter in one.parameters:
                if parameter.help:
                    label = parameter.metavar if isinstance(parameter, commands.Word) else face.dashed(parameter)
                    metavar = " " + parameter.metavar if isinstance(parameter, commands.Option) else ""
                    listed.append(item(self.words("`%s`%s" % (label, metavar)), self.words(sentence(parameter.help))))
        self.add(1, "calm", "calmalloc", [
            ("NAME", ["calm \\- runs programs on calmalloc and shows what holds their memory"]),
            ("SYNOPSIS", [self.words("`calm` command [arguments]")]),
            ("DESCRIPTION", [self.words("calm puts the allocator calmalloc under programs, and looks into their "
                                        "heaps.")]),
            ("COMMANDS", listed),
            ("ENVIRONMENT", [item("CALM_OPTIONS", self.words("Options of the allocator; `calm options` lists them.")),
                             item("CALM_BUILD_DIR", self.words("In a checkout of the sources, the folder for builds.")),
                             item("CALM_PLAIN", self.words("When set, output is plain text."))]),
            ("SEE ALSO", see_also([("calmalloc", 7), ("calmalloc-pool", 7)]))])


def sentence(text):
    return text[0].upper() + text[1:] + ("" if text.endswith(".") else ".")


def is_call(declaration):
    return declaration.kind in ("function", "macro") and bool(C_NAME.match(declaration.name))


def groups_of(header):
    """The calls of a header by the comment they share."""
    found = {}
    for one in header.declarations:
        if is_call(one):
            found.setdefault(id(one.group), []).append(one)
    return list(found.values())


def synopsis(declaration):
    if declaration.kind == "macro":
        return declaration.text if "(" in declaration.text else "#define " + declaration.text
    return declaration.text


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--root", default=os.path.dirname(HERE))
    parser.add_argument("--out", required=True)
    options = parser.parse_args()
    try:
        manual = Manual(os.path.abspath(options.root)).fill()
    except (public.Trouble, OSError) as trouble:
        sys.exit("make_man: %s" % trouble)
    for section in sorted({os.path.dirname(path) for path in manual.pages}):
        shutil.rmtree(os.path.join(options.out, section), ignore_errors=True)
        os.makedirs(os.path.join(options.out, section))
    for path, text in manual.pages.items():
        with open(os.path.join(options.out, path), "w") as file:
            file.write(text)
    for path, target in manual.links.items():
        os.symlink(target, os.path.join(options.out, path))


if __name__ == "__main__":
    main()
