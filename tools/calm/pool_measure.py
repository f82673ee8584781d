"""`calm pool measure [CONFIG]`: what a pool's calls take on this machine, and which of its settings are in the way."""
import glob
import json
import os
import re
import resource
import subprocess
import sys

import build
import say
from trouble import Trouble

CALLS = 200000
DEEP_US = 10  # of a sleep, until the CPU is awake
USUAL = [(64, 1000), (256, 1000), (1024, 200), (4096, 50)]
TITLES = {"alloc": "alloc", "alloc_aligned": "alloc, aligned", "free": "free", "free_remote": "free, remote",
          "drain": "drain", "nothing": "nothing at all"}


def read(path):
    """[(size, blocks)] of lines `SIZE BLOCKS`."""
    try:
        with open(path) as file:
            lines = file.read().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise Trouble("'%s' cannot be read: %s." % (path, reason)) from None
    rows = []
    for number, line in enumerate(lines, 1):
        words = re.sub(r"#.*", "", line).split()
        if words and (len(words) != 2 or not all(re.fullmatch(r"[0-9]{1,8}", word) for word in words)):
            raise Trouble("'%s', line %d: a line is 'SIZE BLOCKS', two whole numbers." % (path, number))
        if words:
            rows.append((int(words[0]), int(words[1])))
    if not rows:
        raise Trouble("'%s' has no line 'SIZE BLOCKS'." % path)
    return sorted(rows)


def first_line(path):
    """Of a file that the kernel may not have: None."""
    try:
        with open(path) as file:
            return file.readline().strip()
    except (OSError, UnicodeDecodeError):
        return None


def cpus_of(text):
    """{1, 2, 3, 7} of '1-3,7'."""
    found = set()
    for part in filter(None, (text or "").split(",")):
        ends = part.split("-")
        found.update(range(int(ends[0]), int(ends[-1]) + 1))
    return found


def choose_cpu():
    """An isolated one if there is any that this process may use, else the last, which the kernel uses least."""
    usable = os.sched_getaffinity(0)
    isolated = usable & cpus_of(first_line("/sys/devices/system/cpu/isolated"))
    return max(isolated or usable)


def checklist(cpu, made, root="/"):
    """[(is it well, a sentence)]."""
    def at(path):
        return first_line(os.path.join(root, path))

    governor = at("sys/devices/system/cpu/cpu%d/cpufreq/scaling_governor" % cpu)
    isolated = cpu in cpus_of(at("sys/devices/system/cpu/isolated"))
    ticks = cpu in cpus_of(at("sys/devices/system/cpu/nohz_full"))
    threads = cpus_of(at("sys/devices/system/cpu/cpu%d/topology/thread_siblings_list" % cpu)) - {cpu}
    folder = "sys/devices/system/cpu/"
    turbo = at(folder + "intel_pstate/no_turbo") == "0" or at(folder + "cpufreq/boost") == "1"
    try:
        with open(os.path.join(root, "proc/cpuinfo")) as file:
            is_guest = "hypervisor" in file.read()
    except OSError:
        is_guest = False
    sleeps = [state for state in glob.glob(os.path.join(root, folder, "cpu%d/cpuidle/state*" % cpu))
              if int(first_line(os.path.join(state, "latency")) or 0) > DEEP_US
              and first_line(os.path.join(state, "disable")) == "0"]
    return [
        (governor in (None, "performance"), "the clock stays up: the governor is '%s'" % governor if governor else
         "the clock is not ours to see: no cpufreq here"),
        (not turbo, "no turbo is seen" if not turbo else
         "turbo is on, so that the clock depends on what other cores do; turn it off in the firmware or by no_turbo"),
        (isolated, "CPU %d is isolated" % cpu if isolated else
         "CPU %d is not isolated: others run there; boot with isolcpus=%d" % (cpu, cpu)),
        (ticks, "the timer's tick is off on it" if ticks else
         "the timer interrupts it; boot with nohz_full=%d" % cpu),
        (not threads, "no other hardware thread shares its core" if not threads else
         "CPU %s shares its core; take it offline or turn SMT off" % ", ".join(map(str, sorted(threads)))),
        (not sleeps, "it does not sleep deeply, as far as the kernel says" if not sleeps else
         "it may sleep so that waking takes more than 10 us; hold /dev/cpu_dma_latency open at 0"),
        (not is_guest, "no hypervisor is below" if not is_guest else
         "this is a virtual machine: its host may stop it at any moment, and no setting in it helps"),
        (made["is_locked"], "the pool's pages are locked" if made["is_locked"] else
         "the pool's pages are not locked: raise ulimit -l, now %s KiB" % (
             resource.getrlimit(resource.RLIMIT_MEMLOCK)[0] // 1024)),
        (made["is_fifo"], "SCHED_FIFO was granted" if made["is_fifo"] else
         "SCHED_FIFO was refused: raise ulimit -r, or give CAP_SYS_NICE"),
        (made["switches"] == 0, "nobody else ran meanwhile" if made["switches"] == 0 else
         "%s ran in its place meanwhile" % say.count(made["switches"], "time another thread", "times another thread")),
    ]


def number(value):
    return format(round(value), ",")


def show(rows, cpu, made, checks):
    print("  a pool of %s: %s" % (say.amount(made["bytes"]), ", ".join("%d of %d B" % (blocks, size)
                                                                     for size, blocks in rows)))
    print("  CPU %d; ns, by a counter whose step is %.1f; in each cell what reading it twice takes\n" % (
        cpu, made["ns_a_tick"]))
    table = []
    for name, title in TITLES.items():
        warm, cold, bound = made["warm"][name], made["cold"][name], made["computed"].get(name)
        computed = ["-", "-"]
        if bound and made["is_computed"]:
            computed = [number(bound[key]) for key in ("instructions", "lines")]
        table.append([title, number(warm["calls"]), number(warm["p50"]), number(warm["p9999"]), number(warm["max"]),
                      number(cold["p50"]), number(cold["max"]), *computed])
    say.table(["call", "calls", "middle", "99.99 %", "most", "flushed: middle", "most", "at most: instructions",
               "lines"], table, sys.stdout)
    print("\n  What 'nothing at all' takes at most is the machine, not the pool. 'flushed': the pool's bookkeeping and"
          "\n  code were in no cache.")
    if not made["is_computed"]:
        print("  Nobody computed the worst case of this build: `python3 tools/bound --stamp` does.")
    print()
    for is_well, sentence in checks:
        print("  %s  %s" % ("ok" if is_well else "no", sentence))


def start(file, is_json):
    rows = USUAL if file is None else read(file)
    cpu = choose_cpu()
    done = subprocess.run([build.pool_measure(), str(cpu), str(CALLS), *("%d:%d" % row for row in rows)],
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise Trouble("the pool could not be measured: %s" % (done.stderr.strip().split(": ", 1)[-1] or "it has more"
                                                               " than 64 classes."))
    made = json.loads(done.stdout)
    checks = checklist(cpu, made)
    if is_json:
        print(json.dumps({"cpu": cpu, **made, "checklist": [{"ok": bool(is_well), "says": sentence}
                                                            for is_well, sentence in checks]}, indent=2))
    else:
        show(rows, cpu, made, checks)
    return 0
