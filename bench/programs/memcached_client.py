"""Loads a memcached server on a Unix socket with fixed requests, checks every answer, and tells it to end.

Sets, gets, appends, increments and deletes of 20,000 keys with values of 20 to 1000 bytes, fifty at a time, over
connections of which the oldest is closed and a new one opened now and then. Measures mostly memcached's own slabs: it
takes megabytes from malloc for its items, and small blocks for connections and answers only. Every step has a time
limit; a wrong answer ends the run with one sentence and exit code 1.
"""

import random
import socket
import sys
import time

KEYS = 20_000
BATCH = 50
CONNECTIONS = 40
TIMEOUT = 20.0


def connect(path: str) -> socket.socket:
    deadline = time.monotonic() + TIMEOUT
    while True:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(TIMEOUT)
        try:
            connection.connect(path)
            return connection
        except OSError:
            connection.close()
            if time.monotonic() > deadline:
                raise OSError("memcached did not open its socket within 20 s")
            time.sleep(0.02)


def exchange(connection: socket.socket, requests: bytes, expected: bytes) -> None:
    """A batch and its answers both fit the socket's buffers, so neither side waits for the other to read."""
    connection.sendall(requests)
    parts, missing = [], len(expected)
    while missing > 0:
        part = connection.recv(missing)
        if not part:
            raise OSError("memcached closed a connection")
        parts.append(part)
        missing -= len(part)
    if b"".join(parts) != expected:
        raise OSError("memcached gave a wrong answer")


class Load:
    """What the server must hold, and the next request with the answer that it must give."""

    def __init__(self) -> None:
        self.random = random.Random(1)
        self.values = {}
        self.counters = [0] * 100
        self.filler = bytes(self.random.randrange(97, 123) for _ in range(2000))

    def request(self):
        draw = self.random.getrandbits(32)
        key, kind = draw % KEYS, (draw >> 16) % 20
        name = b"key-%d" % key
        held = self.values.get(key)
        if kind < 9:
            if held is None:
                return b"get %s\r\n" % name, b"END\r\n"
            return b"get %s\r\n" % name, b"VALUE %s 0 %d\r\n%s\r\nEND\r\n" % (name, len(held), held)
        if kind < 16 or held is None:
            start = draw % 1000
            value = self.filler[start : start + 20 + (draw >> 8) % 981]
            self.values[key] = value
            return b"set %s 0 0 %d\r\n%s\r\n" % (name, len(value), value), b"STORED\r\n"
        if kind == 16:
            head = held[:900]
            self.values[key] = head + b"-more"
            first = b"set %s 0 0 %d\r\n%s\r\n" % (name, len(head), head)
            return first + b"append %s 0 0 5\r\n-more\r\n" % name, b"STORED\r\n" * 2
        if kind == 17:
            index = draw % len(self.counters)
            self.counters[index] += 1
            return b"incr counter-%d 1\r\n" % index, b"%d\r\n" % self.counters[index]
        del self.values[key]
        return b"delete %s\r\n" % name, b"DELETED\r\n"

    def batch(self):
        pairs = [self.request() for _ in range(BATCH)]
        return b"".join(pair[0] for pair in pairs), b"".join(pair[1] for pair in pairs)


def main() -> int:
    path, batches = sys.argv[1], int(sys.argv[2])
    load, connections = Load(), [connect(path)]
    for index in range(len(load.counters)):
        exchange(connections[0], b"set counter-%d 0 0 1\r\n0\r\n" % index, b"STORED\r\n")
    for number in range(batches):
        if number % 8 == 0:
            connections.append(connect(path))
            if len(connections) > CONNECTIONS:
                connections.pop(0).close()
        exchange(connections[number % len(connections)], *load.batch())
    connections[-1].sendall(b"shutdown\r\n")
    if connections[-1].recv(100) != b"":
        raise OSError("memcached did not shut down")
    return 0


try:
    sys.exit(main())
except OSError as problem:
    print(problem, file=sys.stderr)
    sys.exit(1)
