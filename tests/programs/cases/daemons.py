"""
Daemons that serve pages, files and messages, drop privileges, fork or sandbox themselves: each starts, answers, reads a
changed configuration at a signal, answers by that, and stops. Started by root, it runs as whoever it drops to.
"""

import ftplib
import os
import re
import shutil
import signal
import socket
import ssl
import threading
import time
import urllib.request
from pathlib import Path

from attend import DROPPED, IS_ROOT, attend, configured, fetch, need_root
from cases import case
from harness import accepts_connections, find_program, free_port


@case("nginx", "full", ("nginx-light",))
def nginx(world):
    port = free_port()
    (world.work / "page.html").write_text("<p>a line\n" * 9000)
    path, change = configured(
        world,
        "conf",
        f"""{f"user {DROPPED} nogroup;" if IS_ROOT else ""}
worker_processes 2; pid pid; error_log stderr; events {{ worker_connections 128; }}
http {{ access_log off; gzip on; gzip_min_length 1; gzip_types *;
client_body_temp_path b; proxy_temp_path p; fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s;
server {{ listen 127.0.0.1:{port}; root {world.work}; location = / {{ return 200 "first"; }}
location /proxied/ {{ proxy_pass http://127.0.0.1:{port}/; }} }} }}
""",
    )
    server = world.start(find_program("nginx"), "-p", world.work, "-c", path, "-g", "daemon off;")

    def ask():
        return fetch(port) + fetch(port, "/page.html")[-60:] + fetch(port, "/proxied/")

    attend(world, server, ask, change, stop=signal.SIGQUIT)


@case("apache2", "full", ("apache2-bin",))
def apache2(world):
    port, modules = free_port(), "/usr/lib/apache2/modules"
    names = (
        ("mpm_event", "mpm_event"),
        ("authz_core", "authz_core"),
        ("dir", "dir"),
        ("filter", "filter"),
        ("deflate", "deflate"),
    )
    loads = "\n".join(f"LoadModule {name}_module {modules}/mod_{file}.so" for name, file in names)
    (world.work / "page.txt").write_text("a line\n" * 9000)
    path, change = configured(
        world,
        "conf",
        f"""{loads}
ServerName localhost
Listen 127.0.0.1:{port}
PidFile {world.work}/pid
DefaultRuntimeDir {world.work}
ErrorLog /dev/stderr
DocumentRoot {world.work}
{f"User {DROPPED}" if IS_ROOT else ""}
{"Group nogroup" if IS_ROOT else ""}
ErrorDocument 404 "first"
""",
    )
    server = world.start(find_program("apache2"), "-d", world.work, "-f", path, "-DFOREGROUND")
    attend(world, server, lambda: fetch(port, "/none") + fetch(port, "/page.txt")[-60:], change, signal.SIGUSR1)


@case("haproxy", "full", ("haproxy",))
def haproxy(world):
    port = free_port()
    path, change = configured(
        world,
        "conf",
        f"""global
  nbthread 2
  {f"user {DROPPED}" if IS_ROOT else ""}
defaults
  mode http
  timeout client 9s
  timeout server 9s
  timeout connect 9s
frontend one
  bind 127.0.0.1:{port}
  default_backend two
backend two
  http-request return status 200 content-type text/plain string first
""",
    )
    server = world.start(find_program("haproxy"), "-W", "-db", "-f", path)

    def tell(number):
        """The worker answers before its master hears: what comes earlier is lost, or ends it, with any heap."""
        world.until(lambda: is_heard(server, number), "haproxy's master hears signals", server)
        server.signal(number)

    reload, stop = lambda: tell(signal.SIGUSR2), lambda: tell(signal.SIGTERM)
    attend(world, server, lambda: fetch(port), change, reload, stop)


def is_heard(server, number):
    """Whether a process has a handler for a signal, and does not block it."""
    status = Path(f"/proc/{server.child.pid}/status").read_text()
    caught, blocked = (int(re.search(rf"{name}:\s+(\w+)", status).group(1), 16) for name in ("SigCgt", "SigBlk"))
    return caught & ~blocked & 1 << (number - 1) != 0


@case("lighttpd", "full", ("lighttpd",))
def lighttpd(world):
    port = free_port()
    (world.work / "page.txt").write_text("a line\n" * 9000)
    path, change = configured(
        world,
        "conf",
        f"""server.document-root = "{world.work}/"
server.modules = ("mod_setenv")
server.port = {port}
server.bind = "127.0.0.1"
{f'server.username = "{DROPPED}"' if IS_ROOT else ""}
setenv.set-response-header = ("X" => "first")
""",
    )
    server = world.start(find_program("lighttpd"), "-D", "-f", path)

    def ask():
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/page.txt", timeout=10) as answer:
            return answer.headers["X"].encode() + answer.read()[-60:]

    attend(world, server, ask, change, signal.SIGUSR1)


@case("varnish", "full", ("varnish",), must_see=("varnishd", "cache-main|varnishd"))
def varnish(world):
    """It compiles its configuration with the C compiler, and links with jemalloc."""
    port = free_port()
    path, change = configured(
        world,
        "vcl",
        """vcl 4.1;
backend none none;
sub vcl_recv { return (synth(200, "first")); }
""",
    )
    server = world.start(
        find_program("varnishd"),
        "-F",
        "-n",
        world.work / "v",
        "-a",
        f"127.0.0.1:{port}",
        "-f",
        path,
        "-j",
        "none",
        "-s",
        "malloc,32m",
        "-T",
        "127.0.0.1:0",
    )
    admin = [find_program("varnishadm"), "-n", world.work / "v"]

    def reload():
        world.run(*admin, "vcl.load", "b", path, compare=False)
        world.run(*admin, "vcl.use", "b", compare=False)

    def ask():
        return b"second" if b"second" in fetch(port) else b"first" if b"first" in fetch(port) else b""

    attend(world, server, ask, change, reload)


@case("privoxy", "full", ("privoxy",))
def privoxy(world):
    port = free_port()
    world.work.chmod(0o777)
    (world.work / "conf").write_text(f"listen-address 127.0.0.1:{port}\ntemplates /etc/privoxy/templates\n")
    user = ["--user", DROPPED] if IS_ROOT else []
    server = world.start(find_program("privoxy"), "--no-daemon", *user, world.work / "conf")

    def ask():
        page = fetch(port, "http://config.privoxy.org/show-request", f"http://127.0.0.1:{port}")
        return b"first" if b"Privoxy" in page else b""

    attend(world, server, ask, expect=15)


@case("gunicorn", "full", ("gunicorn",))
def gunicorn(world):
    """Workers of two threads, which are forked anew at a reload and after some requests."""
    port = free_port()
    _, change = configured(
        world,
        "app.py",
        """import json
KEPT = [{str(i): [i] * 20} for i in range(5000)]
def app(environ, start_response):
    body = b"first" + json.dumps(KEPT[:300]).encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]
""",
    )
    server = world.start(
        find_program("python3"),
        find_program("gunicorn"),
        "-w",
        "2",
        "--threads",
        "2",
        "--max-requests",
        "30",
        "-b",
        f"127.0.0.1:{port}",
        "app:app",
    )
    attend(world, server, lambda: fetch(port), change)


@case("php-fpm", "full", ("php8.2-fpm", "libfcgi-bin"))
def php_fpm(world):
    """Its own allocator is off, so every block of PHP is ours. No extension is opened: that is with RTLD_DEEPBIND."""
    client = find_program("cgi-fcgi")
    script, change = configured(
        world,
        "page.php",
        """<?php $kept = [];
for ($i = 0; $i < 20000; $i++) $kept[$i % 700] = str_repeat("x", $i % 300) . $i;
echo "first ", md5(serialize($kept));
""",
    )
    (world.work / "conf").write_text(f"""[global]
error_log = /dev/stderr
[one]
listen = {world.work}/php.sock
listen.mode = 0666
pm = static
pm.max_children = 2
{f"user = {DROPPED}" if IS_ROOT else ""}
{"group = nogroup" if IS_ROOT else ""}
env[USE_ZEND_ALLOC] = 0
""")
    server = world.start(find_program("php-fpm8.2"), "-n", "-F", "-y", world.work / "conf", env={"USE_ZEND_ALLOC": "0"})
    request = {"SCRIPT_FILENAME": str(script), "REQUEST_METHOD": "GET", "SCRIPT_NAME": "/page.php"}

    def ask():
        step = world.start(client, "-bind", "-connect", world.work / "php.sock", env=request).wait(20)
        return step.stdout

    attend(world, server, ask, change, signal.SIGUSR2, signal.SIGQUIT, rounds=5)


@case("openssh", "full", ("openssh-server", "openssh-client"), must_see=("sshd",))
def openssh(world):
    """The part before a login is a process without privileges under a seccomp filter."""
    need_root("sshd")
    os.makedirs("/run/sshd", exist_ok=True)
    for name in ("host", "user"):
        world.run(find_program("ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-f", world.work / name, compare=False)
    shutil.copy(world.work / "user.pub", world.work / "allowed")
    port = free_port()
    path, change = configured(
        world,
        "conf",
        f"""ListenAddress 127.0.0.1:{port}
HostKey {world.work}/host
AuthorizedKeysFile {world.work}/allowed
StrictModes no
PermitRootLogin yes
UsePAM no
PidFile none
SetEnv WORD=first
""",
    )
    server = world.start(find_program("sshd"), "-D", "-e", "-f", path)
    client = [
        find_program("ssh"),
        "-i",
        world.work / "user",
        "-p",
        port,
        "-o",
        "StrictHostKeyChecking=no",
        "-o",
        f"UserKnownHostsFile={world.work}/known",
        "-F",
        "none",
        "root@127.0.0.1",
        "echo $WORD; seq 1 20000",
    ]
    attend(world, server, lambda: world.start(*client).wait(20).stdout, change, rounds=2, expect=None)


@case("rsync", "full", ("rsync",))
def rsync(world):
    """Each connection reads the configuration anew."""
    port = free_port()
    for i in range(300):
        (world.work / f"file{i}").write_bytes(bytes([i % 256]) * (i * 97))
    path, change = configured(
        world,
        "conf",
        f"""port = {port}
address = 127.0.0.1
use chroot = no
{f"uid = {DROPPED}" if IS_ROOT else ""}
[all]
path = {world.work}
comment = first
""",
    )
    program = find_program("rsync")
    server = world.start(program, "--daemon", "--no-detach", "--config", path)

    def ask():
        step = world.start(program, f"rsync://127.0.0.1:{port}/").wait(20)
        files = world.start(program, f"rsync://127.0.0.1:{port}/all/file*").wait(20)
        return step.stdout + b"\n".join(line.split(b" ")[-1] for line in files.stdout.splitlines())

    attend(world, server, ask, change, reload=lambda: None, rounds=3, expect=None)


@case("vsftpd", "full", ("vsftpd",))
def vsftpd(world):
    """A process without privileges, in namespaces of its own, a connection. Its filter kills it with any heap."""
    need_root("vsftpd")
    port = free_port()
    home, empty = world.work / "home", world.work / "empty"
    home.mkdir()
    empty.mkdir()
    (home / "file").write_text("a line\n" * 20000)
    path, change = configured(
        world,
        "conf",
        f"""listen=YES
listen_address=127.0.0.1
listen_port={port}
background=NO
anonymous_enable=YES
anon_root={home}
ftp_username=daemon
secure_chroot_dir={empty}
seccomp_sandbox=NO
isolate=YES
isolate_network=NO
ftpd_banner=first
""",
    )
    os.chmod(path, 0o600)
    server = world.start(find_program("vsftpd"), path)

    def ask():
        with ftplib.FTP() as link:
            banner, got = link.connect("127.0.0.1", port, 10), []
            link.login()
            link.retrbinary("RETR file", got.append)
            return banner.encode() + b"".join(got)[-60:]

    attend(world, server, ask, change, rounds=5, expect=None)


@case("beanstalkd", "full", ("beanstalkd",))
def beanstalkd(world):
    port = free_port()
    world.work.chmod(0o777)
    user = ["-u", DROPPED] if IS_ROOT else []
    server = world.start(find_program("beanstalkd"), "-l", "127.0.0.1", "-p", port, "-b", world.work, *user)

    def ask():
        with socket.create_connection(("127.0.0.1", port), 10) as link, link.makefile("rwb") as stream:
            for i in range(200):
                body = b"first" + b"x" * (i * 31 % 4000)
                stream.write(b"put 0 0 9 %d\r\n%s\r\nreserve\r\n" % (len(body), body))
                stream.flush()
                stream.readline()
                number = stream.readline().split()[1]
                got = stream.readline()
                stream.write(b"delete %s\r\n" % number)
                stream.flush()
                stream.readline()
            return got

    attend(world, server, ask, rounds=5, expect=None)


@case("mosquitto", "full", ("mosquitto", "mosquitto-clients"), must_see=("mosquitto", "mosquitto_pub", "mosquitto_sub"))
def mosquitto(world):
    port = free_port()
    world.work.chmod(0o777)
    user = f"user {DROPPED}\n" if IS_ROOT else ""
    (world.work / "conf").write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\n{user}")
    server = world.start(find_program("mosquitto"), "-c", world.work / "conf")
    world.until(lambda: accepts_connections(port), "mosquitto listens", server)
    where = ["-p", port, "-t", "topic", "-q", "1"]
    lines = "".join(f"{i} {'x' * (i * 37 % 3000)}\n" for i in range(1000)).encode()
    for label in ("before", "after"):
        reader = world.start(find_program("mosquitto_sub"), *where, "-C", "1000", label=label)
        time.sleep(0.5)
        world.run(find_program("mosquitto_pub"), *where, "-l", stdin=lines)
        world.finish(reader, timeout=30)
        server.signal(signal.SIGHUP)
    server.signal(signal.SIGTERM)
    world.finish(server, compare=False)


@case("stunnel", "full", ("stunnel4", "openssl"))
def stunnel(world):
    """Threads, and OpenSSL's heap; behind it a server that says one word."""
    port, behind = free_port(), socket.create_server(("127.0.0.1", 0))
    world.run(
        find_program("openssl"),
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-subj",
        "/CN=x",
        "-keyout",
        world.work / "key",
        "-out",
        world.work / "cert",
        "-days",
        "9",
        compare=False,
    )

    def say():
        while True:
            try:
                link, _ = behind.accept()
            except OSError:
                return
            with link:
                link.sendall(b"first" * 5000)

    threading.Thread(target=say, daemon=True).start()
    path, _ = configured(
        world,
        "conf",
        f"""foreground = yes
pid =
{f"setuid = {DROPPED}" if IS_ROOT else ""}
[one]
accept = 127.0.0.1:{port}
connect = 127.0.0.1:{behind.getsockname()[1]}
cert = {world.work}/cert
key = {world.work}/key
""",
    )
    (world.work / "key").chmod(0o644)
    server = world.start(find_program("stunnel4"), path)
    trusting = ssl._create_unverified_context()

    def ask():
        with socket.create_connection(("127.0.0.1", port), 10) as bare, trusting.wrap_socket(bare) as link:
            got = b""
            while part := link.recv(65536):
                got += part
            return got

    attend(world, server, ask, expect=None)
    behind.close()
