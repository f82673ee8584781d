"""The peers: which there are, which could be had, and the proof that each serves the program it is loaded into.

`peer_recipes` says how each is built. A peer that cannot be had stays in the list with its reason, and so do the
standard names that a peer does not own, which then reach the C library.
"""

import json
import os
import platform
from pathlib import Path
from typing import Dict, Iterator, Optional, Tuple

from . import build
from .base import Stop, digest, note
from .peer_recipes import RECIPES
from .peer_tools import FOLDER, PINS, Workshop, limited

MANIFEST = FOLDER / "peers.json"
NAMES = tuple(RECIPES) + ("glibc",)
PROBE_SECONDS = 20
ALIGN_MAX = 1 << 18  # of proof.c
PROOF_SECONDS = 120
BUILD_SECONDS = 120
NEEDED = ("malloc", "free", "calloc", "realloc")


def _environment(library: str, env: Optional[Dict[str, str]]) -> Dict[str, str]:
    return {"PATH": os.environ["PATH"], **({"LD_PRELOAD": library} if library else {}), **(env or {})}


def _proof_program() -> Path:
    source = PINS / "proof.c"
    program = FOLDER / ("proof-" + digest(source)[:12])
    if not program.exists():
        part = program.with_suffix(f".part{os.getpid()}")
        FOLDER.mkdir(parents=True, exist_ok=True)
        libraries = ["-ldl", "-Wl,--no-as-needed", "-lstdc++"]
        limited([build.COMPILER, *build.FLAGS, "-o", part, source, *libraries], "Building the proof", BUILD_SECONDS)
        part.rename(program)
    return program


def owners(library: str, env: Optional[Dict[str, str]] = None) -> Dict[str, str]:
    """Which file each standard name resolves to when `library` (or nothing, "") is preloaded."""
    what = f"The probe under {library or 'the C library'}"
    said = limited([_proof_program(), "names"], what, PROBE_SECONDS, env=_environment(library, env))
    try:
        return json.loads(said)
    except ValueError:
        raise Stop(f"{what} printed something else: {said[:60]!r}.")


def prove(name: str, library: str, env: Optional[Dict[str, str]] = None) -> Dict[str, list]:
    """Stops unless malloc and free come from `library`; returns the standard names that do not."""
    found = owners(library, env)
    inside = lambda symbol: bool(found[symbol]) and os.path.realpath(found[symbol]) == os.path.realpath(library)
    for symbol in NEEDED:
        if library and not inside(symbol):
            raise Stop(f"{name} is not active: {symbol} comes from {found[symbol] or 'nowhere'}.")
    names = {"c": [], "c++": []}
    for symbol in found if library else ():
        if not inside(symbol):
            names["c++" if symbol.startswith("_Z") else "c"].append(symbol)
    return names


def prove_in_depth(name: str, library: str, env: Dict[str, str], has_per_cpu_path: bool = False) -> Dict:
    """Runs the proof under `library`: that it does the work itself, and soundly. Returns what the proof said."""
    program = _proof_program()
    command, what = [program, library or "-"], f"The proof of {name}"
    said = json.loads(limited(command, what, PROOF_SECONDS, env=_environment(library, env)))
    if has_per_cpu_path:
        if said["per_cpu_active"] != 1 or said["per_cpu_bytes"] <= 0:
            raise Stop(f"{name} says that its path for each processor is off, whatever {env} asks for.")
        without = json.loads(limited(command, what, PROOF_SECONDS, env=_environment(library, {})))
        said["per_cpu_active_without_env"] = without["per_cpu_active"]
    return said


def load() -> Dict[str, Dict]:
    """The peers that were built; the C library's own allocator is always there."""
    try:
        known = json.loads(MANIFEST.read_text()) if MANIFEST.exists() else {}
    except ValueError:
        raise Stop(f"{MANIFEST} is not JSON; remove it and get the peers again.")
    known["glibc"] = {
        **known.get("glibc", {}),
        "path": "",
        "version": platform.libc_ver()[1],
        "source": "this machine's, nothing preloaded",
        "flags": "as installed",
    }
    return known


def missing() -> Dict[str, str]:
    """The peers that are not there, each with its reason; for the header of a raw file."""
    known = load()
    reasons = {name: known.get(name, {}).get("reason", "it was not built") for name in NAMES}
    return {name: reasons[name] for name in NAMES if not _is_there(known.get(name, {}))}


def _is_there(entry: Dict) -> bool:
    return "path" in entry and (entry["path"] == "" or Path(entry["path"]).is_file())


def _save(known: Dict[str, Dict]) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    part = MANIFEST.with_suffix(".part")
    part.write_text(json.dumps(known, indent=1) + "\n")
    part.rename(MANIFEST)


def _built(name: str) -> Dict:
    recipe = RECIPES[name]
    path = recipe.make(Workshop(name), recipe)
    return {"path": str(path), "sha256": digest(path), "key": recipe.key()}


def _described(name: str, entry: Dict) -> Dict:
    """A library from before there were keys is taken for what the recipe says: its hash is in the raw files."""
    if name not in RECIPES:
        return entry
    recipe = RECIPES[name]
    said = {"version": recipe.version, "source": recipe.source, "flags": recipe.flags}
    said.update(env=recipe.env, cannot=recipe.cannot)
    return {**entry, **said} if entry.get("key", recipe.key()) == recipe.key() else {**said, **entry}


def _proved(name: str, entry: Dict) -> Dict:
    """The entry with its proof; one that was made of this library by this proof is not made again."""
    env = entry.get("env") or {}
    sha = digest(Path(entry["path"])) if entry["path"] else platform.libc_ver()[1]
    by = [sha, digest(PINS / "proof.c"), env]
    if entry.get("proof", {}).get("by") == by:
        return entry
    left = prove(name, entry["path"], env)
    has_per_cpu_path = name in RECIPES and RECIPES[name].has_per_cpu_path
    said = prove_in_depth(name, entry["path"], env, has_per_cpu_path)
    return {**entry, "not_owned": left, "proof": {"by": by, **said}}


def _obtain(name: str, before: Dict, again: bool) -> Dict:
    """A proved entry, or one with the reason why there is none."""
    try:
        entry = before
        is_built_so = name not in RECIPES or before.get("key", RECIPES[name].key()) == RECIPES[name].key()
        if name in RECIPES and (again or not _is_there(before) or not is_built_so):
            note(f"Getting {name}.")
            entry = _built(name)
        return _proved(name, _described(name, entry))
    except (Stop, OSError, ValueError) as problem:
        if entry is before and _is_there(before) and name in RECIPES and "proof" in before and again:
            note(f"{name} cannot be had again ({problem}) so the one that is there stays.")
            return before
        return {"reason": str(problem)}


def build_all(again: bool) -> Dict[str, Dict]:
    """Fetches, builds and proves what is not there yet. The list is written after each, so nothing is done twice."""
    known = load()
    for name in NAMES:
        known[name] = _obtain(name, known.get(name, {}), again)
        _save(known)
    return known


def _activity(entry: Dict) -> str:
    proof = entry.get("proof", {})
    if not proof:
        return "not proved yet"
    words = ["yes: nothing is preloaded" if not entry["path"] else "yes: serves malloc itself"]
    words.append(f"{proof['checks']} checks hold")
    if proof["version"]:
        words.append(f"calls itself {proof['version']}")
    if "per_cpu_active_without_env" in proof:
        kib = proof["per_cpu_bytes"] >> 10
        off = "off without" if proof["per_cpu_active_without_env"] == 0 else "on without"
        setting = " ".join(f"{key}={value}" for key, value in entry["env"].items())
        words.append(f"path for each processor on ({kib} KiB cached there) with {setting}, {off}")
    return ", ".join(words)


def _limits(entry: Dict) -> Iterator[str]:
    proof = entry.get("proof", {})
    if entry.get("cannot"):
        yield entry["cannot"]
    if proof.get("faults"):
        yield f"fault: {proof['faults']}"
    if proof and proof["align_max"] < ALIGN_MAX:
        yield f"no alignment above {proof['align_max'] >> 10} KiB"


def _left(entry: Dict) -> str:
    names = entry.get("not_owned", {"c": [], "c++": []})
    left = list(names["c"])
    if names["c++"]:
        left.append("%d of 8 operators new and delete" % len(names["c++"]))
    return ", ".join(left) or "-"


def table(known: Dict[str, Dict]) -> str:
    lines = [
        "| peer | version | from | built | active | names it leaves to others | what it cannot do |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in NAMES:
        entry = known.get(name, {"reason": "it was not built"})
        if "reason" in entry:
            lines.append(f"| {name} | - | - | - | no: {entry['reason']} | - | - |")
            continue
        cells: Tuple[str, ...] = (entry["version"], entry["source"], entry["flags"], _activity(entry), _left(entry))
        lines.append(f"| {name} | {' | '.join(cells)} | {'; '.join(_limits(entry)) or '-'} |")
    return "\n".join(lines)
