"""Builds one preset beside the release build and runs its tests. Exit code 77 when its compiler is missing.

    preset_test.py PRESET FOLDER
"""
import os
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CLANG = (("clang++-19",), "clang-19 libclang-rt-19-dev")
AARCH64 = (("aarch64-linux-gnu-g++", "qemu-aarch64"), "g++-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user")
NEEDS = {"clang": CLANG, "fuzz": CLANG, "aarch64-tests": AARCH64, "aarch64-tests-64k": AARCH64}


def main():
    preset, folder = sys.argv[1:3]
    tools, packages = NEEDS.get(preset, ((), ""))
    for tool in tools:
        if shutil.which(tool) is None:
            print("%s is missing; apt-get install %s brings it." % (tool, packages))
            return 77
    env = dict(os.environ, CALM_BUILD_DIR=folder, CALM_PLAIN="1")
    return subprocess.run([os.path.join(ROOT, "calm"), "test", "--preset", preset, "--skip",
                           "presets|package|programs|style|bench"], env=env, stdin=subprocess.DEVNULL).returncode


if __name__ == "__main__":
    sys.exit(main())
