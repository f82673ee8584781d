"""tests/packages.txt: the Debian packages that the tests need, and the programs that tests miss without them."""
import os
from dataclasses import dataclass

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "packages.txt")


@dataclass
class Package:
    name: str
    is_full: bool  # only the slow tests need it
    programs: tuple


def read(path=PATH):
    found = []
    with open(path) as file:
        for line in file:
            words = line.split("#")[0].split()
            if words:
                name, when, *programs = words
                if when not in ("quick", "full"):
                    raise ValueError("%s: %s is quick or full, not %s." % (path, name, when))
                found.append(Package(name, when == "full", tuple(programs)))
    return found
