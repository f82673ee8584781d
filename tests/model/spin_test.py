"""Explores the Promela models with spin: no error in a model, and an error in each of its mutants.

    spin_test.py MODEL_DIR CC

Exit 77, and what to install, when there is no spin.
"""
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import needs  # noqa: E402

MODELS = {"start": 4, "forks": 3, "snapshot": 1}  # and how many mutants each has


def errors_of(folder, model, mutant, compiler):
    with tempfile.TemporaryDirectory() as work:
        steps = (["spin", "-DMUTANT=%d" % mutant, "-a", os.path.join(folder, model + ".pml")],
                 [compiler, "-O0", "-w", "-DSAFETY", "-DCOLLAPSE", "-o", "pan", "pan.c"],
                 ["./pan", "-m100000"])
        output = ""
        for step in steps:
            output = subprocess.run(step, cwd=work, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout
        found = re.search(r"errors: (\d+)", output)
        states = re.search(r"(\d+) states, stored", output)
        if not found or "max search depth too small" in output or "syntax error" in output:
            sys.exit("%s: spin did not finish:\n%s" % (model, output))
        return int(found.group(1)), int(states.group(1)), output


def main():
    folder, compiler = os.path.abspath(sys.argv[1]), sys.argv[2]
    needs.need("spin")
    failed = False
    for model, mutants in MODELS.items():
        for mutant in range(mutants + 1):
            errors, states, output = errors_of(folder, model, mutant, compiler)
            is_right = (errors > 0) == (mutant > 0)
            failed = failed or not is_right
            what = "as it is" if mutant == 0 else "mutant %d" % mutant
            print("%-9s %-9s %7d states, %d errors%s" % (model, what, states, errors, "" if is_right else ": WRONG"))
            if not is_right:
                print(output)
    return 1 if failed else 0


sys.exit(main())
