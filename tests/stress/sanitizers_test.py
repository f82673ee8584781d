"""Builds the stress tests under a sanitizer preset and runs them briefly, with no suppression.

    sanitizers_test.py SOURCE_DIR BUILD_DIR PRESET
"""
import os
import subprocess
import sys

# What runs under each preset: program and arguments.
RUNS = {
    "tsan": [["threads", "--seed", "1", "--seeds", "2", "--steps", "2400"],
             ["threads", "--seed", "3", "--seeds", "1", "--steps", "2400"],
             ["churn", "--steps", "20"],
             ["forks", "--seeds", "1", "--steps", "10"]],
    "asan": [["single", "--seeds", "2", "--steps", "4000"],
             ["threads", "--seed", "2", "--seeds", "2", "--steps", "3000"],
             ["failing", "--seed", "3", "--seeds", "1", "--steps", "300"],
             ["single_sim", "--seeds", "1", "--steps", "3000"]],
}


def step(command, source):
    done = subprocess.run(command, cwd=source, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace")
    if done.returncode != 0:
        print(done.stdout[-12000:])
        sys.exit("failed: " + " ".join(command))


def main():
    source, build, preset = sys.argv[1:4]
    targets = sorted({"stress_" + run[0] for run in RUNS[preset]})
    step(["cmake", "--preset", preset, "-B", build], source)
    step(["cmake", "--build", build, "-j2", "--target", *targets], source)
    for name, *arguments in RUNS[preset]:
        step([os.path.join(build, "tests", "stress", "stress_" + name), *arguments], source)
        print("fine:", name, *arguments)
    return 0


sys.exit(main())
