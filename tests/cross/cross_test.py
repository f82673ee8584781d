"""Builds calmalloc for another platform, or runs one test of it there. Exit code 77 when a tool is missing.

    cross_test.py SOURCE_DIR BUILD_DIR PLATFORM            builds the libraries
    cross_test.py SOURCE_DIR BUILD_DIR PLATFORM RUN        runs one of runs.py
    cross_test.py --list                                   a line for each run: platform, name, "quick" or "full"

Seen to fail: the statistics' sentence without its reason, a vfork that returns
what it got, a system call with its fourth argument in another register, depots without their lock (sometimes).
"""
import os
import sys

from platforms import PLATFORMS, Failed, needs
from runs import QUICK, Runs


def list_runs():
    for name, make in PLATFORMS.items():
        for run in Runs(make("", "")).names:
            print(name, run, "quick" if run in QUICK.get(name, (run,)) else "full")


def main():
    if sys.argv[1:] == ["--list"]:
        list_runs()
        return 0
    source, build = map(os.path.abspath, sys.argv[1:3])
    platform = PLATFORMS[sys.argv[3]](source, build)
    if platform.missing():
        needs.skip(platform.missing())
    try:
        if len(sys.argv) == 4:
            platform.build_libraries()
        else:
            Runs(platform).names[sys.argv[4]]()
    except Failed as failure:
        print(failure)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
