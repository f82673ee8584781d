"""Progress on standard error: a bar where the rich package and a terminal are there, plain lines where not."""

import sys
import time


class Progress:
    def __init__(self, total: int):
        self.total, self.done, self.start, self.bar = total, 0, time.monotonic(), None
        self.last = 0.0
        if sys.stderr.isatty():
            try:
                from rich.console import Console
                from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
                from rich.progress import Progress as Bar

                self.bar = Bar(
                    BarColumn(),
                    MofNCompleteColumn(),
                    TimeRemainingColumn(),
                    TextColumn("{task.description}"),
                    console=Console(stderr=True),
                    transient=True,
                    refresh_per_second=2,
                )
                self.task = self.bar.add_task("", total=total)
            except ImportError:
                pass

    def __enter__(self) -> "Progress":
        if self.bar:
            self.bar.start()
        return self

    def __exit__(self, *_exception) -> None:
        if self.bar:
            self.bar.stop()

    def step(self, what: str) -> None:
        """Call before each part of the work."""
        if self.bar:
            self.bar.update(self.task, completed=self.done, description=what)
        elif time.monotonic() - self.last > 10:
            self.last = time.monotonic()
            print(f"{self.done}/{self.total}, {self.last - self.start:.0f} s: {what}", file=sys.stderr, flush=True)
        self.done += 1

    def say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)
