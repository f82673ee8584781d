"""What the package tests share: where things are, and how to run them."""
import os
import shutil
import sys
import tempfile
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CALM = os.path.join(ROOT, "calm")
HERE = os.path.dirname(os.path.abspath(__file__))
os.environ.setdefault("CALM_PLAIN", "1")  # pretty pages are for people
sys.path.insert(0, os.path.join(ROOT, "tests", "support"))

import needs  # noqa: E402, F401
from subprocesses import run  # noqa: E402


def calm(*words, check=True, **more):
    return run(CALM, *words, check=check, **more)


def wait_for(what, seconds=60):
    """Waits until `what` gives something true, and returns it; or what it gave last."""
    end = time.monotonic() + seconds
    while True:
        found = what()
        if found or time.monotonic() > end:
            return found
        time.sleep(0.05)


class InFolder(unittest.TestCase):
    """Tests that share the library and a folder of their own."""
    @classmethod
    def setUpClass(cls):
        calm("run", "--quiet", "--", "true")  # so that no test is told of building
        cls.library = calm("lib").stdout.strip()
        cls.folder = tempfile.mkdtemp(prefix="calm-%s-" % cls.__name__.lower())

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder, name)

    def file(self, name, text, mode=0o644):
        with open(self.path(name), "w" if isinstance(text, str) else "wb") as file:
            file.write(text)
        os.chmod(self.path(name), mode)
        return self.path(name)

    def end(self, process):
        process.kill()
        process.communicate()
