"""Builds one preset beside the release build and runs its tests. Exit code 77 when its compiler is missing.

    preset_test.py PRESET FOLDER
"""
import os
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NEEDS = {"clang": "clang++-19", "fuzz": "clang++-19"}


def main():
    preset, folder = sys.argv[1:3]
    if preset in NEEDS and shutil.which(NEEDS[preset]) is None:
        print("%s is missing; apt-get install clang-19 libclang-rt-19-dev brings it." % NEEDS[preset])
        return 77
    env = dict(os.environ, CALM_BUILD_DIR=folder, CALM_PLAIN="1")
    return subprocess.run([os.path.join(ROOT, "calm"), "test", "--preset", preset, "--skip",
                           "presets|package|programs|style|bench"], env=env, stdin=subprocess.DEVNULL).returncode


if __name__ == "__main__":
    sys.exit(main())
