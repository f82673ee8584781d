"""Builds one preset beside the release build and runs its tests. Exit code 77 when its compiler is missing.

    preset_test.py PRESET FOLDER
"""
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
AARCH64 = ("aarch64-linux-gnu-g++", "qemu-aarch64")
NEEDS = {"clang": ("clang++-19",), "fuzz": ("clang++-19",), "aarch64-tests": AARCH64, "aarch64-tests-64k": AARCH64}

sys.path.insert(0, os.path.join(ROOT, "tests", "support"))

import needs  # noqa: E402


def main():
    preset, folder = sys.argv[1:3]
    needs.need(*NEEDS.get(preset, ()))
    env = dict(os.environ, CALM_BUILD_DIR=folder, CALM_PLAIN="1")
    return subprocess.run([os.path.join(ROOT, "calm"), "test", "--preset", preset, "--skip",
                           "presets|package|programs|style|bench"], env=env, stdin=subprocess.DEVNULL).returncode


if __name__ == "__main__":
    sys.exit(main())
