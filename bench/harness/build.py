"""Builds launcher, workloads and controls into the cache; again when a source, the flags or the compiler change."""

import functools
import hashlib
import os
import shutil
from pathlib import Path

from .base import BENCH, CACHE, Stop, first_line, need_space, note, run

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


TOUCHES = {"first": [], "last": ["-DTOUCH_LAST=1"]}  # which bytes of a block a workload writes


@functools.lru_cache(maxsize=None)
def binaries(touch: str = "first") -> Path:
    """Once a process: an edit during a run must not change what is measured."""
    flags = FLAGS + TOUCHES[touch]
    if shutil.which(COMPILER) is None:
        raise Stop(f"The C compiler {COMPILER} is not installed; apt-get install gcc brings one, or CC names another.")
    controls = sorted((BENCH / "controls").glob("*.c"))
    headers = [BENCH.parent / "tools" / "launch" / "early_store.h"]
    sources = sorted((BENCH / "workloads").glob("*.[ch]")) + [BENCH / "launch.c", *controls, *headers]
    sha = hashlib.sha256(" ".join([first_line(COMPILER, "--version")] + flags).encode())
    for source in sources:
        sha.update(source.name.encode() + source.read_bytes())
    folder = CACHE / ("programs-" + sha.hexdigest()[:12])
    if folder.exists():
        return folder
    need_space(CACHE, 200, "CALM_BENCH_CACHE name another folder")
    note("Building the workloads.")
    # Built beside its place and moved there whole: two runs may build at once, and a build may be killed.
    part = folder.with_name(f"{folder.name}.part{os.getpid()}")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    for source in sources:
        if source.suffix == ".h":
            continue
        if source in controls:
            command = [COMPILER, *flags, "-shared", "-fPIC", "-o", part / f"lib{source.stem}.so", source, "-ldl"]
            run(command, f"Building {source.name}")
            continue
        link = ["-static"] if source.name == "launch.c" else []
        run([COMPILER, *flags, *link, "-o", part / source.stem, source, "-ldl"], f"Building {source.name}")
    try:
        part.rename(folder)
    except OSError:
        shutil.rmtree(part)  # another run was faster
    return folder
