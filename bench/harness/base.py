"""Paths, errors and small tools that every part of the runner uses."""

import difflib
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parent.parent
REPOSITORY = BENCH.parent
CACHE = Path(os.environ.get("CALM_BENCH_CACHE") or REPOSITORY / "build" / "bench")
PROGRAMS = BENCH / "programs"
# pools/pool_malloc.c under its environments; workloads/own.h reads CALM_POOL_OWN.
POOLS = {
    "pool": {"CALM_POOL_LAZY": "0"},
    "pool_lazy": {"CALM_POOL_LAZY": "1"},
    "pool_own": {"CALM_POOL_LAZY": "0", "CALM_POOL_OWN": "1"},
}
# Ours with a cache of so many blocks a bin from the first, and no budget in the way: hz3's experiment. By blocks.
FIXED = {"fixed256": 255, "fixed1024": 1023}
FIXED_ENV = {"CALM_OPTIONS": "cache_kb=1048576"}
FLOOR = "floor"  # the library of controls/floor.c, the least that an allocator can do: no peer


class Stop(Exception):
    """The user's problem in one sentence; printed without a traceback, exit code 2."""


def note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def need_space(folder: Path, mib: int, variable: str) -> None:
    """Stops when a folder that is to be written to is nearly full."""
    while not folder.exists():
        folder = folder.parent
    disk = shutil.disk_usage(folder)
    free = disk.free >> 20
    if free < mib and disk.total > 0:
        raise Stop(f"Only {free} MiB are free in {folder} and {mib} are needed; free some, or let {variable}.")


def nearest(word: str, known) -> str:
    """", did you mean ...?" for a word that is nearly right, else the list of what there is."""
    close = difflib.get_close_matches(word, list(known), 1)
    return f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}."


def digest(path: Path) -> str:
    sha = hashlib.sha256()
    with open(path, "rb") as file:
        for part in iter(lambda: file.read(1 << 20), b""):
            sha.update(part)
    return sha.hexdigest()


def run(command: list, what: str, **more) -> str:
    """Runs a command and returns what it prints; on failure stops with the last line of its errors."""
    try:
        done = subprocess.run(
            [str(part) for part in command],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
            **more,
        )
    except FileNotFoundError:
        raise Stop(f"{what}: {command[0]} is not installed.")
    if done.returncode != 0:
        lines = [line for line in (done.stderr or done.stdout).strip().splitlines() if line.strip()]
        raise Stop(f"{what} failed: {lines[-1].strip() if lines else 'exit code %d' % done.returncode}")
    return done.stdout


def first_line(*command: str) -> str:
    """The first line a command prints, or an empty text: for versions, which are recorded but not needed."""
    if shutil.which(command[0]) is None:
        return ""
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True
    )
    return (done.stdout.strip().splitlines() or [""])[0]
