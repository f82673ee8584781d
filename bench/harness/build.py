"""Builds the launcher and the workloads into the cache; rebuilds when a source, the flags or the compiler change."""

import functools
import hashlib
import os
from pathlib import Path

from .base import BENCH, CACHE, first_line, note, run

COMPILER = os.environ.get("CC", "gcc")
# Built-in knowledge of malloc would let the compiler drop a malloc whose block is only freed.
FLAGS = [
    "-std=gnu17",
    "-O2",
    "-Wall",
    "-Wextra",
    "-fno-builtin-malloc",
    "-fno-builtin-calloc",
    "-fno-builtin-realloc",
    "-fno-builtin-free",
    "-pthread",
]


@functools.lru_cache(maxsize=None)
def binaries() -> Path:
    """Once a process: an edit during a run must not change what is measured."""
    sources = sorted((BENCH / "workloads").glob("*.[ch]")) + [BENCH / "launch.c"]
    sha = hashlib.sha256(" ".join([first_line(COMPILER, "--version")] + FLAGS).encode())
    for source in sources:
        sha.update(source.name.encode() + source.read_bytes())
    folder = CACHE / ("bin-" + sha.hexdigest()[:12])
    if (folder / "complete").exists():
        return folder
    note("Building the workloads.")
    folder.mkdir(parents=True, exist_ok=True)
    for source in sources:
        if source.suffix == ".h":
            continue
        link = ["-static"] if source.name == "launch.c" else []
        libraries = ["-Wl,--no-as-needed", "-lstdc++", "-ldl"] if source.stem == "owner" else ["-ldl"]
        run([COMPILER, *FLAGS, *link, "-o", folder / source.stem, source, *libraries], f"Building {source.name}")
    (folder / "complete").touch()
    return folder
