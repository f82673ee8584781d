"""What the tests of the profile's formats share: the program under test, its stacks, and where its lines are."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import needs  # noqa: E402
from needs import skip  # noqa: E402, F401

HERE = os.path.dirname(os.path.abspath(__file__))
SCRATCH = os.environ.get("CALM_PROFILES_DIR") or tempfile.gettempdir()
# The functions of each stack, from the site to the outermost, as write_profile.c makes them.
FUNCTIONS = (("alpha_site", "middle", "run_all"), ("library_site", "run_all"), ("ends_in_call", "run_all"))


def run(*words, **more):
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          **more)
    if done.returncode != 0:
        raise AssertionError("%s ended with %d:\n%s%s" % (" ".join(words), done.returncode, done.stdout, done.stderr))
    return done.stdout


def line_of(file, mark):
    """The number of the line of a source that ends in the comment `mark`."""
    with open(os.path.join(HERE, file)) as source:
        found = [number for number, line in enumerate(source, 1) if line.rstrip().endswith("/* %s */" % mark)]
    assert len(found) == 1, (file, mark, found)
    return found[0]


class Program:
    """The program and its library in a folder of their own, with or without what debuggers need."""

    def __init__(self, folder, is_stripped):
        self.folder = os.path.realpath(folder)
        self.path, self.library = (self.copy(path, is_stripped) for path in sys.argv[1:3])

    def copy(self, path, is_stripped):
        copy = os.path.join(self.folder, os.path.basename(path))
        shutil.copy(path, copy)
        if is_stripped:
            run("objcopy", "--only-keep-debug", copy, copy + ".debug")
            run("strip", "--strip-all", copy)
        return copy

    def write(self, kind):
        """Writes a profile; its path, and each stack's return addresses and four numbers."""
        out = os.path.join(self.folder, "profile." + kind)
        lines = run(self.path, kind, out, env={"LD_LIBRARY_PATH": self.folder}).splitlines()
        stacks = []
        for line in lines:
            words = line.split()
            stacks.append(([int(word, 16) for word in words[:-4]], [int(word) for word in words[-4:]]))
        assert [len(callers) for callers, _ in stacks] == [len(names) for names in FUNCTIONS], stacks
        return out, stacks

    def build_id(self, path):
        return re.search(r"Build ID: ([0-9a-f]+)", run("readelf", "-n", path)).group(1)
