"""
Programs that shut themselves or others in, and services of many small processes: namespaces, dropped capabilities,
filters of system calls, users of their own.
"""

import hashlib
import os
import shutil
import signal
import smtplib
import socket
import subprocess
from pathlib import Path

from attend import DROPPED, attend, configured, need_root
from cases import case
from harness import SCRIPTS, Skip, find_program, free_port

INHERITED = "LD_PRELOAD WITNESS_LOG WITNESS_LIBRARY CALM_OPTIONS TZ LANG MAIL_CONFIG POSTLOG_SERVICE"


@case("firejail", "full", ("firejail",), must_see=("firejail", "python3.*"))
def firejail(world):
    """A sandbox's own processes, and what they start, behind sets of restrictions."""
    need_root("firejail")
    program, python = find_program("firejail"), find_program("python3")
    work = "import concurrent.futures as f, json; e = f.ThreadPoolExecutor(3); "
    work += "print(list(e.map(lambda n: len(json.dumps(list(range(n)))), [200000, 1000, 300000])))"
    sets = (
        ("plain", []),
        ("filtered", ["--seccomp", "--caps.drop=all", "--nonewprivs"]),
        ("alone", ["--net=none", "--ipc-namespace", "--private-dev", "--private-tmp"]),
        ("limited", ["--rlimit-as=600000000", "--rlimit-nproc=5000", "--nice=5", "--cpu=0"]),
    )
    if subprocess.run([program, "--quiet", "--noprofile", "true"], capture_output=True).returncode != 0:
        raise Skip("firejail does not run on this machine")
    for label, words in sets:
        world.run(program, "--quiet", "--noprofile", *words, "--", python, "-c", work, label=f"firejail {label}")


@case(
    "chromium_sandbox",
    "full",
    ("chromium-headless-shell",),
    180,
    own_allocator=("chromium-headless-shell", "headless_shell", "chromium", "chrome", "chrome_crashpad_handler"),
)
def chromium_sandbox(world):
    """A browser of several processes in its own sandbox, which wants another user than root (see pictures.py)."""
    program = find_program("chromium-headless-shell", "chromium", "chrome")
    world.work.chmod(0o777)
    world.run(
        program,
        "--headless",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
        "--force-device-scale-factor=1",
        f"--user-data-dir={world.work}/profile",
        "--window-size=400,300",
        "--screenshot=page.png",
        "--virtual-time-budget=3000",
        f"file://{SCRIPTS}/page.html",
        user=DROPPED if os.getuid() == 0 else None,
    )
    world.state("picture", hashlib.sha256((world.work / "page.png").read_bytes()).hexdigest())


@case("postfix", "full", ("postfix",), must_see=("master", "smtpd", "cleanup", "qmgr", "trivial-rewrite", "virtual"))
def postfix(world):
    """A message passes through five processes, each of its own kind, and is written by another user."""
    need_root("postfix")
    port, settings = free_port(), world.work / "conf"
    settings.mkdir()
    (world.work / "mail").mkdir()
    shutil.chown(world.work / "mail", DROPPED, "nogroup")
    names = ("proxymap", "rewrite trivial-rewrite", "cleanup", "bounce", "defer bounce", "trace bounce", "verify",
             "flush", "error", "retry error", "discard", "virtual", "anvil", "scache", "smtp", "relay smtp")
    alone = {"cleanup": "unix n - n - 0", "virtual": "unix - n n - -"}
    lines = [f"127.0.0.1:{port} inet n - n - - smtpd", "qmgr unix n - n 300 1 qmgr"]
    lines += ["postlog unix-dgram n - n - 1 postlogd"]
    lines += [f"{name.split()[0]} {alone.get(name, 'unix - - n - -')} {name.split()[-1]}" for name in names]
    (settings / "master.cf").write_text("\n".join(lines) + "\n")
    path, change = configured(
        world,
        "conf/main.cf",
        f"""compatibility_level = 3.6
queue_directory = {world.work}/queue
data_directory = {world.work}/data
maillog_file_prefixes = {world.work}
maillog_file = {world.work}/log
import_environment = {INHERITED}
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
myhostname = mail.example
mydestination =
mynetworks = 127.0.0.0/8
alias_maps =
virtual_mailbox_domains = one.example
virtual_mailbox_base = {world.work}/mail
virtual_mailbox_maps = static:box/
virtual_uid_maps = static:{os.stat(world.work / "mail").st_uid}
virtual_gid_maps = static:{os.stat(world.work / "mail").st_gid}
virtual_minimum_uid = 100
smtpd_banner = first
in_flow_delay = 0
""",
    )
    world.work.chmod(0o755)
    (world.work / "queue").mkdir()
    (world.work / "data").mkdir()
    shutil.chown(world.work / "data", "postfix")
    command = [find_program("postfix"), "-c", path.parent]
    server = world.start(*command, "start-fg")
    inbox, sent = world.work / "mail/box/new", []

    def ask():
        with smtplib.SMTP(timeout=10) as link:
            banner = link.connect("127.0.0.1", port)[1]
            text = "".join(f"{i} {'x' * (i * 37 % 900)}\r\n" for i in range(100))
            link.sendmail("a@two.example", ["b@one.example", "c@one.example"], f"Subject: one\r\n\r\n{text}")
            sent.append(banner)
        return banner

    def stop():
        world.until(lambda: len(list(inbox.glob("*"))) >= 2 * len(sent), "each message is delivered", server)
        world.run(*command, "stop", compare=False)

    def reload():
        world.run(*command, "reload", compare=False)

    try:
        attend(world, server, ask, change, reload, stop, expect=None, rounds=10)
    finally:
        end_rest(world.work / "queue/pid/master.pid")
    bodies = {path.read_bytes().split(b"\n\n", 1)[1] for path in inbox.glob("*")}
    world.state("messages", hashlib.sha256(b"".join(sorted(bodies))).hexdigest() + f" {len(bodies)}")


def end_rest(pid_file):
    """Ends a master that has a session of its own, where the case has failed; it takes its processes with it."""
    if pid_file.exists():
        pid = int(pid_file.read_text())
        if b"/master" in (Path(f"/proc/{pid}/cmdline").read_bytes() if Path(f"/proc/{pid}").exists() else b""):
            os.kill(pid, signal.SIGTERM)


@case("journald", "full", ("systemd",), must_see=("systemd-journald", "journalctl"))
def journald(world):
    """A journal in a namespace of its own, beside the system's; it turns its files over at a signal."""
    need_root("systemd-journald")
    program, machine = Path("/lib/systemd/systemd-journald"), Path("/etc/machine-id")
    if not program.exists() or not machine.exists():
        raise Skip("systemd-journald is not installed")
    space, run = f"calm{os.getpid()}", world.work / "run"
    run.mkdir()
    kept = Path("/var/log/journal") if Path("/var/log/journal").is_dir() else Path("/run/log/journal")
    files = kept / f"{machine.read_text().strip()}.{space}"
    server = world.start(program, space, env={"RUNTIME_DIRECTORY": str(run)})
    try:
        for label in ("before", "after"):
            world.until((run / "socket").exists, "systemd-journald listens", server)
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as link:
                link.connect(str(run / "socket"))
                for i in range(2000):
                    link.send(f"MESSAGE={label} {i} {'x' * (i * 7 % 900)}\nSYSLOG_IDENTIFIER=one\nI={i}\n".encode())
            read = [find_program("journalctl"), "--directory", files, "--no-pager", "-q", "-o", "cat", "-t", "one"]

            def last(read=read, label=label):
                return f"{label} 1999 ".encode() in world.start(*read, "-n", "1").wait(20).stdout

            world.until(last, "the last line", server)
            world.run(*read, label=f"journalctl {label}")
            server.signal(signal.SIGUSR2)
        server.signal(signal.SIGTERM)
        world.finish(server, compare=False)
    finally:
        shutil.rmtree(files, ignore_errors=True)
