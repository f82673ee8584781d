#!/usr/bin/env python3
"""Packages the Rust crates: writes calmalloc-sys-VERSION.crate and calmalloc-VERSION.crate.

    package_crates.py [--out FOLDER]

The C file that the crate compiles is made anew, in a copy of bindings/rust, so the repository has none that could be
stale. cargo builds each crate from its own archive before it is done. `cargo publish` in the copy, FOLDER/rust,
publishes what was packaged.
"""
import argparse
import os
import shutil
import subprocess
import sys

from amalgamate import Trouble, amalgamate

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))


def copy(out):
    folder = os.path.join(out, "rust")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(os.path.join(ROOT, "bindings", "rust"), folder, ignore=shutil.ignore_patterns("target", "c"))
    amalgamate(ROOT, os.path.join(folder, "calmalloc-sys", "c"))
    shutil.copytree(os.path.join(ROOT, "tools", "bound"), os.path.join(folder, "calmalloc-sys", "bound"),
                    ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--out", default=os.path.join(ROOT, "build", "crates"))
    options = parser.parse_args()
    out = os.path.abspath(options.out)
    os.makedirs(out, exist_ok=True)
    try:
        folder = copy(out)
    except (Trouble, OSError) as trouble:
        print("package_crates: %s" % trouble, file=sys.stderr)
        return 1
    done = subprocess.run(["cargo", "package", "--workspace", "--locked", "--allow-dirty", "--target-dir",
                           os.path.join(out, "target")], cwd=folder)
    if done.returncode != 0:
        return done.returncode
    made = os.path.join(out, "target", "package")
    for name in sorted(os.listdir(made)):
        if name.endswith(".crate"):
            shutil.copy(os.path.join(made, name), out)
            print(os.path.join(out, name))
    return 0


if __name__ == "__main__":
    sys.exit(main())
