"""A stranger's minute: an empty folder with a checkout, the lines of docs/languages.md, a running program."""
import os
import re
import shutil
import sys
import tempfile
import unittest

from support import ROOT, need_cargo, run

sys.path.insert(0, os.path.join(ROOT, "tools"))

import zig  # noqa: E402

PAGE = os.path.join(ROOT, "docs", "languages.md")
BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.M | re.S)


def sections():
    """By title: the files that the page says to write, and the commands to type."""
    with open(PAGE) as file:
        text = file.read()
    found = {}
    for part in text.split("\n## ")[1:]:
        title = part.split("\n", 1)[0]
        blocks = BLOCK.findall(part)
        files = {name: body for kind, name, body in blocks if name}
        found[title] = (files, [body for kind, name, body in blocks if kind == "sh"])
    return found


class Stranger(unittest.TestCase):
    def typed(self, title):
        files, commands = sections()[title]
        folder = tempfile.mkdtemp(prefix="calm-stranger-")
        self.addCleanup(shutil.rmtree, folder)
        os.symlink(ROOT, os.path.join(folder, "calmalloc"))
        for name, body in files.items():
            os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
            with open(os.path.join(folder, name), "w") as file:
                file.write(body)
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("CARGO_", "CALM_"))}
        self.assertEqual(len(commands), 1, title)
        return run("sh", "-e", "-c", commands[0], cwd=folder, env=environment).stdout

    def test_rust(self):
        self.assertRegex(self.typed("Rust"), r"^1000 words on calmalloc \d+\.\d+\.\d+\n$")

    def test_cpp(self):
        self.assertRegex(self.typed("C++"), r"1000 numbers, 1000 squares on calmalloc \d+\.\d+\.\d+\n$")

    def test_zig(self):
        try:
            folder = os.path.dirname(zig.compiler(zig.versions()[0]))
        except zig.Trouble as trouble:
            self.skipTest(str(trouble))
        os.environ["PATH"] = folder + os.pathsep + os.environ["PATH"]
        self.assertRegex(self.typed("Zig"), r"^1000 words on calmalloc \d+\.\d+\.\d+\n$")

    def test_the_readmes_lines_are_the_pages(self):
        with open(PAGE) as file:
            page = file.read()
        with open(os.path.join(ROOT, "README.md")) as file:
            table = file.read().split("| in | the line |", 1)[1].split("\n\n", 1)[0]
        lines = [line for row in table.splitlines()[2:] for line in re.findall(r"`([^`]+)`", row.split("|")[2])]
        self.assertGreaterEqual(len(lines), 3)
        for line in lines:
            self.assertRegex(page, r"(?m)^ *%s$" % re.escape(line))


if __name__ == "__main__":
    need_cargo()
    unittest.main()
