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


TRIES = 12  # how threads meet differs from run to run, and so whether a mistake among them is seen

# One mistake that only this sanitizer sees: flags, source, text, replacement, test program's sources, its arguments,
# and a word of the report.
CONTROLS = {
    "tsan": ("-fsanitize=thread", "core/depot.c", "depot_try_lock(depot)", "true",
             ["stress/threads.c", "stress/oracle.c"], ["--seed", "3", "--seeds", "1", "--steps", "6000"], "data race"),
    "asan": ("-fsanitize=address,undefined", "base/text.c", "text->length + 1 >= text->capacity",
             "text->length >= text->capacity", ["fuzz/options_fuzz.c", "fuzz/driver.c", "stress/oracle.c"],
             ["--runs", "2000"], "heap-buffer-overflow"),
}


def control(source, build, preset):
    flag, path, text, replacement, sources, arguments, word = CONTROLS[preset]
    with open(os.path.join(source, "src", path)) as file:
        original = file.read()
    if text not in original:
        sys.exit("src/%s no longer has the text %r: bring the control up to date" % (path, text))
    changed = os.path.join(build, "mutant.c")
    with open(changed, "w") as file:
        file.write(original.replace(text, replacement))
    with open(os.path.join(build, "CMakeCache.txt")) as file:
        compiler = next(line.split("=", 1)[1].strip() for line in file if line.startswith("CMAKE_C_COMPILER:"))
    folders = [os.path.join(source, folder) for folder in ("src", "include", "tests/stress", "tests/fuzz")]
    program = os.path.join(build, "mutant")
    step([compiler, flag, "-std=c17", "-D_GNU_SOURCE", "-O1", "-g", "-w", "-fno-builtin", "-DCALM_CHECKS=2",
          *("-I" + folder for folder in folders), changed, *(os.path.join(source, "tests", name) for name in sources),
          os.path.join(build, "libcalmalloc_core.a"), "-lpthread", "-o", program], source)
    # The first report ends it: what goes on after a race may go round in a corrupt list for ever.
    environment = {**os.environ, "CALM_OPTIONS": "cache_kb=16,sites=off", "TSAN_OPTIONS": "halt_on_error=1"}
    for _ in range(TRIES):
        done = subprocess.run([program, *arguments], cwd=build, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, errors="replace", env=environment, timeout=300)
        if word in done.stdout:
            break
    if word not in done.stdout:
        sys.exit("the control was not caught: %s in src/%s\n%s" % (replacement, path, done.stdout[-3000:]))
    print("caught: a mistake in src/%s: %s" % (path, word))


def main():
    source, build, preset = sys.argv[1:4]
    source, build = os.path.abspath(source), os.path.abspath(build)
    targets = sorted({"stress_" + run[0] for run in RUNS[preset]})
    step(["cmake", "--preset", preset, "-B", build], source)
    step(["cmake", "--build", build, "-j2", "--target", *targets], source)
    for name, *arguments in RUNS[preset]:
        step([os.path.join(build, "tests", "stress", "stress_" + name), *arguments], source)
        print("fine:", name, *arguments)
    control(source, build, preset)
    return 0


sys.exit(main())
