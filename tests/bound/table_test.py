#!/usr/bin/env python3
"""Compiles the pools with each compiler and for each machine that the table stands for, and compares it with them.

    table_test.py [--write]

Fails when an operation has a loop or a call, when it can take more than tests/bound/table.def says, or when the
table says more than any of the compilers needs. --write writes the table anew. Where gcc is not version 12 its code
must not need more than the table says, and nothing is said of less.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
TABLE = os.path.join(HERE, "table.def")
FLAGS = ["-std=c17", "-O2", "-DCALM_CHECKS=1", "-fPIC", "-fvisibility=hidden", "-fno-plt", "-ftls-model=initial-exec",
         "-fno-semantic-interposition", "-ffreestanding", "-I" + os.path.join(ROOT, "src"),
         "-I" + os.path.join(ROOT, "include")]
COMPILERS = (("gcc",), ("clang-19",), ("aarch64-linux-gnu-gcc",))
GCC_MAJOR = "12"

sys.path.insert(0, os.path.join(ROOT, "tests", "support"))

import needs  # noqa: E402


def major_of(compiler):
    return subprocess.run([compiler, "-dumpversion"], capture_output=True, text=True).stdout.split(".")[0]


def objects(folder):
    """An archive for each compiler, and whether each is of the version that the table is exact for."""
    made, is_exact = [], True
    for number, command in enumerate(COMPILERS):
        is_exact &= "gcc" not in command[0] or major_of(command[0]) == GCC_MAJOR
        parts = []
        for name in ("pool", "region", "bounded"):
            parts.append(os.path.join(folder, "%s%d.o" % (name, number)))
            subprocess.run([*command, *FLAGS, "-c", os.path.join(ROOT, "src", "pool", name + ".c"), "-o", parts[-1]],
                           check=True)
        made.append(os.path.join(folder, re.sub(r"\W", "_", "".join(command)) + ".a"))
        subprocess.run(["ar", "rc", made[-1], *parts], check=True)
    return made, is_exact


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    needs.need(*(command[0] for command in COMPILERS), "aarch64-linux-gnu-objdump")
    with tempfile.TemporaryDirectory() as folder:
        archives, is_exact = objects(folder)
        mode = "--write" if options.write else "--exact" if is_exact else "--check"
        return subprocess.run([sys.executable, os.path.join(ROOT, "tools", "bound"), mode, TABLE, *archives]).returncode


if __name__ == "__main__":
    sys.exit(main())
