"""Programs that a test needs and a machine may lack. What needs one of them is skipped, and says what is missing.

A script that is one test calls `need` first. A test case calls `here`, and its script ends with `main`: when the other
cases passed it exits with 77, which ctest calls skipped, since something of the script did not run.
"""
import os
import shutil
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.append(os.path.join(ROOT, "tools", "calm"))  # last: it has a run.py and others of common names

import test_packages  # noqa: E402

SKIPPED = 77
_lacking = []  # why something was skipped
_absent = []  # the programs it was skipped for


def reason(*programs):
    """What is missing, with the line that brings it; empty when nothing is."""
    absent = [program for program in programs if shutil.which(program) is None]
    if not absent:
        return ""
    by_program = {program: package for package in test_packages.read() for program in package.programs}
    words = " --full" if any(by_program[program].is_full for program in absent) else ""
    if len(absent) == 1:
        return "%s is missing; `./calm test --setup%s` brings it." % (absent[0], words)
    return "%s and %s are missing; `./calm test --setup%s` brings them." % (", ".join(absent[:-1]), absent[-1], words)


def skip(why):
    """Ends the script."""
    print("skipped: " + why, flush=True)
    sys.exit(SKIPPED)


def need(*programs):
    """Ends the script where a program is missing."""
    if reason(*programs):
        skip(reason(*programs))


def lacking(why):
    """Skips the test case, or what stands in a subTest, for want of something that can be installed."""
    _lacking.append(why)
    raise unittest.SkipTest(why)


def here(*programs):
    """As `lacking`, where a program is missing."""
    if reason(*programs):
        _absent.extend(programs)
        raise unittest.SkipTest(reason(*programs))


def main(**more):
    """unittest.main for scripts with such test cases."""
    finish(unittest.main(exit=False, **more).result)


def finish(result):
    """Exits as the tests ended."""
    if not result.wasSuccessful():
        sys.exit(1)
    why = [*dict.fromkeys(_lacking), reason(*dict.fromkeys(_absent))]
    if any(why):
        skip(" ".join(filter(None, why)) + ("" if len(result.skipped) == result.testsRun else " The rest passed."))
    sys.exit(0)
