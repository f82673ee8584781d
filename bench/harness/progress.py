"""Progress on standard error: bar and running table where there are the rich package and a terminal, else lines."""

import sys
import time

try:
    import rich.console
    import rich.live
    import rich.progress_bar
    import rich.table
except ImportError:
    rich = None

LINES_BESIDE_THE_TABLE = 6
PLAIN_EVERY_SECONDS = 10


def duration(seconds: float) -> str:
    """In words, as exact as an estimate can be."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


class Progress:
    """
    `total` is what all the work is expected to take, in seconds. How much time is left follows from how long the work
    took that is done, against what was expected of it. `standing` has the rows of the table.
    """

    def __init__(self, total: float, standing):
        self.total, self.standing = total, standing
        self.done, self.start, self.said, self.what = 0.0, time.monotonic(), 0.0, ""
        self.again = 0.0  # seconds that went into doing runs again
        self.live = None
        if rich and sys.stderr.isatty():
            self.console = rich.console.Console(stderr=True)
            self.live = rich.live.Live(
                console=self.console, transient=True, refresh_per_second=2, get_renderable=self._draw
            )

    def __enter__(self) -> "Progress":
        if self.live:
            self.live.start()
        return self

    def __exit__(self, *_exception) -> None:
        if self.live:
            self.live.stop()

    def left(self) -> str:
        if self.done < 1:
            return f"about {duration(self.total)}"
        spent = time.monotonic() - self.start
        return f"about {duration((self.total - self.done) * spent / self.done)} left"

    def step(self, what: str) -> None:
        """Call before each part of the work."""
        self.what = what
        if not self.live and time.monotonic() - self.said > PLAIN_EVERY_SECONDS:
            self.said = time.monotonic()
            self.say(f"{self.done / max(self.total, 1e-9):.0%}, {self.left()}: {what}")

    def advance(self, expected: float) -> None:
        """Call after it, with what was expected of it."""
        self.done = min(self.total, self.done + expected)

    def show(self, row, is_last: bool) -> None:
        """Brings the row of the table up to date; without a terminal prints it once, at its end."""
        if self.live or is_last:
            texts = self.standing.update(row)
        if not self.live and is_last:
            pairs = [f"{name} {text}" for name, text in zip(self.standing.names[1:], texts) if text]
            self.say(f"{row.name}: {self.standing.names[0]} over " + ", ".join(pairs) if pairs else f"{row.name}: done")

    def say(self, text: str) -> None:
        if self.live:
            self.console.print(text, markup=False, highlight=False)
        else:
            print(text, file=sys.stderr, flush=True)

    def _draw(self):
        table = rich.table.Table(box=None, pad_edge=False)
        table.add_column(f"{self.standing.names[0]} over")
        for name in self.standing.names[1:]:
            table.add_column(name, justify="right")
        room = max(1, self.console.height - LINES_BESIDE_THE_TABLE)
        for row, texts in list(self.standing.shown.items())[-room:]:
            table.add_row(row, *texts)
        bar = rich.progress_bar.ProgressBar(total=max(self.total, 1e-9), completed=self.done, width=30)
        line = rich.table.Table.grid(padding=(0, 1))
        line.add_row(bar, f"{self.done / max(self.total, 1e-9):.0%}", self.left(), self.what)
        return rich.console.Group(table, line)
