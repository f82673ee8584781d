"""Has a script's profile written before the interpreter tears its heap down.

`python -m calmalloc heap` puts this folder first in PYTHONPATH, so that Python imports this at its start. Who sampled a
program that exits would find next to nothing alive: CPython frees its modules first. So the profile that the library
would write when the process ends is written when the last of atexit's functions runs. What else is called
sitecustomize is imported as if this were not here.
"""
import atexit
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def write_profile():
    import ctypes
    process = ctypes.CDLL(None)
    if not hasattr(process, "calm_profile_dump"):  # a child that lost LD_PRELOAD
        return
    write(process, "profile_fd", lambda fd: process.calm_profile_dump(fd, b"pprof"))
    write(process, "report_fd", process.calm_stats_json)


def write(process, option, call):
    """Lets `call` write to the descriptor that `option` names, and closes it, so that the library does not do so again.
    The lock is the one that the library takes; closing lets it go."""
    import ctypes
    import fcntl
    number = ctypes.c_uint64()
    if process.calm_option_get(option.encode(), ctypes.byref(number)) != 0 or number.value == 0:
        return
    try:
        fcntl.lockf(number.value, fcntl.LOCK_EX)
        call(ctypes.c_int(number.value))
        os.close(number.value)
    except OSError:  # the script closed it
        pass


atexit.register(write_profile)
sys.path[:] = [path for path in sys.path if os.path.abspath(path) != HERE]
ours = sys.modules.pop("sitecustomize")
try:
    import sitecustomize  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "sitecustomize":
        raise
    sys.modules["sitecustomize"] = ours
