"""calmq and redis-server are given the same random requests, and must reply the same bytes, in RESP2 and RESP3.

    differential_test.py CALMQ [FIRST_SEED [SEEDS]]

Errors are compared by their text, too, where no SENTENCES below says that calmq's differs. What each run does follows
from its seed. Exit 77 where redis-server is not there.
"""

import os
import random
import socket
import subprocess
import sys
import tempfile
import time

from support import ROOT, Server, encode

sys.path.insert(0, os.path.join(ROOT, "tests", "support"))
sys.dont_write_bytecode = True

import needs  # noqa: E402

PROGRAM = sys.argv[1]
FIRST = int(sys.argv[2]) if len(sys.argv) > 2 else 1
SEEDS = int(sys.argv[3]) if len(sys.argv) > 3 else 12
TURNS, PATIENCE_S = 400, 30
REDIS = "7.0"  # the version whose replies calmq gives

# How errors begin that each gives with a sentence of its own, calmq's first.
SENTENCES = (
    (b"-ERR unknown subcommand", b"-ERR unknown subcommand"),
    (b"-ERR timeout is out of range", b"-ERR timeout is negative"),  # what overflows is below 0 to that version
)
KEYS = [b"{t}a", b"{t}b", b"{t}", b"{t}\0\r\n"]
NUMBERS = [
    b"0",
    b"1",
    b"2",
    b"3",
    b"-1",
    b"-2",
    b"-3",
    b"10",
    b"-100",
    b"01",
    b"+1",
    b" 1",
    b"1 ",
    b"1.5",
    b"",
    b"x",
    b"-0",
    b"9223372036854775807",
    b"9223372036854775808",
    b"-9223372036854775808",
    b"-9223372036854775809",
]
TIMES = [
    b"0.01",
    b"0.001",
    b"1e-3",
    b".01",
    b"0x0.01p0",
    b"-1",
    b"-0.5",
    b"x",
    b"",
    b" 1",
    b"1 ",
    b"nan",
    b"inf",
    b"-inf",
    b"1e400",
    b"1e19",
    b"9223372036854775807",
    b"1e-5000",
    b"01e-2",
    b"+0.01",
    b"--1",
]
SIDES = [b"LEFT", b"RIGHT", b"left", b"Right", b"middle", b""]


def item(draw):
    return draw.choice(
        (b"", b"x", b"%d" % draw.randint(0, 999), b"\r\n$-1\r\n", b"i" * draw.choice((126, 127, 128, 600)))
    )


def request(draw):
    """The words of a request that both know."""
    key, other = draw.choice(KEYS), draw.choice(KEYS)
    number, time_s = draw.choice(NUMBERS), draw.choice(TIMES)
    sides = [draw.choice(SIDES[:4]), draw.choice(SIDES[:4] if draw.random() < 0.9 else SIDES)]
    words = draw.choice(
        (
            [draw.choice((b"LPUSH", b"RPUSH")), key] + [item(draw) for _ in range(draw.randint(1, 4))],
            [draw.choice((b"LPUSH", b"RPUSH")), key] + [item(draw) for _ in range(draw.randint(1, 4))],
            [draw.choice((b"LPOP", b"RPOP")), key],
            [draw.choice((b"LPOP", b"RPOP")), key, number],
            [draw.choice((b"BLPOP", b"BRPOP")), key, other, time_s],
            [b"LRANGE", key, number, draw.choice(NUMBERS)],
            [b"LRANGE", key, b"0", b"-1"],
            [b"LMOVE", key, other] + sides,
            [b"BLMOVE", key, other] + sides + [time_s],
            [b"LLEN", key],
            [b"EXISTS", key, other, key],
            [b"TYPE", key],
            [b"DEL", key, other, key],
            [b"PING"],
            [b"PING", item(draw)],
            [b"ECHO", item(draw)],
            [b"SELECT", number],
            [b"CLIENT", draw.choice((b"SETNAME", b"GETNAME", b"ID", b"nonsense"))]
            + [item(draw)[:63]] * draw.randint(0, 1),
            [b"CLIENT", b"SETNAME", b"name%d" % draw.randint(0, 9)],
            [b"CLIENT", b"GETNAME"],
            [b"CONFIG", b"GET", draw.choice((b"save", b"appendonly", b"nothing"))],
            [b"HELLO", draw.choice((b"4", b"x", b"1", b"", b"03"))],
            [b"HELLO", draw.choice((b"2", b"3")), draw.choice((b"NAME", b"AUTH", b"SETNAME"))],
            [
                b"HELLO",
                b"3",
                b"AUTH",
                draw.choice((b"default", b"nobody")),
                b"x",
                b"SETNAME",
                draw.choice((b"n", b"a b")),
            ],
            [b"AUTH", b"x"],
            [b"AUTH", draw.choice((b"default", b"nobody")), b"x"],
            [draw.choice((b"RESET", b"NOSUCH", b"QUITE", b"lpus", b"")), item(draw)],
            [b"RESET"],
        )
    )
    if draw.random() < 0.03:
        words = words[: draw.randint(1, len(words))]
    return [bytes(draw.choice((byte, byte ^ 32)) for byte in words[0]) if words[0].isalpha() else words[0]] + words[1:]


def wrong_bytes(draw):
    """What is no request, or hardly one, in a connection of its own."""
    count = draw.choice(
        (b"1", b"01", b"+1", b"-1", b"-0", b"0", b" 1", b"1 ", b"x", b"", b"99999999999999999999", b"-9")
    )
    length = draw.choice((b"4", b"4", b"04", b"+4", b"-1", b"-0", b" 4", b"4 ", b"x", b"", b"99999999999999999999"))
    mark = draw.choice((b"$", b"$", b"$", b":", b"*", b"P"))
    line = b"ECHO " + bytes(draw.choice(b"ax4\\\"' \tn") for _ in range(draw.randint(1, 9))) + b"\r\n"
    return draw.choice((b"*" + count + b"\r\n" + mark + length + b"\r\nPING\r\n", line, b"\r\n\n", b"ping\nPiNg\r\n"))


class Stream:
    """A connection from which whole replies are read, as bytes."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(PATIENCE_S)
        self.socket.connect(path)
        self.file = self.socket.makefile("rb")

    def line(self):
        line = self.file.readline()
        return line if line.endswith(b"\r\n") else b"(closed)"

    def read(self):
        """A list: the head of a reply, what it has, and so on."""
        line = self.line()
        mark, count = line[:1], line[1:-2]
        if mark in b"$=" and count != b"-1" and line != b"(closed)":
            return [line, self.file.read(int(count) + 2)]
        if mark in b"*%~>" and count != b"-1" and line != b"(closed)":
            return [line] + [part for _ in range(int(count) * (2 if mark == b"%" else 1)) for part in self.read()]
        return [line]

    def close(self):
        self.file.close()
        self.socket.close()


def without_names(parts):
    """A reply to HELLO but for what is each server's own: its name, and the number of the client."""
    own = [at + 1 for at, part in enumerate(parts) if part in (b"server\r\n", b"id\r\n")]
    return [part for at, part in enumerate(parts) if at not in own and at - 1 not in own[:1]]


def is_same(words, ours, theirs):
    if ours == theirs:
        return True
    if words[0].upper() == b"HELLO":
        return len(ours) > 1 and without_names(ours) == without_names(theirs)
    if words[0].upper() == b"CLIENT" and words[1:2] == [b"ID"]:
        return ours[0][:1] == theirs[0][:1] == b":"
    return any(ours[0].startswith(one) and theirs[0].startswith(other) for one, other in SENTENCES)


class Run:
    def __init__(self, seed, ours, theirs):
        self.seed, self.draw, self.paths = seed, random.Random(seed), (ours, theirs)
        self.pairs = [self.connect() for _ in range(3)]
        self.waits = []  # of a pair: what it waits for, if it does
        self.log = []

    def connect(self):
        return [Stream(path) for path in self.paths]

    def fail(self, words, ours, theirs):
        for line in self.log[-25:]:
            print("    ", line)
        print("seed %d: %r\n  calmq        %r\n  redis-server %r" % (self.seed, words, ours, theirs))
        sys.exit(1)

    def check(self, pair, words):
        ours, theirs = (stream.read() for stream in pair)
        self.log.append((self.pairs.index(pair) if pair in self.pairs else "-", words, theirs))
        if not is_same(words, ours, theirs):
            self.fail(words, ours, theirs)

    def say(self, pair, data):
        for stream in pair:
            stream.socket.sendall(data)

    def turn_raw(self):
        data = wrong_bytes(self.draw)
        pair = self.connect()
        self.say(pair, data)
        for stream in pair:
            stream.socket.shutdown(socket.SHUT_WR)
        ours, theirs = (b"".join(iter(lambda: stream.socket.recv(4096), b"")) for stream in pair)
        for stream in pair:
            stream.close()
        if ours != theirs:
            self.fail([data], [ours], [theirs])

    def turn_blocked(self):
        """One waits, without limit, and another pushes."""
        key, other = self.draw.choice(KEYS), self.draw.choice(KEYS)
        waiting, pushing = self.pairs[:2]
        words = self.draw.choice(
            (
                [self.draw.choice((b"BLPOP", b"BRPOP")), key, other, b"0"],
                [
                    b"BLMOVE",
                    key,
                    other,
                    self.draw.choice((b"LEFT", b"RIGHT")),
                    self.draw.choice((b"LEFT", b"RIGHT")),
                    b"0",
                ],
            )
        )
        for name in {key, other}:
            self.ask(pushing, [b"DEL", name])
        self.say(waiting, encode(*words))
        self.until_blocked()
        self.ask(
            pushing,
            [self.draw.choice((b"LPUSH", b"RPUSH")), key] + [item(self.draw) for _ in range(self.draw.randint(1, 3))],
        )
        self.check(waiting, words)

    def until_blocked(self):
        """Both servers know that a client waits."""
        for path, figure in zip(self.paths, (b"waiting=1", b"blocked_clients:1")):
            stream = Stream(path)
            until = time.time() + PATIENCE_S
            while True:
                stream.socket.sendall(b"INFO\r\n")
                if figure in b"".join(stream.read()):
                    break
                if time.time() > until:
                    raise RuntimeError("nobody waits")
            stream.close()

    def ask(self, pair, words):
        self.say(pair, encode(*words))
        self.check(pair, words)

    def go(self):
        self.ask(self.pairs[0], [b"HELLO", b"2"])
        self.ask(self.pairs[1], [b"HELLO", b"3"])
        for _ in range(TURNS):
            draw = self.draw.random()
            if draw < 0.05:
                self.turn_raw()
            elif draw < 0.12:
                self.turn_blocked()
            elif draw < 0.2:  # a pipeline
                pair = self.draw.choice(self.pairs)
                many = [request(self.draw) for _ in range(self.draw.randint(2, 8))]
                self.say(pair, b"".join(encode(*words) for words in many))
                for words in many:
                    self.check(pair, words)
            else:
                self.ask(self.draw.choice(self.pairs), request(self.draw))
        self.ask(self.pairs[0], [b"DEL"] + KEYS)
        for pair in self.pairs:
            for stream in pair:
                stream.close()


def main():
    with tempfile.TemporaryDirectory() as folder:
        theirs = os.path.join(folder, "socket")
        command = [
            "redis-server",
            "--port",
            "0",
            "--unixsocket",
            theirs,
            "--save",
            "",
            "--dir",
            folder,
            "--databases",
            "1",
        ]
        redis = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        ours = Server(PROGRAM, "--cores", "2", loop="epoll")
        try:
            while not os.path.exists(theirs):
                time.sleep(0.01)
            for seed in range(FIRST, FIRST + SEEDS):
                Run(seed, ours.path, theirs).go()
        finally:
            redis.kill()
            redis.wait()
            ours.end(is_hard=True)
    print("%d seeds of %d turns: the same" % (SEEDS, TURNS))


if __name__ == "__main__":
    needs.need("redis-server")
    version = subprocess.run(["redis-server", "--version"], capture_output=True, text=True).stdout
    if "v=%s." % REDIS not in version:
        print("skipped: redis-server is not %s: %s" % (REDIS, version.strip()))
        sys.exit(77)
    main()
