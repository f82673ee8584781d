"""calm: builds calmalloc, runs programs on it, installs it, tests it.

`commands.py` has the one table of commands; `face.py` reads the command line. Whatever goes wrong ends in one
sentence.
"""
import os
import signal
import sys

if __name__ == "__main__":
    import face
    import say
    from trouble import Trouble

    try:
        sys.exit(face.main(sys.argv[1:]))
    except Trouble as trouble:
        if str(trouble):
            say.plain(("calm: " + str(trouble)).split("\n"), sys.stderr)
        sys.exit(trouble.code)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as error:  # a traceback helps nobody but us
        if os.environ.get("CALM_DEBUG"):
            raise
        say.line("calm: internal error, please report: %s: %s (CALM_DEBUG=1 shows where)" % (
            type(error).__name__, error))
        sys.exit(70)
