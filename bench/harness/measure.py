"""Runs one program under one library, and a whole list of them interleaved.

The order is row by row, and within a row repeat by repeat: A B C, C B A, B C A, A C B, ... so that what drifts on the
machine drifts for all, and nobody always runs after the same neighbour. A run during which other processes used too
much CPU is done again; the quietest try counts. Every try is written, one line of JSON each, so that an interrupted run
goes on where it stopped.
"""

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, List, Optional, Tuple

from . import build, inputs, machine
from .base import PROGRAMS, Stop, note
from .libraries import Library
from .progress import Progress
from .results import lacking

FAILURES_MAX = 2  # of one row under one library; then its other repeats are left out
FOREIGN_MIN_SECONDS = 0.03  # the kernel counts in ticks: less than this is not known
TICK = os.sysconf("SC_CLK_TCK")


@dataclass
class Settings:
    repeats: int
    seed: int
    scale: float
    foreign_limit: float
    tries: int


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
    command = [_fill(part, replace, settings.scale) for part in parts]
    if row.is_workload:
        command[0] = str(build.binaries() / command[0])
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
        return library.path or "-"
    for line in Path("/proc/self/maps").read_text().splitlines():
        if "/libc.so.6" in line or "/libc-2." in line:
            return line.split()[-1]
    raise Stop("The C library's own file was not found.")


def run_once(row, library: Library, settings: Settings) -> Dict:
    """One try: what it cost, what it said, and what the machine did meanwhile."""
    sample: Dict = {}
    with tempfile.TemporaryDirectory(prefix="calm-bench-") as folder:
        work = Path(folder)
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": folder,
            "LC_ALL": "C",
            "TZ": "UTC",
            "GIT_CONFIG_NOSYSTEM": "1",
        }
        environment.update(row.env)
        launch = [str(build.binaries() / "launch"), str(work / "cost"), str(row.seconds_max), _preload(row, library)]
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
                    served = subprocess.run(
                        client,
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.DEVNULL,
                        stderr=subprocess.PIPE,
                        cwd=folder,
                        env=environment,
                    )
                    if served.returncode != 0:
                        sample["failed"] = "the client failed: " + _last_line(served.stderr)
                        process.terminate()
                code = process.wait()
            except BaseException:
                process.terminate()
                process.wait()
                raise
        wall = time.monotonic() - start
        foreign = max(0.0, _machine_busy() - busy - (_our_cpu() - ours))
        sample["foreign_seconds"] = round(foreign, 3)
        sample["foreign_share"] = round(foreign / wall, 3) if foreign >= FOREIGN_MIN_SECONDS else 0.0
        if code != 0:
            sample.setdefault(
                "failed", f"the launcher ended with code {code}: " + _last_line((work / "err").read_bytes())
            )
            return sample
        cost = json.loads((work / "cost").read_text())
        sample.update(cost=cost)
        sample.setdefault("failed", _failure(cost, (work / "err").read_bytes()))
        if not sample["failed"]:
            output = (work / "out").read_bytes()
            sample["failed"] = _read_output(row, library, output, sample)
    return sample


def _last_line(text: bytes) -> str:
    lines = text.decode(errors="replace").strip().splitlines()
    return lines[-1][:200] if lines else "it said nothing"


def _failure(cost: Dict, errors: bytes) -> str:
    if cost["exec_error"]:
        return "it could not be started: " + cost["exec_error"]
    if cost["timed_out"]:
        return "it took longer than its time limit"
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
        self.path, self.samples = path, []
        header = {
            "kind": "header",
            "seed": settings.seed,
            "scale": settings.scale,
            "machine": machine.describe(),
            "libraries": [library.record() for library in libraries],
        }
        if path.exists() and path.stat().st_size > 0:
            headers, self.samples = read(path)
            known = {library["name"]: library for head in headers for library in head["libraries"]}
            for head in headers:
                if (head["seed"], head["scale"]) != (settings.seed, settings.scale):
                    raise Stop(
                        f"{path} was measured with --seed {head['seed']} --scale {head['scale']:g}; "
                        "use the same or another --out."
                    )
                for key in ("processor", "cores", "kernel"):
                    if head["machine"][key] != header["machine"][key]:
                        raise Stop(f"{path} was measured on another machine ({key} differs); use another --out.")
            for library in header["libraries"]:
                before = known.get(library["name"])
                if before and (before["sha256"], before["env"]) != (library["sha256"], library["env"]):
                    raise Stop(f"{path} holds another build of {library['name']}; use another --out.")
            if header == {**headers[-1]}:
                header = None
        if header is not None:
            self.append(header)

    def append(self, line: Dict) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "a") as file:
            file.write(json.dumps(line) + "\n")
        if line["kind"] == "sample":
            self.samples.append(line)

    def tries(self, row: str, library: str, repeat: int) -> List[Dict]:
        return [
            line for line in self.samples if (line["row"], line["library"], line["repeat"]) == (row, library, repeat)
        ]

    def failures(self, row: str, library: str) -> int:
        return sum(1 for line in self.samples if (line["row"], line["library"]) == (row, library) and line["failed"])


def read(path: Path) -> Tuple[List[Dict], List[Dict]]:
    """Headers and samples of a raw file. A last line that was cut off by a kill is ignored."""
    headers, samples = [], []
    try:
        lines = path.read_text().splitlines()
    except OSError as error:
        raise Stop(f"{path} cannot be read: {error.strerror}.")
    for number, text in enumerate(lines):
        try:
            line = json.loads(text)
        except ValueError:
            if number == len(lines) - 1:
                break
            raise Stop(f"Line {number + 1} of {path} is not JSON.")
        (headers if line.get("kind") == "header" else samples).append(line)
    if not headers:
        raise Stop(f"{path} is not a file of raw samples: it has no header.")
    return headers, samples


def repair(path: Path) -> None:
    """Ends a last line that was cut off, so that what is appended starts a line of its own."""
    if path.exists():
        text = path.read_bytes()
        whole = text[: text.rfind(b"\n") + 1]
        if whole != text:
            path.write_bytes(whole)


def _is_quiet(sample: Dict, settings: Settings) -> bool:
    return sample["foreign_share"] <= settings.foreign_limit


def run_rows(rows: List, libraries: List[Library], settings: Settings, path: Path) -> None:
    repair(path)
    runnable = []
    for row in rows:
        reason = missing(row)
        if reason:
            note(f"Row {row.name} is left out: {reason}.")
        else:
            runnable.append(row)
    raw = RawFile(path, settings, libraries)
    planned = [
        (row, repeat, library)
        for row in runnable
        for repeat in range(min(settings.repeats, row.repeats_max))
        for library in _order(libraries, repeat)
    ]
    with Progress(len(planned)) as progress:
        for row, repeat, library in planned:
            progress.step(f"{row.name} · {library.name} · {repeat + 1}")
            _measure(raw, row, repeat, library, settings, progress)


def _order(libraries: List[Library], repeat: int) -> List[Library]:
    first = repeat // 2 % len(libraries)
    rotated = libraries[first:] + libraries[:first]
    return rotated if repeat % 2 == 0 else rotated[::-1]


def _measure(raw: RawFile, row, repeat: int, library: Library, settings: Settings, progress: "Progress") -> None:
    tries = raw.tries(row.name, library.name, repeat)
    # Memory is not disturbed by who else runs, and rows that measure it are slow.
    allowed = settings.tries if row.is_disturbable else 1
    while len(tries) < allowed and not any(line["failed"] or _is_quiet(line, settings) for line in tries):
        if raw.failures(row.name, library.name) >= FAILURES_MAX:
            return
        sample = {
            "kind": "sample",
            "row": row.name,
            "library": library.name,
            "repeat": repeat,
            "try": len(tries),
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }
        sample.update(run_once(row, library, settings))
        raw.append(sample)
        tries.append(sample)
        if sample["failed"]:
            progress.say(f"{row.name} under {library.name} failed: {sample['failed']}")
