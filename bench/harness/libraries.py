"""The libraries of one run: ours, those named by --lib, and the peers."""

import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Dict, List, Optional

from . import peers
from .base import CACHE, REPOSITORY, Stop, digest


@dataclass
class Library:
    name: str
    path: str  # empty: nothing is preloaded
    version: str = ""
    sha256: str = ""
    env: Dict[str, str] = field(default_factory=dict)

    def record(self) -> Dict:
        return {"name": self.name, "version": self.version, "sha256": self.sha256, "env": self.env}


def _private_copy(name: str, source: Path, env: Dict[str, str]) -> Library:
    """Measures a copy, so that a build that happens during the run cannot mix two libraries in one file."""
    if not source.is_file():
        raise Stop(f"The library {source} does not exist.")
    sha = digest(source)
    target = CACHE / "libraries" / sha[:12] / source.name
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_suffix(".part%d" % os.getpid())
        shutil.copyfile(source, part)
        part.rename(target)
    return Library(name, str(target), "", sha, env)


def _named(text: str) -> Library:
    """NAME=PATH, and environment after semicolons: off=libcalmalloc.so;CALM_OPTIONS=sites=off."""
    head, *settings = text.split(";")
    name, equals, path = head.partition("=")
    if not equals or not name or not path:
        raise Stop(f"--lib wants NAME=PATH, not {text}.")
    env = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise Stop(f"--lib wants NAME=VALUE after a semicolon, not {setting}.")
        env[key] = value
    return _private_copy(name, Path(path), env)


def _ours() -> Optional[Library]:
    command = REPOSITORY / "calm"
    if not command.exists():
        return None
    done = subprocess.run([str(command), "lib"], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    if done.returncode != 0 or not done.stdout.strip():
        raise Stop("`./calm lib` failed; build the library, or name one with --lib calm=PATH.")
    return _private_copy("calm", Path(done.stdout.strip().splitlines()[-1]), {})


def choose(named: List[str], wanted_peers: str, with_ours: bool) -> List[Library]:
    """Ours first. Each library is proved active before anything is measured."""
    chosen = [_named(text) for text in named]
    if with_ours and not any(library.name == "calm" for library in chosen):
        ours = _ours()
        if ours is not None:
            chosen.insert(0, ours)
    known = peers.load()
    for name in peers.NAMES if wanted_peers == "all" else [part for part in wanted_peers.split(",") if part]:
        if name not in peers.NAMES:
            raise Stop(f"There is no peer {name}; the peers are {', '.join(peers.NAMES)}.")
        entry = known.get(name, {"reason": "it was not built"})
        if "reason" in entry:
            if wanted_peers == "all":
                continue
            raise Stop(f"The peer {name} is missing ({entry['reason']}); run `calm_bench.py peers`.")
        chosen.append(Library(name, entry["path"], entry["version"], entry.get("sha256", "")))
    names = [library.name for library in chosen]
    for name in names:
        if names.count(name) > 1:
            raise Stop(f"Two libraries are called {name}.")
    if not chosen:
        raise Stop("There is no library to measure.")
    for library in chosen:
        peers.prove(library.name, library.path)
    return chosen
