"""Fetches and builds the peers from package registries, pinned by version and hash, and proves each is active.

Nothing is installed on the machine: packages are unpacked below the cache. A peer that cannot be had stays in the list
with its reason, and so do the standard names that a peer does not own, which then reach the C library.
"""

import json
import os
import platform
import shutil
import sys
import zipfile
from pathlib import Path
from typing import Callable, Dict

from . import build
from .base import BENCH, CACHE, Stop, digest, note, run

FOLDER = CACHE / "peers"
MANIFEST = FOLDER / "peers.json"

WHEEL = ("cmeel-mimalloc", "3.4.3", "627d9e379503fd8a1001bed618f7434477c221f017cf31d4caca65d464731ff0")
DEBIAN = {
    "mimalloc2": (
        "libmimalloc2.0",
        "2.0.9+ds-2",
        "libmimalloc.so.2",
        "a20035605a532be3186f0f48607c7106fe2a5551066c29de663c965692c446c4",
    ),
    "jemalloc": (
        "libjemalloc2",
        "5.3.0-1",
        "libjemalloc.so.2",
        "a4117c23c5c8acf6c9678a6cb086f000b79476369da7efe8a78a70826956ad3d",
    ),
    "tcmalloc": (
        "libtcmalloc-minimal4",
        "2.10-1",
        "libtcmalloc_minimal.so.4",
        "464aa2e804b0d48300ad71edfe525599deed8765db4af7a8d9de60326dc8e4c7",
    ),
}
CRATES = {"snmalloc": "snmalloc-sys-0.7.6", "rpmalloc": "rpmalloc-sys-0.2.3+b097fd0"}


def _check(path: Path, expected: str) -> None:
    found = digest(path)
    if found != expected:
        raise Stop(f"{path.name} has the hash {found[:12]} where {expected[:12]} is pinned.")


def _clean(name: str) -> Path:
    folder = FOLDER / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def _keep(source: Path, name: str) -> Path:
    """Copies a library to a name that tells which peer it is."""
    target = FOLDER / f"lib{name}.so"
    shutil.copyfile(source.resolve(), target)
    return target


def _mimalloc3(name: str) -> Dict:
    if platform.machine() != "x86_64":
        raise Stop("its pinned package holds an x86-64 library only.")
    package, version, sha = WHEEL
    folder = _clean(name)
    run(
        [
            sys.executable,
            "-m",
            "pip",
            "download",
            "-q",
            "--no-deps",
            "--only-binary",
            ":all:",
            "-d",
            folder,
            f"{package}=={version}",
        ],
        f"Fetching {package} {version}",
    )
    wheel = next(folder.glob("*.whl"))
    _check(wheel, sha)
    with zipfile.ZipFile(wheel) as archive:
        member = next(item for item in archive.namelist() if item.endswith("/libmimalloc.so.3"))
        (folder / "libmimalloc.so").write_bytes(archive.read(member))
    return {"path": _keep(folder / "libmimalloc.so", name), "version": version, "source": f"Python package {package}"}


def _debian(name: str) -> Dict:
    package, version, library, sha = DEBIAN[name]
    folder = _clean(name)
    fetch = ["apt-get", "download", "-q", f"{package}={version}"]
    try:
        run(fetch, f"Fetching {package} {version}", cwd=folder)
    except Stop:
        if os.geteuid() != 0:
            raise
        run(["apt-get", "update", "-q"], "Updating the package lists")
        run(fetch, f"Fetching {package} {version}", cwd=folder)
    archive = next(folder.glob("*.deb"))
    if platform.machine() == "x86_64":
        _check(archive, sha)
    run(["dpkg", "-x", archive, folder / "root"], f"Unpacking {package}")
    found = next((folder / "root").rglob(library))
    return {
        "path": _keep(found, name),
        "version": version.split("-")[0].split("+")[0],
        "source": f"Debian package {package}",
    }


def _crate(name: str) -> Path:
    """The unpacked source of a crate; all crates are fetched at once, and their hashes are those of Cargo.lock."""
    folder = FOLDER / "crates"
    if not (folder / CRATES[name]).is_dir():
        project = _clean("crates-project")
        for part in ("Cargo.toml", "Cargo.lock", "empty.rs"):
            shutil.copyfile(BENCH / "peers" / part, project / part)
        run(
            ["cargo", "vendor", "--quiet", "--locked", "--versioned-dirs", folder], "Fetching the crates", cwd=project
        )
    return folder / CRATES[name]


def _snmalloc(name: str) -> Dict:
    source = _crate(name) / "upstream"
    folder = _clean(name)
    # Its C++ support library is linked in; hiding that keeps programs on their own.
    run(
        [
            "cmake",
            "-S",
            source,
            "-B",
            folder,
            "-DCMAKE_BUILD_TYPE=Release",
            "-DSNMALLOC_BUILD_TESTING=OFF",
            "-DCMAKE_SHARED_LINKER_FLAGS=-Wl,--exclude-libs,ALL",
        ],
        "Configuring snmalloc",
    )
    run(["cmake", "--build", folder, "--target", "snmallocshim", "-j2"], "Building snmalloc")
    return {
        "path": _keep(folder / "libsnmallocshim.so", name),
        "version": "0.7.6",
        "source": "crate snmalloc-sys, its own shim target, Release",
    }


def _rpmalloc(name: str) -> Dict:
    source = _crate(name) / "rpmalloc" / "rpmalloc" / "rpmalloc.c"
    folder = _clean(name)
    run(
        [
            build.COMPILER,
            "-std=c11",
            "-O3",
            "-DNDEBUG",
            "-D_GNU_SOURCE",
            "-DENABLE_OVERRIDE=1",
            "-DENABLE_PRELOAD=1",
            "-w",
            "-fPIC",
            "-shared",
            "-fno-builtin-malloc",
            "-ftls-model=initial-exec",
            "-o",
            folder / "librpmalloc.so",
            source,
            "-lpthread",
        ],
        "Building rpmalloc",
    )
    return {
        "path": _keep(folder / "librpmalloc.so", name),
        "version": "1.4.3 (crate 0.2.3)",
        "source": "crate rpmalloc-sys, -O3, override and preload on",
    }


RECIPES: Dict[str, Callable[[str], Dict]] = {
    "mimalloc3": _mimalloc3,
    "mimalloc2": _debian,
    "jemalloc": _debian,
    "tcmalloc": _debian,
    "snmalloc": _snmalloc,
    "rpmalloc": _rpmalloc,
}
NAMES = tuple(RECIPES) + ("glibc",)


def owners(library: str) -> Dict[str, str]:
    """Which file each standard name resolves to when `library` (or nothing, "") is preloaded."""
    environment = {"PATH": os.environ["PATH"]}
    if library:
        environment["LD_PRELOAD"] = library
    said = run([build.binaries() / "owner"], f"The probe under {library or 'the C library'}", env=environment)
    try:
        return json.loads(said)
    except ValueError:
        raise Stop(f"The probe under {library or 'the C library'} printed something else: {said[:60]!r}.")


def prove(name: str, library: str) -> Dict[str, list]:
    """Stops unless malloc and free come from `library`; returns the standard names that do not."""
    found = owners(library)
    inside = lambda symbol: bool(found[symbol]) and os.path.realpath(found[symbol]) == os.path.realpath(library)
    for symbol in ("malloc", "free", "calloc", "realloc"):
        if library and not inside(symbol):
            raise Stop(f"{name} is not active: {symbol} comes from {found[symbol]}.")
    names = {"c": [], "c++": []}
    for symbol in found if library else ():
        if not inside(symbol):
            names["c++" if symbol.startswith("_Z") else "c"].append(symbol)
    return names


def load() -> Dict[str, Dict]:
    """The peers that were built; the C library's own allocator is always there."""
    known = json.loads(MANIFEST.read_text()) if MANIFEST.exists() else {}
    known["glibc"] = {"path": "", "version": platform.libc_ver()[1], "source": "this machine's, nothing preloaded"}
    return known


def build_all(again: bool) -> Dict[str, Dict]:
    known = load()
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in NAMES:
        entry = known.get(name, {})
        if name != "glibc" and (again or not entry.get("path") or not Path(entry["path"]).exists()):
            note(f"Getting {name}.")
            try:
                entry = RECIPES[name](name)
                entry["path"] = str(entry["path"])
                entry["sha256"] = digest(Path(entry["path"]))
            except Stop as problem:
                entry = {"reason": str(problem)}
        try:
            if "path" in entry:
                entry["not_owned"] = prove(name, entry["path"])
        except Stop as problem:
            entry = {"reason": str(problem)}
        known[name] = entry
        MANIFEST.write_text(
            json.dumps({key: value for key, value in known.items() if key != "glibc"}, indent=1) + "\n"
        )
    return known


def table(known: Dict[str, Dict]) -> str:
    lines = ["| peer | version | from | active | names it leaves to others |", "|---|---|---|---|---|"]
    for name in NAMES:
        entry = known[name]
        if "reason" in entry:
            lines.append(f"| {name} | - | - | no: {entry['reason']} | |")
            continue
        left = list(entry["not_owned"]["c"])
        if entry["not_owned"]["c++"]:
            left.append("%d of 8 operators new and delete" % len(entry["not_owned"]["c++"]))
        where = "yes: malloc and free resolve inside it" if entry["path"] else "yes: nothing is preloaded"
        lines.append(f"| {name} | {entry['version']} | {entry['source']} | {where} | {', '.join(left) or '-'} |")
    return "\n".join(lines)
