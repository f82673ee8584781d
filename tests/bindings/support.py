"""What the tests of the bindings share."""
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
RUST = os.path.join(ROOT, "bindings", "rust")
NO_NETWORK = re.compile(r"^ *\[(6|7|28)\] |spurious network error|offline", re.M)
sys.path.insert(0, os.path.join(ROOT, "tests", "support"))

import needs  # noqa: E402
from needs import skip  # noqa: E402
from subprocesses import run  # noqa: E402


def need_cargo():
    """Skips where there is no Rust, and where it is older than the crates allow."""
    needs.need("cargo", "rustc")
    with open(os.path.join(RUST, "Cargo.toml")) as file:
        least = re.search(r'^rust-version = "(\d+)\.(\d+)"$', file.read(), re.M).groups()
    found = re.search(r" (\d+)\.(\d+)", run("cargo", "--version").stdout).groups()
    if tuple(map(int, found)) < tuple(map(int, least)):
        skip("cargo is %s, older than %s." % (".".join(found), ".".join(least)))


def cargo(*words, folder=RUST, check=True, **variables):
    return run("cargo", *words, cwd=folder, check=check, env=dict(os.environ, CARGO_TERM_COLOR="never", **variables))


def fetched(folder=RUST):
    """Gets the crates of others that the lock file names, so that everything after it can be offline. Skips where
    there is no network; any other failure of cargo's is one of the test."""
    done = cargo("fetch", "--locked", folder=folder, check=False)
    if NO_NETWORK.search(done.stderr):
        skip("no network, from which cargo gets the crates of others.")
    if done.returncode != 0:
        raise AssertionError("cargo fetch failed:\n" + done.stderr)


def target_folder():
    return os.environ.get("CARGO_TARGET_DIR") or os.path.join(RUST, "target")


def defined_names(path):
    """The global names that an object, a library or a program defines."""
    lines = run("nm", "--defined-only", "--extern-only", path).stdout.splitlines()
    return {line.split()[-1] for line in lines if re.match(r"^[0-9a-f]+ [A-Za-z] \S+$", line)}
