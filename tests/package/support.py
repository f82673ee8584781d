"""What the package tests share: where things are, and how to run them."""
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CALM = os.path.join(ROOT, "calm")
HERE = os.path.dirname(os.path.abspath(__file__))
os.environ.setdefault("CALM_PLAIN", "1")  # pretty pages are for people
sys.path.insert(0, os.path.join(ROOT, "tests", "support"))

import needs  # noqa: E402, F401
from subprocesses import run  # noqa: E402


def calm(*words, check=True, **more):
    return run(CALM, *words, check=check, **more)
