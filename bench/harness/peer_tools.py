"""What the recipes of peers are made of: commands with a log and a time limit, pinned downloads, compiling.

Nothing is installed on the machine: packages are unpacked below the cache, in a folder for each peer. Everything that
runs here runs at the lowest priority and one job at a time, as somebody may be measuring beside it.
"""

import functools
import os
import re
import shutil
import signal
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import List

from .base import BENCH, CACHE, Stop, digest, note

FOLDER = CACHE / "peers"
LOGS = FOLDER / "logs"
PINS = BENCH / "peers"
FETCH_SECONDS = 600
BUILD_SECONDS = 3600
GENTLY = ["nice", "-n", "19"]


def limited(command: list, what: str, seconds: float, log: Path = None, **more) -> str:
    """Runs a command, kills it with all it started after `seconds`, and returns what it prints; stops on failure."""
    if shutil.which(str(command[0])) is None:
        raise Stop(f"{what}: {command[0]} is not installed.")
    process = subprocess.Popen(
        [str(part) for part in command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
        **more,
    )
    try:
        out, errors = process.communicate(timeout=seconds)
    except BaseException as problem:
        os.killpg(process.pid, signal.SIGKILL)
        out, errors = process.communicate()
        if not isinstance(problem, subprocess.TimeoutExpired):
            raise
        _write_log(log, command, out, errors)
        raise Stop(f"{what} took longer than {seconds:g} s{_where(log)}.")
    _write_log(log, command, out, errors)
    if process.returncode < 0:
        raise Stop(f"{what} ended by signal {-process.returncode}{_where(log)}.")
    if process.returncode != 0:
        raise Stop(f"{what} failed{_where(log)}: {_reason(errors or out, process.returncode)}")
    return out


def _write_log(log: Path, command: list, out: str, errors: str) -> None:
    if log is not None:
        log.parent.mkdir(parents=True, exist_ok=True)
        with open(log, "a") as file:
            file.write("$ " + " ".join(str(part) for part in command) + "\n" + out + errors)


def _where(log: Path) -> str:
    return "" if log is None else f" (the log is {log})"


def _reason(text: str, code: int) -> str:
    """The line of a failed command that says most: its first error and what that was caused by, else its last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if re.search(r"\berror\b", line, re.I)]
    said = (errors or lines[-1:] or [f"exit code {code}"])[0][:200]
    return f"{said}: {lines[-1][:200]}" if "Caused by:" in lines else said


class Workshop:
    """The folder and the log of one peer while it is fetched and built."""

    def __init__(self, name: str):
        self.name, self.folder, self.log = name, FOLDER / name, LOGS / f"{name}.log"
        self.log.unlink(missing_ok=True)
        self.folder.mkdir(parents=True, exist_ok=True)

    def clean(self) -> Path:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        return self.folder

    def fetch(self, command: list, what: str, **more) -> str:
        return limited(command, f"Fetching {what}", FETCH_SECONDS, self.log, **more)

    def build(self, command: list, what: str, **more) -> str:
        # Asked for here too, as `nice` would be found where the compiler is not.
        if shutil.which(str(command[0])) is None:
            raise Stop(f"Building {what}: {command[0]} is not installed.")
        return limited(GENTLY + list(command), f"Building {what}", BUILD_SECONDS, self.log, **more)

    def wheel(self, package: str, version: str, sha: str) -> Path:
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--retries", "1", "--timeout", "20"]
        only = ["--no-deps", "--only-binary", ":all:", "-d", self.folder]
        self.fetch([*pip, "download", "-q", *only, f"{package}=={version}"], f"{package} {version}")
        return self.checked("*.whl", sha)

    def debian(self, package: str, version: str, sha: str) -> Path:
        """The unpacked root of a package."""
        patience = ["-o", "Acquire::Retries=1", "-o", "Acquire::http::Timeout=20"]
        command = ["apt-get", "download", "-q", *patience, f"{package}={version}"]
        what = f"{package} {version}"
        try:
            self.fetch(command, what, cwd=self.folder)
        except Stop:
            if os.geteuid() != 0 or shutil.which("apt-get") is None:
                raise
            self.fetch(["apt-get", "update", "-q", *patience], "the package lists")
            self.fetch(command, what, cwd=self.folder)
        archive = self.checked("*.deb", sha)
        self.build(["dpkg", "-x", archive, self.folder / "root"], f"{package}, unpacking")
        return self.folder / "root"

    def checked(self, pattern: str, sha: str) -> Path:
        path = next(self.folder.glob(pattern), None)
        if path is None:
            raise Stop(f"no {pattern} came of fetching {self.name}.")
        found = digest(path)
        if found != sha:
            raise Stop(f"{path.name} has the hash {found[:12]} where {sha[:12]} is pinned.")
        return path

    def crate(self, name: str) -> Path:
        """The unpacked source of a crate."""
        folder = crates()
        if isinstance(folder, Stop):
            raise folder
        return folder / name

    def keep(self, source: Path) -> Path:
        """Copies a library to a name that tells which peer it is."""
        target = FOLDER / f"lib{self.name}.so"
        part = target.with_suffix(".part")
        shutil.copyfile(source.resolve(), part)
        part.rename(target)
        return target

    def objects(self, sources: List[Path], command: List[str], what: str) -> List[Path]:
        """Compiles one by one, and goes on where an interrupted build stopped."""
        made = []
        for number, source in enumerate(sources):
            if number % 25 == 0 and len(sources) > 25:
                note(f"Building {what}: {number} of {len(sources)} files.")
            target = self.folder / f"{number:03d}-{source.stem}.o"
            if not target.exists():
                part = target.with_suffix(".part")
                self.build([*command, "-c", source, "-o", part], f"{what}, {source.name}")
                part.rename(target)
            made.append(target)
        return made


@functools.lru_cache(maxsize=None)
def crates():
    """All crates are fetched at once, and their hashes are those of Cargo.lock; the folder, or why there is none."""
    folder, project = FOLDER / "crates", FOLDER / "crates-project"
    lock = PINS / "Cargo.lock"
    if folder.is_dir() and (project / "Cargo.lock").is_file() and digest(project / "Cargo.lock") == digest(lock):
        return folder
    shutil.rmtree(project, ignore_errors=True)
    project.mkdir(parents=True)
    for part in ("Cargo.toml", "tlsf.rs"):
        shutil.copyfile(PINS / part, project / part)
    # The lock comes last into the project itself, as its presence says that the crates are complete.
    work = project / "fetch"
    work.mkdir()
    for part in ("Cargo.toml", "Cargo.lock", "tlsf.rs"):
        shutil.copyfile(PINS / part, work / part)
    patience = dict(os.environ, CARGO_NET_RETRY="1", CARGO_HTTP_TIMEOUT="20")
    command = ["cargo", "vendor", "--quiet", "--locked", "--versioned-dirs", folder]
    try:
        limited(command, "Fetching the crates", FETCH_SECONDS, LOGS / "crates.log", cwd=work, env=patience)
    except Stop as problem:
        return problem
    shutil.copyfile(lock, project / "Cargo.lock")
    return folder


def unzip(archive: Path, suffix: str, target: Path) -> Path:
    """Takes the one file of a wheel whose path ends so."""
    with zipfile.ZipFile(archive) as wheel:
        target.write_bytes(wheel.read(next(item for item in wheel.namelist() if item.endswith(suffix))))
    return target
