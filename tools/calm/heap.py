"""`calm heap`: runs PROGRAM with the profiler on, reads a profile, or asks a running process for one, and shows who
holds the heap.

A run is split by an exec as that of `calm run` is. The library writes the profile to a memory file when PROGRAM
exits; what PROGRAM prints, reads and returns stays its own. Of a PROGRAM that does not get to its exit the profile is
what last_look.py saw last. heap_profile.py reads the profile, heap_symbols.py names
its addresses, heap_table.py and heap_page.py show it.
"""
import os
import sys
from dataclasses import asdict, dataclass

import heap_profile
import heap_table
import last_look
import own_malloc
import program
import run
import runtimes
import say
from core_memory import is_core
from heap_symbols import Symbols
from process_memory import Process
from trouble import Trouble

USAGE = 2
RATE_KIB_MAX = 1 << 20
RATE_KIB, RATE_KIB_RUNNING = 256, 512  # a process that runs already is sampled more thinly where samples cost much
PEAK = "peak"
PEAK_TIMES = 2  # so many times what is live at the end, the largest look is worth a word
CHILDREN_SHOWN = 5


@dataclass
class Request:
    """What the user asked for."""
    rate: str
    by: str
    top: str
    leaks: bool
    pprof: str
    html: str
    collapsed: str
    seconds: str = None
    process: str = None

    def check(self):
        self.rate = number("--rate", self.rate, 1, RATE_KIB_MAX) if self.rate is not None else None
        if self.seconds is not None:
            self.seconds = number("--seconds", self.seconds, 1, 1 << 20)
        if self.top is not None:
            self.top = number("--top", self.top, 0, 1 << 30)
        if self.by not in (*heap_table.ORDERS, PEAK):
            raise Trouble("--by is inuse, alloc or peak, not '%s'." % self.by, USAGE)
        if self.by == PEAK and self.process is not None:
            raise Trouble("--by peak is for PROGRAM itself, not for a child; leave out --process.", USAGE)


def number(name, text, low, high):
    try:
        value = int(text)
    except ValueError:
        value = low - 1
    if not low <= value <= high:
        raise Trouble("%s is a whole number from %d to %d, not '%s'." % (name, low, high, text), USAGE)
    return value


# Running PROGRAM.

def start(request, words, profile=None):
    if profile is not None:
        raise Trouble("'%s' stands before the two dashes: a program is run, or a profile is read, not both." % profile,
                      USAGE)
    request.check()
    if request.seconds is not None:
        raise Trouble("--seconds is for a process that runs already; PROGRAM is profiled until it ends.", USAGE)
    path = program.find(words[0])
    program.check(path)
    heap_profile.need_packages()
    for name in (request.pprof, request.html, request.collapsed):
        if name is not None:
            run.check_writable(name)
    profile_fd = run.shared_descriptor("calm-profile")
    options = ["profile_kb=%d" % (request.rate or RATE_KIB), "profile_fd=%d" % profile_fd]
    run.become(path, words, options, "_heap_report", {"request": asdict(request), "profile_fd": profile_fd},
               "profile")


def report(plan):
    """Runs after PROGRAM has ended, then ends the way PROGRAM did."""
    behind = run.others_with(plan["profile_fd"])
    data = run.read_all(plan["profile_fd"])
    result, heaps, seen = run.outcome(plan)
    try:
        show_run(plan, data, result, heaps, seen, behind)
    except Trouble as trouble:
        say.line("calm: " + str(trouble))
    except OSError:
        pass  # nobody gets it; PROGRAM's end is told all the same
    run.end_as(result["status"])


def show_run(plan, data, result, heaps, seen, behind):
    request = Request(**plan["request"])
    name = plan["words"][0]
    profiles = heap_profile.decode_all(heap_profile.whole_members(data), "the profile of '%s'" % name)
    own = heap_profile.of_process(profiles, result["pid"])
    if own is not None:
        profiles = [profile for profile in profiles if profile.pid() != result["pid"]] + [own]
    states = seen.others({profile.pid() for profile in profiles})
    if own is None and seen.own() is not None:
        states.append(seen.own())
    last = {}  # of profiles that were seen, not written: their states
    for state in states:
        profile = last_look.profile_of(state)
        if profile is not None:
            last[id(profile)] = state
            profiles.insert(0, profile)
            own = profile if state["pid"] == result["pid"] else own
    if own is None and request.process is None:
        if any(heap.get("pid") == result["pid"] for heap in heaps) and data:
            raise Trouble("no profile: children of '%s' wrote theirs into it; run one of them by itself, or let them "
                          "end before it does." % name)
        rows = (children(profiles) if profiles else []) + in_background(behind)
        if rows:
            say.pairs("calmalloc: heap of " + " ".join(plan["words"])[:100], rows, sys.stderr)
        raise Trouble(why_no_profile(name, result["status"], seen, behind) + hint(plan["words"][0]))
    profile = own if request.process is None else heap_profile.choose(profiles, request.process)
    heap = run.heap_of(heaps, profile.pid())
    largest = last_look.profile_of(seen.largest) if profile is own and seen.largest else None
    if request.by == PEAK and largest is None:
        raise Trouble("no look at '%s' found a profile, and --by peak shows the largest; it takes the first after some "
                      "tenths of a second." % name)
    if request.by == PEAK or has_freed_all(request, profile, largest):
        own = profile = largest
        rows = at_its_largest(profile, seen, heap, result["peak_rss_bytes"])
        request.by = "inuse"
    else:
        rows = summary(profile, heap, result["peak_rss_bytes"] if profile is own else None, seen,
                       last.get(id(profile)))
        rows += largest_row(profile, largest, seen)
    rows += runtimes.rest([mapping.path for mapping in profile.mappings])
    if profile.processes > 1 and last:
        rows.insert(0, ("last seen", "from outside, %d of these, which wrote no profile" % len(last)))
    others = [other for other in profiles if other is not own and other.pid() != result["pid"]]
    if request.process is None and others:
        rows += children(others)
    if request.process is None:
        rows += in_background(behind)
    if request.process is None and seen.refused and not seen.trouble:
        rows.append(("not seen", "%s: %s" % (say.count(len(seen.refused), "child", "children"), seen.refused[0])))
    title = " ".join(plan["words"])
    show(request, profile, title if profile is own else "%s of %s" % (process_words(profile), title), rows, sys.stderr)
    if request.leaks or request.html or request.collapsed:
        tell(program.stacks_advice(profile.mappings[0].path if profile.mappings else plan["path"]))
    tell(runtimes.advice([mapping.path for mapping in profile.mappings], runtimes.environment_for(plan["words"])))
    tell(own_malloc.advice(profile.mappings[0].path) if profile.mappings else None)


def has_freed_all(request, profile, largest):
    """Whether the largest look is what to show, since nothing is live at the end."""
    is_plain = request.by == "inuse" and not (request.leaks or request.pprof or request.html or request.collapsed)
    return bool(is_plain and largest and largest.total("live_bytes") and not profile.total("live_bytes"))


def at_its_largest(profile, seen, heap, peak_rss_bytes):
    """The facts above the table of the largest look."""
    rows = [("largest look", "%.1f s before the end; more may have been live between two looks" %
             seen.age(seen.largest))]
    if heap is not None:
        rows.append(("live at the end", "%s, counted exactly" % say.amount(heap_table.counted_bytes(heap))))
    return rows + heap_table.summary(profile, seen.largest["heap"], peak_rss_bytes, "live then")


def largest_row(profile, largest, seen):
    size = largest.total("live_bytes") if largest else 0
    if size < PEAK_TIMES * profile.total("live_bytes") or size == 0:
        return []
    return [("largest look", "live %s, %.1f s before the end; --by peak shows it" % (say.amount(size),
                                                                                 seen.age(seen.largest)))]


def summary(profile, heap, peak_rss_bytes, seen, state):
    """The facts above the table; `state` is there when the profile is what was seen last."""
    if state is None:
        return heap_table.summary(profile, heap, peak_rss_bytes)
    rows = heap_table.summary(profile, state["heap"], peak_rss_bytes, "live then")
    return [("last seen", "from outside, " + seen.words(state))] + rows


def process_words(profile):
    return "%d processes" % profile.processes if profile.processes > 1 else "%s, process %d" % (
        profile.program() or "?", profile.pid() or 0)


def children(profiles):
    """Rows about the processes that the program started."""
    profiles = sorted(profiles, key=lambda profile: -profile.total("live_bytes"))
    words = ["%s too, live %s in all; --process PID, or a name, or all shows theirs" % (
        say.count(len(profiles), "process was profiled", "processes were profiled"),
        say.amount(sum(profile.total("live_bytes") for profile in profiles)))]
    return listed("children", words, ["%s, live %s" % (process_words(profile), say.amount(profile.total("live_bytes")))
                                      for profile in profiles])


def in_background(pids):
    """Rows about the processes that go on after the program's end."""
    return listed("background", [], ["process %d goes on; ./calm heap %d shows its heap" % (pid, pid) for pid in pids])


def listed(name, words, processes):
    """Rows under one name: words, then the first few processes."""
    lines = words + processes[:CHILDREN_SHOWN]
    if len(processes) > CHILDREN_SHOWN:
        lines.append("and %d more" % (len(processes) - CHILDREN_SHOWN))
    return [(name if index == 0 else "", text) for index, text in enumerate(lines)]


def hint(name):
    """More words about a program without a profile."""
    try:
        words = own_malloc.advice(program.find(name))
    except Trouble:
        words = None
    return " " + words if words else ""


def why_no_profile(name, status, seen, behind):
    if behind:
        return ("no profile: '%s' ended before calm had looked at it, and left others in the background; its option "
                "to stay in the foreground, if it has one, gives the whole profile." % name)
    if seen.is_idle:
        return "no profile: '%s' itself asked for no memory as long as calm looked at it." % name
    killed = run.signal_name(os.WTERMSIG(status)) if os.WIFSIGNALED(status) else None
    if seen.trouble is not None and seen.trouble[1]:
        return "no profile: '%s' %s before it could write one, and from outside %s" % (
            name, "was killed by " + killed if killed else "ended", seen.trouble[0])
    if killed:
        return ("no profile: '%s' was killed by %s before it could write one, and before calm had looked at it, which "
                "takes some tenths of a second; let it live longer, or return from main." % (name, killed))
    return ("no profile: '%s' never loaded calmalloc, or left by _exit or exec of a program that did not before calm "
            "had looked at it, or closed the descriptor that profiles go to, or went on in the background; let it "
            "return from main, or call exit, or look at it while it runs: calm heap PID." % name)


# Reading profiles.

def read(request, path, later):
    request.check()
    if path is None:
        raise Trouble("heap needs two dashes and a PROGRAM, a PID, or a PROFILE: calm heap -- PROGRAM ARGS...", USAGE)
    if is_core(path):
        raise Trouble("'%s' is a core file, not a profile; `calm explain %s` reads it." % (path, path), USAGE)
    if request.by == PEAK:
        raise Trouble("--by peak is for a PROGRAM that is started: calm heap --by peak -- PROGRAM ARGS...", USAGE)
    if path.isdecimal() and not os.path.exists(path):
        return watch(request, int(path), later)
    if request.seconds is not None:
        raise Trouble("--seconds is for a process that runs already; '%s' is a file." % path, USAGE)
    if request.pprof is not None:
        raise Trouble("--pprof keeps the profile of a PROGRAM; '%s' is one already." % path, USAGE)
    if later is not None and (request.collapsed or request.leaks):
        raise Trouble("a comparison is a table, and a page with --html; --collapsed and --leaks take one profile.",
                      USAGE)
    heap_profile.need_packages()
    profile = heap_profile.read(path, request.process)
    if later is None:
        title = "%s (%s)" % (profile.program(), path) if profile.program() else path
        show(request, profile, title, heap_table.summary(profile), sys.stdout)
        return 0
    compare(request, (profile, path), (heap_profile.read(later, request.process), later))
    return 0


def compare(request, *moments):
    """Shows what changed from the first to the second of the pairs of a profile and its file's name."""
    symbols = Symbols()
    named = [(profile, symbols.resolve(profile)) for profile, _ in moments]
    title = " -> ".join(path for _, path in moments)
    sites = [heap_table.sites(*one) for one in named]
    if request.html is not None:
        import heap_page
        rows = [heap_table.change_of(*sites, by) for by in heap_table.ORDERS]
        write(request.html, heap_page.page_of_change(*named, title, rows).encode(errors="replace"))
    heap_table.difference(*sites, title, request, sys.stdout)
    advise(symbols)


# A process that runs.

def watch(request, pid, later):
    if later is not None or request.process is not None:
        raise Trouble("a running process is shown by itself; --pprof FILE keeps its profile, to compare with.", USAGE)
    if not 0 < pid < 1 << 31:
        raise Trouble("there is no process %d." % pid)
    Process(pid)  # that it may be looked at, before packages are fetched
    heap_profile.need_packages()
    for name in (request.pprof, request.html, request.collapsed):
        if name is not None:
            run.check_writable(name)
    import heap_live
    session, notes = heap_live.sample(pid, (request.rate or RATE_KIB_RUNNING) * 1024, request.seconds)
    profile, is_ours = session.profile, session.began is not None
    rows = heap_table.watched(profile, session.totals, is_ours) + session.rest + [("noted", note) for note in notes]
    if is_ours:
        profile.comments.append(heap_profile.PART_COMMENT)  # for who reads it later
    show(request, profile, process_words(profile), rows, sys.stdout)
    tell(session.hidden)
    tell(own_malloc.advice(profile.mappings[0].path) if profile.mappings else None)
    return 0


def show(request, profile, title, rows, stream):
    symbols = Symbols()
    frames = symbols.resolve(profile)
    if request.pprof is not None:
        write(request.pprof, heap_profile.encode(profile, symbols.lines))
    if request.html is not None:
        import heap_page
        write(request.html, heap_page.page(profile, frames, title, rows).encode(errors="replace"))
    if request.collapsed is not None:
        write(request.collapsed, heap_table.collapsed(profile, frames, request.by).encode(errors="replace"))
    say.pairs("calmalloc: heap of " + title[:100], rows, stream)
    if request.leaks:
        heap_table.leaks(profile, frames, request.top, stream)
    else:
        request.top = heap_table.rows_of(request, 2 + len(say.fitted(rows, stream)), stream)
        heap_table.table(profile, heap_table.sites(profile, frames), request, stream)
    advise(symbols)


def advise(symbols):
    tell(symbols.advice())


def tell(advice):
    if advice:
        say.line("calm: " + advice)


def write(path, data):
    try:
        with open(path, "wb") as file:
            file.write(data)
    except OSError as error:
        raise Trouble("'%s' cannot be written: %s; name another file, or make room." % (path, error.strerror)) from None
