"""
attend.py: what cases of daemons share: a configuration in two versions; start, answer, reload, answer, stop.
"""

import ftplib
import os
import signal
import urllib.request

from harness import Skip

IS_ROOT = os.getuid() == 0
DROPPED = "nobody"


def fetch(port, path="/", proxy=None):
    """The body of a page; an error's body, too."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": proxy} if proxy else {}))
    where = path if path.startswith("http:") else f"http://127.0.0.1:{port}{path}"
    try:
        with opener.open(where, timeout=10) as answer:
            return answer.read()
    except urllib.error.HTTPError as error:
        return error.read()


def quietly(ask):
    """The answer, or None where nobody listens yet or any more."""
    try:
        return ask()
    except (OSError, EOFError, ftplib.Error):
        return None


def is_second(answer):
    """Not by a process of before, which goes on for a while."""
    return answer is not None and b"second" in answer and b"first" not in answer


def tell(server, how):
    """A signal, or whatever a daemon hears instead."""
    if callable(how):
        how()
    else:
        server.signal(how)


def attend(world, server, ask, change=None, reload=signal.SIGHUP, stop=signal.SIGTERM, expect=0, rounds=40):
    """The answers before a change, those after, and the end. An answer has b"first" in it, then b"second"."""
    world.until(lambda: b"first" in (quietly(ask) or b""), "the first answer", server)
    for _ in range(rounds):
        ask()
    world.state("before", ask())
    if change:
        change()
        tell(server, reload)
        world.until(lambda: all(is_second(quietly(ask)) for _ in range(6)), "answers by the new configuration", server)
        for _ in range(rounds):
            ask()
        world.state("after", ask())
    tell(server, stop)
    world.finish(server, timeout=30, compare=False, expect=expect)


def configured(world, name, text):
    """Writes the file `name` with the word first in it; a function that writes it again with second."""
    path = world.work / name
    world.work.chmod(0o777)
    path.write_text(text)

    def change():
        path.write_text(text.replace("first", "second"))

    return path, change


def need_root(what):
    if not IS_ROOT:
        raise Skip(f"{what} drops privileges, so it is started by root only")
