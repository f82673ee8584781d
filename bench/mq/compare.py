#!/usr/bin/env python3
"""calmq beside redis-server, on one machine, by redis-benchmark; and what each does when it is full.

    compare.py CALMQ [--rounds N] [--first N] [--requests N] [--out FILE.jsonl.gz] [--report FILE.jsonl.gz]
               [--skip-full]

Each round runs every server in another order. A run is one redis-benchmark of one command with 50 clients, not
pipelined or with 16 requests at a time. Servers with one worker are bound to the first CPU, the client to the second;
calmq with two workers shares both with the client.
Raw lines, one JSON object a run, are added to the file; the tables, medians with the least and the most, go to standard
output.
"""
import argparse
import gzip
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time

CLIENTS, PIPELINE, FULL_BYTES = 50, 16, 16 << 20
SERVERS = ("redis", "calmq-1", "calmq-1-epoll", "calmq-2")
VALUES = (3, 100, 1000)  # bytes of an item, where memory is full


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(name, calmq, memory=None):
    port = free_port()
    if name == "redis":
        command = ["redis-server", "--port", str(port), "--save", "", "--appendonly", "no", "--dir",
                   tempfile.gettempdir()]
        command += ["--maxmemory", str(memory), "--maxmemory-policy", "noeviction"] if memory else []
    else:
        command = [calmq, "--port", str(port), "--cores", name.split("-")[1], "--memory", str(memory or 256 << 20)]
        command += ["--loop", "epoll"] if name.endswith("epoll") else []
    command = command if name == "calmq-2" else ["taskset", "-c", "0", *command]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(500):  # a connection may be there long before the memory: it serves when it answers
        try:
            with socket.create_connection(("127.0.0.1", port)) as link:
                link.sendall(b"PING\r\n")
                if link.recv(16) == b"+PONG\r\n":
                    return process, port
        except OSError:
            time.sleep(0.01)
    process.kill()
    sys.exit("compare: %s does not start" % name)


def cpu_ns(process):
    """What the server's threads have run so far, the kernel's work for them included."""
    total = 0
    for task in os.listdir("/proc/%d/task" % process.pid):
        with open("/proc/%d/task/%s/schedstat" % (process.pid, task)) as file:
            total += int(file.read().split()[0])
    return total


def run(process, port, name, command, pipeline, requests):
    before = cpu_ns(process)
    words = ["redis-benchmark", "-p", str(port), "-t", command, "-c", str(CLIENTS), "-P", str(pipeline), "-n",
             str(requests)]
    words = words if name == "calmq-2" else ["taskset", "-c", "1", *words]
    out = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    rate = float(re.search(r"throughput summary: ([\d.]+)", out).group(1))
    points = [(float(share), float(ms)) for share, ms in
              re.findall(r"^([\d.]+)% <= ([\d.]+) milliseconds \(cum", out, re.M)]
    at = {want: next(ms for share, ms in points if share >= want) for want in (50, 99, 99.9)}
    return {"kind": "speed", "server": name, "command": command, "pipeline": pipeline, "requests": requests,
            "rate": rate, "cpu_us": (cpu_ns(process) - before) / requests / 1000, "p50_ms": at[50], "p99_ms": at[99],
            "p999_ms": at[99.9]}


def speed(options, write):
    for turn in range(options.first, options.first + options.rounds):
        for at in range(len(SERVERS)):
            name = SERVERS[(at + turn) % len(SERVERS)]
            process, port = start(name, options.calmq)
            for pipeline in (1, PIPELINE):
                requests = options.requests * (1 if pipeline == 1 else 4)
                for command in ("lpush", "rpop"):
                    write({**run(process, port, name, command, pipeline, requests), "round": turn})
            process.kill()
            process.wait()


class Client:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.file = self.socket.makefile("rb")

    def ask(self, *words):
        parts = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        self.socket.sendall(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts))
        return self.read()

    def read(self):
        line = self.file.readline().rstrip(b"\r\n")
        if line[:1] == b"$" and int(line[1:]) >= 0:
            return self.file.read(int(line[1:]) + 2)[:-2]
        return line


def resident(process):
    with open("/proc/%d/status" % process.pid) as status:
        return int(re.search(r"VmRSS:\s+(\d+)", status.read()).group(1)) * 1024


def full(options, write):
    """Pushes until the server refuses, then takes and pushes one item in turns."""
    for name in ("redis", "calmq-1"):
        for size in VALUES:
            process, port = start(name, options.calmq, FULL_BYTES)
            client, count, refusal = Client(port), 0, ""
            before = resident(process)
            while not refusal:
                client.socket.sendall((b"*3\r\n$5\r\nLPUSH\r\n$1\r\nq\r\n$%d\r\n%s\r\n" % (size, b"v" * size)) * 64)
                for reply in [client.read() for _ in range(64)]:
                    count += reply[:1] == b":"
                    refusal = reply.decode() if reply[:1] == b"-" else refusal
            waits, taken, refused = [], 0, 0
            for _ in range(2000):
                begun = time.perf_counter()
                refused += client.ask("LPUSH", "q", b"v" * size)[:1] == b"-"
                waits.append(time.perf_counter() - begun)
            for _ in range(count):
                taken += client.ask("RPOP", "q") == b"v" * size
                if client.ask("LPUSH", "again", b"v" * size)[:1] == b":":
                    break
            write({"kind": "full", "server": name, "value_bytes": size, "memory": FULL_BYTES, "items": count,
                   "refusal": refusal, "refused_of_2000": refused, "refused_p50_us": statistics.median(waits) * 1e6,
                   "taken_before_one_fits": taken, "rss_before": before, "rss_full": resident(process)})
            process.kill()
            process.wait()


def spread(values, form):
    values = sorted(values)
    return "%s [%s %s]" % tuple(form % value for value in (statistics.median(values), values[0], values[-1]))


def report(lines):
    runs = [line for line in lines if line["kind"] == "speed"]
    print("| command | at a time | server | requests a second | CPU us a request | P50, ms | P99, ms | P99.9, ms |\n"
          "|---|--:|---|--:|--:|--:|--:|--:|")
    for pipeline in (1, PIPELINE):
        for command in ("lpush", "rpop"):
            for name in SERVERS:
                of = [run for run in runs
                      if (run["command"], run["pipeline"], run["server"]) == (command, pipeline, name)]
                if of:
                    cells = [spread([run["rate"] / 1000 for run in of], "%.0fk")]
                    cells += [spread([run[key] for run in of], "%.2f")
                              for key in ("cpu_us", "p50_ms", "p99_ms", "p999_ms")]
                    print("| %s | %d | %s | %s |" % (command.upper(), pipeline, name, " | ".join(cells)))
    print("\n| server | item, bytes | items until full | payload share of the limit | memory grew by "
          "| refusal, median | taken before one fits |\n|---|--:|--:|--:|--:|--:|--:|")
    for line in (line for line in lines if line["kind"] == "full"):
        grown = (line["rss_full"] - line["rss_before"]) / (1 << 20)
        print("| %s | %d | %d | %.0f %% | %.1f MiB | %.0f us | %d |" % (
            line["server"], line["value_bytes"], line["items"],
            100 * line["items"] * line["value_bytes"] / line["memory"], grown,
            line["refused_p50_us"], line["taken_before_one_fits"]))
    for line in {line["server"]: line for line in lines if line["kind"] == "full"}.values():
        print("\n%s says `%s`." % (line["server"], line["refusal"]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("calmq")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--first", type=int, default=0, help="number of the first round, which says who begins")
    parser.add_argument("--requests", type=int, default=50000)
    parser.add_argument("--out", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "results",
                                                      "mq.jsonl.gz"))
    parser.add_argument("--report", help="only makes the tables of a file")
    parser.add_argument("--skip-full", action="store_true")
    options = parser.parse_args()
    if options.report:
        with gzip.open(options.report, "rt") as file:
            report([json.loads(line) for line in file])
        return
    lines = []
    with gzip.open(options.out, "at") as file:
        def write(line):
            lines.append(line)
            file.write(json.dumps(line) + "\n")
            file.flush()  # what was measured stays, whatever ends the rest
        if options.rounds > 0:
            speed(options, write)
        if not options.skip_full:
            full(options, write)
    report(lines)


main()
