"""Ways in which people build: each makes a program that runs, whose heap the tools find from outside, and of which
compilers and linkers have nothing to say.

    builds_test.py one_file quick|full       the one-file form, by levels, hardening, link-time optimisation and linkers
    builds_test.py cmake quick|full FOLDER   the targets of CMake, and programs that link the static library

What a compiler or a linker is missing for is named, and the rest runs. Seen to fail: with the note of facts made by
assembly outside functions, which names the table (all of link-time optimisation by gcc); with vfork.c compiled as the
rest (the shared library); with sealing that knows nothing of link-time optimisation (the static one); with the note in
a section that is not a note's (--gc-sections).
"""
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass

from support import HERE, ROOT, run

sys.path.append(os.path.join(ROOT, "tools", "calm"))
sys.dont_write_bytecode = True

from trouble import Trouble  # noqa: E402
from watched import STARTED, Watched  # noqa: E402

BLOCKS, BLOCK_BYTES = 5000, 1000  # as built.c and built.cpp have them
RATE_BYTES = 1 << 16
SOON_S = 20
PACKAGES = {"clang-19": "clang-19", "ld.gold": "binutils", "ld.lld-19": "lld-19", "mold": "mold",
            "LLVMgold.so": "llvm-19-linker-tools", "llvm-ar-19": "llvm-19"}
LINKERS = {"bfd": "ld.bfd", "gold": "ld.gold", "lld": "ld.lld-19", "mold": "mold"}
LLVM_PLUGIN = "/usr/lib/llvm-19/lib/LLVMgold.so"
WARN = ("-Wall", "-Wextra")
HARD = ("-D_FORTIFY_SOURCE=3", "-fcf-protection", "-fstack-clash-protection", "-fstack-protector-strong")
SECTIONS = ("-O2", "-ffunction-sections", "-fdata-sections")
# What gcc says of -flto without a number of jobs, whatever it compiles.
SERIAL = re.compile(r"^lto-wrapper: (warning: using serial compilation|note: see the .-flto. option).*\n", re.M)

FULL, QUICK = "full", "quick"


@dataclass(frozen=True)
class Build:
    """Compiler and options of the one-file form's object and of the program; a linker, or the compiler's own."""
    compiler: str
    options: tuple
    linker: str = ""
    link: tuple = ()

    def __str__(self):
        return " ".join((self.compiler, *self.options, *self.link, *(["-fuse-ld=" + self.linker] if self.linker else
                                                                     [])))

    def is_lto(self):
        return any(word.startswith("-flto") for word in self.options)

    def missing(self):
        """The program that this machine lacks for it, or an empty word."""
        for program in (self.compiler, LINKERS.get(self.linker, "")):
            if program and shutil.which(program) is None:
                return program
        if self.compiler == "clang-19" and self.is_lto() and self.linker != "lld" and not os.path.exists(LLVM_PLUGIN):
            return "LLVMgold.so"
        return ""


def builds(speed):
    """Those of the quick tests, or all others."""
    quick = [
        Build("gcc", ("-O0",)), Build("gcc", ("-Os",)), Build("gcc", ("-O2",) + HARD),
        *(Build("gcc", SECTIONS, linker, ("-Wl,--gc-sections",)) for linker in LINKERS),
        Build("gcc", SECTIONS, link=("-static-pie",)),
        *(Build("gcc", ("-O2", "-flto=auto", "-ffat-lto-objects"), linker) for linker in ("bfd", "lld")),
        Build("gcc", ("-O2", "-flto")),
        Build("clang-19", ("-O2",), "lld"),
        Build("clang-19", ("-O2", "-flto=thin"), "lld"),
    ]
    if speed == QUICK:
        return quick
    found = []
    for compiler in ("gcc", "clang-19"):
        found += [Build(compiler, (level,)) for level in ("-O0", "-Og", "-O1", "-O2", "-O3", "-Os")]
        found += [Build(compiler, ("-O2", word)) for word in HARD] + [Build(compiler, ("-O3", "-flto") + HARD)]
        found += [Build(compiler, ("-O2",), linker, link) for linker in LINKERS for link in ((), ("-static-pie",))]
        found += [Build(compiler, SECTIONS, linker, ("-Wl,--gc-sections", "-Wl,--icf=all"))
                  for linker in ("gold", "lld", "mold")]
        found += [Build(compiler, ("-O2", "-fno-pie"), link=link) for link in (("-no-pie",), ("-no-pie", "-static"))]
        found += [Build(compiler, (level, "-flto")) for level in ("-O0", "-O1", "-O3", "-Os")]
    for linker in ("bfd", "gold", "mold"):  # lld has no plugin for gcc's
        found += [Build("gcc", ("-O2", word), linker, ("-Wl,--gc-sections",)) for word in ("-flto", "-flto=auto")]
        found += [Build("gcc", ("-O2", "-flto=auto", "-ffat-lto-objects"), linker)]
    for linker in LINKERS:
        found += [Build("clang-19", ("-O2", word), linker, ("-Wl,--gc-sections",)) for word in ("-flto", "-flto=thin")]
    found += [Build("gcc", ("-O2", "-flto=auto"), link=("-static-pie",)),
              Build("clang-19", ("-O2", "-flto"), "lld", ("-static-pie",)),
              Build("gcc", ("-O2", "-flto=auto", "-flto-partition=1to1")),
              Build("gcc", ("-O2", "-flto=auto", "-flto-partition=max")),
              Build("clang-19", ("-O2", "-flto", "-ffat-lto-objects"), "lld")]
    return [build for build in found if build not in quick]


class Problem(Exception):
    pass


def quietly(*words, **more):
    """Runs a command that must succeed and have nothing to say."""
    done = run(*words, check=False, **more)
    said = SERIAL.sub("", done.stdout + done.stderr)
    if done.returncode != 0 or said:
        raise Problem("%s ended with %d:\n%s" % (" ".join(words), done.returncode, said[-3000:]))


def look_at(program):
    """Starts a program, and finds its heap, its blocks and its profiler from outside."""
    process = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        if process.stdout.readline() != b"ready\n":
            raise Problem("it ended with %d: %s" % (process.wait(), process.stderr.read().decode()))
        watched = Watched(process.pid)
        blocks = sum(holding.live_blocks() for key, holding in watched.look().classes.items()
                     if BLOCK_BYTES <= watched.class_bytes[key] < 2 * BLOCK_BYTES)
        if not BLOCKS <= blocks < 2 * BLOCKS:
            raise Problem("it holds %d blocks of %d bytes, and seems to hold %d" % (BLOCKS, BLOCK_BYTES, blocks))
        if watched.ask(RATE_BYTES, SOON_S) != STARTED:
            raise Problem("its profiler does not start")
        said = process.communicate()[1]
        if process.returncode != 0 or said:
            raise Problem("it ended with %d: %s" % (process.returncode, said.decode()))
    except Trouble as trouble:
        raise Problem("the tools say: %s" % trouble) from None
    finally:
        process.kill()
        process.wait()


class OneFile:
    """The one-file form in a folder. Each object is made once."""

    def __init__(self, folder):
        self.folder, self.lock, self.objects = folder, threading.Lock(), {}
        run(sys.executable, os.path.join(ROOT, "tools", "amalgamate.py"), "--out", folder)
        os.symlink(shutil.which("ld.lld-19") or "/nonexistent", self.path("ld.lld"))  # gcc's name for it

    def path(self, name):
        return os.path.join(self.folder, name)

    def made(self, build):
        """The objects of the allocator and of the program."""
        with self.lock:
            key = (build.compiler, build.options)
            lock, objects = self.objects.setdefault(key, (threading.Lock(), []))
            number = list(self.objects).index(key)
        with lock:
            if not objects:
                for source in (self.path("calmalloc.c"), os.path.join(HERE, "built.c")):
                    name = self.path("%d-%s.o" % (number, os.path.basename(source)))
                    quietly(build.compiler, *WARN, *build.options, "-I", self.folder, "-c", source, "-o", name)
                    objects.append(name)
        return objects

    def judge(self, build):
        objects = self.made(build)
        program = self.path("program-%d" % threading.get_ident())
        linker = ["-fuse-ld=" + build.linker, "-B", self.folder] if build.linker else []
        quietly(build.compiler, *WARN, *build.options, *objects, "-o", program, "-pthread", *linker, *build.link)
        look_at(program)


def one_file(speed):
    with tempfile.TemporaryDirectory(prefix="calm-builds-") as folder:
        return judged(builds(speed), OneFile(folder).judge)


def judged(cases, judge):
    """Judges all, two at a time or more. Returns (what was wrong, what was missing)."""
    missing = {case.missing() for case in cases} - {""}
    wrong = []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        running = {pool.submit(judge, case): case for case in cases if not case.missing()}
        for future in concurrent.futures.as_completed(running):
            try:
                future.result()
                print("passed: %s" % running[future], flush=True)
            except (Problem, AssertionError) as problem:
                wrong.append("%s: %s" % (running[future], problem))
                print("FAILED: " + wrong[-1], flush=True)
    return wrong, missing


def main():
    kind, speed = sys.argv[1:3]
    wrong, missing = one_file(speed) if kind == "one_file" else cmake(speed, sys.argv[3])
    if wrong:
        return 1
    if missing:
        print("skipped: %s missing; apt-get install %s brings it. The rest passed." %
              (", ".join(sorted(missing)), " ".join(sorted({PACKAGES.get(name, name) for name in missing}))))
        return 77
    return 0


if __name__ == "__main__":
    sys.exit(main())
