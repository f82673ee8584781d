"""Databases: sqlite in a process, and three servers under load, whose answers must not depend on their allocator."""

import os
import pwd
import shutil
import signal
import socket
import zlib

from cases import case
from harness import SCRIPTS, Failure, find_program

UNPRIVILEGED = "nobody"


@case("sqlite", "programs", ("sqlite3",))
def sqlite(world):
    """On disk and in memory; the soft limit makes sqlite give memory back all the time."""
    program, script = find_program("sqlite3"), (SCRIPTS / "tour.sql").read_bytes()
    world.run(program, "tour.db", stdin=script)
    in_memory = script.replace(b"PRAGMA journal_mode = WAL;", b"PRAGMA cache_size = 20000;")
    world.run(program, ":memory:", stdin=in_memory)
    world.run(program, "small.db", stdin=b"PRAGMA soft_heap_limit = 400000;\n" + script)
    world.run(program, "tour.db", ".dump")


def redis_commands():
    """Deterministic commands on every type redis has, as the protocol that `redis-cli --pipe` sends."""
    out, state = bytearray(), 99
    for i in range(60000):
        state = (state * 1103515245 + 12345) & 0x7FFFFFFF
        key, value = str(state >> 8)[-4:], "v" * (state % 400) + str(i)
        words = (
            ("SET", f"s{key}", value),
            ("APPEND", f"a{key[:2]}", value[:50]),
            ("RPUSH", f"l{key[:2]}", value),
            ("LPOP", f"l{key[1:3]}"),
            ("HSET", f"h{key[:2]}", f"f{key}", value),
            ("ZADD", f"z{key[:1]}", str(i % 977), f"m{key}"),
            ("SADD", f"t{key[:1]}", value[-8:]),
            ("DEL", f"s{key[::-1]}"),
            ("SETRANGE", f"r{key[:2]}", str(state % 3000), "here"),
            ("XADD", "x", "MAXLEN", "500", f"{i + 1}-0", "f", value),
        )[state >> 12 & 7 if i % 9 else 8 + i % 2]
        out += f"*{len(words)}\r\n".encode()
        for word in words:
            out += f"${len(word)}\r\n{word}\r\n".encode()
    return bytes(out)


@case(
    "redis",
    "programs",
    ("redis-server", "redis-tools"),
    120,
    must_see=("redis-server|redis-check-rdb", "redis-benchmark", "redis-cli"),
)
def redis(world):
    """
    Debian links redis with jemalloc. A preloaded library comes before it, so every block is ours in the preloaded
    world; were one name missing, blocks of two heaps would meet here. Snapshots fork the server while it works.
    """
    server_path, client, bench = map(find_program, ("redis-server", "redis-cli", "redis-benchmark"))
    path = "redis.sock"  # Relative, for the name of a socket has at most 107 bytes.
    server = world.start(
        server_path,
        "--port",
        "0",
        "--unixsocket",
        path,
        "--save",
        "",
        "--enable-debug-command",
        "local",
        "--loglevel",
        "warning",
        "--io-threads",
        "2",
        "--lazyfree-lazy-user-del",
        "yes",
        "--daemonize",
        "no",
    )
    world.until(lambda: (world.work / path).exists(), "redis-server listens", server)

    def ask(*words, **how):
        return world.run(client, "-s", path, *words, label=f"redis-cli {words[0]}", **how)

    def last_line(text):
        return text.splitlines()[-1]

    ask("--pipe", stdin=redis_commands(), normalise=last_line)
    ask("DEBUG", "DIGEST")
    world.run(
        bench,
        "-s",
        path,
        "-q",
        "-n",
        "12000",
        "-c",
        "30",
        "-P",
        "16",
        "-r",
        "5000",
        "-t",
        "set,get,lpush,rpop,sadd,hset,zadd,mset",
        compare=False,
    )
    ask("SAVE")
    ask("BGSAVE", compare=False)
    ask("DEBUG", "SLEEP", "0.2")
    ask("BGREWRITEAOF", compare=False)
    world.run(bench, "-s", path, "-q", "-n", "3000", "-c", "20", "-d", "3000", "-t", "set,get", compare=False)
    ask("DEBUG", "RELOAD")
    ask("MEMORY", "PURGE", compare=False, expect=None)
    ask("INFO", "memory", compare=False)
    ask("EVAL", "local t = {} for i = 1, 20000 do t[i] = ('x'):rep(i % 99) end return #table.concat(t)", "0")
    ask("FLUSHALL", "ASYNC")
    ask("--pipe", stdin=redis_commands(), normalise=last_line)
    ask("DEBUG", "DIGEST")
    ask("SHUTDOWN", "NOSAVE", expect=None)
    world.finish(server, compare=False)


@case("memcached", "full", ("memcached",))
def memcached(world):
    program = find_program("memcached")
    path = world.work / "m"
    user = ["-u", UNPRIVILEGED] if os.getuid() == 0 else []
    world.work.chmod(0o777)
    server = world.start(program, "-s", path, "-m", "32", "-t", "4", "-c", "200", *user)
    world.until(path.exists, "memcached listens", server)
    checksum = 0
    for round_ in range(20):
        with socket.socket(socket.AF_UNIX) as link:
            link.settimeout(20)
            link.connect(str(path))
            stream = link.makefile("rwb")
            for i in range(1500):
                value = bytes([65 + i % 26]) * (i * 37 % 9000 + round_)
                stream.write(b"set key%d 0 0 %d\r\n%s\r\n" % (i % 700, len(value), value))
                stream.write(b"get key%d\r\n" % ((i * 7) % 700 if i > 700 else i % 700))
                stream.flush()
                while (line := stream.readline()) not in (b"END\r\n", b""):
                    checksum = zlib.crc32(line, checksum)
    world.state("answers", checksum)
    server.signal(signal.SIGTERM)
    world.finish(server, expect=None)


def postgres_program(name):
    """Debian keeps the server's programs out of PATH, in a directory a version."""
    newest = sorted(os.listdir("/usr/lib/postgresql"), key=float) if os.path.isdir("/usr/lib/postgresql") else []
    for version in reversed(newest):
        if os.access(path := f"/usr/lib/postgresql/{version}/bin/{name}", os.X_OK):
            return path
    return find_program(name)


BALANCES = """\
select (select sum(abalance) from pgbench_accounts) = (select sum(delta) from pgbench_history),
  (select sum(tbalance) from pgbench_tellers) = (select sum(bbalance) from pgbench_branches),
  (select count(*) from pgbench_history);
"""


@case("postgres", "full", ("postgresql",), 240, must_see=("initdb", "postgres", "psql", "pgbench"))
def postgres(world):
    """It refuses to run as root, so then all of it runs as nobody. The server forks a process a connection."""
    initdb, server_path, psql, bench = map(postgres_program, ("initdb", "postgres", "psql", "pgbench"))
    user = UNPRIVILEGED if os.getuid() == 0 else None
    name = user or pwd.getpwuid(os.getuid()).pw_name
    if user:
        shutil.chown(world.work, user)
    world.run(initdb, "-D", "data", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C", user=user, compare=False)
    server = world.start(
        server_path,
        "-D",
        "data",
        "-c",
        "listen_addresses=",
        "-k",
        world.work,
        "-c",
        "fsync=off",
        "-c",
        "log_min_messages=log",
        user=user,
    )
    world.until(lambda: (world.work / ".s.PGSQL.5432").exists(), "postgres listens", server)
    where = ["-h", world.work, "-U", name]
    ready = [find_program("pg_isready"), "-q", *map(str, where)]
    world.until(lambda: os.spawnv(os.P_WAIT, ready[0], ready) == 0, "postgres answers", server)
    world.run(psql, *where, "-X", "-A", "-t", "postgres", stdin=(SCRIPTS / "tour_postgres.sql").read_bytes(), user=user)
    world.run(bench, *where, "-i", "-q", "-s", "3", "postgres", user=user, compare=False)
    world.run(bench, *where, "-c", "6", "-j", "2", "-t", "400", "-M", "prepared", "postgres", user=user, compare=False)
    world.run(bench, *where, "-C", "-c", "4", "-t", "40", "-S", "postgres", user=user, compare=False)
    world.run(psql, *where, "-X", "-A", "-t", "postgres", stdin=BALANCES, user=user)
    server.signal(signal.SIGINT)
    step = world.finish(server, compare=False)
    if b"terminated by signal" in step.stderr:
        raise Failure("a process of the server crashed:\n" + step.stderr.decode(errors="replace")[-3000:])
