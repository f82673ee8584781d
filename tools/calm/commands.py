"""The commands of calm: one table, read by face.py and by `calm help`."""
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from typing import Any, Callable, List

import build
import testing
from trouble import Trouble


@dataclass
class Flag:
    name: str
    help: str
    default: Any = False


@dataclass
class Option:
    name: str
    metavar: str
    help: str
    default: Any = None


@dataclass
class Word:
    name: str
    metavar: str
    help: str = ""
    is_required: bool = True
    takes_rest: bool = False
    needs_dashes: bool = False  # is only what follows two dashes
    is_many: bool = False  # may stand several times; the last of the words
    default: Any = None


@dataclass
class Command:
    name: str
    help: str
    function: Callable
    parameters: List[Any] = field(default_factory=list)
    is_raw: bool = False  # takes its arguments unread
    is_hidden: bool = False
    needs_checkout: bool = False  # works on the sources
    brief: str = ""  # the usage in the list of commands, where the whole one is too long


def command_run(program, quiet, json, sizes):
    import run
    return run.start(program, quiet, json, sizes)


def command_report(arguments):
    import run
    return run.report(json.loads(arguments[0]))


def command_heap(rate, by, top, leaks, pprof, html, collapsed, seconds, process, profile, later, program):
    import heap
    request = heap.Request(rate, by, top, leaks, pprof, html, collapsed, seconds, process)
    if program:
        return heap.start(request, program, profile)
    return heap.read(request, profile, later)


def command_heap_report(arguments):
    import heap
    return heap.report(json.loads(arguments[0]))


def command_watch(arguments):
    import last_look
    return last_look.command(arguments)


def command_pool(action, file, classes, headroom, json):
    if action == "measure":
        import pool_measure
        return pool_measure.start(file, json)
    import pool
    return pool.start(action, file, classes, headroom, json)


def command_top(once, json, interval, record, pid):
    import top
    return top.start(pid, once, json, interval, record)


def command_timeline(begin, end, html, json, file):
    import timeline
    return timeline.start(file, begin, end, html, json)


def command_explain(json, map, subject, address):
    import explain
    return explain.start(subject, address, json, map)


def command_export(port, bind, textfile, interval, rate, pids):
    import export
    return export.start(pids, port, bind, textfile, interval, rate)


def command_translate(settings):
    import translate
    return translate.start(settings or [], build.ROOT)


def command_record(file, lib, children, hash_names, quiet, json, program):
    import record
    return record.start(file, lib, children, hash_names, quiet, json, program)


def command_replay(file, lib, paced, json, list):
    import record
    return record.replay(file, lib, paced, json, list)


def command_lib():
    path = build.library()
    if re.search(r"[\s:]", path):
        fix = "set CALM_BUILD_DIR to another folder" if build.IS_CHECKOUT else "install calmalloc in another folder"
        print("calm: this path holds a blank or a colon, which LD_PRELOAD cannot carry; %s." % fix, file=sys.stderr)
    print(path)


def command_install(prefix):
    prefix = os.path.abspath(os.path.expanduser(prefix))
    build.launcher()
    names = []
    for words, manifest in (([], "install_manifest.txt"), (["--component", "calm"], "install_manifest_calm.txt")):
        done = subprocess.run(["cmake", "--install", build.directory_of("lib"), "--prefix", prefix] + words, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode != 0:
            reason = next((line for line in done.stdout.splitlines() if "annot" in line or "ermission" in line), "")
            raise Trouble("nothing could be installed in '%s'. %s" % (prefix, reason.strip()))
        with open(os.path.join(build.directory_of("lib"), manifest)) as file:
            names += [line.strip() for line in file if line.strip()]
    for name in names:
        print(name)
    print("calm: installed %d files in %s; use find_package(calmalloc) or pkg-config calmalloc." %
          (len(names), prefix), file=sys.stderr)


def command_options():
    import options
    rows = [(one.name, one.default, one.values, one.is_anytime, one.help) for one in options.read(build.ROOT)]
    print('Options go into one variable: CALM_OPTIONS="name=value,name=value". Those marked * may also be set while\n'
          "the program runs.\n")
    widths = [max(len(row[column]) for row in rows + [("option", "default", "values")]) for column in range(3)]
    print("  %-*s   %-*s  %-*s  meaning" % (widths[0], "option", widths[1], "default", widths[2], "values"))
    for name, default, values, is_anytime, words in rows:
        print("  %-*s %s %-*s  %-*s  %s" % (widths[0], name, "*" if is_anytime else " ", widths[1], default, widths[2],
                                            values, words))


def sources(*kinds):
    """Our C and C++ files."""
    found = []
    for top in ("src", "include", "tests", "bench", "tools"):
        for folder, _, names in os.walk(os.path.join(build.ROOT, top)):
                found += [os.path.join(folder, name) for name in names if name.endswith(kinds)]
    return sorted(found)


def need_tool(name, package):
    if shutil.which(name) is None:
        raise Trouble("%s is missing; apt-get install %s brings it." % (name, package))


def command_format(check):
    need_tool("clang-format-19", "clang-format-19")
    mode = ["--dry-run", "--Werror"] if check else ["-i"]
    files = sources(".c", ".h", ".cpp")
    # A line that is broken once may be broken better the second time.
    for _ in range(1 if check else 2):
        code = subprocess.run(["clang-format-19"] + mode + files, cwd=build.ROOT).returncode
    if code != 0:
        raise Trouble("some files are not formatted; `calm format` formats them.")
    print("calm: %d files %s." % (len(files), "are formatted" if check else "formatted"), file=sys.stderr)


def command_lint(filter):
    need_tool("clang-tidy-19", "clang-tidy-19")
    build.need_for_tests("clang")
    folder = build.directory_of("clang")
    if subprocess.run(build.configure_command("clang"), cwd=build.ROOT, stdin=subprocess.DEVNULL,
                      stdout=subprocess.DEVNULL).returncode != 0:
        raise Trouble("configuring the preset 'clang' failed; `calm test --preset clang` shows why.")
    files = [path for path in sources(".c") if os.sep + "src" + os.sep in path and (not filter or filter in path)]
    if not files:
        raise Trouble("no source file's path contains '%s'." % filter)
    code = subprocess.run(["clang-tidy-19", "--quiet", "-p", folder] + files, cwd=build.ROOT).returncode
    if code != 0:
        raise Trouble("clang-tidy found something; it is above.")
    print("calm: %d files are clean." % len(files), file=sys.stderr)


def command_bench(arguments):
    script = os.path.join(build.ROOT, "bench", "calm_bench.py")
    if not os.path.exists(script):
        raise Trouble("this tree has no benchmarks.")
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, script] + list(arguments))


def command_sim(arguments):
    simulator = build.simulator()
    sys.stdout.flush()
    os.execv(simulator, [simulator] + list(arguments))


def command_docs(words):
    if words:
        import docs_search
        return docs_search.start(words, build.ROOT)
    import site_builder
    return site_builder.start()


def command_mq(arguments):
    server = build.queue_server()
    sys.stdout.flush()
    os.execv(server, [server] + list(arguments))


def command_version():
    path = os.path.join(build.ROOT, "include", "calmalloc", "calmalloc.h")
    with open(path) as file:
        parts = re.findall(r"^#define CALM_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", file.read(), re.M)
    print("calmalloc " + ".".join(parts))


def command_help(command):
    import face
    if command:
        if command not in COMMANDS:
            raise Trouble("there is no command '%s'; `calm help` lists them." % command, 2)
        print(face.help_text(COMMANDS[command]))
        return
    shown = [entry for entry in COMMANDS.values()
             if not entry.is_hidden and (build.IS_CHECKOUT or not entry.needs_checkout)]
    print("calmalloc is a memory allocator for Linux. calm puts it under your programs.\n")
    width = max(length for length in (len(entry.brief or face.usage(entry)) for entry in shown) if length <= 32)
    for entry in shown:
        words = entry.brief or face.usage(entry)
        if len(words) > width:
            print("  calm %s\n       %-*s  %s" % (words, width, "", entry.help.split("\n")[0]))
        else:
            print("  calm %-*s  %s" % (width, words, entry.help.split("\n")[0]))
    print("\n`calm help COMMAND` says more." + (
        " Builds go to build/, or to the folder that CALM_BUILD_DIR names." if build.IS_CHECKOUT else ""))


COMMANDS = {entry.name: entry for entry in (
    Command("run", "Runs PROGRAM on calmalloc and reports memory afterwards.\n\n"
            "PROGRAM keeps its standard input, output and error, its exit code and its signals. The report goes to\n"
            "standard error. Exit codes of calm itself: 127 PROGRAM is not found; 126 it is not executable, or cannot\n"
            "load calmalloc (static, set-uid, 32-bit); 2 wrong usage; 1 calmalloc cannot be built.", command_run, [
                Flag("quiet", "print no report"),
                Option("json", "FILE", "write the whole report to FILE as JSON"),
                Option("sizes", "FILE", "record in FILE how many blocks of each size are alive at most; slower"),
                Word("program", "PROGRAM", takes_rest=True)]),
    Command("heap", "Shows what holds the heap of PROGRAM, by the place in its source.\n\n"
            "PROGRAM runs as under `calm run`; the table goes to standard error when it ends. Without PROGRAM, a\n"
            "PROFILE is read instead: one that --pprof wrote, or another program's in the pprof format. With LATER,\n"
            "the growth from PROFILE to LATER is shown. A PID in place of PROFILE is a process that runs already on\n"
            "calmalloc: it is sampled for a while, and left as it was. Exit codes are those of `calm run`.",
            command_heap, [
                Option("rate", "KIB", "one sample for each KIB of 1024 bytes on average, else 256, of a PID 512; less "
                       "is finer and slower"),
                Option("by", "ORDER", "inuse: what is live at the end; alloc: all that was ever allocated; peak: what "
                       "was live at the largest of some looks", "inuse"),
                Option("top", "N", "show the N largest; 0 shows all; else 20, or what a terminal has room for"),
                Flag("leaks", "show whole stacks of what is live at the end"),
                Option("pprof", "FILE", "keep the profile in FILE, for pprof and for comparing"),
                Option("html", "FILE", "write a page with a flame graph, with LATER of what changed"),
                Option("collapsed", "FILE", "write one line a stack, for other flame graph tools"),
                Option("seconds", "S", "how long to sample PID; else until Enter, or 10 where nobody can press it"),
                Option("process", "P", "show a child of PROGRAM instead: its number, its program's name, or all"),
                Word("profile", "PROFILE|PID", "a profile to read, or a process to sample", is_required=False),
                Word("later", "LATER", "a later one, to compare with", is_required=False),
                Word("program", "PROGRAM", is_required=False, takes_rest=True, needs_dashes=True)],
            brief="heap [OPTIONS] -- PROGRAM ARGS... | PID | PROFILE [LATER]"),
    Command("pool", "Proposes a pool's classes: calm pool plan FILE; or measures it: calm pool measure [CONFIG].\n\n"
            "plan: FILE is what `calm run --sizes FILE` recorded, or has lines 'SIZE PEAK'. The classes lose the\n"
            "fewest bytes to rounding when all sizes are at their peaks, and have as many blocks as those need.\n"
            "measure: a pool is driven through its states on purpose; shows what its calls take here, warm and with\n"
            "caches flushed, beside the instructions and lines that calm_pool_bound computed, and what of this\n"
            "machine's settings stands in the way. CONFIG has lines 'SIZE BLOCKS'.", command_pool, [
                Option("classes", "N", "so many classes; otherwise as few as lose at most 5 % more than 64 would"),
                Option("headroom", "PERCENT", "so many more blocks than the peaks need", "10"),
                Flag("json", "print JSON instead of the table"),
                Word("action", "plan|measure"),
                Word("file", "FILE", "sizes and their peaks, or numbers of blocks", is_required=False)],
            brief="pool plan FILE | measure [CONFIG]"),
    Command("top", "Shows what a running process holds: by call site, by size, in caches; and its RSS.\n\n"
            "The process needs nothing but calmalloc in it, and is neither stopped nor changed. On a terminal the\n"
            "page is drawn anew until q or Ctrl-C; elsewhere there is one page. When the process ends, a line\n"
            "says so. Keys: s sorts by the next column, / filters sites, f freezes the page, q ends.",
            command_top, [
                Flag("once", "one page, then end"),
                Flag("json", "one JSON object a refresh; with --once, one"),
                Option("interval", "SECONDS", "between refreshes", "1"),
                Option("record", "FILE", "write each look to FILE, for `calm timeline`; without a terminal, only that"),
                Word("pid", "PID", "the process's number")]),
    Command("timeline", "Shows what a process held over time, of what `calm top --record FILE` wrote.\n\n"
            "RSS and its parts over time, and who grew and who shrank between two moments, as bars; the page has a\n"
            "flame graph of that as well, where the profiler was on. Without --begin and --end: the first look and\n"
            "the last one.",
            command_timeline, [
                Option("begin", "SECONDS", "compare from this moment, in seconds after the first look"),
                Option("end", "SECONDS", "compare to this one"),
                Option("html", "FILE", "write a page on which two moments can be chosen"),
                Flag("json", "one JSON object; sizes are bytes"),
                Word("file", "FILE", "the recording")],
            brief="timeline [OPTIONS] FILE"),
    Command("explain", "Says why a process's memory is where it is, and what would lower it; or what an ADDRESS is.\n\n"
            "The process needs nothing but calmalloc in it, and is neither stopped nor changed. A core file that the\n"
            "kernel or gcore wrote does as well, without symbols. With ADDRESS: what is there, a block or not.",
            command_explain, [
                Flag("json", "one JSON object; sizes are bytes"),
                Option("map", "FILE.html", "write a page that draws the heap's slabs by how full they are"),
                Word("subject", "PID|CORE", "the process's number, or a core file"),
                Word("address", "ADDRESS", "a number, such as 0x7f12a0", is_required=False)],
            brief="explain [OPTIONS] PID|CORE [ADDRESS]"),
    Command("export", "Serves the memory of running processes to Prometheus, Pyroscope, Parca and the like.\n\n"
            "/metrics has the numbers of each PID. /debug/pprof/heap and /debug/pprof/allocs have its profile by\n"
            "stack, under /PID when there are several; whoever asks for one switches the profiler of that process on.\n"
            "With --textfile the numbers go to FILE instead, for node exporter; a reader never finds a part of them.\n"
            "Of a process that has ended calmalloc_up is 0, and nothing else is left.",
            command_export, [
                Option("port", "N", "serve at this port; 0 takes a free one"),
                Option("bind", "ADDRESS", "serve there, not to this machine alone; nobody is asked who he is",
                       "127.0.0.1"),
                Option("textfile", "FILE", "write the numbers to FILE once, or as --interval says"),
                Option("interval", "SECONDS", "write FILE anew so often, until no PID is left"),
                Option("rate", "KIB", "of profiles: one sample for each KIB of 1024 bytes on average", "512"),
                Word("pids", "PID", "the processes' numbers", is_many=True)],
            brief="export --port N | --textfile FILE PID..."),
    Command("record", "Writes every request that PROGRAM makes to a file, for `calm replay`.\n\n"
            "PROGRAM keeps its standard input, output and error, its exit code and its signals. The file holds\n"
            "threads, call sites, sizes, alignments and the order of the calls, and none of the contents of memory.\n"
            "What PROGRAM becomes by exec is written to FILE.2 and so on.",
            command_record, [
                Option("file", "FILE", "where to", "calm.record"),
                Option("lib", "LIB", "the allocator under PROGRAM: a library's path, or glibc; else calmalloc"),
                Flag("children", "also record the programs that PROGRAM starts, in FILE.2 and so on"),
                Flag("hash_names", "hash the names of program and modules, with a salt that nobody keeps"),
                Flag("quiet", "print no report"),
                Option("json", "FILE", "write what was recorded to FILE, one JSON object a line"),
                Word("program", "PROGRAM", takes_rest=True)]),
    Command("replay", "Repeats what `calm record` wrote, on calmalloc or another allocator; reports time and RSS.\n\n"
            "As many threads as the program had make the same calls. A thread waits for another where a block passes\n"
            "between them, and for all every 16,384 calls. docs/replay.md says what is modelled and what is not.",
            command_replay, [
                Option("lib", "LIB", "the allocator: a library's path, or glibc; else calmalloc"),
                Flag("paced", "at the program's own speed, for allocators that give memory back with time"),
                Flag("json", "print JSON instead of the report"),
                Flag("list", "print the calls, and repeat nothing"),
                Word("file", "FILE", "the recording")]),
    Command("lib", "Prints the path of the preloadable library: LD_PRELOAD=$(calm lib) PROGRAM.", command_lib),
    Command("install", "Installs headers, libraries, CMake package, pkg-config files, man pages and calm.",
            command_install, [Word("prefix", "PREFIX", "where to, for example /usr/local")], needs_checkout=True),
    Command("test", "Builds and runs the tests.\n\n"
            "With FILTER, only what the tests need whose names match is built. A test whose tool is missing is\n"
            "skipped, and named at the end.", testing.command_test, [
                Flag("full", "also the slow ones and those that need many programs installed"),
                Option("preset", "PRESET", "one of " + ", ".join(build.PRESETS), "release"),
                Option("skip", "PATTERN", "a regular expression; not the tests whose names match"),
                Flag("list", "print the names of the tests, and run none"),
                Flag("setup", "install what the tests need, with --full for all; asks before it uses root"),
                Flag("yes", "with --setup: do not ask"),
                Word("filter", "FILTER", "a regular expression, whatever the case; only tests whose names match",
                     is_required=False)],
            needs_checkout=True),
    Command("bench", "Measures calmalloc against its peers; `calm bench --help` says how.", command_bench, is_raw=True,
            needs_checkout=True),
    Command("sim", "Simulates the executor under a dispatch policy; `calm sim --help` lists the options.", command_sim,
            is_raw=True, brief="sim --policy P [OPTIONS]"),
    Command("mq", "Starts a queue server that speaks the Redis protocol; `calm mq --help` lists the options.",
            command_mq, is_raw=True, brief="mq [OPTIONS]"),
    Command("options", "Lists what CALM_OPTIONS understands.", command_options),
    Command("translate", "Says what another allocator's settings are here, and prints a line for CALM_OPTIONS.\n\n"
            "SETTINGS are the text of MALLOC_CONF or GLIBC_TUNABLES, NAME=VALUE of MIMALLOC_*, TCMALLOC_*, MALLOC_*,\n"
            "or a name of mallctl. Without them, what the environment has. docs/coming-from.md is the whole list.",
            command_translate, [
                Word("settings", "SETTINGS", "for example \"$MALLOC_CONF\"", is_required=False, is_many=True)]),
    Command("format", "Formats the C and C++ sources.", command_format, [
        Flag("check", "change nothing, fail when something would change")], needs_checkout=True),
    Command("lint", "Runs clang-tidy over the library.", command_lint, [
        Word("filter", "PART", "only files whose path contains this", is_required=False)], needs_checkout=True),
    Command("docs", "Finds WORD in the documentation; without one, builds it as a site and prints its first page.\n\n"
            "Of several WORDs all are to be there. The sections that have them in their headings come first.",
            command_docs, [
                Word("words", "WORD", "whatever its case", is_required=False, is_many=True)], needs_checkout=True),
    Command("version", "Prints the version.", command_version),
    Command("help", "Shows this, or more about one command.", command_help, [
        Word("command", "COMMAND", is_required=False)]),
    Command("_report", "", command_report, is_raw=True, is_hidden=True),
    Command("_heap_report", "", command_heap_report, is_raw=True, is_hidden=True),
    Command("_watch", "", command_watch, is_raw=True, is_hidden=True),
)}
