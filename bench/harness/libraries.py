"""The libraries of one run: ours, those named by --lib, and the peers."""

import hashlib
import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Dict, List, Optional, Tuple

from . import build, peers
from .base import (
    BENCH,
    CACHE,
    FIXED,
    FIXED_ENV,
    FLOOR,
    POOLS,
    REPOSITORY,
    Stop,
    digest,
    nearest,
    need_space,
    note,
    run,
)


@dataclass
class Library:
    name: str
    path: str  # empty: nothing is preloaded
    version: str = ""
    sha256: str = ""
    env: Dict[str, str] = field(default_factory=dict)
    under: str = ""  # the library that this one forwards to; empty: whatever the program comes with

    @property
    def preload(self) -> str:
        return ":".join(part for part in (self.path, self.under) if part)

    def record(self) -> Dict:
        return {"name": self.name, "version": self.version, "sha256": self.sha256, "env": self.env}


def _private_copy(name: str, source: Path, env: Dict[str, str]) -> Library:
    """Measures a copy, so that a build that happens during the run cannot mix two libraries in one file."""
    if not source.is_file():
        raise Stop(f"The library {source} of --lib {name} does not exist; give the path of a shared library.")
    need_space(CACHE, 50, "CALM_BENCH_CACHE name another folder")
    sha = digest(source)
    target = CACHE / "libraries" / sha[:12] / source.name
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_suffix(".part%d" % os.getpid())
        shutil.copyfile(source, part)
        part.rename(target)
    return Library(name, str(target), "", sha, env)


def _built_folder(what: str) -> Path:
    """Where `./calm lib` builds, which is done now."""
    command = [str(REPOSITORY / "calm"), "lib"]
    built = subprocess.run(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    if built.returncode != 0:
        raise Stop(f"`./calm lib` failed, which builds {what}; its reason is above.")
    return Path(built.stdout.strip()).parent


def _build(folder: Path, target: str) -> None:
    run(["cmake", "--build", folder, "--target", target, "-j", os.cpu_count() or 1], f"Building {target}")


def _fixed(name: str) -> Library:
    """Ours, compiled with caches of a fixed size: a target of its own beside the library of `./calm lib`."""
    folder, target = _built_folder("what fixed sizes are built with"), f"calmalloc_fixed_{FIXED[name]}"
    note(f"Building {name}.")
    _build(folder, target)
    return _private_copy(name, folder / f"lib{target}.so", dict(FIXED_ENV))


def _pool(name: str) -> Library:
    """The pools under the standard names: the adapter, and the static library beside that of `./calm lib`."""
    source, archive = BENCH / "pools" / "pool_malloc.c", _built_folder("the pools") / "libcalmpool.a"
    _build(archive.parent, "calmpool")
    sha = hashlib.sha256((digest(source) + digest(archive)).encode()).hexdigest()
    made = CACHE / "libraries" / sha[:12] / "libpool_malloc.so"
    if not made.exists():
        made.parent.mkdir(parents=True, exist_ok=True)
        part = made.with_suffix(f".part{os.getpid()}")
        include = f"-I{REPOSITORY / 'include'}"
        shared = ["-shared", "-fPIC", "-Wl,-Bsymbolic"]
        command = [build.COMPILER, *build.FLAGS, include, *shared, "-o", part, source, archive]
        run(command, f"Building {source.name}")
        part.rename(made)
    return Library(name, str(made), sha256=digest(made), env=dict(POOLS[name]))


def _named(text: str) -> Library:
    """NAME=PATH, and environment after semicolons: off=libcalmalloc.so;CALM_OPTIONS=sites=off. Or one made here."""
    if text in POOLS:
        return _pool(text)
    if text in FIXED:
        return _fixed(text)
    if text == FLOOR:
        return Library(FLOOR, str(build.binaries() / "libfloor.so"), sha256=digest(build.binaries() / "libfloor.so"))
    head, *settings = text.split(";")
    name, equals, path = head.partition("=")
    if not equals or not name or not path:
        raise Stop(f"--lib wants NAME=PATH, or one of {', '.join([FLOOR, *FIXED, *POOLS])}, not {text}.")
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


def _peers(wanted: str, usual: Tuple[str, ...]) -> List[Library]:
    """`wanted`: names with commas, `all` that are built, `none`, or empty for those of `usual` that are built."""
    known, chosen = peers.load(), []
    names = [part.strip() for part in wanted.split(",") if part.strip()]
    if names == ["none"]:
        return []
    for name in names if names != ["all"] else ():
        if name not in peers.NAMES:
            raise Stop(f"There is no peer {name}: " + nearest(name, peers.NAMES))
    for name in list(peers.NAMES) if names == ["all"] else names or usual:
        entry = known.get(name, {"reason": "it was not built"})
        if "reason" not in entry and entry["path"] and not Path(entry["path"]).is_file():
            entry = {"reason": f"{entry['path']} is gone"}
        if "reason" in entry:
            if names and names != ["all"]:
                raise Stop(f"The peer {name} is missing ({entry['reason']}); `./calm bench peers` gets it.")
            note(f"The peer {name} is left out ({entry['reason']}); `./calm bench peers` gets it.")
            continue
        env = dict(entry.get("env") or {})
        chosen.append(Library(name, entry["path"], entry["version"], entry.get("sha256", ""), env))
    return chosen


def ours(named: List[str], with_ours: bool = True) -> List[Library]:
    """Those named by --lib, and the one of `./calm lib` before them."""
    chosen = [_named(text) for text in named]
    if with_ours and not any(library.name == "calm" for library in chosen):
        calm = _ours()
        if calm is not None:
            chosen.insert(0, calm)
    return chosen


def choose(named: List[str], wanted_peers: str, usual_peers: Tuple[str, ...], with_ours: bool) -> List[Library]:
    """Ours first. Each library is proved active before anything is measured."""
    others = _peers(wanted_peers, usual_peers)
    chosen = ours(named, with_ours)
    mine = {library.name for library in chosen}
    chosen += [peer for peer in others if wanted_peers or peer.name not in mine]
    names = [library.name for library in chosen]
    for name in names:
        if names.count(name) > 1:
            raise Stop(f"Two libraries are called {name}.")
    if not chosen:
        raise Stop("There is no library to measure; name one with --lib NAME=PATH, or peers with --peers.")
    build.binaries()
    for library in chosen:
        peers.prove(library.name, library.path, library.env)
    return chosen
