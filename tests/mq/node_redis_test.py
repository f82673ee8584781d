"""calmq driven by node-redis, unchanged and of its newest version.

    node_redis_test.py CALMQ FOLDER

FOLDER is where npm installs it the first time. Exit 77 when it is not to be had.
"""

import os
import subprocess
import sys

from support import ROOT, Server

sys.path.insert(0, os.path.join(ROOT, "tests", "support"))
sys.dont_write_bytecode = True

import needs  # noqa: E402

PROGRAM, FOLDER = sys.argv[1:3]
SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "node_redis_test.mjs")


def install():
    """False when it is not to be had."""
    if os.path.exists(os.path.join(FOLDER, "node_modules", "redis", "package.json")):
        return True
    os.makedirs(FOLDER, exist_ok=True)
    words = ["npm", "install", "--no-audit", "--no-fund", "--fetch-retries=1", "--prefix", FOLDER, "redis"]
    return subprocess.run(words, stdout=subprocess.DEVNULL, timeout=300).returncode == 0


def main():
    needs.need("npm")
    if not install():
        needs.skip("no node-redis to be had; npm says why")
    module = os.path.join(FOLDER, "node_modules", "redis", "dist", "index.js")
    server = Server(PROGRAM, "--cores", "2", loop="epoll")
    try:
        sys.exit(subprocess.run(["node", SCRIPT, module, str(server.port)], timeout=120).returncode)
    finally:
        server.end(is_hard=True)


if __name__ == "__main__":
    main()
