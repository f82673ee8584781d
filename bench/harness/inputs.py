"""Inputs of program rows that are made once: the solver's problem and the git repository."""

import functools
import os
import shutil
import sys
from pathlib import Path

from .base import CACHE, PROGRAMS, digest, note, run

PYTHON = os.path.realpath(sys.executable)


def _fresh(maker: str, name: str) -> Path:
    """Named after its maker's hash, so that a change of the maker makes it again."""
    return CACHE / "inputs" / f"{name}-{digest(PROGRAMS / maker)[:10]}"


def _printed(maker: str, name: str, *numbers: int) -> str:
    """The file of what a maker prints."""
    path = _fresh(maker, name)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(run([PYTHON, PROGRAMS / maker, *numbers], f"Making the solver's {name}"))
    return str(path)


@functools.lru_cache(maxsize=None)
def problem() -> str:
    return _printed("make_problem.py", "problem", 14, 6, 90)


@functools.lru_cache(maxsize=None)
def scopes() -> str:
    return _printed("make_scopes.py", "scopes", 30, 1200)


@functools.lru_cache(maxsize=None)
def repository() -> str:
    path = _fresh("make_repository.py", "repository")
    if not path.exists():
        note("Making a git repository.")
        part = path.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        part.parent.mkdir(parents=True, exist_ok=True)
        run([PYTHON, PROGRAMS / "make_repository.py", part], "Making the git repository")
        part.rename(path)
    return str(path)


MAKERS = {"{problem}": problem, "{scopes}": scopes, "{repository}": repository}
