"""What the tests of the bindings share."""
import os
import re
import shutil
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
RUST = os.path.join(ROOT, "bindings", "rust")
sys.path.insert(0, os.path.join(ROOT, "tests", "support"))

from subprocesses import run  # noqa: E402


def skip(why):
    print("skipped: " + why)
    sys.exit(77)


def need_cargo():
    """Skips where there is no Rust at all; a cargo that fails is a failure."""
    if shutil.which("cargo") is None:
        skip("cargo is missing; https://rustup.rs brings it.")


def cargo(*words, folder=RUST, check=True, **variables):
    return run("cargo", *words, cwd=folder, check=check, env=dict(os.environ, CARGO_TERM_COLOR="never", **variables))


def fetched(folder=RUST):
    """Gets the crates of others that the lock file names, so that everything after it can be offline."""
    cargo("fetch", "--locked", folder=folder)


def target_folder():
    return os.environ.get("CARGO_TARGET_DIR") or os.path.join(RUST, "target")


def defined_names(path):
    """The global names that an object, a library or a program defines."""
    lines = run("nm", "--defined-only", "--extern-only", path).stdout.splitlines()
    return {line.split()[-1] for line in lines if re.match(r"^[0-9a-f]+ [A-Za-z] \S+$", line)}
