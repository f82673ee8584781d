"""Builds the fuzz targets with clang's libFuzzer and runs each for a while; exit 77 when there is no clang.

    libfuzzer_test.py SOURCE_DIR BUILD_DIR SECONDS
"""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import needs  # noqa: E402

TARGETS = ("api", "options", "stack", "pool", "mq", "mq_forward")


def main():
    source, build, seconds = sys.argv[1], sys.argv[2], sys.argv[3]
    needs.need("clang-19", "clang++-19")
    steps = [["cmake", "-S", source, "--preset", "fuzz", "-B", build],
             ["cmake", "--build", build, "-j2", "--target"] + ["fuzz_" + name for name in TARGETS]]
    for step in steps:
        done = subprocess.run(step, cwd=source, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            print(done.stdout)
            return 1
    for name in TARGETS:
        corpus = os.path.join(build, "corpus-" + name)
        os.makedirs(corpus, exist_ok=True)
        # Inputs of any length from the beginning: libFuzzer's own way lets them grow with the number of runs, and at
        # some dozens of runs a second `api` stays at two operations for minutes.
        command = [os.path.join(build, "tests", "fuzz", "fuzz_" + name), "-max_total_time=" + seconds, "-max_len=1024",
                   "-len_control=0", "-print_final_stats=1", "-rss_limit_mb=4096", "-timeout=20",
                   "-artifact_prefix=" + build + "/", corpus]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        print("\n".join(line for line in done.stdout.splitlines()[-40:]))
        if done.returncode != 0:
            print("again:", " ".join(command[:1]), "FILE (see Test unit written above)")
            return 1
    return 0


sys.exit(main())
