"""What a program's language keeps in memory of its own, which no allocator sees, as one sentence."""
import os
import re

PYTHON = re.compile(r"^(libpython3(\.\d+)?[a-z]*\.so.*|python3(\.\d+)?)$")
PYTHON_SEEN = ("malloc", "malloc_debug")  # values of PYTHONMALLOC with which all of its requests come to malloc


def advice(paths, environment):
    """What to do to see more of a process that has these files mapped, or None. `environment`: of the process."""
    if any(PYTHON.match(os.path.basename(path)) for path in paths):
        if environment.get("PYTHONMALLOC") not in PYTHON_SEEN:
            return ("Python keeps objects of up to 512 bytes in memory of its own, which is not seen here; with "
                    "PYTHONMALLOC=malloc in the program's environment it is.")
    return None


def environment_of(process):
    """What a process was started with; empty where that cannot be read."""
    try:
        with process.file("environ", "rb") as file:
            words = file.read().decode(errors="replace").split("\0")
    except OSError:
        return {}
    return dict(word.split("=", 1) for word in words if "=" in word)
