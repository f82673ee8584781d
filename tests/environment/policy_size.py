"""policy_size.py: how much more memory a program needs under each policy of the sites than with sites=off.

usage: policy_size.py LIBRARY TINY MANY_SITES
"""

import os
import subprocess
import sys

RUNS = 5
TINY_KIB = 256
INTERN_KIB = 32 * 1024


def anonymous_kib(program, library, policy):
    """The least of RUNS: what the program has that is of no file, since how much of a file is there is not ours."""
    environment = dict(os.environ, LD_PRELOAD=library, CALM_OPTIONS="sites=" + policy)
    runs = [
        subprocess.run([program], env=environment, stdout=subprocess.PIPE, check=True, timeout=60).stdout
        for _ in range(RUNS)
    ]
    return min(int(printed.split()[1]) for printed in runs)


def main():
    library, tiny, many = sys.argv[1:]
    failed = False
    for program, allowed, policies in ((tiny, TINY_KIB, ("hash", "intern")), (many, INTERN_KIB, ("intern",))):
        off = anonymous_kib(program, library, "off")
        for policy in policies:
            more = anonymous_kib(program, library, policy) - off
            print(f"{os.path.basename(program)}: {off} KiB with off, {more} more with {policy}, {allowed} are allowed")
            failed = failed or more > allowed
    sys.exit(failed)


main()
