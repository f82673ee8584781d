"""What a program's language keeps in memory of its own, which no allocator sees, as one sentence."""
import itertools
import os
import re

import say

PYTHON = re.compile(r"^(libpython3(\.\d+)?[a-z]*\.so.*|python3(\.\d+)?)$")
# Whose objects lie in mappings of their own: by the name of a file that is mapped.
COLLECTORS = ((re.compile(r"^(node(js)?|libnode\.so.*|electron|bun|deno)$"), "JavaScript's objects"),
              (re.compile(r"^(ruby[\d.]*|libruby.*\.so.*)$"), "Ruby's objects"),
              (re.compile(r"^libjvm\.so$"), "Java's objects"))
PYTHON_SEEN = ("malloc", "malloc_debug")  # values of PYTHONMALLOC with which all of its requests come to malloc


def advice(paths, environment):
    """What to do to see more of a process that has these files mapped, or None. `environment`: of the process."""
    if any(PYTHON.match(os.path.basename(path)) for path in paths):
        if environment.get("PYTHONMALLOC") not in PYTHON_SEEN:
            return ("Python keeps objects of up to 512 bytes in memory of its own, which is not seen here; with "
                    "PYTHONMALLOC=malloc in the program's environment it is.")
    return None


def objects(paths):
    """What a process that has these files mapped keeps in mappings of its own, or None."""
    names = [os.path.basename(path) for path in paths]
    return next((words for pattern, words in COLLECTORS if any(pattern.match(name) for name in names)), None)


def rest(paths, rss_bytes=None, heap_bytes=None):
    """What else than the heap a process has resident, as a row of a summary; none where nothing says that it matters.
    Without numbers the row says where they are."""
    what = objects(paths)
    if what is None:
        return []
    if rss_bytes is None or heap_bytes is None:
        return [("not heap", "%s, which the program maps memory for itself; while it runs, `calm top` tells how much "
                 "is not heap" % what)]
    return [("not heap", "%s of %s resident: files, and what the program maps itself, %s too" % (
        say.amount(max(0, rss_bytes - heap_bytes)), say.amount(rss_bytes), what))]


def environment_for(words):
    """What a command is started with, also by `env NAME=VALUE... PROGRAM`."""
    assigned = itertools.takewhile(lambda word: "=" in word, words[1:] if os.path.basename(words[0]) == "env" else [])
    return {**os.environ, **dict(word.split("=", 1) for word in assigned)}


def environment_of(process):
    """What a process was started with; empty where that cannot be read."""
    try:
        with process.file("environ", "rb") as file:
            words = file.read().decode(errors="replace").split("\0")
    except OSError:
        return {}
    return dict(word.split("=", 1) for word in words if "=" in word)
