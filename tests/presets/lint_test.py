"""Runs clang-tidy over the library. Exit code 77 when it is missing.

    lint_test.py FOLDER
"""
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "support"))

import needs  # noqa: E402


def main():
    needs.need("clang-tidy-19", "clang++-19")
    env = dict(os.environ, CALM_BUILD_DIR=sys.argv[1], CALM_PLAIN="1")
    return subprocess.run([os.path.join(ROOT, "calm"), "lint"], env=env, stdin=subprocess.DEVNULL).returncode


if __name__ == "__main__":
    sys.exit(main())
