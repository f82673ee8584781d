"""Commands that tests run."""
import subprocess


def run(*words, check=True, **more):
    """Runs a command and returns it finished, output captured as text. Fails with its output when it fails."""
    more.setdefault("stdin", subprocess.DEVNULL)
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)
    if check and done.returncode != 0:
        raise AssertionError("%s ended with %d:\n%s%s" % (" ".join(words), done.returncode, done.stdout, done.stderr))
    return done
