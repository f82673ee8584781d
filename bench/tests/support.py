"""What the tests of the workloads share: workloads and faulty allocators, compiled once a run, and runs of them."""

import atexit
import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

BENCH = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(BENCH))

from harness import build  # noqa: E402

FOLDER = Path(tempfile.mkdtemp(prefix="calm-bench-test-"))
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)


def any_of(tries: int):
    """For a test of times: a busy machine may spoil a try, a workload that cannot see what is there spoils all."""

    def wrap(test):
        @functools.wraps(test)
        def tried(self, *args):
            for left in reversed(range(tries)):
                try:
                    return test(self, *args)
                except AssertionError:
                    if left == 0:
                        raise

        return tried

    return wrap


def compiled(name: str, source: Path, *flags: str) -> Path:
    target = FOLDER / name
    if not target.exists():
        subprocess.run(["gcc", *build.FLAGS, *flags, "-o", str(target), str(source), "-ldl"], check=True)
    return target


class Faulty:
    """Allocators of one source in bench/tests, each with the fault of its number; 0 has none."""

    def __init__(self, source: str):
        self.source = BENCH / "tests" / source

    def library(self, fault: int) -> Path:
        flags = ("-fno-builtin", "-shared", "-fPIC", f"-DFAULT={fault}")
        return compiled(f"lib{self.source.stem}{fault}.so", self.source, *flags)

    def run(self, name: str, *args, fault=None) -> subprocess.CompletedProcess:
        """A workload with seed 1, under the faulty allocator or, without a fault, under the machine's own."""
        program = compiled(name, BENCH / "workloads" / f"{name}.c")
        environment = dict(os.environ)
        if fault is not None:
            environment["LD_PRELOAD"] = str(self.library(fault))
        return subprocess.run(
            [str(program), "1", *map(str, args)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            env=environment,
        )

    def result(self, name: str, *args, fault=None) -> dict:
        done = self.run(name, *args, fault=fault)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)
