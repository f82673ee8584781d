"""with_swap.py: runs a command while the machine has swap: its own, or 256 MB of compressed memory (zram) for so long.

usage: with_swap.py COMMAND [ARGUMENT...]

Exits as the command does, or with 77 (skipped) where there is no swap and none can be made: not root, a container,
another kernel. The command is killed after a while, so that the swap is taken away before anyone kills this script.
"""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys

SECONDS_MAX = 60
KIB_WANTED = 128 * 1024
ZRAM_BYTES = 256 * 1024 * 1024
CONTROL = pathlib.Path("/sys/class/zram-control")


def swap_free_kib():
    words = pathlib.Path("/proc/meminfo").read_text(encoding="ascii").split()
    return int(words[words.index("SwapFree:") + 1])


def tool(name):
    return shutil.which(name) or shutil.which(name, path="/sbin:/usr/sbin")


@contextlib.contextmanager
def zram():
    number = (CONTROL / "hot_add").read_text(encoding="ascii").strip()
    device = f"/dev/zram{number}"
    try:
        pathlib.Path(f"/sys/block/zram{number}/disksize").write_text(str(ZRAM_BYTES), encoding="ascii")
        subprocess.run([tool("mkswap"), device], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        subprocess.run([tool("swapon"), device], check=True)
        try:
            yield
        finally:
            subprocess.run([tool("swapoff"), device], check=True)
    finally:
        (CONTROL / "hot_remove").write_text(number, encoding="ascii")


def run(command):
    try:
        return subprocess.run(command, check=False, timeout=SECONDS_MAX).returncode
    except subprocess.TimeoutExpired:
        print(f"no end after {SECONDS_MAX} s")
        return 1


def main():
    command = sys.argv[1:]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    if swap_free_kib() >= KIB_WANTED:
        return run(command)
    if os.geteuid() != 0 or not CONTROL.exists() or not tool("mkswap") or not tool("swapon"):
        print("skipped: the machine has no swap, and none can be made: that takes root, zram, mkswap and swapon")
        return 77
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(zram())
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"skipped: the machine has no swap, and zram gives none: {error}")
            return 77
        return run(command)


sys.exit(main())
