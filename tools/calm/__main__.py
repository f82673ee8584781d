"""calm: builds calmalloc, runs programs on it, installs it, tests it.

`commands.py` has the one table of commands; `face.py` reads the command line. Whatever goes wrong ends in one
sentence.
"""
import errno
import fcntl
import os
import signal
import sys

OUTPUT_ERRORS = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def open_streams():
    """Output that was closed goes nowhere, without the use of its number: PROGRAM gets it closed."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            low = os.open(os.devnull, os.O_WRONLY)
            setattr(sys, name, os.fdopen(fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, 3), "w"))
            os.close(low)


def flushed(code):
    """`code`, once all that was printed has gone out: Python itself would tell of a failure after the end."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    return code


def lost(error):
    """Says that nobody gets the output, where somebody is there to hear it; the exit code."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    say.line("calm: the output cannot be written: %s." % error.strerror)
    try:
        sys.stderr.flush()
    except OSError:
        os.dup2(nowhere, 2)
    return 1


if __name__ == "__main__":
    import face
    import say
    from trouble import Trouble

    open_streams()
    try:
        try:
            sys.exit(flushed(face.main(sys.argv[1:])))
        except Trouble as trouble:
            if str(trouble):
                say.plain(("calm: " + str(trouble)).split("\n"), sys.stderr)
            sys.exit(flushed(trouble.code))
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except Exception as error:  # a traceback helps nobody but us
        if isinstance(error, OSError) and error.errno in OUTPUT_ERRORS and error.filename is None:
            sys.exit(lost(error))
        if os.environ.get("CALM_DEBUG"):
            raise
        say.line("calm: internal error, please report: %s: %s (CALM_DEBUG=1 shows where)" % (
            type(error).__name__, error))
        sys.exit(70)
