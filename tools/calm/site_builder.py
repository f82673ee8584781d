"""`calm docs`: builds the documentation as a site, with mkdocs in an environment of its own."""
import filecmp
import os
import shutil
import subprocess
import sys

import build
import say
from trouble import Trouble

REQUIREMENTS = os.path.join(build.ROOT, "tools", "site", "requirements.txt")


def environment():
    """The environment's folder. Made anew when the requirements have changed."""
    folder = os.path.join(build.BUILD, "site-venv")
    stamp = os.path.join(folder, "installed.txt")
    if os.path.exists(stamp) and filecmp.cmp(stamp, REQUIREMENTS, shallow=False):
        return folder
    build.need_build_folder()
    say.line("calm: preparing a Python environment for mkdocs in %s (once)" % folder)
    log_path = os.path.join(build.BUILD, "site-venv.log")
    with open(log_path, "w") as log:
        for command in ([sys.executable, "-m", "venv", "--clear", folder],
                        [os.path.join(folder, "bin", "python"), "-m", "pip", "install", "--disable-pip-version-check",
                         "-r", REQUIREMENTS]):
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
            if done.returncode != 0:
                raise Trouble("mkdocs could not be installed, which needs Python 3.11, its venv and a network once; %s "
                              "says why." % log_path)
    shutil.copy(REQUIREMENTS, stamp)
    return folder


def start():
    target = os.path.join(build.BUILD, "site")
    mkdocs = [os.path.join(environment(), "bin", "mkdocs"), "build", "--strict", "--site-dir", target]
    # Not --quiet: mkdocs would not count what it does not print, and pass.
    done = subprocess.run(mkdocs, cwd=build.ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        for text in done.stdout.strip().splitlines():
            say.line(text)
        raise Trouble("the site could not be built; the reason is above.")
    print(os.path.join(target, "index.html"))
