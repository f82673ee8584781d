"""Counts instructions an operation with callgrind: the companion of time, the same on every machine and every run.

Each row runs with a count and with twice the count; the difference, over the count, leaves start-up out. The loop of
the workload itself is in every figure alike. Instructions are not time: a miss costs none of them.
"""

import json
import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Dict, List, Optional

from . import build, machine
from .base import Stop, first_line, note


def _instructions(command: List[str], library) -> int:
    with tempfile.TemporaryDirectory(prefix="calm-bench-") as folder:
        out = Path(folder) / "out"
        environment = {"PATH": os.environ["PATH"], "HOME": folder, "LC_ALL": "C", **library.env}
        if library.path:
            environment["LD_PRELOAD"] = library.preload
        done = subprocess.run(
            ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", *command],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            timeout=600,
        )
        total = re.search(r"^(?:summary|totals): (\d+)", out.read_text(), re.M) if out.exists() else None
        if done.returncode != 0 or total is None:
            said = [line for line in done.stderr.splitlines() if line.strip() and not line.startswith("==")]
            raise Stop(said[-1] if said else f"callgrind ended with code {done.returncode}")
        return int(total.group(1))


def _per_operation(row, library, seed: int) -> float:
    def command(count: int) -> List[str]:
        arguments = [
            str(count) if type(part).__name__ == "N" else str(part).replace("{seed}", str(seed))
            for part in row.command[1:]
        ]
        return [str(build.binaries() / row.command[0])] + arguments

    once, twice = (_instructions(command(count), library) for count in (row.counted, 2 * row.counted))
    return (twice - once) / row.counted


def _write(out: Optional[Path], line: Dict) -> None:
    if out:
        with open(out, "a") as file:
            file.write(json.dumps(line) + "\n")


def _header(libraries: List, seed: int) -> Dict:
    """As raw samples have one, so that a report can say of which builds the counts are."""
    named = [library.record() for library in libraries]
    return {"kind": "header", "seed": seed, "scale": 1.0, "machine": machine.describe(), "libraries": named}


def render(rows: List, libraries: List, seed: int, out: Optional[Path]) -> str:
    rows = [row for row in rows if row.counted]
    if not rows:
        raise Stop("None of these rows has a count for callgrind; those of one thread have, and hz3-t2-r90.")
    if not first_line("valgrind", "--version"):
        raise Stop("valgrind is not installed.")
    lines = [
        "| instructions an operation | " + " | ".join(library.name for library in libraries) + " |",
        "|---|" + "--:|" * len(libraries),
    ]
    reasons = []
    _write(out, _header(libraries, seed))
    for row in rows:
        cells = []
        for library in libraries:
            note(f"{row.name} · {library.name}")
            try:
                count = _per_operation(row, library, seed)
                cells.append(f"{count:.1f}")
                line = {"kind": "count", "row": row.name, "library": library.name, "seed": seed}
                _write(out, {**line, "sha256": library.sha256, "instructions": count})
            except (Stop, subprocess.TimeoutExpired) as problem:
                reasons.append(f"- {row.name} under {library.name} failed: {problem}")
                cells.append("failed")
        lines.append(f"| {row.name} | " + " | ".join(cells) + " |")
    return "\n".join(lines + [""] * bool(reasons) + reasons)
