"""What the package tests share: where things are, and how to run them."""
import os
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CALM = os.path.join(ROOT, "calm")
HERE = os.path.dirname(os.path.abspath(__file__))
os.environ.setdefault("CALM_PLAIN", "1")  # pretty pages are for people


def run(*words, check=True, **more):
    """Runs a command and returns it finished, output captured as text. Fails with its output when it fails."""
    more.setdefault("stdin", subprocess.DEVNULL)
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)
    if check and done.returncode != 0:
        raise AssertionError("%s ended with %d:\n%s%s" % (" ".join(words), done.returncode, done.stdout, done.stderr))
    return done


def calm(*words, check=True, **more):
    return run(CALM, *words, check=check, **more)
