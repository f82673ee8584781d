"""A stranger's minute: an empty folder with a checkout, the lines of docs/languages.md or docs/packages.md, a running
program.

    stranger_test.py languages|packages

Each section of the page that has commands is one test, by its title; a new language is one line in PRINTS.
"""
import atexit
import os
import re
import shutil
import sys
import tempfile
import unittest

from support import HERE, ROOT, needs, run

DEBIANS_BAZEL = {"rules_java": "/usr/share/bazel/rules/java", "rules_proto": "/usr/share/bazel/rules/proto",
                 "platforms": "/usr/share/bazel/tools/platforms"}
BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.M | re.S)

WORDS = r"^1000 words on calmalloc \d+\.\d+\.\d+$"

BYTES = r"^1\d\d usable bytes of calmalloc \d+\.\d+\.\d+$"  # 0 would be another malloc's

# Page, section: what its program prints, and the program that must be here for it to be tried.
PRINTS = {"languages": {
    "Rust": (WORDS, "cargo"),
    "Zig": (WORDS, "zig"),
    "C++": (r"^1000 numbers, 1000 squares on calmalloc \d+\.\d+\.\d+$", "c++"),
    "Python": (WORDS, "python3"),
    "C": (WORDS, "cc"),
    "Any program": (r"(?s)^sort \(GNU.*^calmalloc: sort --version\n.*  counted       nothing", "sort"),
}, "packages": {
    "CMake, fetched": (BYTES, "cmake"),
    "CMake, installed": (BYTES, "cmake"),
    "pkg-config": (BYTES, "pkg-config"),
    "Meson": (BYTES, "meson"),
    "Bazel": (BYTES, "bazel"),
}}


def text_of(page):
    with open(os.path.join(ROOT, "docs", page + ".md")) as file:
        return file.read()


def sections(page):
    """By title: the files that the page says to write, those before the first section too, and the commands to type."""
    first, *parts = text_of(page).split("\n## ")
    found = {}
    for part in parts:
        title = part.split("\n", 1)[0]
        blocks = BLOCK.findall(first) + BLOCK.findall(part)
        files = {name: body for kind, name, body in blocks if name}
        found[title] = (files, [body for kind, name, body in blocks if kind == "sh"])
    return found


def fetch_meson():
    """Puts a meson of a known version in front of PATH, where pip can have it."""
    folder = tempfile.mkdtemp(prefix="calm-meson-")
    atexit.register(shutil.rmtree, folder)
    run("python3", "-m", "venv", folder)
    run(os.path.join(folder, "bin", "pip"), "install", "--quiet", "--disable-pip-version-check", "-r",
        os.path.join(HERE, "meson-requirements.txt"), check=False)
    os.environ["PATH"] = os.path.join(folder, "bin") + os.pathsep + os.environ["PATH"]


def fetch_zig():
    """Puts the newest of our Zig compilers in front of PATH, where it can be had."""
    path = run(sys.executable, os.path.join(ROOT, "tools", "zig.py"), check=False).stdout.strip()
    os.environ["PATH"] = os.path.dirname(path) + os.pathsep + os.environ["PATH"]


FETCHED = {"meson": fetch_meson, "zig": fetch_zig}


def prepare_bazel(test, folder):
    """Bazel's own files in the folder; and what it would fetch, where Debian's package has it."""
    lines = ["startup --batch --output_user_root=" + os.path.join(folder, "bazel-user")]
    for name, place in DEBIANS_BAZEL.items():
        if os.path.isdir(place):
            lines.append("build --override_repository=%s=%s" % (name, place))
    if len(lines) > 1:
        lines.append("build --override_repository=rules_cc=" + os.path.join(HERE, "bazel_rules_cc"))
    with open(os.path.join(folder, ".bazelrc"), "w") as file:
        file.write("\n".join(lines) + "\n")
    test.addCleanup(run, "chmod", "-R", "u+w", folder)


class Stranger(unittest.TestCase):
    def typed(self, page, title):
        files, commands = sections(page)[title]
        folder = tempfile.mkdtemp(prefix="calm-stranger-")
        self.addCleanup(shutil.rmtree, folder)
        os.symlink(ROOT, os.path.join(folder, "calmalloc"))
        for name, body in files.items():
            os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
            with open(os.path.join(folder, name), "w") as file:
                file.write(body)
        if title == "Bazel":
            prepare_bazel(self, folder)
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("CARGO_", "CALM_"))
                       or key == "CALM_BUILD_DIR"}
        self.assertEqual(len(commands), 1, title)
        done = run("sh", "-e", "-c", commands[0], cwd=folder, env=dict(environment, CALM_PLAIN="1"))
        return done.stdout + done.stderr

    def test_every_section_with_commands_is_tried(self):
        for page, known in PRINTS.items():
            self.assertEqual({title for title, (_, commands) in sections(page).items() if commands}, set(known))

    def test_the_readmes_lines_are_the_pages(self):
        page = {line.strip() for line in text_of("languages").splitlines()}
        with open(os.path.join(ROOT, "README.md")) as file:
            table = file.read().split("| in | the line |", 1)[1].split("\n\n", 1)[0]
        lines = [line for row in table.splitlines()[2:] for line in re.findall(r"`([^`]+)`", row.split("|")[2])]
        self.assertGreaterEqual(len(lines), 3)
        for line in lines:
            self.assertIn(line, page)


def test_of(page, title):
    prints, program = PRINTS[page][title]

    def test(self):
        if program in FETCHED:
            FETCHED[program]()
        if shutil.which(program) is None:
            needs.lacking("%s is missing, which '%s' needs." % (program, title))
        self.assertRegex(self.typed(page, title), re.compile(prints, re.M))
    return test


if __name__ == "__main__":
    wanted = sys.argv.pop(1)
    for name in PRINTS[wanted]:
        setattr(Stranger, "test_" + re.sub(r"\W+", "_", name.lower().replace("+", "p")), test_of(wanted, name))
    needs.main()
