"""`calm run`: starts PROGRAM on calmalloc and reports afterwards.

The work is split in two by an exec, so that PROGRAM is not started from Python: start() becomes calm_launch, and that
becomes report(). The process id, the descriptors and the terminal stay the same. See tools/launch/calm_launch.c for
signals and for why peak memory needs this. Beside a PROGRAM that is to be reported on, last_look.py looks at it, for
the case that it does not end as programs should.
"""
import fcntl
import json
import os
import re
import resource
import shutil
import signal
import sys
import tempfile

import build
import last_look
import program
import say
from trouble import Trouble

CLASSES_SHOWN = 5
COUNTED = ("foreign_frees", "misuses", "failed_calls", "failed_os_calls", "large_blocks")
MEMORY_FILE_BYTES_MAX = 1 << 28  # PROGRAM can write into the files that its reports go to


def start(words, quiet=False, json_path=None, sizes_path=None):
    path = program.find(words[0])
    program.check(path)
    for written in (json_path, sizes_path):
        if written is not None:
            check_writable(written)
    if sizes_path is not None:
        os.environ["CALM_SIZES"] = os.path.abspath(sizes_path)
    watch = None if quiet and json_path is None else "heap"
    become(path, words, [], "_report", {"quiet": quiet, "json": json_path}, watch,
           has_recorder=sizes_path is not None)


def become(path, words, options, reporter_command, plan, watch, has_recorder=False):
    """Becomes PROGRAM's launcher, which becomes the command `reporter_command` with `plan` when PROGRAM has ended.
    The plan gains where the reports are. `options` go to calmalloc. `watch`: what is looked at meanwhile, "heap" or
    "profile", or None. `has_recorder`: the recorder of sizes comes first.
    """
    launch, library = build.launcher(), build.library()
    safe_folder = None
    preloaded = [build.recorder()] * has_recorder + [library]
    if any(mark in library for mark in " :\t\n"):  # LD_PRELOAD would be cut in two there
        safe_folder = tempfile.mkdtemp(prefix="calmalloc-", dir="/tmp")
        for index, real in enumerate(preloaded):
            preloaded[index] = os.path.join(safe_folder, os.path.basename(real))
            os.symlink(real, preloaded[index])

    report_fd = shared_descriptor("calm-report")
    result_fd = shared_descriptor("calm-result")
    state_fd = last_look.create() if watch else None
    plan = dict(plan, words=words, path=path, report_fd=report_fd, result_fd=result_fd, state_fd=state_fd,
                folder=safe_folder)
    prefix = ["-X", "pycache_prefix=" + sys.pycache_prefix] if sys.pycache_prefix else []
    isolated = ["-I"] if sys.flags.isolated else []  # else what the reporter imports may be the user's own install
    calm = [sys.executable, *isolated, *prefix, os.path.dirname(__file__)]
    reporter = calm + [reporter_command, json.dumps(plan)]
    watcher = calm + ["_watch", str(state_fd), watch] if watch else []
    preload = ":".join(preloaded + [part for part in [os.environ.get("LD_PRELOAD")] if part])
    given = os.environ.get("CALM_OPTIONS")
    options = ([given] if given else []) + options + ["report_fd=%d" % report_fd]
    sys.stdout.flush()
    # Python ignores these two; PROGRAM must find them as a shell would leave them.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    try:
        os.execv(launch, [launch] + (["--watcher", str(state_fd), str(len(watcher))] + watcher if watch else []) +
                 [str(result_fd), preload, ",".join(options), str(len(reporter))] + reporter + [path] + words)
    except OSError as error:
        raise Trouble("'%s' cannot be started: %s." % (words[0], error.strerror), program.CANNOT_RUN) from None


def check_writable(path):
    """A file that is not there yet is not there afterwards either: it may be that nothing is to be written."""
    try:
        is_new = not os.path.lexists(path)
        with open(path, "a"):
            pass
        if is_new:
            os.unlink(path)
    except OSError as error:
        raise Trouble("the report cannot be written to '%s': %s." % (path, error.strerror)) from None


def shared_descriptor(name, is_appended=True):
    """A memory file that survives exec, numbered high so that PROGRAM's own descriptors keep their usual numbers."""
    low = os.memfd_create(name, 0)
    limit = min(resource.getrlimit(resource.RLIMIT_NOFILE)[0], 1024)
    high = fcntl.fcntl(low, fcntl.F_DUPFD, max(3, limit - 24))
    os.close(low)
    if is_appended:
        fcntl.fcntl(high, fcntl.F_SETFL, fcntl.fcntl(high, fcntl.F_GETFL) | os.O_APPEND)
    return high


def others_with(descriptor):
    """The other processes that have the memory file open by the same number: what PROGRAM left behind."""
    wanted, found = os.fstat(descriptor), []
    for pid in (int(name) for name in os.listdir("/proc") if name.isdecimal()):
        try:
            here = os.stat("/proc/%d/fd/%d" % (pid, descriptor))
        except OSError:
            continue
        if (here.st_dev, here.st_ino) == (wanted.st_dev, wanted.st_ino) and pid != os.getpid():
            found.append(pid)
    return sorted(found)


def read_all(descriptor):
    """What is in a memory file, which is then closed."""
    with os.fdopen(descriptor, "rb") as file:
        file.seek(0)
        return file.read(MEMORY_FILE_BYTES_MAX)


def read_lines(descriptor):
    """The JSON objects in the memory file, one a line. A line that was cut short is left out."""
    found = []
    for text in read_all(descriptor).decode(errors="replace").splitlines():
        try:
            value = json.loads(text)
        except ValueError:
            continue
        if isinstance(value, dict):
            found.append(value)
    return found


def outcome(plan):
    """How PROGRAM ended, the heaps that it and its children described, and what was seen of those that did not, or
    None where nobody looked."""
    results = read_lines(plan["result_fd"])
    heaps = read_lines(plan["report_fd"])
    if plan["folder"]:
        shutil.rmtree(plan["folder"], ignore_errors=True)
    result = {key: value for line in results for key, value in line.items()}
    if "exec_errno" in result:
        code = program.NOT_FOUND if result["exec_errno"] == 2 else program.CANNOT_RUN
        raise Trouble("'%s' cannot be started: %s." % (plan["words"][0], os.strerror(result["exec_errno"])), code)
    if "status" not in result:
        raise Trouble("'%s' could not be measured." % plan["words"][0], program.CANNOT_RUN)
    return result, heaps, last_look.LastLook(plan["state_fd"], result) if plan["state_fd"] is not None else None


def report(plan):
    """Runs after PROGRAM has ended, then ends the way PROGRAM did."""
    result, heaps, seen = outcome(plan)
    summary = summarise(plan["words"], result, heaps, seen)
    try:
        if not plan["quiet"]:
            tell(summary)
        if plan["json"] is not None:
            with open(plan["json"], "w") as file:
                json.dump(summary, file, indent=2)
                file.write("\n")
    except BrokenPipeError:
        pass
    except OSError as error:
        say.line("calm: the report cannot be written to '%s': %s." % (plan["json"], error.strerror))
    end_as(result["status"])


def summarise(words, result, heaps, seen):
    status = result["status"]
    own = heap_of(heaps, result["pid"])
    others = [heap for heap in heaps if heap.get("pid") != result["pid"]]
    killed = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
    warnings = []
    if own is None and seen is not None and seen.own() is not None:
        own = last_heap(seen, seen.own())
        warnings.append("the heap is what was seen from outside %s" % seen.words(seen.own()))
    elif own is None:
        if killed is not None:
            warnings.append("the program was killed before its heap could be described%s" % unseen(seen))
        else:
            warnings.append("the program never loaded calmalloc, or left by _exit or exec of a program that did not, "
                            "or closed descriptor reports go to: its heap is unknown")
    if seen is not None:
        known = {heap.get("pid") for heap in heaps}
        others += [last_heap(seen, state) for state in seen.others(known)]
        if seen.refused and not seen.trouble:
            warnings.append("%s could not be looked at: %s" % (
                say.count(len(seen.refused), "child", "children"), seen.refused[0]))
    return {
        "program": words,
        "exit_code": os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
        "signal": signal_name(killed) if killed is not None else None,
        "elapsed_us": result["elapsed_us"],
        "user_us": result["user_us"],
        "system_us": result["system_us"],
        "peak_rss_bytes": result["peak_rss_bytes"],
        "minor_faults": result["minor_faults"],
        "major_faults": result["major_faults"],
        "heap": own,
        "children": others,
        "warnings": warnings,
    }


def heap_of(heaps, pid):
    """The heap of one process, or None. Of a program that has calmalloc linked and preloaded it is the larger one of
    its two heaps, with what both of them counted."""
    found = sorted((heap for heap in heaps if heap.get("pid") == pid), key=live_bytes)
    if len(found) < 2:
        return found[0] if found else None
    both = dict(found[-1])
    for field, value in both.items():
        if isinstance(value, int) and (field.endswith("_bytes") or field in COUNTED):
            both[field] = total(found, field)
    return both


def last_heap(seen, state):
    return dict(state["heap"], seconds_before_end=round(seen.age(state), 3))


def unseen(seen):
    """Why nothing was seen of a program that wrote no report, as the end of a sentence."""
    if seen is None:
        return ""
    if seen.trouble is not None:
        return ", and was not seen: " + seen.trouble[0].rstrip(".")
    return ", and before calm had looked at it; that takes some tenths of a second"


def signal_name(number):
    try:
        return signal.Signals(number).name
    except ValueError:
        return "signal %d" % number


def live_bytes(heap):
    return max(0, heap.get("allocated_bytes", 0) - heap.get("cached_bytes", 0))


def total(heaps, field):
    return sum(heap.get(field, 0) for heap in heaps)


def show(summary):
    ended = ("killed by " + summary["signal"] if summary["signal"] else "exit code %d" % summary["exit_code"])
    rows = [
        ("time", "%.2f s (user %.2f, system %.2f), %s" % (summary["elapsed_us"] / 1e6, summary["user_us"] / 1e6,
                                                         summary["system_us"] / 1e6, ended)),
        ("peak RSS", say.amount(summary["peak_rss_bytes"])),
        ("page faults", "%s minor, %s major" % (format(summary["minor_faults"], ","),
                                                format(summary["major_faults"], ","))),
    ]
    heap, children = summary["heap"], summary["children"]
    if heap is not None:
        is_last = "seconds_before_end" in heap
        rows.append(("live last" if is_last else "live at exit", say.amount(live_bytes(heap)) + blocks_of(heap)))
        if is_last:
            rows.append(("RSS last", say.amount(heap["rss_bytes"])))
        else:
            rows.append(("heap at exit", "%s resident, %s in use by slabs and large blocks" % (
                say.amount(heap.get("resident_bytes", 0)), say.amount(heap.get("active_bytes", 0)))))
        for index, words in enumerate(holders(heap)[:CLASSES_SHOWN]):
            rows.append(("held most by" if index == 0 else "", words))
        rows += cohorts(heap)
        if heap.get("overflow_sites"):
            rows.append(("not apart", say.overflow(heap["overflow_sites"])))
    if children:
        rows.append(("children", "%s reported, %s live in total" % (
            say.count(len(children), "process", "processes"), say.amount(sum(live_bytes(c) for c in children)))))
    heaps = [one for one in ([heap] if heap is not None else []) + children if "seconds_before_end" not in one]
    if heaps:
        rows.append(("counted", counted(heaps)))
        limits = re.findall(r"\b(?:limit_mb=[1-9]\d*|limit=cgroup)", os.environ.get("CALM_OPTIONS", ""))
        if total(heaps, "failed_calls") and limits:
            rows.append(("", "%s is set, beyond which calls fail" % limits[-1]))
    rows += [("warning", warning) for warning in summary["warnings"]]
    say.pairs("calmalloc: " + " ".join(summary["program"])[:100], rows)


def holders(heap):
    """What holds the most live bytes, a line each, the largest first."""
    found = [(entry["live_bytes"], "%s in %s of %s" % (
        say.amount(entry["live_bytes"]), say.count(entry.get("live_blocks", 0), "block"), say.amount(entry["bytes"])))
        for entry in heap.get("classes", []) if entry.get("live_bytes")]
    if heap.get("large_bytes"):
        found.append((heap["large_bytes"], "%s in %s" % (
            say.amount(heap["large_bytes"]), say.count(heap.get("large_blocks", 0), "large block"))))
    return [words for _, words in sorted(found, reverse=True)]


def cohorts(heap):
    """A row about the call sites that share slabs, where there is more than one group of them."""
    found = [entry for entry in heap.get("by_cohort", []) if not entry.get("is_sampled")]
    if len(found) < 2:
        return []
    largest = found[0]
    return [("cohorts", "%d; the largest holds %s in %s, of which %s cached" % (
        len(found), say.amount(largest["allocated_bytes"]), say.count(largest["allocated_blocks"], "block"),
        say.amount(largest["cached_bytes"])))]


def blocks_of(heap):
    blocks = sum(entry.get("live_blocks", 0) for entry in heap.get("classes", [])) + heap.get("large_blocks", 0)
    return " in " + say.count(blocks, "block") if blocks else ""


def counted(heaps):
    fields = (("foreign_frees", "foreign free", None), ("misuses", "misuse", None),
              ("failed_calls", "failed call", None), ("failed_os_calls", "failed kernel call", None))
    found = [say.count(total(heaps, field), noun, plural) for field, noun, plural in fields if total(heaps, field)]
    return ", ".join(found) if found else "nothing: no foreign free, no misuse, no failed call"


def tell(summary):
    try:
        show(summary)
    except OSError:
        pass  # nobody gets it; PROGRAM's end is told all the same


def end_as(status):
    """Ends this process as PROGRAM ended: with its code, or by its signal, without a core file of our own."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            pass  # it is full, or nobody reads it
    if os.WIFEXITED(status):
        os._exit(os.WEXITSTATUS(status))
    number = os.WTERMSIG(status)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        signal.signal(number, signal.SIG_DFL)
    except (OSError, ValueError):
        pass
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)
    os._exit(128 + number)
