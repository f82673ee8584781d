"""Speaks to the calmalloc that is preloaded into this process, by ctypes. The functions are those of calmalloc.h;
statistics come as JSON, so that no layout of a struct is written down twice."""
import contextlib
import ctypes
import errno
import json
import os
import shlex
import sys

PROCESS = ctypes.CDLL(None)
SIZE = ctypes.c_size_t
# name: (result, arguments...)
CALLS = {
    "malloc": (ctypes.c_void_p, SIZE),
    "free": (None, ctypes.c_void_p),
    "calm_version": (ctypes.c_char_p,),
    "calm_usable_size": (SIZE, ctypes.c_void_p),
    "calm_trim": (ctypes.c_bool,),
    "calm_page_out_cold": (SIZE, ctypes.c_uint64),
    "calm_idle": (None,),
    "calm_committed": (SIZE,),
    "calm_charged": (SIZE,),
    "calm_stats_json": (ctypes.c_int, ctypes.c_int),
    "calm_profile_start": (ctypes.c_int, SIZE, ctypes.c_uint64),
    "calm_profile_stop": (None,),
    "calm_profile_dump": (ctypes.c_int, ctypes.c_int, ctypes.c_char_p),
}


class NotActive(RuntimeError):
    """This interpreter does not run on calmalloc."""


def c_call(name):
    """A function of this process, or None."""
    try:
        call = getattr(PROCESS, name)
    except AttributeError:
        return None
    call.restype, *call.argtypes = CALLS[name]
    return call


def is_active():
    """True when this interpreter's malloc is calmalloc's."""
    usable_size = c_call("calm_usable_size")
    if usable_size is None:
        return False
    block = c_call("malloc")(1)
    is_ours = usable_size(block) > 0  # 0 for a block of somebody else
    c_call("free")(block)
    return is_ours


def line_to_use():
    """What this interpreter was started with, on calmalloc."""
    words = getattr(sys, "orig_argv", None) or ["python3", *sys.argv]  # Python 3.9 does not keep its own options
    return shlex.join([words[0] or "python3", "-m", "calmalloc", "run", *(word for word in words[1:] if word)])


def enable():
    """Does nothing on calmalloc; elsewhere raises NotActive with the line that starts this program on calmalloc.

    A running interpreter cannot be switched: it holds blocks of the malloc that it started with, which no other malloc
    can free, and it and its modules have looked up where malloc is.
    """
    need_active("calmalloc cannot be put under a running interpreter, which holds blocks of another malloc")


def need_active(why="this interpreter does not run on calmalloc"):
    if not is_active():
        raise NotActive("%s; start it so: %s" % (why, line_to_use()))


def active_call(name):
    need_active()
    return c_call(name)


def check(error, sentence=None):
    """Raises OSError for an errno value that a call returned."""
    if error:
        raise OSError(error, sentence or os.strerror(error))


def version():
    """The version of the calmalloc under this interpreter."""
    return active_call("calm_version")().decode()


def stats():
    """What the heap holds, as a dictionary: the fields of struct calm_stats in calmalloc.h, and per size class and
    cohort. Takes milliseconds on large heaps."""
    call = active_call("calm_stats_json")
    with os.fdopen(os.memfd_create("calm-stats"), "w+b") as file:
        check(call(file.fileno()))
        file.seek(0)
        return json.load(file)


def trim():
    """Gives back to the kernel what holds no live block. True when that was anything."""
    return active_call("calm_trim")()


def page_out_cold(age_ms=0):
    """Sends what lay untouched for so long to swap, found by trial: what one call tries, a later one sends. 0 sends all
    at once. What is touched comes back by itself. Returns the bytes that left memory: none where there is no swap."""
    if not 0 <= age_ms < 1 << 64:
        raise ValueError("age_ms is a number from 0 that fits 64 bits.")
    return active_call("calm_page_out_cold")(age_ms)


def idle():
    """Says that this thread is about to sleep: its cache is emptied, and what is due goes back to the kernel."""
    active_call("calm_idle")()


def committed():
    """How many bytes are readable and writable, as the kernel counts them against RLIMIT_DATA. Cheap."""
    return active_call("calm_committed")()


def charged():
    """How many bytes blocks and dirty free memory take, which limit_mb and soft_limit_mb bound. Cheap."""
    return active_call("calm_charged")()


def profile_start(bytes_a_sample=0, seed=0):
    """Samples requests from now on, one in `bytes_a_sample` bytes on average, 512 KiB for 0. The same `seed`, but for 0,
    draws the same samples for the same requests of a process with one thread,
    from its start on."""
    if not 0 <= bytes_a_sample < 1 << 63 or not 0 <= seed < 1 << 64:
        raise ValueError("bytes_a_sample and seed are numbers from 0 that fit 64 bits.")
    error = active_call("calm_profile_start")(bytes_a_sample, seed)
    check(error, "the profiler is on already; profile_stop() ends it" if error == errno.EBUSY else None)


def profile_stop():
    """Samples no more. Blocks that were sampled are still known until they are freed."""
    active_call("calm_profile_stop")()


def profile_dump(file, format="pprof"):
    """Writes what was sampled so far to `file`, a path or an open file: as "pprof" (for `calm heap` and Go's pprof),
    "heap_v2" (text of gperftools) or "collapsed" (text for flame graphs)."""
    call = active_call("calm_profile_dump")
    if format not in ("pprof", "heap_v2", "collapsed"):
        raise ValueError("there is no format '%s'; the formats are pprof, heap_v2 and collapsed." % format)
    with contextlib.ExitStack() as stack:
        if isinstance(file, (str, bytes, os.PathLike)):
            file = stack.enter_context(open(file, "wb", buffering=0))
        else:
            file.flush()
        check(call(file.fileno(), format.encode()))


@contextlib.contextmanager
def profile(file, bytes_a_sample=0, format="pprof"):
    """Samples what the body of a `with` statement asks for, and writes what of it is live at the end, and was asked for
    in all, to `file`."""
    profile_start(bytes_a_sample)
    try:
        yield
    finally:
        profile_stop()
        profile_dump(file, format)
