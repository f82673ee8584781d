"""`calm record`: writes what PROGRAM asks of its allocator to a file that `calm replay` repeats."""
import json
import os
import subprocess
import sys

import build
import program
import say
from trouble import Trouble

ROWS_SHOWN = 12
GLIBC = "glibc"


def library_of(name):
    """What is preloaded for `--lib`: calmalloc for None, nothing for glibc."""
    own = build.library()
    if name is None:
        return own
    if name == GLIBC:
        return ""
    path = os.path.abspath(os.path.expanduser(name))
    if not os.path.isfile(path):
        raise Trouble("'%s' is no file; --lib takes the path of a library, or glibc." % name, 2)
    if not program.is_shared_library(path):
        raise Trouble("'%s' is no shared library of this machine's kind, so nothing would be preloaded; --lib takes "
                      "the path of one, or glibc." % name, 2)
    return path


def preload_of(*libraries):
    found = [path for path in libraries if path]
    for path in found:
        if any(mark in path for mark in " :\t\n"):
            raise Trouble("'%s' holds a blank or a colon, which LD_PRELOAD cannot carry." % path)
    return found


def start(file, lib, children, hash_names, quiet, json_path, words):
    path = program.find(words[0])
    program.check(path)
    library = library_of(lib)
    preload = preload_of(build.made("libcalm_record.so"), library)
    preload += [os.environ["LD_PRELOAD"]] if os.environ.get("LD_PRELOAD") else []
    collector = build.made("calm_record")
    options = ["--children"] * children + ["--hash-names"] * hash_names + ["--quiet"] * quiet
    options += ["--json", json_path] if json_path else []
    sys.stdout.flush()
    os.execv(collector, [collector] + options + [file, ":".join(preload), path] + words)


def replay(file, lib, paced, as_json, as_list):
    library = library_of(lib)
    environment = dict(os.environ, LD_PRELOAD=":".join(preload_of(library)))
    if not library:
        del environment["LD_PRELOAD"]
    command = [build.made("calm_replay")] + ["--paced"] * paced + ["--list"] * as_list + [file]
    if as_list:
        sys.stdout.flush()
        os.execve(command[0], command, environment)
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE)
    if done.returncode < 0:
        raise Trouble("the replay on %s was killed by signal %d." % (name_of(library), -done.returncode))
    if done.returncode != 0:
        return done.returncode
    made = json.loads(done.stdout)
    made["library"] = name_of(library)
    made["compared"] = compared(made["samples"])
    if as_json:
        print(json.dumps(made, indent=1))
    else:
        show(made)
    return 0


def name_of(library):
    return os.path.basename(library) if library else GLIBC


def compared(samples):
    """The replay's resident heap against the program's, where both were looked at and the program's was 1 MiB."""
    pairs = [(one["resident_bytes"], one["program_resident_bytes"]) for one in samples
             if one.get("program_resident_bytes", 0) >= 1 << 20]
    if not pairs:
        return None
    off = sorted(abs(own - theirs) / theirs for own, theirs in pairs)
    peaks = [max(column) for column in zip(*pairs)]
    return {"looks": len(pairs), "median_off": off[len(off) // 2], "worst_off": off[-1],
            "peak_off": peaks[0] / peaks[1] - 1, "program_peak_bytes": peaks[1]}


def show(made):
    rows = [("calls", "%s by %s from %s%s" % (
        format(made["calls"], ","), say.count(made["threads"], "thread"), say.count(made["sites"], "site"),
        "" if made["is_whole"] else "; the recording was cut short"))]
    seconds = (made["user_us"] + made["system_us"]) / 1e6
    rows.append(("time", "%.3f s of CPU (%.3f s in the kernel), %.3f s elapsed; %.1f ns of CPU a call" % (
        seconds, made["system_us"] / 1e6, made["elapsed_us"] / 1e6, seconds * 1e9 / max(made["calls"], 1))))
    rows.append(("peak", "%s of heap resident; at most %s live" % (
        say.amount(made["peak_resident_bytes"]), say.amount(made["peak_live_bytes"]))))
    if made["peak_live_bytes"] > made["peak_resident_bytes"]:
        rows[-1] = ("peak", rows[-1][1] + ": the peak was between two looks")
    worst = max(made["samples"], key=lambda one: one["resident_bytes"])
    rows.append(("fragmentation", "%.2f at the peak: resident over live%s" % (
        worst["resident_bytes"] / max(worst["live_bytes"], 1), at_end(made))))
    rows.append(("the program's", words_of(made["compared"])))
    for count, words in ((made["failed"], "requests were refused by the allocator"),
                         (made["unknown"], "frees are not in the file: their requests were not seen"),
                         (made["disorder"], "blocks end where their address is next used: their frees were not seen"),
                         (made["lost"], "calls were lost when it was recorded")):
        if count:
            rows.append(("warning", "%s %s" % (format(count, ","), words)))
    say.pairs("calm: replayed %s on %s" % (made["program"], made["library"]), rows, sys.stdout)
    table(made["samples"])


def at_end(made):
    return "; %s resident and %s live at the end" % (
        say.amount(made["end_resident_bytes"]), say.amount(made["end_live_bytes"]))


def words_of(compared):
    if compared is None:
        return "resident heap was not seen: it was too small, or ended too soon"
    return "peak %s; this replay is %+.1f %% of that, and %.1f %% off in the median of %s" % (
        say.amount(compared["program_peak_bytes"]), 100 * compared["peak_off"], 100 * compared["median_off"],
        say.count(compared["looks"], "look"))


def table(samples):
    step = max(1, (len(samples) + ROWS_SHOWN - 1) // ROWS_SHOWN)
    shown = samples[::-1][::step][::-1]
    rows = [[format(one["calls"], ","), say.amount(one["live_bytes"]), say.amount(one["resident_bytes"]),
             say.amount(one["program_resident_bytes"]) if "program_resident_bytes" in one else "-"] for one in shown]
    say.table(["calls", "live", "resident", "in the program"], rows, sys.stdout, left=0)
