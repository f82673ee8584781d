"""Builds and runs the tests; those that only watch a machine run again alone where they failed beside others."""
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import xml.etree.ElementTree

import build
import test_names
import test_setup
from trouble import Trouble

# These tests watch processes, memory, clocks and other people's programs, which another test may disturb. All others
# look for wrong answers of ours, and one wrong answer in a thousand runs is one too many: they get no second run.
DISTURBED_BY_OTHERS = {"bench", "bindings", "environment", "mq", "package", "programs"}
SECOND_RUNS_MAX = 3
SHOWN_TESTS_MAX = 3  # whose last words stand again at the end, where people look first
SHOWN_LINES_MAX = 12
RESULTS = "calm-results.xml"  # ctest writes it
BRINGS = re.compile(r"; `(\./calm test --setup( --full)?)` brings (it|them)\.")  # tests/support/needs.py says it


def command_test(filter, full, preset, skip, list, setup, yes):
    if setup:
        return test_setup.install(full, yes)
    if preset not in build.PRESETS:
        raise Trouble("there is no preset '%s'; choose one of %s." % (preset, ", ".join(build.PRESETS)), 2)
    build.need_for_tests(preset)
    folder = build.directory_of(preset)
    _step("configuring", preset, build.configure_command(preset), is_quiet=True)
    choice = filter, skip, full
    tests = test_names.matching(test_names.read(folder), *choice)
    if not tests and filter:  # a value may be part of the name, which only a program that is built tells
        _build(preset, set(test_names.programs_with_values(folder, filter)), is_quiet=list)
        tests = test_names.matching(test_names.read(folder), *choice)
    if not tests:
        raise Trouble(_none(folder, *choice))
    if list:
        print("\n".join(test.name for test in tests))
        return 0
    _build(preset, {target for test in tests for target in test.targets} if filter else None)
    tests = test_names.matching(test_names.read(folder), *choice)
    numbers = ",".join(str(test.number) for test in tests if test.number)
    return run(folder, ["-j", "2", "--no-tests=error", "-I", "0,0,0," + numbers])


def _step(what, preset, command, is_quiet):
    done = subprocess.run(command, cwd=build.ROOT, stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE if is_quiet else None,
                          stderr=subprocess.STDOUT if is_quiet else None)
    if done.returncode != 0:
        sys.stderr.write(done.stdout or "")
        raise Trouble("%s the preset '%s' failed; the reason is above." % (what, preset))


def _build(preset, targets, is_quiet=False):
    """Builds these targets; None is all there are."""
    if targets is None or targets:
        words = ["--target", *sorted(targets)] if targets else []
        _step("building", preset, ["cmake", "--build", build.directory_of(preset), "-j", str(os.cpu_count() or 2),
                                   *words], is_quiet)


def _none(folder, filter, skip, full):
    """Why there is no test to run, in one sentence."""
    if filter and not full and test_names.matching(test_names.read(folder), filter, skip, True):
        return "all tests that match '%s' are slow ones; add --full." % filter
    if filter and skip:
        return "no test matches '%s' but not '%s'; `./calm test --list` prints the names." % (filter, skip)
    return "no test matches%s; `./calm test --list` prints the names." % (" '%s'" % filter if filter else "")


def run(folder, words):
    """Runs the tests of a build folder that `words` choose; returns 0, or what ctest returned."""
    code, said = _ctest(folder, words)
    skipped = _skipped(folder)
    failed = _failed(folder) if code > 0 else []
    if failed and len(failed) <= SECOND_RUNS_MAX:
        alone = ["-I", "0,0,0,%s" % ",".join(number for number, _ in failed)]
        if all(labels & DISTURBED_BY_OTHERS for labels in _labels(folder, alone)):
            names = ", ".join(name for _, name in failed)
            print("\ncalm: again, with nothing beside it: %s." % names, file=sys.stderr)
            code, said = _ctest(folder, alone + ["-j", "1"])
            if code == 0:
                print("\ncalm: failed with other tests beside it, passed alone, so it is unsteady: %s." % names,
                      file=sys.stderr)
    for name, lines in said[:SHOWN_TESTS_MAX]:
        print("\ncalm: %s failed; its last lines:" % name, *lines, sep="\n    ", file=sys.stderr)
    _name_skipped(skipped)
    return code


def _ctest(folder, words):
    """(what ctest returned, what the tests that failed printed last)."""
    sys.stdout.flush()
    child = subprocess.Popen(["ctest", "--test-dir", folder, "--output-on-failure", "--output-junit",
                              os.path.join(folder, RESULTS), *words])
    while True:
        try:
            code = child.wait()
            return code, list(_last_words(folder)) if code > 0 else []
        except KeyboardInterrupt:
            child.send_signal(signal.SIGINT)


def _failed(folder):
    """(number, name) of each test that failed in the last run."""
    path = os.path.join(folder, "Testing", "Temporary", "LastTestsFailed.log")
    if not os.path.exists(path):
        return []
    with open(path) as lines:
        return [tuple(line.strip().split(":", 1)) for line in lines if ":" in line]


def _said(folder):
    """(name, lines that it printed) of each test of the last run."""
    path = os.path.join(folder, "Testing", "Temporary", "LastTest.log")
    if not os.path.exists(path):
        return
    with open(path, errors="replace") as file:
        parts = re.split(r"^\d+/\d+ Testing: (.*)\n", file.read(), flags=re.M)
    for name, part in zip(parts[1::2], parts[2::2]):
        said = re.search(r"^Output:\n-+\n(.*?)<end of output>", part, re.S | re.M)
        yield name, (said.group(1) if said else "it printed nothing").rstrip().splitlines()


def _last_words(folder):
    """(name, last lines of what it printed) of each test that failed in the last run."""
    failed = {name for _, name in _failed(folder)}
    for name, lines in _said(folder):
        if name in failed:
            yield name, lines[-SHOWN_LINES_MAX:]


def _skipped(folder):
    """The names of tests that were skipped in the last run, by what they gave as their reason."""
    path = os.path.join(folder, RESULTS)
    if not os.path.exists(path):
        return {}
    names = {case.get("name") for case in xml.etree.ElementTree.parse(path).iter("testcase")
             if any(one.get("message", "").startswith("SKIP_") for one in case.iter("skipped"))}
    found = {}
    for name, lines in _said(folder):
        if name in names:
            found.setdefault(_reason(lines), []).append(name)
    return found


def _reason(lines):
    """Why a test was skipped: the line that begins with `skipped: `, or what GoogleTest prints below `Skipped`."""
    for line in reversed(lines):
        if line.startswith("skipped: "):
            return line[len("skipped: "):]
    for mark, line in zip(lines, lines[1:]):
        if mark.endswith(": Skipped"):
            return line
    return next((line for line in reversed(lines) if line.strip()), "it printed nothing")


def _name_skipped(skipped):
    """The last lines of all: what was skipped and why, and the one line that brings the tools that were missing."""
    if not skipped:
        return
    print("\ncalm: skipped:", file=sys.stderr)
    for reason, names in skipped.items():
        print("    %s" % BRINGS.sub(".", reason), file=sys.stderr)
        print(textwrap.fill(", ".join(names), 110, initial_indent=" " * 8, subsequent_indent=" " * 8,
                            break_on_hyphens=False), file=sys.stderr)
    lines = {found.group(1) for found in map(BRINGS.search, skipped) if found}
    if lines:
        print("calm: this brings the tools that are missing: %s" % max(lines, key=len), file=sys.stderr)


def _labels(folder, words):
    """The labels of each test that `words` choose."""
    shown = subprocess.run(["ctest", "--test-dir", folder, "--show-only=json-v1", *words], text=True,
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    for test in json.loads(shown.stdout)["tests"]:
        yield {label for one in test.get("properties", []) if one["name"] == "LABELS" for label in one["value"]}
