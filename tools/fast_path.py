#!/usr/bin/env python3
"""Counts the instructions of a cached malloc, its usable size and its free, as they run; holds them to a golden file.

    fast_path.py --tracer CALM_TRACE --library LIB --compiler NAME --checks N [--golden FILE] [--update]

Fails when a path has more instructions than the golden file says, or when it holds what law L2 forbids: a lock
prefix, an exchange with memory, a fence, a call, a system call, or an instruction outside the library. --update
writes the counts into the golden file, unless they exceed the limits that are fixed here.
Exit code 77: this machine does not allow tracing.
"""
import argparse
import json
import os
import re
import subprocess
import sys

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "golden", "fast_path.json")
SIZES = (48, 1000)
# By CALM_CHECKS; no golden file may allow more.
LIMITS = {"malloc": {"0": 24, "1": 28}, "malloc_usable_size": {"0": 24, "1": 25}, "free": {"0": 24, "1": 32}}
SKIP = 77

FORBIDDEN = (
    (re.compile(r"^lock\b"), "a lock prefix"),
    (re.compile(r"^xchg\b.*\("), "an exchange with memory, which locks"),
    (re.compile(r"^(mfence|sfence|lfence|pause)\b"), "a fence"),
    (re.compile(r"^(syscall|sysenter|int)\b"), "a system call"),
    (re.compile(r"^(notrack )?call"), "a call"),
    (re.compile(r"^(i?div)\b"), "a division"),
    (re.compile(r"^rep"), "a string instruction"),
)


def fail(sentence):
    print("fast_path: " + sentence, file=sys.stderr)
    return 1


def disassembly(library):
    """Instruction text by offset."""
    try:
        done = subprocess.run(["objdump", "-d", "--no-show-raw-insn", library], capture_output=True, text=True)
    except FileNotFoundError:
        sys.exit(fail("objdump is missing; apt-get install binutils brings it."))
    if done.returncode != 0:
        sys.exit(fail("objdump cannot read it: " + done.stderr.strip()))
    found = {}
    for line in done.stdout.splitlines():
        match = re.match(r"^\s*([0-9a-f]+):\s+(.*)$", line)
        if match:
            found[int(match.group(1), 16)] = re.sub(r"\s+", " ", match.group(2)).strip()
    return found


def trace(tracer, library, size):
    done = subprocess.run([tracer, library, str(size)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        print(done.stderr.strip(), file=sys.stderr)
        sys.exit(done.returncode)
    return json.loads(done.stdout)


def judge(name, offsets, outside, code, allowed, limit):
    """Prints the listing; returns the sentences of what is wrong with it."""
    wrong = []
    print("%s: %d instructions%s" % (name, len(offsets), "" if allowed is None else ", %d allowed" % allowed))
    for offset in offsets:
        text = code.get(offset, "(unknown)")
        print("  %6x  %s" % (offset, text))
        for pattern, what in FORBIDDEN:
            if pattern.search(text):
                wrong.append("%s has %s: %s" % (name, what, text))
    if not offsets:
        wrong.append("%s never entered the library." % name)
    if outside:
        wrong.append("%s ran %d instructions outside the library." % (name, outside))
    if limit is not None and len(offsets) > limit:
        wrong.append("%s has %d instructions; the limit is %d." % (name, len(offsets), limit))
    elif allowed is not None and len(offsets) > allowed:
        wrong.append("%s has %d instructions; the golden file allows %d. If that is wanted, --update records it." %
                     (name, len(offsets), allowed))
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--tracer", required=True)
    parser.add_argument("--library", required=True)
    parser.add_argument("--compiler", required=True, help="the golden file's key, for example gcc-12")
    parser.add_argument("--checks", required=True, help="CALM_CHECKS of the library")
    parser.add_argument("--golden", default=GOLDEN)
    parser.add_argument("--update", action="store_true", help="write the counts into the golden file")
    options = parser.parse_args()

    with open(options.golden) as file:
        golden = json.load(file)
    allowed = golden.get(options.compiler, {}).get("checks " + options.checks, {})
    code = disassembly(os.path.realpath(options.library))
    wrong, counts = [], {}
    for size in SIZES:
        traced = trace(options.tracer, options.library, size)
        for function in LIMITS:
            name = "%s of %d bytes" % (function, size)
            counts[name] = len(traced[function])
            limit = LIMITS[function].get(options.checks)
            known = [most for most in (None if options.update else allowed.get(name), limit) if most is not None]
            most = min(known, default=None)
            wrong += judge(name, traced[function], traced[function + "_outside"], code, most, limit)
    if options.update and not wrong:
        golden.setdefault(options.compiler, {})["checks " + options.checks] = counts
        with open(options.golden, "w") as file:
            json.dump(golden, file, indent=2, sort_keys=True)
            file.write("\n")
    elif not options.update and not allowed:
        print("fast_path: no golden counts for %s; only what is forbidden was looked for." % options.compiler)
    for name in counts:
        if not options.update and counts[name] < allowed.get(name, 0):
            print("fast_path: %s has become shorter, %d instead of %d; --update records it." %
                  (name, counts[name], allowed[name]))
    for sentence in wrong:
        fail(sentence)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
