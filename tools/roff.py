"""Text as man pages want it: what make_man.py has to know of the roff language, and nothing of calmalloc."""
import re
import textwrap

COLUMNS_MAX = 78
SPAN = re.compile(r"`([^`]+)`|\b(\w+)\b(?=(\()?)")


def escaped(text):
    """Text that prints as it is. Dashes become those that one can type."""
    for letter, name in (("\\", "\\e"), ("-", "\\-"), ("^", "\\(ha"), ("~", "\\(ti"), ("`", "\\(ga")):
        text = text.replace(letter, name)
    return text


def protected(line):
    """A line of text that does not look like a request."""
    return "\\&" + line if line.startswith((".", "'")) else line


def words(text, pages=(), own=(), parameters=(), plain=False):
    """Running text: `spans` bold, or italic where they are parameters; names of other pages with their section."""
    text = " ".join(text.split())
    if plain:
        return filled(escaped(text.replace("`", "")))
    out, at = [], 0
    for match in SPAN.finditer(text):
        span, word, opens = match.groups()
        out.append(escaped(text[at:match.start()]))
        at = match.end()
        if span is not None:
            out.append(("\\fI%s\\fP" if span in parameters else "\\fB%s\\fP") % escaped(span))
        elif word in pages:
            out.append("\\fB%s\\fP%s" % (word, "" if opens else "(3)"))
        elif word in own:
            out.append("\\fB%s\\fP" % word)
        else:
            out.append(word)
    out.append(escaped(text[at:]))
    return filled("".join(out))


def filled(text):
    """Input lines: each sentence begins one, none is long."""
    lines = []
    for sentence in re.split(r"(?<=[^.][.!?]) (?=[A-Z0-9\\`\"])", text):
        lines += textwrap.wrap(sentence, COLUMNS_MAX, break_long_words=False, break_on_hyphens=False)
    return "\n".join(protected(line) for line in lines)


def code(text):
    """Lines as they are."""
    lines = [protected(escaped(line).replace("'", "\\(aq")) if line.strip() else ".sp" for line in text.split("\n")]
    return [".nf\n.RS 4\n%s\n.RE\n.fi" % "\n".join(lines)]


def heading(text):
    """Of a part of a section."""
    return ".SS " + escaped(text).replace('"', "\\(dq")


def item(tag, body):
    """An entry of a list."""
    return ".TP\n%s\n%s" % (tag, body)


def see_also(pages):
    """References in order of section and name."""
    ordered = sorted(set(pages), key=lambda entry: (entry[1], entry[0]))
    return [",\n".join(".BR %s (%d)" % (escaped(name), section) for name, section in ordered)]


def page(head, parts):
    """A whole page; parts are titles with their paragraphs, which are text, or a request with what belongs to it."""
    name, section, date, source, title = head
    lines = ['.\\" Made by tools/make_man.py; edit what it reads instead.',
             '.TH "%s" %d %s "%s" "%s"' % (escaped(name), section, date, source, title)]
    for heading, paragraphs in parts:
        lines.append(".SH " + heading)
        before = ".SH"
        for paragraph in paragraphs:
            kind = paragraph.split(None, 1)[0] if paragraph.startswith(".") else "text"
            if kind in ("text", ".nf") and before in ("text", ".nf", ".TP"):
                lines.append(".PP")
            lines.append(paragraph)
            before = kind
    return "\n".join(lines) + "\n"
