#!/usr/bin/env python3
"""
run_program.py NAME --lib LIBRARY --witness WITNESS: runs a real program without and with LIBRARY preloaded.

Passes (0) when both runs print the same and end the same, every process really ran on the library, and the library
itself said nothing. Skips (77) when the program is not installed, and says how to install it. Fails (1) otherwise,
with the difference and a command line that repeats it. `--list` prints name, label and seconds of every case.

With `--must-fail PATTERN` the verdict turns round: it passes only when the case fails and says PATTERN. That is how
the deliberately wrong libraries of preloads/broken.c show that each check can fail.
"""

import argparse
import os
import re
import shutil
import sys
import tempfile
import time
from pathlib import Path

import cases
from filtered import FilteredWorld, TracedWorld
from harness import Failure, Skip, World, complaints, differences, not_loaded

sys.path.append(str(Path(__file__).resolve().parents[2] / "tools" / "calm"))

import test_packages  # noqa: E402

PASSED, FAILED, SKIPPED = 0, 1, 77


def check_packages(all_cases):
    """Every case's packages are in the list that the installer reads, and a quick case needs no heavy one."""
    known = {package.name: package for package in test_packages.read()}
    for case in all_cases.values():
        for package in case.packages:
            if package not in known:
                sys.exit(f"tests/packages.txt has no line for {package}, which {case.name} needs")
            if case.label == "programs" and known[package].is_full:
                sys.exit(f"{case.name} runs every time, so tests/packages.txt must call {package} quick")


def run_world(case, world):
    started = time.monotonic()
    trouble = []
    try:
        case.drive(world)
    except Failure as failure:
        trouble.append(str(failure))
    finally:
        world.close()
    return trouble, time.monotonic() - started


class NothingToCompare(Exception):
    """The program fails on the system's allocator already."""


def run_case(case, library, witness, root, seconds_max, filtered):
    """What is wrong, as a list of texts, and one line about how long it took."""
    own_library = root / "libcalmalloc.so"  # A copy where any user may read it, that a rebuild cannot change midway.
    shutil.copyfile(library, own_library)
    own_witness = root / "witness.so"
    shutil.copyfile(witness, own_witness)

    end = time.monotonic() + seconds_max
    system = TracedWorld(root, None, own_witness, end) if filtered else World(root, None, own_witness, end)
    trouble, system_seconds = run_world(case, system)
    if trouble:
        raise NothingToCompare("\n".join(trouble))
    rest = root, own_library, own_witness, time.monotonic() + seconds_max
    preloaded = FilteredWorld(filtered, system.called(), *rest) if filtered else World(*rest)
    trouble, seconds = run_world(case, preloaded)
    found = trouble if trouble else differences(system, preloaded)
    found += complaints(case, preloaded) + not_loaded(case, preloaded)
    processes = len({testimony.pid for testimony in preloaded.testimonies()})
    times = f"{system_seconds:.1f} s without, {seconds:.1f} s with"
    return found, f"{len(preloaded.steps)} steps, {processes} processes; {times}"


def verdict(found, must_fail):
    if must_fail is None:
        return FAILED if found else PASSED
    said = "\n".join(found)
    if re.search(must_fail, said):
        print(f"rightly failed, and said: {re.search(must_fail, said).group(0)}")
        return PASSED
    print(f"should have failed and said {must_fail!r}; " + ("it passed" if not found else "it said something else"))
    return FAILED


def main():
    all_cases = cases.load()
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0].strip())
    parser.add_argument("name", nargs="?", choices=sorted(all_cases), help="which program")
    parser.add_argument("--lib", type=Path, help="the library to preload")
    parser.add_argument("--witness", type=Path, help="the built preloads/witness.c")
    parser.add_argument("--filtered", metavar="LAUNCHER", help="under the list of system calls (filtered.py)")
    parser.add_argument("--must-fail", metavar="PATTERN", help="pass only when it fails and says this")
    parser.add_argument("--seconds", type=float, help="how long each of the two runs may take")
    parser.add_argument("--keep", action="store_true", help="keep the work directory")
    parser.add_argument("--list", action="store_true", help="print name, label and seconds of every case")
    arguments = parser.parse_args()

    check_packages(all_cases)
    if arguments.list:
        for case in all_cases.values():
            print(case.name, case.label, case.seconds_max)
        return PASSED
    if not (arguments.name and arguments.lib and arguments.witness):
        parser.error("needs NAME, --lib and --witness")

    case = all_cases[arguments.name]
    root = Path(tempfile.mkdtemp(prefix=f"calm-{case.name}-"))
    root.chmod(0o755)
    try:
        seconds = arguments.seconds or case.seconds_max
        found, summary = run_case(case, arguments.lib, arguments.witness, root, seconds, arguments.filtered)
    except Skip as skip:
        print(f"skipped: {skip}; `./calm test --setup{' --full' if case.label == 'full' else ''}` brings it.")
        return SKIPPED
    except NothingToCompare as nothing:
        print(f"{case.name} fails without the library, so there is nothing to compare:\n{nothing}")
        return FAILED
    finally:
        if arguments.keep:
            print(f"kept: {root}")
        else:
            shutil.rmtree(root, ignore_errors=True)
    print(f"{case.name}: {summary}")
    for text in found:
        print(text)
    return verdict(found, arguments.must_fail)


if __name__ == "__main__":
    os.umask(0o022)
    sys.exit(main())
