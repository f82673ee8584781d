"""The last state of PROGRAM and of what it started, for programs that are killed before they can write a report.

`calm _watch` is a process beside PROGRAM: tools/launch/calm_launch.c starts it, asks it to look before a SIGTERM is
passed on, and kills it once PROGRAM has ended. It looks from outside as `calm top` does, so PROGRAM runs no instruction
for it, and keeps what it saw in a memory file, where the reporter finds it. Of a process that ends or becomes another
program the last look is kept, and of PROGRAM, where it has a profile, also the look with the most live bytes.

The memory file begins with HEAD: where the state lies, its bytes and their checksum. A new state is written beside the
old one before the head is, so whenever the watcher is killed one of them is whole.
"""
import bisect
import marshal
import os
import select
import struct
import sys
import time
import zlib
from dataclasses import astuple

from heap_profile import Location, Mapping, Profile, Stack
from process_memory import Gone, Refused
from trouble import Trouble
from watched import Watched, located

HEAD = struct.Struct("<QQI")
STATE_BYTES_MAX = 1 << 28
SECONDS, FIRST_SECONDS, COST_TIMES = 1.0, 0.1, 3  # between two looks; longer where one look takes long
BUDGET_SECONDS, PROCESSES_MAX, ENDED_MAX = 0.5, 1024, 32
STRANGER_LOOKS_MAX = 16  # after which one without calmalloc is looked at anew


def create():
    """The memory file, numbered high as the others of `run` are."""
    import run
    descriptor = run.shared_descriptor("calm-state", is_appended=False)
    os.pwrite(descriptor, HEAD.pack(0, 0, 0), 0)
    return descriptor


# Looking.

class Seen:
    """One process as long as it runs one program."""

    def __init__(self, pid):
        self.pid, self.watched, self.state, self.trouble, self.is_idle = pid, None, None, None, False
        self.largest = None
        self.skips = self.skipped = 0

    def look(self, has_profile):
        """Looks. Returns the state of a program that is no longer there, or None."""
        if self.skipped < self.skips:
            self.skipped += 1
            return None
        try:
            if self.watched is None:
                self.watched = Watched(self.pid)
            self.is_idle = not self.watched.has_started()
            if not self.is_idle:
                self.state = state_of(self.watched, has_profile)
                if self.state["profile"] and live_bytes(self.state) > live_bytes(self.largest):
                    self.largest = self.state
            self.skips = self.skipped = 0
            self.trouble = None
        except (Gone, Trouble) as why:
            return self.lose(why)
        except (OSError, ArithmeticError, LookupError, ValueError, MemoryError, struct.error) as why:
            return self.lose(Trouble("%s: %s" % (type(why).__name__, why)))  # of one process, not of all
        return None

    def lose(self, why):
        """What a look ended in; the next one is a little later each time."""
        self.skips, self.skipped = min(STRANGER_LOOKS_MAX, 2 * self.skips + 1), 0
        self.trouble = [str(why), isinstance(why, Refused)] if isinstance(why, Trouble) else None
        if self.watched is None or not isinstance(why, Gone):
            return None
        fate = self.watched.process.fate()
        ended, self.watched, self.state = self.state, None, None
        self.skips = 0
        return dict(ended, fate=fate) if ended is not None else None


def live_bytes(state):
    """In a state, or -1 where there is none."""
    return -1 if state is None else state["heap"]["allocated_bytes"] - state["heap"]["cached_bytes"]


def state_of(watched, has_profile):
    process = watched.process
    frame = watched.look(with_pages=False)
    profile = None
    if has_profile and watched.number("sample.start_ns"):
        seconds = time.time() - watched.number("sample.start_ns") / 1e9 if frame.profiler_on else 0
        profile = plain_profile(watched.profile(max(0.0, seconds)))
    return {"pid": process.pid, "pids": numbers_of(process), "program": process.name(), "seconds": time.monotonic(),
            "heap": heap_of(frame, watched), "profile": profile, "fate": None}


def numbers_of(process):
    """The numbers that a process has, in our namespace and in its own."""
    try:
        with process.file("status", errors="replace") as file:
            words = next((line for line in file if line.startswith("NSpid:")), "")
        return [int(word) for word in words.split()[1:]] or [process.pid]
    except (OSError, ValueError):
        return [process.pid]


def heap_of(frame, watched):
    """As the library's own report names it, as far as it can be seen from outside."""
    cohorts, classes = frame.cohorts.values(), sorted(frame.classes.values(), key=lambda one: one.key)
    return {
        "version": watched.library, "pid": watched.process.pid, "rss_bytes": frame.rss_bytes,
        "allocated_bytes": sum(one.bytes for one in cohorts) + frame.large_bytes,
        "cached_bytes": sum(min(one.bytes, one.cached_bytes) for one in cohorts) + frame.large_cached_bytes,
        "threads": frame.threads, "overflow_sites": frame.overflow_sites,
        "classes": [{"bytes": watched.class_bytes[one.key], "live_blocks": one.live_blocks(),
                     "live_bytes": one.live_bytes(), "cached_blocks": one.cached_blocks, "slabs": one.slabs}
                    for one in classes],
        "large_bytes": max(0, frame.large_bytes - frame.large_cached_bytes), "large_blocks": frame.large_blocks,
    }


def descendants(pid):
    """The processes that `pid` and its children started, as the kernel knows them now."""
    children = {}
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                with open("/proc/%s/stat" % name, "rb") as file:
                    parent = int(file.read(4096).rpartition(b")")[2].split()[1])
            except (OSError, ValueError, IndexError):
                continue
            children.setdefault(parent, []).append(int(name))
    found, waiting = [], [pid]
    while waiting and len(found) < PROCESSES_MAX:
        for child in children.get(waiting.pop(), []):
            found.append(child)
            waiting.append(child)
    return found


class Watcher:
    def __init__(self, pid, descriptor, has_profile):
        self.pid, self.descriptor, self.has_profile = pid, descriptor, has_profile
        self.seen, self.ended = {pid: Seen(pid)}, []
        self.place, self.length = HEAD.size, 0

    def look(self):
        """The program first, then those that wait longest, until the time of one look is over."""
        begun, ours = time.monotonic(), os.getpid()
        for pid in descendants(self.pid):
            if pid not in self.seen and pid != ours:
                self.seen[pid] = Seen(pid)
        order = sorted((pid for pid in self.seen if pid != self.pid), key=self.waits_since)
        for pid in [self.pid] + order:
            one = self.seen[pid]
            lost = one.look(self.has_profile)
            if lost is not None and (pid == self.pid or lost["fate"] == "has ended"):
                self.ended.append(lost)
            if not os.path.exists("/proc/%d" % pid) and pid != self.pid:
                del self.seen[pid]
            if time.monotonic() - begun > BUDGET_SECONDS:
                break
        self.ended.sort(key=lambda state: (state["pid"] == self.pid, state["heap"]["allocated_bytes"]))
        self.ended = self.ended[-ENDED_MAX:]
        self.keep()

    def waits_since(self, pid):
        state = self.seen[pid].state
        return state["seconds"] if state is not None else 0

    def keep(self):
        data = marshal.dumps({
            "trouble": self.seen[self.pid].trouble,
            "idle": self.seen[self.pid].is_idle,
            "largest": self.seen[self.pid].largest,
            "refused": [one.trouble[0] for one in self.seen.values() if one.trouble and one.trouble[1]],
            "states": self.ended + [one.state for one in self.seen.values() if one.state is not None]})
        if len(data) > STATE_BYTES_MAX:
            return
        before, behind = self.place, self.place + self.length
        self.place = HEAD.size if HEAD.size + len(data) <= before else behind
        self.length = len(data)
        os.pwrite(self.descriptor, data, self.place)
        os.pwrite(self.descriptor, HEAD.pack(self.place, self.length, zlib.crc32(data)), 0)
        if self.place < before:
            os.ftruncate(self.descriptor, self.place + self.length)


def watch(descriptor, has_profile, pid):
    """Looks at the process `pid` until the launcher kills us or is gone; standard input is a socket to it."""
    watcher, pause = Watcher(pid, descriptor, has_profile), FIRST_SECONDS
    while True:
        begun = time.monotonic()
        watcher.look()
        cost = time.monotonic() - begun
        ready, _, _ = select.select([0], [], [], max(pause, COST_TIMES * cost))
        pause = min(SECONDS, 2 * pause)
        while ready:
            if not os.read(0, 64):
                return 0
            watcher.look()
            os.write(0, b"\1")
            ready, _, _ = select.select([0], [], [], 0)


# What was seen, as the memory file has it.

def plain_profile(profile):
    """A profile as numbers and texts."""
    return {"mappings": [astuple(mapping) for mapping in profile.mappings],
            "stacks": [([location.lines[0] if location.lines else location.address for location in stack.locations],
                        stack.live_bytes, stack.live_blocks, stack.all_bytes, stack.all_blocks)
                       for stack in profile.stacks],
            "period": profile.period, "time_ns": profile.time_ns, "duration_ns": profile.duration_ns,
            "comments": profile.comments}


def profile_of(state):
    """The profile in a state, or None."""
    plain = state["profile"]
    if plain is None:
        return None
    mappings, locations, stacks = [Mapping(*words) for words in plain["mappings"]], {}, []
    by_start = sorted(mappings, key=lambda mapping: mapping.start)
    starts = [mapping.start for mapping in by_start]
    for addresses, *counts in plain["stacks"]:
        for address in addresses:
            if address not in locations and isinstance(address, tuple):
                locations[address] = Location(0, None, [address])
            elif address not in locations:
                index = bisect.bisect_right(starts, address) - 1
                locations[address] = located(address, by_start[index:index + 1] if index >= 0 else [])
        stacks.append(Stack([locations[address] for address in addresses], *counts))
    return Profile(stacks, mappings, True, plain["period"], plain["time_ns"], plain["duration_ns"], plain["comments"])


class LastLook:
    """What the memory file says about the processes that wrote no report of their own."""

    def __init__(self, descriptor, result):
        self.end, self.pid, self.status = result["end_us"] / 1e6, result["pid"], result["status"]
        found = read(descriptor)
        self.trouble, self.refused, self.states = found["trouble"], found["refused"], found["states"]
        self.largest = found["largest"]  # of the program's looks, that with the most live bytes, or None
        self.is_idle = found["idle"]  # it had asked for no memory when it was last looked at

    def own(self):
        """The program's last state, or None."""
        return next((state for state in reversed(self.states) if state["pid"] == self.pid), None)

    def others(self, known):
        """The last states of processes that it started, but for those whose numbers are known."""
        return [state for state in self.states
                if state["pid"] != self.pid and not any(number in known for number in state["pids"])]

    def age(self, state):
        return max(0.0, self.end - state["seconds"])

    def words(self, state):
        """When this was, as the end of a sentence about what was held."""
        import run
        if state["pid"] != self.pid:
            return "%.1f s before the end" % self.age(state)
        if state["fate"] == "has become another program":
            return "before it became another program by exec"
        if os.WIFSIGNALED(self.status):
            return "%.1f s before it was killed by %s" % (self.age(state), run.signal_name(os.WTERMSIG(self.status)))
        return "%.1f s before it left without a report, by _exit or the like" % self.age(state)


def read(descriptor):
    nothing = {"trouble": None, "idle": False, "largest": None, "refused": [], "states": []}
    try:
        place, length, checksum = HEAD.unpack(os.pread(descriptor, HEAD.size, 0))
        data = os.pread(descriptor, length, place) if length <= STATE_BYTES_MAX else b""
    except (OSError, struct.error):
        return nothing
    finally:
        os.close(descriptor)
    return marshal.loads(data) if data and len(data) == length and zlib.crc32(data) == checksum else nothing


def command(words):
    descriptor, has_profile, pid = words
    if not sys.flags.isolated:
        sys.dont_write_bytecode = True
    return watch(int(descriptor), has_profile == "profile", int(pid))
