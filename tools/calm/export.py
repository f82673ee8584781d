"""`calm export`: serves the memory of running processes to those who collect such numbers from many machines.

/metrics has the numbers of memory_numbers.py in the format of OpenMetrics, /debug/pprof/heap and allocs a profile by
stack, as Go's programs have them there; with several processes each has its own, under /PID. The processes are read
from outside. A profile that is asked for switches the profiler of its process on, as `calm heap PID` does, and it stays
on while somebody keeps asking.

What a client may cost is bounded: CLIENTS_MAX at once, each for CLIENT_SECONDS, and one look at the processes serves
all who ask within LOOK_SECONDS.
"""
import http.server
import os
import signal
import socket
import socketserver
import tempfile
import threading
import time
import urllib.parse

import memory_numbers
import openmetrics
import say
from process_memory import Gone
from trouble import Trouble
from watched import Watched

CLIENTS_MAX, CLIENT_SECONDS = 8, 10
LOOK_SECONDS = 1.0
RENEW_SECONDS, WANTED_SECONDS = 10, 600  # between two of a lease; and a profiler that nobody asks is let go
DELTA_SECONDS_MAX = 300
PROCESSES_MAX = 1000
USAGE = 2


class Target:
    """A process whose numbers are served. One thread at a time."""

    def __init__(self, pid):
        self.pid, self.lock, self.profiler = pid, threading.Lock(), None
        self.watched = Watched(pid)
        self.program = say.clean(self.watched.process.program)
        self.began = began(pid)

    def numbers(self):
        """None when it has ended or cannot be read."""
        try:
            return memory_numbers.read(self.watched)
        except (Gone, Trouble, OSError):
            pass
        if self.began is None or began(self.pid) != self.began:
            return None
        try:  # it may have become another program, which has its own calmalloc
            self.watched = Watched(self.pid)
            self.program = say.clean(self.watched.process.program)
            return memory_numbers.read(self.watched)
        except (Gone, Trouble, OSError):
            return None


def began(pid):
    """When a process began, on the machine's clock; None where there is none."""
    try:
        with open("/proc/%d/stat" % pid, "rb") as file:
            return file.read(4096).rpartition(b")")[2].split()[19]
    except (OSError, IndexError):
        return None


class Profiler:
    """The profiler of one process, on for as long as somebody asks for its profiles."""

    def __init__(self, pid, rate_bytes):
        import heap_live
        self.session, self.rate_bytes = heap_live.Session(pid), rate_bytes
        self.session.start(rate_bytes)
        self.asked = self.renewed = time.monotonic()

    def profile(self):
        self.asked = time.monotonic()
        self.session.look()
        return self.session.profile

    def is_wanted(self):
        return time.monotonic() - self.asked < WANTED_SECONDS

    def renew(self):
        if self.session.began is not None and time.monotonic() - self.renewed >= RENEW_SECONDS:
            self.session.watched.request(self.rate_bytes)
            self.renewed = time.monotonic()

    def stop(self):
        try:
            self.session.stop()
        except (Gone, Trouble, OSError):
            pass


class Exporter:
    """What is served. Any thread."""

    def __init__(self, pids, rate_bytes):
        self.targets = {pid: Target(pid) for pid in pids}
        self.rate_bytes = rate_bytes
        self.lock, self.looked, self.found = threading.Lock(), None, ""
        self.has_ended = threading.Event()

    def metrics(self):
        with self.lock:
            if self.looked is None or time.monotonic() - self.looked >= LOOK_SECONDS:
                rows = []
                for pid, target in self.targets.items():
                    with target.lock:
                        numbers = target.numbers()
                        rows.append((pid, target.program, numbers))
                self.found, self.looked = openmetrics.text(rows), time.monotonic()
            return self.found

    def profile(self, pid, kind, seconds):
        """The profile so far, packed; with `seconds` what came in that time."""
        import heap_profile
        heap_profile.need_packages()
        import heap_symbols
        before = self.look(pid) if seconds else None
        if seconds and self.has_ended.wait(seconds):
            raise Trouble("calm export ends.")
        profile = self.look(pid)
        if before is not None:
            profile = difference(before, profile, seconds)
        symbols = heap_symbols.Symbols()
        symbols.resolve(profile)  # collectors have no files of this machine to find names in
        return heap_profile.encode(profile, symbols.lines, "alloc_space" if kind == "allocs" else "inuse_space")

    def look(self, pid):
        target = self.targets[pid]
        with target.lock:
            try:
                if target.profiler is None:
                    target.profiler = Profiler(pid, self.rate_bytes)
                return target.profiler.profile()
            except Gone:
                fate = target.profiler.session.fate() if target.profiler is not None else "has ended"
                target.profiler = None
                raise Trouble("%s %s." % (target.watched.process.who(), fate)) from None

    def renew(self):
        """Until the end: keeps profilers on that somebody asks, and stops the others."""
        while not self.has_ended.wait(1):
            for target in self.targets.values():
                with target.lock:
                    self.renew_one(target)

    def renew_one(self, target):
        if target.profiler is None:
            return
        try:
            if target.profiler.is_wanted():
                target.profiler.renew()
                return
        except (Gone, Trouble, OSError):
            pass
        target.profiler.stop()
        target.profiler = None

    def stop(self):
        self.has_ended.set()
        for target in self.targets.values():
            with target.lock:
                if target.profiler is not None:
                    target.profiler.stop()


def difference(before, after, seconds):
    """What `after` has more than `before`, by stack."""
    def key(stack):
        return tuple(location.address for location in stack.locations)
    earlier = {key(stack): stack for stack in before.stacks}
    for stack in after.stacks:
        old = earlier.get(key(stack))
        if old is not None:
            for name in ("live_bytes", "live_blocks", "all_bytes", "all_blocks"):
                setattr(stack, name, getattr(stack, name) - getattr(old, name))
    after.duration_ns = int(seconds * 1e9)
    return after


class Handler(http.server.BaseHTTPRequestHandler):
    """One request a connection."""
    timeout = CLIENT_SECONDS

    def setup(self):
        super().setup()
        self.limit(CLIENT_SECONDS)

    def limit(self, seconds):
        """The connection ends after so long, however slowly the other side reads or writes."""
        self.release()
        self.timer = threading.Timer(seconds, self.cut)
        self.timer.daemon = True
        self.timer.start()

    def release(self):
        if getattr(self, "timer", None) is not None:
            self.timer.cancel()

    def cut(self):
        try:
            self.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def finish(self):
        self.release()
        try:
            super().finish()
        except OSError:
            pass  # the client has gone

    def handle(self):
        try:
            super().handle()
        except OSError:
            pass

    def version_string(self):
        return "calm"

    def log_message(self, *words):
        pass

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        words = [word for word in url.path.split("/") if word]
        try:
            status, kind, body = self.answer(words, urllib.parse.parse_qs(url.query, max_num_fields=8))
        except Trouble as trouble:
            status, kind, body = 503, "text/plain; charset=utf-8", ("%s\n" % say.clean(str(trouble))).encode()
        except ValueError:
            status, kind, body = 400, "text/plain; charset=utf-8", b"this query is not understood\n"
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if words[-2:-1] == ["pprof"] and status == 200:
            self.send_header("Content-Disposition", 'attachment; filename="%s.pb.gz"' % words[-1])
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET

    def answer(self, words, query):
        exporter = self.server.exporter
        if words == ["metrics"]:
            is_open = "application/openmetrics-text" in self.headers.get("Accept", "")
            return 200, openmetrics.TYPE if is_open else openmetrics.TYPE_PROMETHEUS, exporter.metrics().encode()
        pids = list(exporter.targets)
        pid = pids[0] if len(pids) == 1 else None
        if words and words[0].isascii() and words[0].isdecimal() and len(words[0]) < 11:
            pid, words = int(words[0]), words[1:]
        if words in (["debug", "pprof", "heap"], ["debug", "pprof", "allocs"]) and pid in exporter.targets:
            seconds = int(query.get("seconds", ["0"])[0])
            if not 0 <= seconds <= DELTA_SECONDS_MAX:
                raise ValueError
            self.limit(seconds + 2 * CLIENT_SECONDS)
            return 200, "application/octet-stream", exporter.profile(pid, words[2], seconds)
        return (200 if not words else 404), "text/plain; charset=utf-8", self.places(pids).encode()

    def places(self, pids):
        fronts = [""] if len(pids) == 1 else ["/%d" % pid for pid in pids]
        return "\n".join(["/metrics"] + [front + "/debug/pprof/" + kind for front in fronts
                                         for kind in ("heap", "allocs")]) + "\n"


class Server(http.server.ThreadingHTTPServer):
    """Clients beyond CLIENTS_MAX are sent away."""
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, address, exporter):
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.exporter, self.free = exporter, threading.Semaphore(CLIENTS_MAX)
        super().__init__(address, Handler)

    def server_bind(self):
        # Not that of HTTPServer, which asks a name server who we are.
        self.allow_reuse_address = True
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]

    def process_request(self, request, client_address):
        if not self.free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no thread to be had
            self.free.release()
            self.shutdown_request(request)

    def process_request_thread(self, request, client_address):
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.free.release()

    def handle_error(self, request, client_address):
        if os.environ.get("CALM_DEBUG"):
            super().handle_error(request, client_address)


def start(pids, port, bind, textfile, interval, rate):
    from heap import RATE_KIB_MAX, number
    if not pids or len(pids) > PROCESSES_MAX:
        raise Trouble("export needs the numbers of up to %d processes: calm export --port N PID..." % PROCESSES_MAX,
                      USAGE)
    pids = list(dict.fromkeys(number("PID", pid, 1, (1 << 31) - 1) for pid in pids))
    if (port is None) == (textfile is None):
        raise Trouble("export serves at a port or writes a file: --port N, or --textfile FILE.", USAGE)
    seconds = number("--interval", interval, 1, 1 << 20) if interval is not None else None
    if port is not None and seconds is not None:
        raise Trouble("--interval is for --textfile; at a port whoever asks says when.", USAGE)
    rate_bytes = number("--rate", rate, 1, RATE_KIB_MAX) * 1024
    if textfile == "-":
        raise Trouble("--textfile is replaced again and again, so it needs a name; --port N serves it.", USAGE)
    if textfile is not None:
        return write_on(Exporter(pids, rate_bytes), textfile, seconds)
    return serve(Exporter(pids, rate_bytes), number("--port", port, 0, 65535), bind)


def serve(exporter, port, bind):
    try:
        server = Server((bind, port), exporter)
    except (OSError, UnicodeError) as error:
        raise Trouble("nothing can be served at %s, port %d: %s." % (
            say.clean(bind), port, getattr(error, "strerror", None) or "this is no address")) from None
    signal.signal(signal.SIGTERM, interrupt)
    threading.Thread(target=exporter.renew, daemon=True).start()
    host = "[%s]" % bind if ":" in bind else bind
    say.line("calm: http://%s:%d/metrics; Ctrl-C ends it." % (host, server.server_port))
    try:
        server.serve_forever(poll_interval=0.2)
    except KeyboardInterrupt:
        pass
    finally:
        server.socket.close()
        exporter.stop()
    return 0


def interrupt(number, frame):
    raise KeyboardInterrupt


def write_on(exporter, path, seconds):
    """Once, or again and again until no process is left."""
    signal.signal(signal.SIGTERM, interrupt)
    try:
        while True:
            text = exporter.metrics()
            replace(path, text.encode())
            if seconds is None:
                return 0
            if not any(line.startswith("calmalloc_up{") and line.endswith(" 1") for line in text.split("\n")):
                say.line("calm: no process is left; '%s' says so." % path)
                return 0
            exporter.has_ended.wait(seconds)
            exporter.looked = None
    except KeyboardInterrupt:
        return 0


def replace(path, data):
    """Whoever reads `path` finds the old or the new text, never a part. What a link leads to is replaced, not the
    link; and a device or a pipe, which has readers of its own, is not."""
    target = os.path.realpath(path)
    if os.path.exists(target) and not os.path.isfile(target):
        raise Trouble("'%s' is not a regular file, and is not replaced; name another file." % path)
    try:
        descriptor, made = tempfile.mkstemp(prefix=".calm-", dir=os.path.dirname(target))
        try:
            with os.fdopen(descriptor, "wb") as file:
                os.fchmod(file.fileno(), 0o644)
                file.write(data)
            os.replace(made, target)
        except BaseException:
            os.unlink(made)
            raise
    except OSError as error:
        raise Trouble("'%s' cannot be written: %s; name another file, or make room." % (path, error.strerror)) from None
