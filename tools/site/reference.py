"""Makes pages of our public headers, as tools/headers.py reads them, and of the options."""
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "calm"))

import headers  # noqa: E402
import options  # noqa: E402

header_names = headers.header_names
MARKS = re.compile(r"([\\*_>\[\]#|])")
CODE = re.compile(r"(`[^`]*`)")
WORD = re.compile(r"(\bdocs/[\w/-]+\.md|\bcalm(?:::\w+|_\w+))")


def place(name):
    """Where the site has a header's page."""
    return "reference/%s.md" % os.path.basename(name).replace(".hpp", "-cpp").replace(".h", "")


def plain(text):
    """Text as Markdown that means nothing but itself."""
    return MARKS.sub(r"\\\1", text).replace("<", "&lt;")


def anchor(name):
    return name.replace("::", "-")


class Pages:
    """All headers, and where each name's section is: calls that share a comment share one."""

    def __init__(self, root):
        self.headers = {header.name: header for header in headers.read_all(root)}
        self.sections = {one.name: (header.name, one.group[0]) for header in self.headers.values()
                         for one in header.declarations}

    def words(self, text, header, names=()):
        """A comment as Markdown: names and pages become links, what is in backticks stays, and marks mean nothing.
        `names` are not linked: their section is where this stands."""
        def linked(word):
            if word.startswith("docs/"):
                up = "../" * ("include/" + header).count("/")
                return "[%s](%s%s)" % (word.replace("_", "\\_"), up, word)
            if word not in self.sections or word in names:
                return plain(word)
            page, first = self.sections[word]
            there = "" if page == header else os.path.relpath("include/" + page, os.path.dirname("include/" + header))
            return "[%s](%s#%s)" % (word.replace("_", "\\_"), there, anchor(first))

        parts = CODE.split(text)
        return "".join(part if index % 2 else "".join(
            linked(word) if at % 2 else plain(word) for at, word in enumerate(WORD.split(part)))
            for index, part in enumerate(parts))

    def page(self, name):
        header = self.headers[name]
        parts = ["# " + os.path.basename(name), self.words(sentence(header.brief), name),
                 "```c\n#include <%s>\n```" % name, *(self.words(text, name) for text in header.paragraphs)]
        for one in header.declarations:
            if one.name == one.group[0]:
                parts += self.section([other for other in header.declarations if other.group == one.group], name)
        return "\n\n".join(parts) + "\n"

    def section(self, group, header):
        """What shares a comment: how it is declared, the comment, and what members of classes say. Comments inside a
        struct or an enum of C are in its source, which is shown."""
        names = [one.name for one in group]
        title = ", ".join(names).replace("_", "\\_")
        if group[0].text.startswith("enum {"):
            title = ", ".join(member.name for member in group[0].members[:2]).replace("_", "\\_") + ", …"
        language = "cpp" if header.endswith(".hpp") else "c"
        parts = ["## %s {#%s}" % (title, anchor(names[0])),
                 "```%s\n%s\n```" % (language, "\n".join(shown(one) for one in group))]
        for text in [text for one in group for text in one.paragraphs]:
            text = self.words(text, header, names)
            if text not in parts:
                parts.append(text)
        if group[0].cost:
            parts.append("*Cost:* " + self.words(group[0].cost, header, names))
        for one in group:
            rows = [["`%s`" % member.text, self.words(member.comment, header, names)] for member in one.members
                    if member.comment]
            if rows and "/*" not in one.text:
                parts.append(table(["member", "what it is"], rows))
        return parts


def table(head, rows):
    lines = ["| %s |" % " | ".join(head), "|%s|" % "|".join("---" for _ in head)]
    return "\n".join(lines + ["| %s |" % " | ".join(row) for row in rows])


def sentence(text):
    return (text if text.startswith("calmalloc") else text[:1].upper() + text[1:]) + "."


def shown(one):
    return "#define " + one.text if one.kind == "macro" else one.text


def options_page(root):
    rows = [["`%s`" % one.name, one.default, one.values, "at any time" if one.is_anytime else "at start",
             plain(one.help)] for one in options.read(root)]
    return ("# Options\n\nOne variable has them all: `CALM_OPTIONS=\"name=value,name=value\"`. What may be set at any "
            "time, a program sets with `calm_option_set()` too.\n\n%s\n" %
            table(["option", "default", "values", "set", "meaning"], rows))
