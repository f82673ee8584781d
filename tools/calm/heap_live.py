"""`calm heap PID`: profiles a process that is running already.

watched.py asks the profiler in the process to start, which it does with its next request for memory; the profile is
read from outside, so nothing of the process's files, descriptors or signals is touched. What was started here is
stopped here; if this process is killed, it stops by itself when the lease is over.
"""
import select
import signal
import sys
import time

import runtimes
import say
from process_memory import Gone
from trouble import Trouble
from watched import STARTED, STOPPED, WAS_ON, Watched

START_SECONDS_MAX = 10
STOP_SECONDS_MAX = 3
RENEW_SECONDS = 10
LOOK_SECONDS = 1.0
STARTS_MAX = 3
SECONDS_DEFAULT = 10  # where nobody can press Enter
REFUSALS = {4: "has no room for the profiler's tables", 5: "does not take this --rate"}  # enum remote_result


class Session:
    """The profiler on in one process, and what it found so far."""

    def __init__(self, pid):
        self.watched = Watched(pid, is_written=True)
        self.who = self.watched.process.who()
        paths = [area.path for area in self.watched.process.areas()]
        self.hidden = runtimes.advice(paths, runtimes.environment_of(self.watched.process))
        self.paths, self.rest = paths, []
        self.began = None
        self.profile = None
        self.totals = []  # (when, bytes of all live blocks): the first look and the last one

    def start(self, rate_bytes):
        if not self.watched.has_started():
            raise Trouble("%s has calmalloc, and has not asked for memory yet." % self.who)
        for _ in range(STARTS_MAX):
            if self.watched.is_profiled_by_itself():
                return False
            result = self.watched.ask(rate_bytes, START_SECONDS_MAX)
            if result == STARTED:
                self.began = time.monotonic()
                return True
            if result is None:
                self.watched.request(0)  # for the next request, which settles what was prepared
                raise Trouble("%s did not ask for memory within %d s, so there is nothing to sample; `calm top %d` "
                              "shows what it holds." % (self.who, START_SECONDS_MAX, self.watched.process.pid))
            if result != WAS_ON:
                raise Trouble("%s %s." % (self.who, REFUSALS.get(result, "refused")))
        raise Trouble("%s switches its profiler on and off itself; try again." % self.who)

    def fate(self):
        return self.watched.process.fate()

    def look(self):
        seconds = time.monotonic() - self.began if self.began is not None else 0
        self.profile = self.watched.profile(seconds)
        if runtimes.objects(self.paths):
            frame = self.watched.look()
            self.rest = runtimes.rest(self.paths, frame.rss_bytes, frame.resident_bytes)

    def measure(self):
        """Adds up the live blocks, which samples of a part of the time cannot tell."""
        frame = self.watched.look(with_pages=False)
        live = sum(one.live_bytes() for one in frame.classes.values())
        self.totals[1:] = [(time.monotonic(), live + frame.large_bytes - frame.large_cached_bytes)]

    def stop(self):
        """True once the process has stopped it; False: it will, with its next request."""
        if self.began is None:
            return True
        is_stopped = self.watched.ask(0, STOP_SECONDS_MAX) == STOPPED
        self.watched.request(0)  # stays, for whom our last write sent the wrong way after the answer
        return is_stopped


def sample(pid, rate_bytes, seconds):
    """The session with a process, with its profile after some seconds, or once the user presses Enter; and sentences
    about it."""
    session, notes = Session(pid), []
    stop_words = []
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, lambda number, _: stop_words.append(number))
    try:
        session.measure()
        if not session.start(rate_bytes):
            notes.append("the program had its profiler on, and keeps it")
        wait(session, seconds, rate_bytes, stop_words)
    except Gone:
        if session.profile is None:
            raise Trouble("%s %s before anything was sampled." % (session.who, session.fate())) from None
        notes.append("the process %s meanwhile; this is what it held shortly before" % session.fate())
        return session, notes
    finally:
        try:
            is_stopped = session.stop()
        except (Gone, Trouble):
            is_stopped = True
    if not is_stopped:
        notes.append("the process asks for no memory now; its profiler stops when it does")
    return session, notes


def wait(session, seconds, rate_bytes, stop_words):
    """Looks every second, so that something is known should the process end."""
    can_press = seconds is None and sys.stdin.isatty()
    if seconds is None and not can_press:
        seconds = SECONDS_DEFAULT
    say.line("calm: sampling %s%s" % (session.who, "; Enter ends it." if can_press else " for %g s." % seconds))
    begun = renewed = time.monotonic()
    while not stop_words:
        now = time.monotonic()
        left = LOOK_SECONDS if seconds is None else min(LOOK_SECONDS, begun + seconds - now)
        if left <= 0:
            break
        if pressed(left, can_press):
            break
        session.look()
        session.measure()
        if session.began is not None and now - renewed >= RENEW_SECONDS:
            session.watched.request(rate_bytes)  # its answer is not waited for
            renewed = now
    session.look()
    session.measure()


def pressed(seconds, can_press):
    if not can_press:
        time.sleep(seconds)
        return False
    ready, _, _ = select.select([sys.stdin], [], [], seconds)
    return bool(ready and sys.stdin.readline() is not None)
