"""What the tasks share. Each is what a user does who wonders where memory is: a program is started on calmalloc, one
command of calm is given on a terminal of 80x24, and what is on that screen when it ends is held against the line of the
source, or the numbers, that are right. Each task also has the program with its fault mended; there the answer must be
another one, so that a task which always says the same fails."""
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "package"))

from support import CALM, InFolder, calm, needs, run, wait_for  # noqa: E402, F401
from terminal import Terminal  # noqa: E402

COLUMNS, ROWS = 80, 24
PATIENCE_S = 120


class Task(InFolder):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        done = calm("heap", "/nonexistent/profile", check=False)  # so that no screen is told of fetching
        if "could not be fetched" in done.stderr:
            needs.skip(done.stderr.splitlines()[-1])

    @classmethod
    def source(cls, name):
        return os.path.join(HERE, name)

    def line(self, name, words):
        """file:line of these words in a program's source."""
        with open(self.source(name)) as file:
            return "%s:%d" % (name, next(number for number, line in enumerate(file, 1) if words in line))

    def start(self, *words, **environment):
        """A program that runs on calmalloc."""
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                   cwd=self.folder, env=dict(os.environ, LD_PRELOAD=self.library, **environment))
        self.addCleanup(self.end, process)
        return process

    def terminal(self, *words, **environment):
        terminal = Terminal([CALM, *words], COLUMNS, ROWS, **environment)
        self.addCleanup(terminal.close)
        return terminal

    def screen(self, *words, **environment):
        """What is on the screen when a command of calm has ended."""
        terminal = self.terminal(*words, **environment)
        self.assertEqual(terminal.ended(PATIENCE_S), 0, terminal.screen())
        return terminal.screen()

    def first_row(self, screen):
        """(live MiB, share, the rest) of the first row of a table of sites: all of it is on the screen, with its head
        and with what the program held."""
        self.assertRegex(screen, r"(?m)^calmalloc: heap of ")
        found = re.search(r"(?m)^ +live +blocks +share  function.*\n +~?([\d.]+) (\w+) +[\d,]+ +([\d.]+)%  (.*)$",
                          screen)
        self.assertTrue(found, screen)
        units = {"B": 2 ** -20, "KiB": 2 ** -10, "MiB": 1, "GiB": 1024}
        return float(found[1]) * units[found[2]], float(found[3]), found[4]
