"""
Daemons of names, time, logs and buses, and a database that others' names lie in: as those of daemons.py.
"""

import os
import shutil
import signal
import socket
import struct
import subprocess

from attend import DROPPED, IS_ROOT, attend, configured, fetch, need_root
from cases import case
from harness import Skip, accepts_connections, find_program, free_port


def lookup(port, name="one.example"):
    """The answer to a question for a name's text, over UDP, as it comes but for its number."""
    labels = b"".join(bytes([len(part)]) + part.encode() for part in name.split("."))
    question = struct.pack(">HHHHHH", 7, 0x100, 1, 0, 0, 0) + labels + b"\0" + struct.pack(">HH", 16, 1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
        link.settimeout(1)
        link.connect(("127.0.0.1", port))
        for _ in range(10):
            link.send(question)
            try:
                return link.recv(4096)
            except TimeoutError:
                continue  # a server that reads its zones anew may drop one
    raise TimeoutError("no answer to ten questions")


@case("dnsmasq", "full", ("dnsmasq-base",))
def dnsmasq(world):
    """It reads its texts at the start only, hosts at a signal: the name second is one that comes in by that."""
    port = free_port()
    world.work.chmod(0o777)
    (world.work / "conf").write_text("txt-record=one.example,first\n")
    hosts = world.work / "hosts"
    hosts.write_text("127.0.0.9 other.example\n" * 300)
    user = [f"--user={DROPPED}", "--group=nogroup"] if IS_ROOT else []
    server = world.start(
        find_program("dnsmasq"),
        "-k",
        "-C",
        world.work / "conf",
        "-p",
        port,
        "--no-resolv",
        "--no-hosts",
        f"--addn-hosts={hosts}",
        "--pid-file",
        "--listen-address=127.0.0.1",
        "--bind-interfaces",
        "--ptr-record=9.example,second",
        *user,
    )
    attend(world, server, lambda: lookup(port), rounds=300)


@case("unbound", "full", ("unbound",))
def unbound(world):
    port = free_port()
    path, change = configured(
        world,
        "conf",
        f"""server:
  interface: 127.0.0.1
  port: {port}
  num-threads: 2
  chroot: ""
  directory: "{world.work}"
  pidfile: ""
  use-syslog: no
  do-daemonize: no
  username: "{DROPPED if IS_ROOT else ''}"
  auto-trust-anchor-file: ""
  local-zone: "example." static
  local-data: 'one.example. TXT "first"'
""",
    )
    server = world.start(find_program("unbound"), "-d", "-c", path)
    attend(world, server, lambda: lookup(port), change, rounds=300)


@case("bind9", "full", ("bind9",))
def bind9(world):
    port = free_port()
    path, change = configured(
        world,
        "zone",
        """$TTL 60
@ SOA a b 1 60 60 60 60
@ NS a
a A 127.0.0.1
one TXT first
""" + "".join(f"n{i} TXT \"{'x' * (i % 200)}\"\n" for i in range(3000)),
    )
    (world.work / "conf").write_text(f"""options {{ directory "{world.work}"; listen-on port {port} {{ 127.0.0.1; }};
listen-on-v6 {{ none; }}; pid-file none; recursion no; session-keyfile none; dnssec-validation no; }};
controls {{ }};
zone "example" {{ type primary; file "{path}"; }};
""")
    user = ["-u", "bind"] if IS_ROOT else []
    server = world.start(find_program("named"), "-g", "-n", "2", "-c", world.work / "conf", *user)

    def reload():
        path.write_text(path.read_text().replace("a b 1 60", "a b 2 60"))
        server.signal(signal.SIGHUP)

    attend(world, server, lambda: lookup(port)[12:], change, reload, rounds=300)


@case("nsd", "full", ("nsd",))
def nsd(world):
    """A reload forks the server anew."""
    port = free_port()
    path, change = configured(
        world,
        "zone",
        """$TTL 60
example. SOA a.example. b.example. 1 60 60 60 60
example. NS a.example.
one.example. TXT first
""" + "".join(f"n{i}.example. TXT \"{'x' * (i % 200)}\"\n" for i in range(3000)),
    )
    (world.work / "conf").write_text(f"""server:
  ip-address: 127.0.0.1
  port: {port}
  server-count: 2
  username: "{DROPPED if IS_ROOT else ''}"
  zonesdir: "{world.work}"
  database: ""
  pidfile: ""
  xfrdfile: "{world.work}/xfrd"
  zonelistfile: "{world.work}/list"
  xfrdir: "{world.work}"
remote-control:
  control-enable: no
zone:
  name: example
  zonefile: "{path}"
""")
    server = world.start(find_program("nsd"), "-d", "-c", world.work / "conf")

    def reload():
        later = path.stat().st_mtime + 2
        os.utime(path, (later, later))
        server.signal(signal.SIGHUP)

    attend(world, server, lambda: lookup(port), change, reload, rounds=300)


@case("chrony", "full", ("chrony",))
def chrony(world):
    """Under its seccomp filter, as another user, and without the right to set the clock."""
    need_root("chronyd")
    port = free_port()
    world.work.chmod(0o777)
    (world.work / "conf").write_text(f"""port {port}
bindaddress 127.0.0.1
allow 127.0.0.1
local stratum 8
cmdport 0
pidfile {world.work}/pid
bindcmdaddress /
""")
    server = world.start(find_program("chronyd"), "-d", "-x", "-F", "1", "-u", DROPPED, "-f", world.work / "conf")

    def ask():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
            link.settimeout(5)
            link.connect(("127.0.0.1", port))
            link.send(bytes([0x23]) + bytes(47))
            answer = link.recv(200)
            return b"first" if answer[0] & 7 == 4 and answer[1] == 8 else b"first, with stratum %d" % answer[1]

    attend(world, server, ask, rounds=300)


@case("tor", "full", ("tor",))
def tor(world):
    """Under its seccomp filter, which a reload is not for; without a network."""
    port = free_port()
    user = ["--User", "debian-tor"] if IS_ROOT else []
    data = world.work / "data"
    data.mkdir(mode=0o700)
    if IS_ROOT:
        shutil.chown(data, "debian-tor")
    world.work.chmod(0o755)
    (world.work / "conf").write_text("")
    server = world.start(
        find_program("tor"),
        "-f",
        world.work / "conf",
        "--DataDirectory",
        data,
        "--ControlPort",
        port,
        "--SocksPort",
        "0",
        "--DisableNetwork",
        "1",
        "--Sandbox",
        "1",
        "--CookieAuthentication",
        "0",
        *user,
    )

    def say(word):
        with socket.create_connection(("127.0.0.1", port), 10) as link, link.makefile("rwb") as stream:
            stream.write(b'AUTHENTICATE ""\r\n%s\r\nQUIT\r\n' % word)
            stream.flush()
            return b"first " + stream.read()

    attend(world, server, lambda: say(b"GETINFO version"), stop=lambda: say(b"SIGNAL HALT"), rounds=20)


@case("rsyslog", "full", ("rsyslog",))
def rsyslog(world):
    path, change = configured(
        world,
        "conf",
        f"""module(load="imuxsock" SysSock.Use="off")
input(type="imuxsock" Socket="{world.work}/log")
template(name="one" type="string" string="%msg%\\n")
action(type="omfile" file="{world.work}/out" template="one" fileCreateMode="0666")
""",
    )
    if IS_ROOT:
        path.write_text(f"$PrivDropToUser {DROPPED}\n$PrivDropToGroup nogroup\n" + path.read_text())
    server = world.start(find_program("rsyslogd"), "-n", "-f", path, "-i", world.work / "pid")
    out = world.work / "out"
    for label in ("before", "after"):
        world.until(lambda: (world.work / "log").exists(), "rsyslogd listens", server)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as link:
            link.connect(str(world.work / "log"))
            for i in range(2000):
                link.send(b"<13>Jan  1 00:00:00 tag: %s %d %s" % (label.encode(), i, b"x" * (i * 7 % 900)))
        world.until(lambda: out.exists() and b"%s 1999 " % label.encode() in out.read_bytes(), "the last line", server)
        server.signal(signal.SIGHUP)
    world.state("lines", out.read_bytes())
    server.signal(signal.SIGTERM)
    world.finish(server, compare=False)


@case("dbus", "full", ("dbus-daemon", "dbus-bin"), must_see=("dbus-daemon",))
def dbus(world):
    path = world.work / "conf"
    world.work.chmod(0o777)
    user = f"<user>{DROPPED}</user>" if IS_ROOT else ""
    path.write_text(f"""<busconfig>{user}<listen>unix:path={world.work}/bus</listen><auth>EXTERNAL</auth>
<policy context="default"><allow user="*"/><allow own="*"/><allow send_type="method_call"/>
<allow eavesdrop="false"/></policy></busconfig>
""")
    server = world.start(find_program("dbus-daemon"), "--config-file", path, "--nofork", "--nopidfile")
    world.until(lambda: (world.work / "bus").exists(), "dbus-daemon listens", server)
    for label in ("before", "after"):
        for name in ("ListNames", "GetId", "ListActivatableNames"):
            world.run(
                find_program("dbus-send"),
                f"--bus=unix:path={world.work}/bus",
                "--print-reply=literal",
                "--dest=org.freedesktop.DBus",
                "/",
                f"org.freedesktop.DBus.{name}",
                label=f"{name} {label}",
                normalise=lambda text: b"answered" if text.strip() else b"",
            )
        server.signal(signal.SIGHUP)
    server.signal(signal.SIGTERM)
    world.finish(server, compare=False)


@case("mariadb", "full", ("mariadb-server-core", "mariadb-client-core"), 180, must_see=("mariadbd|mysqld",))
def mariadb(world):
    server_path, client = find_program("mariadbd"), find_program("mariadb", "mysql")
    user = [f"--user={DROPPED}"] if IS_ROOT else []
    world.work.chmod(0o777)
    world.run(
        find_program("mariadb-install-db", "mysql_install_db"),
        "--no-defaults",
        f"--datadir={world.work}/data",
        "--auth-root-authentication-method=normal",
        "--skip-test-db",
        *user,
        compare=False,
    )
    path = world.work / "sql"
    server = world.start(
        server_path,
        "--no-defaults",
        f"--datadir={world.work}/data",
        f"--socket={path}",
        *user,
        "--skip-networking",
        "--innodb-buffer-pool-size=32M",
        f"--pid-file={world.work}/pid",
    )
    world.until(path.exists, "mariadbd listens", server)
    ask = [client, "--no-defaults", f"--socket={path}", "-u", "root", "-N", "-B"]
    work = (
        "create database if not exists d; use d; drop table if exists t; create table t (i int primary key, s text);\n"
    )
    work += "".join(f"insert into t values ({i}, repeat('x', {i * 37 % 900}));\n" for i in range(2000))
    work += "select sum(length(s)), count(*), md5(group_concat(s order by i)) from t; flush tables; flush logs;\n"
    for label in ("before", "after"):
        world.run(*ask, stdin=work, label=f"mariadb {label}")
        server.signal(signal.SIGHUP)
    server.signal(signal.SIGTERM)
    world.finish(server, timeout=60, compare=False)


@case("squid", "full", ("squid-openssl",))
def squid(world):
    """A page of the proxy's own; reconfigured by a signal."""
    need_root("squid")
    port = free_port()
    path, change = configured(
        world,
        "conf",
        f"""http_port 127.0.0.1:{port}
http_access allow localhost
visible_hostname first
cache_effective_user proxy
pid_filename none
cache_log /dev/stderr
access_log none
cache deny all
coredump_dir {world.work}
shutdown_lifetime 1 second
pinger_enable off
""",
    )
    server = world.start(find_program("squid"), "-N", "-f", path)

    def ask():
        page = fetch(port, "http://127.0.0.1:1/", f"http://127.0.0.1:{port}")
        return b"second" if b"second" in page else b"first" if b"first" in page else b""

    attend(world, server, ask, change, expect=None)


@case("bubblewrap", "full", ("bubblewrap",), must_see=("bwrap", "python3.*"))
def bubblewrap(world):
    """A sandbox's own process, and what it starts."""
    program = find_program("bwrap")
    words = [
        program,
        "--unshare-all",
        "--ro-bind",
        "/",
        "/",
        "--bind",
        world.log,
        world.log,
        "--proc",
        "/proc",
        "--dev",
        "/dev",
        "--die-with-parent",
    ]
    if subprocess.run([*words, "true"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode != 0:
        raise Skip("this machine makes no user namespaces")
    world.run(*words, find_program("python3"), "-c", "import json; print(len(json.dumps(list(range(200000)))))")


@case("openvpn", "full", ("openvpn",))
def openvpn(world):
    """Two ends with one secret, and what its own test of ciphers says."""
    program = find_program("openvpn")
    world.run(program, "--genkey", "secret", world.work / "key", compare=False)
    for cipher in ("AES-256-CBC", "AES-128-CBC"):
        world.run(
            program,
            "--test-crypto",
            "--secret",
            world.work / "key",
            "--cipher",
            cipher,
            label=cipher,
            normalise=lambda text: b"passed" if b"self-test mode SUCCEEDED" in text else b"failed",
        )
