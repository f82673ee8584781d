"""`calm test --setup`: installs the Debian packages that the tests need, as root once the user has agreed."""
import os
import shutil
import subprocess
import sys

import test_packages
from trouble import Trouble

INSTALL = ("apt-get", "install", "-y", "-qq", "--no-install-recommends")


def install(full, is_agreed):
    names = missing(full)
    if not names:
        print("calm: all packages for the tests are installed.", file=sys.stderr)
        return 0
    words = " ".join(names)
    if shutil.which("apt-get") is None:
        raise Trouble("apt-get is missing; install by this system's own means what Debian calls %s." % words)
    root = _root(words, is_agreed)
    _run([*root, "apt-get", "update", "-qq"])
    unknown = [name for name in names if not _is_known(name)]
    known = [name for name in names if name not in unknown]
    if known:
        print("calm: installing %s" % " ".join(known), file=sys.stderr, flush=True)
        _run([*root, "env", "DEBIAN_FRONTEND=noninteractive", *INSTALL, *known])
    if unknown:
        print("calm: not to be had here, so tests that need them are skipped: %s." % ", ".join(unknown),
              file=sys.stderr)
    return 0


def missing(full):
    """The packages to install. What a package's programs are for may be there without it."""
    done = subprocess.run(["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n"], capture_output=True,
                          text=True) if shutil.which("dpkg-query") else None
    installed = {line.split()[0] for line in (done.stdout.splitlines() if done else ())
                 if line.endswith(" installed")}
    return [package.name for package in test_packages.read()
            if package.name not in installed and (full or not package.is_full) and
            not (package.programs and all(map(shutil.which, package.programs)))]


def _root(words, is_agreed):
    """What goes before a command that only root may run. Asks first, where there is somebody to ask."""
    if os.geteuid() == 0:
        return []
    if shutil.which("sudo") is None:
        raise Trouble("only root can install, and sudo is missing; as root: %s %s." % (" ".join(INSTALL), words))
    if is_agreed:
        return ["sudo"] if sys.stdin.isatty() else ["sudo", "-n"]
    if not sys.stdin.isatty():
        raise Trouble("installing needs root; --yes uses sudo without a question. Missing: %s." % words)
    print("calm: sudo apt-get will install %s." % words, file=sys.stderr)
    sys.stderr.write("calm: go on? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise Trouble("nothing was installed.")
    return ["sudo"]


def _is_known(name):
    shown = subprocess.run(["apt-cache", "policy", name], capture_output=True, text=True).stdout
    return "Candidate: " in shown and "Candidate: (none)" not in shown


def _run(command):
    done = subprocess.run(command, stdin=None if sys.stdin.isatty() else subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE)
    if done.returncode != 0:
        sys.stderr.write(done.stdout)
        raise Trouble("'%s' failed; the reason is above." % " ".join(command[:command.index("-qq")]))
