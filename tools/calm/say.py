"""What calm prints about itself. Everything goes to standard error: standard output belongs to PROGRAM, or to the
one answer that was asked for. Colours come from rich, on a terminal, when it is there."""
import os
import sys


def console():
    """The rich console for standard error, or None."""
    if os.environ.get("CALM_PLAIN") or os.environ.get("NO_COLOR") or not sys.stderr.isatty():
        return None
    try:
        from rich.console import Console
        return Console(stderr=True, highlight=False, soft_wrap=True)
    except ImportError:
        return None


def line(text, style=None):
    rich = console()
    if rich is None:
        print(text, file=sys.stderr, flush=True)
    else:
        rich.print(text, style=style, markup=False)


def pairs(title, rows):
    """A title and aligned name-value rows; a row without a name continues the one above."""
    width = max([len(name) for name, _ in rows] + [0])
    rich = console()
    if rich is None:
        lines = [title] + ["  %-*s  %s" % (width, name, value) for name, value in rows]
        print("\n".join(text.rstrip() for text in lines), file=sys.stderr, flush=True)
        return
    from rich.text import Text
    rich.print(Text(title, style="bold"))
    for name, value in rows:
        style = "yellow" if name == "warning" else "cyan"
        rich.print(Text.assemble("  ", ("%-*s" % (width, name), style), "  ", value))


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
