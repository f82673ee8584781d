"""with_setting.py: runs a command while a setting of the machine has another value, and puts the value back.

usage: with_setting.py FILE VALUE COMMAND [ARGUMENT...]

Exits as the command does, or with 77 (skipped) where FILE cannot be written: not root, a container, another kernel.
The command is killed after a while, so that the value is put back before anyone kills this script.
"""

import re
import signal
import subprocess
import sys

SECONDS_MAX = 60


def current_value(path):
    with open(path, encoding="ascii") as file:
        text = file.read().strip()
    chosen = re.search(r"\[(\S+)\]", text)  # "always [madvise] never"
    return chosen.group(1) if chosen else text


def write_value(path, value):
    with open(path, "w", encoding="ascii") as file:
        file.write(value)


def main():
    path, value, *command = sys.argv[1:]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        before = current_value(path)
        write_value(path, value)
    except OSError as error:
        print(f"skipped: {path} cannot be set: {error.strerror}")
        return 77
    try:
        return subprocess.run(command, check=False, timeout=SECONDS_MAX).returncode
    except subprocess.TimeoutExpired:
        print(f"no end after {SECONDS_MAX} s")
        return 1
    finally:
        write_value(path, before)


sys.exit(main())
