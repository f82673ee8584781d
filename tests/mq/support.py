"""What tests of calmq share: a server that is started and stopped, and a client that speaks raw sockets."""
import atexit
import os
import re
import signal
import socket
import subprocess
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Server:
    def __init__(self, program, *words, loop="io_uring", environment=None, wrapper=(), host="127.0.0.1"):
        self.folder, self.host = tempfile.mkdtemp(), host
        self.path = os.path.join(self.folder, "socket")
        self.log = os.path.join(self.folder, "log")
        choice = ["--loop", loop] if loop else []  # without, it chooses
        command = [*wrapper, program, "--port", "0", "--unix", self.path, *choice, *words]
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(command, stderr=log, env={**os.environ, **(environment or {})})
        atexit.register(self.process.kill)  # where a test fails before its end
        until = time.time() + 60
        while "listens on" not in self.said():
            if self.process.poll() is not None or time.time() > until:
                self.process.kill()
                self.process.wait()
                raise RuntimeError(self.said())
            time.sleep(0.01)
        self.port = int(re.search(re.escape(host) + r":(\d+)", self.said()).group(1))

    def said(self):
        with open(self.log) as log:
            return log.read()

    def client(self, is_unix=False):
        return Client(self.path if is_unix else self.port, host=self.host)

    def info(self):
        text = self.client().ask("INFO").decode()
        pairs = dict(line.split(":", 1) for line in text.split("\r\n") if ":" in line)
        return {key: dict(part.split("=") for part in value.split(",")) if "=" in value else value
                for key, value in pairs.items()}

    def sockets(self):
        """What its descriptors are, those that go meanwhile left out."""
        folder = "/proc/%d/fd" % self.process.pid
        found = set()
        for name in os.listdir(folder):
            try:
                found.add(os.readlink(os.path.join(folder, name)))
            except FileNotFoundError:
                pass
        return found

    def wait_for(self, name, wanted):
        """Until the figure `name` of INFO, of all cores together, is `wanted`, however busy the machine is."""
        until = time.time() + 60
        while True:
            info = self.info()
            found = sum(int(core[name]) for core in info.values() if isinstance(core, dict) and name in core)
            if found == wanted:
                return
            if time.time() > until:
                raise RuntimeError("%s is %d and not %d" % (name, found, wanted))
            time.sleep(0.002)

    def begin_end(self):
        """Sends the first signal; returns when it was taken: the server has ended, or accepts nothing more."""
        client = self.client()
        self.process.send_signal(signal.SIGTERM)
        try:
            while True:
                client.ask("LPUSH", "ending", "x")
                client.ask("RPOP", "ending")
        except (Refused, EOFError, OSError):
            client.close()

    def end(self, is_hard=False):
        """Stops it; returns its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL if is_hard else signal.SIGTERM)
        try:
            return self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise


class Refused(Exception):
    """An error reply."""


def encode(*words):
    parts = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)


class Client:
    def __init__(self, place, timeout=30, host="127.0.0.1"):
        family = socket.AF_UNIX if isinstance(place, str) else socket.AF_INET
        self.socket = socket.socket(family, socket.SOCK_STREAM)
        self.socket.settimeout(timeout)
        self.socket.connect(place if isinstance(place, str) else (host, place))
        self.file = self.socket.makefile("rb")

    def send(self, data):
        self.socket.sendall(data)

    def read(self):
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise EOFError("the server closed: %r" % line)
        mark, rest = line[:1], line[1:-2]
        if mark == b"-":
            raise Refused(rest.decode())
        if mark == b"+":
            return rest
        if mark == b":":
            return int(rest)
        if mark == b"$":
            count = int(rest)
            if count < 0:
                return None
            data = self.file.read(count + 2)
            if len(data) != count + 2 or not data.endswith(b"\r\n"):
                raise EOFError("a reply was cut off")
            return data[:-2]
        if mark == b"*":
            return None if int(rest) < 0 else [self.read() for _ in range(int(rest))]
        raise AssertionError("no reply begins with %r" % line)

    def ask(self, *words):
        self.send(encode(*words))
        return self.read()

    def close(self):
        self.file.close()
        self.socket.close()
