"""What recording costs, what a recording weighs, and how close a replay comes: on real programs.

    measure.py FOLDER LIBRARY [--pairs N] [--peer NAME=PATH ...] [--only NAME] [--paced]

FOLDER has calm_record, calm_replay and libcalm_record.so; LIBRARY is the allocator under the programs. Plain and
recorded runs alternate; a row has the medians of their user and system CPU seconds: the program's own, without and
with the recorder in it, and the collector's beside it. Then each recording is replayed on LIBRARY and on the peers.
"""
import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAMS = os.path.join(ROOT, "bench", "programs")


def out_of(words):
    return subprocess.run(words, stdout=subprocess.PIPE, text=True).stdout.strip()


def cases():
    """(name, words, environment, standard input, what drives it)"""
    objects = os.path.join(PROGRAMS, "objects.py")
    yield "python3", ["/usr/bin/python3", objects], {}, None, None
    yield "python3, all by malloc", ["/usr/bin/python3", objects], {"PYTHONMALLOC": "malloc"}, None, None
    yield "perl", ["perl", os.path.join(PROGRAMS, "words.pl")], {}, None, None
    yield "sqlite3", ["sqlite3", ":memory:"], {}, os.path.join(PROGRAMS, "rows.sql"), None
    compiler = out_of(["g++", "-print-prog-name=cc1plus"])
    templates = os.path.join(PROGRAMS, "templates.cpp")
    yield "g++'s cc1plus", [compiler, "-quiet", "-O1", "-imultiarch", "x86_64-linux-gnu", "-D_GNU_SOURCE", templates,
                            "-o", os.devnull], {}, None, None
    yield "redis-server", ["redis-server", "--port", "7391", "--save", "", "--appendonly", "no"], {}, None, drive_redis


def drive_redis(process):
    """redis-benchmark, then the server is asked to end."""
    time.sleep(0.5)
    subprocess.run(["redis-benchmark", "-p", "7391", "-t", "set,lpush,hset,zadd", "-n", "100000", "-r", "100000",
                    "-d", "64", "-P", "8", "-q"], stdout=subprocess.DEVNULL)
    subprocess.run(["redis-cli", "-p", "7391", "shutdown", "nosave"], stdout=subprocess.DEVNULL)
    process.wait()


def run(words, environment, given, drive):
    with open(given or os.devnull) as source:
        process = subprocess.Popen(words, stdin=source, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   env=dict(os.environ, **environment))
        if drive:
            drive(process)
        _, status, used = os.wait4(process.pid, 0) if process.returncode is None else (0, 0, None)
    return used


def plain_seconds(launch, words, environment, given, drive):
    """Also under a parent that counts its children, so that a driven one can be counted the same way."""
    code = ("import os,resource,subprocess,sys; subprocess.run(sys.argv[2:]);"
            "r=resource.getrusage(resource.RUSAGE_CHILDREN); open(sys.argv[1],'w').write(repr(r.ru_utime+r.ru_stime))")
    result = os.path.join(launch, "plain")
    run([sys.executable, "-c", code, result, "env", *("%s=%s" % pair for pair in environment.items()), *words], {},
        given, drive)
    with open(result) as file:
        return float(file.read())


def recorded(options, words, environment, given, drive, file):
    report = file + ".json"
    run([os.path.join(options.folder, "calm_record"), "--quiet", "--json", report, file,
         os.path.join(options.folder, "libcalm_record.so") + ":" + options.library, shutil.which(words[0]), *words],
        environment, given, drive)
    with open(report) as lines:
        found = [json.loads(line) for line in lines]
    made, cost = found[0], found[-1]
    program = (cost["program_user_us"] + cost["program_system_us"]) / 1e6
    return made, program, (cost["collector_user_us"] + cost["collector_system_us"]) / 1e6


def replayed(options, file, library, paced):
    environment = dict(os.environ)
    if library:
        environment["LD_PRELOAD"] = library
    words = [os.path.join(options.folder, "calm_replay")] + ["--paced"] * paced + [file]
    return json.loads(subprocess.run(words, env=environment, stdout=subprocess.PIPE, check=True).stdout)


def closeness(made):
    """Median and 90th percentile of the distance to the program's resident heap, and the peaks' distance."""
    pairs = [(one["resident_bytes"], one["program_resident_bytes"]) for one in made["samples"]
             if one.get("program_resident_bytes", 0) >= 1 << 20]
    if not pairs:
        return "too small to see"
    off = sorted(abs(own - theirs) / theirs for own, theirs in pairs)
    peaks = [max(column) for column in zip(*pairs)]
    return "%d looks: median %.1f %%, 90th %.1f %%; peak %+.1f %% of %.1f MiB" % (
        len(off), 100 * off[len(off) // 2], 100 * off[len(off) * 9 // 10], 100 * (peaks[0] / peaks[1] - 1),
        peaks[1] / (1 << 20))


def measure(options, folder, name, words, environment, given, drive):
    if shutil.which(words[0]) is None:
        print("%s: not installed" % name)
        return
    file = os.path.join(folder, "a.record")
    plain, own, beside = [], [], []
    for _ in range(options.pairs):
        plain.append(plain_seconds(folder, words, dict(environment, LD_PRELOAD=options.library), given, drive))
        made, program, collector = recorded(options, words, environment, given, drive, file)
        own.append(program)
        beside.append(collector)
    base, program, collector = map(statistics.median, (plain, own, beside))
    print("%s: %s calls, %.2f bytes a call; CPU s plain %.2f (%.2f to %.2f), recorded %.2f (%.2f to %.2f: %+.1f %%), "
          "collector %.2f (%+.1f %%); lost %d, unknown %d, disorder %d" % (
              name, format(made["calls"], ","), made["file_bytes"] / max(made["calls"], 1), base, min(plain),
              max(plain), program, min(own), max(own), 100 * (program / base - 1), collector,
              100 * collector / base, made["lost"], made["unknown"], made["disorder"]))
    for label, library in [("itself", options.library)] + [peer.split("=", 1) for peer in options.peer]:
        result = replayed(options, file, library, options.paced)
        print("    on %-10s %.3f CPU s, peak %.1f MiB, resident over live at the end %.2f; %s" % (
            label, (result["user_us"] + result["system_us"]) / 1e6, result["peak_resident_bytes"] / (1 << 20),
            result["end_resident_bytes"] / max(result["end_live_bytes"], 1), closeness(result)), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("library")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--peer", action="append", default=[])
    parser.add_argument("--only")
    parser.add_argument("--paced", action="store_true")
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with tempfile.TemporaryDirectory() as folder:
        for case in cases():
            if not options.only or options.only in case[0]:
                measure(options, folder, *case)


if __name__ == "__main__":
    main()
