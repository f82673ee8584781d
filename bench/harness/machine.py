"""What the figures were made on: one dictionary for the raw file."""

import os
import platform
import re
from pathlib import Path
from typing import Dict

from .base import REPOSITORY, first_line
from .build import COMPILER

VERSIONS = {
    "gcc": ("g++", "--version"),
    "perl": ("perl", "-e", "print $^V"),
    "ruby": ("ruby", "--version"),
    "lua": ("lua5.4", "-v"),
    "z3": ("z3", "--version"),
    "sqlite": ("sqlite3", "--version"),
    "git": ("git", "--version"),
    "ghostscript": ("gs", "--version"),
    "node": ("node", "--version"),
    "redis": ("redis-server", "--version"),
}


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def describe() -> Dict:
    processor = re.search(r"^model name\s*:\s*(.*)$", _read("/proc/cpuinfo"), re.M)
    memory = re.search(r"^MemTotal:\s*(\d+)", _read("/proc/meminfo"), re.M)
    commit = first_line("git", "-C", str(REPOSITORY), "rev-parse", "HEAD")
    return {
        "processor": processor.group(1) if processor else platform.processor(),
        "cores": os.cpu_count(),
        "memory_kib": int(memory.group(1)) if memory else 0,
        "kernel": platform.release(),
        "c_library": " ".join(platform.libc_ver()),
        "compiler": first_line(COMPILER, "--version"),
        "python": platform.python_version(),
        "huge_pages": _read("/sys/kernel/mm/transparent_hugepage/enabled"),
        "overcommit": _read("/proc/sys/vm/overcommit_memory"),
        "governor": _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "commit": commit if re.fullmatch(r"[0-9a-f]{40}", commit) else "",
        "programs": {name: first_line(*command) for name, command in VERSIONS.items()},
    }
