"""What calm prints about itself. Everything goes to standard error: standard output belongs to PROGRAM, or to the
one answer that was asked for. Colours come from rich, on a terminal, when it is there."""
import os
import sys
import textwrap

TEXT_MAX = 4096
WRAP_MIN = 24  # columns; where there is less room for words, lines are left to the terminal


def console(stream=None):
    """The rich console for a stream, standard error when none is named, or None."""
    stream = stream or sys.stderr
    if os.environ.get("CALM_PLAIN") or os.environ.get("NO_COLOR") or not stream.isatty():
        return None
    try:
        from rich.console import Console
        return Console(file=stream, highlight=False, soft_wrap=True)
    except ImportError:
        return None


def clean(text):
    """Words that come from elsewhere, such that they move no cursor and turn no line round: what cannot be printed is
    shown as Python writes it."""
    if len(text) > TEXT_MAX:
        text = text[:TEXT_MAX] + "..."
    if text.isprintable():
        return text
    return "".join(mark if mark.isprintable() else mark.encode("unicode_escape").decode() for mark in text)


def plain(lines, stream):
    print("\n".join(clean(text) for text in lines), file=stream, flush=True)


def line(text, style=None, erase=False):
    """`erase` writes over the line before, which was one of ours. Where nobody hears it, the work goes on."""
    text = ("\r\x1b[K" if erase else "") + clean(text)
    rich = console()
    try:
        if rich is None:
            print(text, file=sys.stderr, flush=True)
        else:
            rich.print(text, style=style, markup=False)
    except OSError:
        pass


def size(stream):
    """(columns, rows) of the terminal that a stream is, or None."""
    try:
        return tuple(os.get_terminal_size(stream.fileno())) if stream.isatty() else None
    except (OSError, ValueError):
        return None


def fitted(rows, stream):
    """Name-value rows whose values fit into the terminal's lines; the further lines of a value have no name."""
    width = max([len(name) for name, _ in rows] + [0])
    room = size(stream)[0] - width - 4 if size(stream) else 0
    if room < WRAP_MIN:
        return rows
    return [(name if index == 0 else "", line) for name, value in rows for index, line in enumerate(
        textwrap.wrap(value, room, break_on_hyphens=False, break_long_words=False) or [""])]


def pairs(title, rows, stream=None):
    """A title and aligned name-value rows; a row without a name continues the one above."""
    stream = stream or sys.stderr
    title, rows = clean(title), fitted([(clean(name), clean(value)) for name, value in rows], stream)
    if size(stream) and len(title) > size(stream)[0]:
        title = title[:size(stream)[0] - 1] + "…"
    width = max([len(name) for name, _ in rows] + [0])
    rich = console(stream)
    if rich is None:
        lines = [title] + ["  %-*s  %s" % (width, name, value) for name, value in rows]
        print("\n".join(text.rstrip() for text in lines), file=stream, flush=True)
        return
    from rich.text import Text
    rich.print(Text(title, style="bold"))
    for name, value in rows:
        style = "yellow" if name == "warning" else "cyan"
        rich.print(Text.assemble("  ", ("%-*s" % (width, name), style), "  ", value))


def aligned(rows, left=1):
    """A line for each row: all columns to the right but the last `left`, of which the very last is not padded."""
    rows = [[clean(text) for text in row] for row in rows]
    widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]
    first_left = len(widths) - left
    return [("  " + "  ".join(text.ljust(width) if index >= first_left else text.rjust(width)
                              for index, (text, width) in enumerate(zip(row, widths)))).rstrip() for row in rows]


def table(head, rows, stream, left=1):
    """Aligned columns under a head, as `aligned` has them."""
    lines = aligned([head] + rows, left)
    rich = console(stream)
    if rich is None:
        print("\n".join(lines), file=stream, flush=True)
        return
    rich.print(lines[0], style="cyan", markup=False)
    for text in lines[1:]:
        rich.print(text, markup=False)


def overflow(sites):
    """What it means, and what to do about it, that so many sites found no cohort of their own with sites=intern."""
    return ("%s shared one cohort: what must be apart asks before 1,000 others do, or by a tag (calmalloc/tag.h)" %
            count(sites, "site"))


def amount(size):
    """Bytes for people."""
    if size < 1024:
        return "%d B" % size
    for unit in ("KiB", "MiB", "GiB"):
        size /= 1024.0
        if size < 1024 or unit == "GiB":
            return ("%.1f %s" if size < 100 else "%.0f %s") % (size, unit)
    return ""


def count(number, noun, plural=None):
    return "%s %s" % (format(number, ","), noun if number == 1 else plural or noun + "s")
