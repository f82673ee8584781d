"""Builds and runs the tests; those that only watch a machine run again alone where they failed beside others."""
import json
import os
import re
import signal
import subprocess
import sys

import build
from trouble import Trouble

# These tests watch processes, memory, clocks and other people's programs, which another test may disturb. All others
# look for wrong answers of ours, and one wrong answer in a thousand runs is one too many: they get no second run.
DISTURBED_BY_OTHERS = {"bench", "bindings", "environment", "mq", "package", "programs"}
SECOND_RUNS_MAX = 3
SHOWN_TESTS_MAX = 3  # whose last words stand again at the end, where people look first
SHOWN_LINES_MAX = 12


def command_test(filter, full, preset, skip):
    if preset not in build.PRESETS:
        raise Trouble("there is no preset '%s'; choose one of %s." % (preset, ", ".join(build.PRESETS)), 2)
    build.need_for_tests(preset)
    folder = build.directory_of(preset)
    for step, command in (("configuring", build.configure_command(preset)),
                          ("building", ["cmake", "--build", folder, "-j", str(os.cpu_count() or 2)])):
        if subprocess.run(command, cwd=build.ROOT, stdin=subprocess.DEVNULL).returncode != 0:
            raise Trouble("%s the preset '%s' failed; the reason is above." % (step, preset))
    command = ["-j", "2", "--no-tests=error"]
    command += [] if full else ["-LE", "full"]
    command += ["-R", filter] if filter else []
    command += ["-E", skip] if skip else []
    return run(folder, command)


def run(folder, words):
    """Runs the tests of a build folder that `words` choose; returns 0, or what ctest returned."""
    code, said = _ctest(folder, words)
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
    return code


def _ctest(folder, words):
    """(what ctest returned, what the tests that failed printed last)."""
    sys.stdout.flush()
    child = subprocess.Popen(["ctest", "--test-dir", folder, "--output-on-failure", *words])
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


def _last_words(folder):
    """(name, last lines of what it printed) of each test that failed in the last run."""
    failed = {name for _, name in _failed(folder)}
    path = os.path.join(folder, "Testing", "Temporary", "LastTest.log")
    if not failed or not os.path.exists(path):
        return
    with open(path, errors="replace") as file:
        parts = re.split(r"^\d+/\d+ Testing: (.*)\n", file.read(), flags=re.M)
    for name, part in zip(parts[1::2], parts[2::2]):
        if name in failed:
            said = re.search(r"^Output:\n-+\n(.*?)<end of output>", part, re.S | re.M)
            yield name, (said.group(1) if said else "it printed nothing").rstrip().splitlines()[-SHOWN_LINES_MAX:]


def _labels(folder, words):
    """The labels of each test that `words` choose."""
    shown = subprocess.run(["ctest", "--test-dir", folder, "--show-only=json-v1", *words], text=True,
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    for test in json.loads(shown.stdout)["tests"]:
        yield {label for one in test.get("properties", []) if one["name"] == "LABELS" for label in one["value"]}
