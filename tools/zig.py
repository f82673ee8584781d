#!/usr/bin/env python3
"""Prints the path of a pinned Zig compiler, and installs it if it is not there.

    zig.py [VERSION]      one of bindings/zig/versions.txt; the newest if not said

Each is installed with pip into a virtual environment below build/zig, or below CALM_ZIG_FOLDER: some 100 MB on the way,
400 MB on disk.
"""
import os
import re
import subprocess
import sys
import venv

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PINS = os.path.join(ROOT, "bindings", "zig", "versions.txt")


class Trouble(Exception):
    """Something a person must look at, in one sentence."""


def versions():
    """The pinned ones, newest first."""
    with open(PINS) as file:
        return re.findall(r"^ziglang==(\S+)$", file.read(), flags=re.M)


def folder_of(version):
    folder = os.environ.get("CALM_ZIG_FOLDER") or os.path.join(ROOT, "build", "zig")
    return os.path.join(os.path.abspath(folder), version)


def installed(version):
    """Where the compiler is, or would be."""
    return os.path.join(folder_of(version), "ziglang", "zig")


def compiler(version):
    """The path of a compiler that runs."""
    if version not in versions():
        raise Trouble("%s is not among %s of %s." % (version, ", ".join(versions()), os.path.relpath(PINS, ROOT)))
    path = installed(version)
    if not os.path.exists(path):
        environment = os.path.join(folder_of(version), "venv")
        venv.create(environment, with_pip=True)
        pip = [os.path.join(environment, "bin", "python"), "-m", "pip", "install", "--quiet", "--no-deps"]
        pip += ["--target", folder_of(version), "ziglang==" + version]
        done = subprocess.run(pip, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            raise Trouble("ziglang %s was not installed: %s" % (version, done.stdout.strip()[-500:]))
    return path


def main():
    try:
        print(compiler(sys.argv[1] if len(sys.argv) > 1 else versions()[0]))
    except Trouble as trouble:
        print("zig: %s" % trouble, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
