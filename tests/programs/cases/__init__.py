"""The programs, by family. Importing this package fills `CASES` with every case, in the order in which they run."""

import importlib

from harness import Case

CASES = {}
FAMILIES = ("python", "interpreters", "compilers", "versions", "databases", "daemons", "names", "guarded",
            "pictures", "solvers", "replacing")


def case(name, label, packages, seconds_max=120, must_see=(), own_allocator=(), complaints=()):
    """Declares the function below it as a case; see harness.Case for what the words mean."""

    def declare(drive):
        CASES[name] = Case(name, drive, label, packages, seconds_max, must_see, own_allocator, complaints)
        return drive

    return declare


def load():
    for family in FAMILIES:
        importlib.import_module(f"cases.{family}")
    return CASES
