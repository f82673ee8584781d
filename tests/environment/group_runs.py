"""group_runs.py: runs a program many times, each with another seed, in a control group with a limit of memory.

usage: group_runs.py MIB RUNS COMMAND...

Fails when a run fails or the kernel killed one. Exits with 77 (skipped) where no such group can be made.
"""

import os
import signal
import subprocess
import sys

ROOT = "/sys/fs/cgroup"
SECONDS_MAX = 60


def own_paths():
    """The process's group in the hierarchy that has memory, as (folder, is_v2)."""
    with open("/proc/self/cgroup", encoding="ascii") as file:
        lines = [line.rstrip("\n").split(":", 2) for line in file]
    for _, controllers, path in lines:
        if "memory" in controllers.split(","):
            return os.path.join(ROOT, "memory", path.lstrip("/")), False
    return os.path.join(ROOT, lines[-1][2].lstrip("/")), True


def write(path, value):
    with open(path, "w", encoding="ascii") as file:
        file.write(value)


def make_group(mib):
    parent, is_v2 = own_paths()
    group = os.path.join(parent, f"calm-test-{os.getpid()}")
    os.mkdir(group)
    try:
        write(os.path.join(group, "memory.max" if is_v2 else "memory.limit_in_bytes"), str(mib << 20))
        swap = os.path.join(group, "memory.swap.max" if is_v2 else "memory.memsw.limit_in_bytes")
        if os.path.exists(swap):
            write(swap, "0" if is_v2 else str(mib << 20))
    except OSError:
        os.rmdir(group)
        raise
    return group


def kills(group):
    """How many tasks the kernel killed in the group."""
    name = "memory.events" if os.path.exists(os.path.join(group, "memory.events")) else "memory.oom_control"
    with open(os.path.join(group, name), encoding="ascii") as file:
        return sum(int(line.split()[1]) for line in file if line.startswith("oom_kill "))


def run(group, command, seed):
    enter = f'echo $$ > "{group}/cgroup.procs" && exec "$@"'
    done = subprocess.run(["/bin/sh", "-c", enter, "sh", *command, str(seed)], capture_output=True, text=True,
                          timeout=SECONDS_MAX, check=False)
    if done.returncode != 0:
        print(f"seed {seed} ends with {done.returncode}: {done.stderr.strip() or done.stdout.strip()}")
    return done.returncode == 0


def main():
    mib, runs, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        group = make_group(mib)
    except OSError as error:
        print(f"skipped: no control group can be made here: {error.strerror}")
        return 77
    try:
        failed = sum(not run(group, command, seed) for seed in range(runs))
        killed = kills(group)
    finally:
        os.rmdir(group)
    print(f"{runs} runs, {failed} failed, {killed} killed by the kernel")
    return 0 if failed == killed == 0 else 1


sys.exit(main())
