"""Python packages of pinned versions, in an environment that is made the first time a test asks for it."""
import os
import shutil
import subprocess
import sys

INSIDE = "CALM_PINNED_INSIDE"


def enter(requirements, venv):
    """Starts the script anew in the environment `venv`, which has what the file `requirements` names; returns at
    once where it already runs there. False when the packages are not to be had."""
    if os.environ.get(INSIDE) == venv:
        return True
    python = os.path.join(venv, "bin", "python")
    stamp = os.path.join(venv, "requirements.txt")
    with open(requirements) as file:
        wanted = file.read()
    if not os.path.exists(stamp) or open(stamp).read() != wanted:
        made = subprocess.run([sys.executable, "-m", "venv", "--clear", venv], stdout=subprocess.DEVNULL)
        if made.returncode != 0 or subprocess.run([
                python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "1",
                "--timeout", "10", "-r", requirements]).returncode != 0:
            return False
        shutil.copy(requirements, stamp)
    os.environ[INSIDE] = venv
    os.execv(python, [python, "-B", *sys.argv])
    return False
