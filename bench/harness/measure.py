"""Runs one program under one library, and keeps the raw file. plan.py says in which order.

Every try is written at once, one line of JSON each, so that an interrupted run goes on where it stopped. Every run has
a time limit: the launcher then kills the program and all it started.
"""

import fcntl
import hashlib
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, List, Tuple

from . import build, inputs, machine, peers
from .base import PROGRAMS, Stop, need_space
from .libraries import Library
from .results import lacking

LAUNCHER_KIB_MAX = 2048  # a program's peak RSS begins with its parent's
SPACE_MIB = 100  # for what a program prints
PATIENCE_SECONDS = 20  # beyond a run's time limit, for the launcher and for a server's client
FOREIGN_MIN_SECONDS = 0.03  # the kernel counts in ticks: less than this is not known
TICK = os.sysconf("SC_CLK_TCK")


@dataclass
class Settings:
    rounds: int
    seed: int
    scale: float
    foreign_limit: float = 0.15
    tries: int = 3
    limit: int = 0  # seconds a run may take; 0: each row's own
    touch: str = "first"  # byte of a block, or "last" as well


def _fill(part, replace: Dict[str, str], scale: float) -> str:
    if type(part).__name__ == "N":
        return str(max(1, round(int(part) * scale)))
    text = str(part)
    for key, value in replace.items():
        text = text.replace(key, value)
    for key, maker in inputs.MAKERS.items():
        if key in text:
            text = text.replace(key, maker())
    return text


def command_of(row, parts: Tuple, settings: Settings, work: Path) -> List[str]:
    replace = {
        "{seed}": str(settings.seed),
        "{python}": inputs.PYTHON,
        "{programs}": str(PROGRAMS),
        "{work}": str(work),
    }
    command = [_fill(part, replace, settings.scale / row.slices) for part in parts]
    if row.is_workload:
        command[0] = str(build.binaries(settings.touch) / command[0])
    return command


def missing(row) -> str:
    """Why the row cannot run here, or an empty text."""
    absent = [name for name in row.needs if name != "{python}" and shutil.which(name) is None]
    return f"{absent[0]} is not installed" if absent else ""


def _machine_busy() -> float:
    """CPU seconds that all processors spent on anything, stolen time included."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    user, nice, system, _idle, _wait, irq, softirq, steal = (int(field) for field in fields[:8])
    return (user + nice + system + irq + softirq + steal) / TICK


def _our_cpu() -> float:
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


def _preload(row, library: Library) -> str:
    if library.path or not row.brings_allocator:
        return library.preload or "-"
    for line in Path("/proc/self/maps").read_text().splitlines():
        if "/libc.so.6" in line or "/libc-2." in line:
            return line.split()[-1]
    raise Stop("The C library's own file was not found.")


def run_once(row, library: Library, settings: Settings) -> Dict:
    """One try: what it cost, what it said, and what the machine did meanwhile."""
    sample: Dict = {}
    with tempfile.TemporaryDirectory(prefix="calm-bench-") as folder:
        work = Path(folder)
        # Output that finds no room would look like the library's failure.
        need_space(work, SPACE_MIB, "TMPDIR name another folder")
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": folder,
            "LC_ALL": "C",
            "TZ": "UTC",
            "GIT_CONFIG_NOSYSTEM": "1",
        }
        environment.update(row.env)
        limit = settings.limit or row.seconds_max
        launch = [str(build.binaries() / "launch"), str(work / "cost"), str(limit), _preload(row, library)]
        # The library's own settings must not reach the client of a server.
        for_library = dict(environment, **library.env)
        command = command_of(row, row.command, settings, work)
        client = command_of(row, row.client, settings, work) if row.client else None
        busy, ours, start = _machine_busy(), _our_cpu(), time.monotonic()
        with open(work / "out", "wb") as out, open(work / "err", "wb") as err:
            process = subprocess.Popen(
                launch + command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=folder, env=for_library
            )
            try:
                if client is not None:
                    sample["failed"] = _serve(client, limit, folder, environment)
                    if sample["failed"]:
                        process.terminate()
                code = _wait(process, limit + PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                code = process.wait()
            except BaseException:
                process.terminate()
                process.wait()
                raise
        wall = time.monotonic() - start
        foreign = max(0.0, _machine_busy() - busy - (_our_cpu() - ours))
        sample["foreign_seconds"] = round(foreign, 3)
        sample["foreign_share"] = round(foreign / wall, 3) if foreign >= FOREIGN_MIN_SECONDS else 0.0
        errors = (work / "err").read_bytes()
        if code != 0:
            sample["failed"] = sample.get("failed") or f"the launcher ended with code {code}: " + _last_line(errors)
            return sample
        cost = json.loads((work / "cost").read_text())
        sample.update(cost=cost)
        if cost["launcher_kib"] > LAUNCHER_KIB_MAX:
            raise Stop(f"The launcher's own peak of {cost['launcher_kib']} KiB would be charged to small programs.")
        sample["failed"] = _failure(cost, limit, errors) or sample.get("failed", "")
        if not sample["failed"]:
            output = (work / "out").read_bytes()
            sample["failed"] = _read_output(row, library, output, sample)
    return sample


def _wait(process: subprocess.Popen, seconds: float) -> int:
    """As process.wait(), which sleeps up to 50 ms too long."""
    ended = os.pidfd_open(process.pid)
    try:
        if not select.select([ended], [], [], seconds)[0]:
            raise subprocess.TimeoutExpired(process.args, seconds)
    finally:
        os.close(ended)
    return process.wait()


def _serve(client: List[str], limit: int, folder: str, environment: Dict[str, str]) -> str:
    """Runs the client of a server; says what went wrong."""
    process = subprocess.Popen(
        client,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        cwd=folder,
        env=environment,
        start_new_session=True,
    )
    try:
        _, errors = process.communicate(timeout=limit + PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        return f"the client took longer than {limit + PATIENCE_SECONDS} s and was killed"
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    return "the client failed: " + _last_line(errors) if process.returncode != 0 else ""


def _last_line(text: bytes) -> str:
    lines = text.decode(errors="replace").strip().splitlines()
    return lines[-1][:200] if lines else "it said nothing"


def _failure(cost: Dict, limit: int, errors: bytes) -> str:
    if cost["exec_error"]:
        return "it could not be started: " + cost["exec_error"]
    if cost["timed_out"]:
        return f"it took longer than {limit} s and was killed"
    if cost["signal"]:
        return f"it ended by signal {cost['signal']}: " + _last_line(errors)
    if cost["exit"] != 0:
        return f"it ended with code {cost['exit']}: " + _last_line(errors)
    return ""


def _read_output(row, library: Library, output: bytes, sample: Dict) -> str:
    """Takes the check, and for a workload its figures; says what is wrong with them."""
    if not row.is_workload:
        sample["check"] = hashlib.sha256(output).hexdigest()[:16]
        return ""
    try:
        result = json.loads(output)
        sample["check"] = result.pop("check")
        malloc_from = result.pop("malloc_from")
    except (ValueError, KeyError):
        return "its output is not the expected line of JSON"
    sample["result"] = result
    if library.path and os.path.realpath(malloc_from) != os.path.realpath(library.path):
        return f"malloc came from {malloc_from}, so the library was not active"
    return lacking(row, result)


class RawFile:
    """The raw samples: one header, then one line a try. Refuses to mix what must not be mixed."""

    def __init__(self, path: Path, settings: Settings, libraries: List[Library]):
        self.path = path
        self.cells: Dict[Tuple[str, str], List[Dict]] = {}  # samples by row and library
        self.others: List[Dict] = []  # lines of other kinds
        path.parent.mkdir(parents=True, exist_ok=True)
        self.file = open(path, "a")
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Stop(f"{path} is being written by another run; wait for it, or use another --out.")
        _repair(path)
        header = {
            "kind": "header",
            "seed": settings.seed,
            "scale": settings.scale,
            "touch": settings.touch,
            "machine": machine.describe(),
            "libraries": [library.record() for library in libraries],
            "peers_missing": peers.missing(),
        }
        if path.stat().st_size > 0:
            lines = _lines(path)
            headers = [line for line in lines if line["kind"] == "header"]
            _check_header(path, headers, header)
            for line in lines:
                self._keep(line)
            if header == headers[-1]:
                return
        self.append(header)

    def append(self, line: Dict) -> None:
        self.file.write(json.dumps(line) + "\n")
        self.file.flush()
        self._keep(line)

    def _keep(self, line: Dict) -> None:
        if line["kind"] == "sample":
            self.cells.setdefault((line["row"], line["library"]), []).append(line)
        elif line["kind"] != "header":
            self.others.append(line)

    def tries(self, row: str, library: str, repeat: int) -> List[Dict]:
        return [line for line in self.cells.get((row, library), []) if line["repeat"] == repeat]

    def failures(self, row: str, library: str) -> int:
        return sum(1 for line in self.cells.get((row, library), []) if line["failed"])


def _check_header(path: Path, headers: List[Dict], header: Dict) -> None:
    known = {library["name"]: library for head in headers for library in head["libraries"]}
    for head in headers:
        if (head["seed"], head["scale"]) != (header["seed"], header["scale"]):
            raise Stop(
                f"{path} was measured with --seed {head['seed']} --scale {head['scale']:g}; "
                "use the same or another --out."
            )
        if head.get("touch", "first") != header["touch"]:
            raise Stop(f"{path} was measured with --touch {head.get('touch', 'first')}; use the same or another --out.")
        for key in ("processor", "cores", "kernel"):
            if head["machine"][key] != header["machine"][key]:
                raise Stop(f"{path} was measured on another machine ({key} differs); use another --out.")
    for library in header["libraries"]:
        before = known.get(library["name"])
        if before and (before["sha256"], before["env"]) != (library["sha256"], library["env"]):
            raise Stop(f"{path} holds another build of {library['name']}; use another --out.")


def _lines(path: Path) -> List[Dict]:
    """The lines of a raw file. A last one that was cut off by a kill is left out."""
    try:
        texts = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise Stop(f"{path} cannot be read: {getattr(error, 'strerror', None) or 'it is not text'}.")
    lines = []
    for number, text in enumerate(texts):
        try:
            line = json.loads(text)
            line["kind"]
        except (ValueError, KeyError, TypeError):
            if number == len(texts) - 1:
                break
            raise Stop(f"Line {number + 1} of {path} is no line of a raw file.")
        lines.append(line)
    if not any(line["kind"] == "header" for line in lines):
        raise Stop(f"{path} is not a file of raw samples: it has no header.")
    return lines


def read(path: Path) -> Tuple[List[Dict], List[Dict]]:
    """Headers and samples of a raw file."""
    lines = _lines(path)
    return [line for line in lines if line["kind"] == "header"], [line for line in lines if line["kind"] == "sample"]


def read_others(path: Path) -> List[Dict]:
    """Lines of a raw file that are neither."""
    return [line for line in _lines(path) if line["kind"] not in ("header", "sample")]


def _repair(path: Path) -> None:
    """Ends a last line that was cut off, so that what is appended starts a line of its own."""
    if not path.is_file():
        return
    text = path.read_bytes()
    whole = text[: text.rfind(b"\n") + 1]
    if whole != text:
        path.write_bytes(whole)
