"""The terminal's other page, on which `calm top` draws, and the keys that are pressed meanwhile."""
import os
import select
import shutil
import sys
import time

import say
from top_page import ORDERS, View

CLEAR, HOME, REST = "\x1b[2J", "\x1b[H", "\x1b[J"
SCREEN, NO_SCREEN = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
BOLD, PLAIN = "\x1b[1m", "\x1b[0m"
KEYS_BYTES_MAX = 64
END, REDRAW, REFRESH = range(3)  # what to do next


class Keys:
    """What the keys have asked for so far."""

    def __init__(self):
        self.view, self.is_frozen, self.is_typed = View(), False, False

    def press(self, key):
        """END, REDRAW, or None where the key means nothing."""
        if self.is_typed:
            return self.type(key)
        if key in ("q", "Q", "\x03", "\x04"):
            return END
        if key in ("s", "S"):
            step = 1 if key == "s" else -1
            self.view.order = ORDERS[(ORDERS.index(self.view.order) + step) % len(ORDERS)]
        elif key in ("f", " "):
            self.is_frozen = not self.is_frozen
        elif key == "/":
            self.is_typed, self.view.words = True, ""
        elif key == "\x1b":
            self.view.words = ""
        else:
            return None
        return REDRAW

    def type(self, key):
        """A key of the words that sites are filtered by."""
        if key in ("\x03", "\x04"):
            return END
        if key in ("\r", "\n", "\x1b"):
            self.is_typed = False
            self.view.words = "" if key == "\x1b" else self.view.words
        elif key in ("\x7f", "\b"):
            self.view.words = self.view.words[:-1]
        elif key.isprintable():
            self.view.words += key.lower()
        return REDRAW

    def line(self):
        """The last line of the screen."""
        if self.is_typed:
            return "  sites with: %s_   Enter keeps it, Esc shows all" % self.view.words
        return "  q ends   s sorts: %s   / filters%s   f %s" % (
            self.view.order, ": %s, Esc shows all" % self.view.words if self.view.words else "",
            "goes on; FROZEN" if self.is_frozen else "freezes")


class Screen:
    """The terminal's other page, and its keys while it is shown; or plain lines."""

    def __init__(self, is_on):
        self.is_on, self.settings, self.keys = is_on, None, Keys()

    def __enter__(self):
        if self.is_on:
            sys.stdout.write(SCREEN + CLEAR)
            if sys.stdin.isatty():
                import termios
                self.settings = termios.tcgetattr(sys.stdin)
                quiet = termios.tcgetattr(sys.stdin)
                quiet[3] &= ~(termios.ICANON | termios.ECHO)
                termios.tcsetattr(sys.stdin, termios.TCSADRAIN, quiet)
        return self

    def __exit__(self, *_):
        if self.settings is not None:
            import termios
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self.settings)
        if self.is_on:
            sys.stdout.write(NO_SCREEN)
            sys.stdout.flush()

    def view(self):
        """What the next page is to show, and how large it may be."""
        view = self.keys.view
        if sys.stdout.isatty():
            view.columns, rows = shutil.get_terminal_size()
            view.rows = rows - 1  # the last line is for the keys, or the prompt
        return view

    def draw(self, lines):
        if not self.is_on:
            columns = self.keys.view.columns
            say.plain([fitted(line, columns) for line in lines] if columns else lines, sys.stdout)
            return
        rows, columns = self.keys.view.rows, self.keys.view.columns
        lines = lines[:rows] + [""] * (rows - len(lines)) + [self.keys.line()]
        shown = [fitted(say.clean(line), columns) for line in lines]
        shown[0] = shown[0] if os.environ.get("NO_COLOR") else BOLD + shown[0] + PLAIN
        sys.stdout.write(HOME + "".join("%s\x1b[K%s" % (line, "\r\n" if index + 1 < len(shown) else "")
                                        for index, line in enumerate(shown)) + REST)
        sys.stdout.flush()

    def wait(self, seconds):
        """Waits for the next refresh, or for a key: END, REDRAW or REFRESH. `seconds` None: for a key."""
        if self.settings is None:
            time.sleep(seconds)
            return REFRESH
        end = time.monotonic() + seconds if seconds is not None else None
        while True:
            wait = max(0.0, end - time.monotonic()) if end is not None else None
            ready, _, _ = select.select([sys.stdin], [], [], wait)
            if not ready:
                return REFRESH
            data = os.read(sys.stdin.fileno(), KEYS_BYTES_MAX).decode(errors="replace")
            if not data:
                return END
            if data[0] == "\x1b" and len(data) > 1:  # an arrow or the like
                continue
            found = [self.keys.press(key) for key in data]
            if END in found:
                return END
            if REDRAW in found:
                return REDRAW


def fitted(line, columns):
    """A line that fits; where its last word is a place in a source, the words before it give way."""
    if len(line) <= columns:
        return line
    rest, _, last = line.rpartition(" ")
    room = columns - len(last) - 2
    if ":" in last and room > columns // 2:
        return rest[:room] + "… " + last
    return line[:columns - 1] + "…"
