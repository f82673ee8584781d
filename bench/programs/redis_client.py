"""Waits for a redis server on a Unix socket, runs redis-benchmark against it, and tells it to end.

Every step has a time limit; a server that does not answer ends the run with one sentence and exit code 1.
"""

import os
import subprocess
import sys
import time


def main() -> int:
    socket, requests = sys.argv[1], sys.argv[2]
    deadline = time.monotonic() + 20
    while not os.path.exists(socket):
        if time.monotonic() > deadline:
            print("redis did not open its socket within 20 s", file=sys.stderr)
            return 1
        time.sleep(0.02)
    common = ["redis-benchmark", "-s", socket, "-n", requests, "-q", "-c", "20", "-P", "16"]
    for more in (
        ["-r", "100000", "-d", "100", "-t", "set,get,incr,hset"],
        ["-r", "1000", "-d", "40", "-t", "lpush,lpop,sadd,zadd,lrange_100"],
    ):
        subprocess.run(common + more, check=True, stdout=subprocess.DEVNULL, timeout=120)
    subprocess.run(
        ["redis-cli", "-s", socket, "shutdown", "nosave"], check=True, stdout=subprocess.DEVNULL, timeout=20
    )
    return 0


sys.exit(main())
