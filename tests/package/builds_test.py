"""The ways in which people build: each makes a program that runs, whose heap the tools find from outside, and of which
compilers and linkers have nothing to say.

    builds_test.py one_file quick|full       the one-file form, by levels, hardening, link-time optimisation and linkers
    builds_test.py cmake quick|full          the targets of CMake, and programs that link the libraries

What a compiler or a linker is missing for is named, and the rest runs. Seen to fail: with the note of facts made by
assembly outside functions, which names the table (all of link-time optimisation by gcc); with children.c compiled as
the rest (the shared library); with sealing that knows nothing of link-time optimisation (the static one); with tools
that take mold's notes as aligned to 8; with a name in the version script that nobody defines (lld).
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
    """Those of the quick tests, or all others. gold refuses -static-pie."""
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
        found += [Build(compiler, ("-O2",), linker) for linker in LINKERS]
        found += [Build(compiler, ("-O2",), linker, ("-static-pie",)) for linker in LINKERS if linker != "gold"]
        found += [Build(compiler, SECTIONS, linker, ("-Wl,--gc-sections", "-Wl,--icf=all"))
                  for linker in ("gold", "lld", "mold")]
        found += [Build(compiler, ("-O2", "-fno-pie"), link=(link,)) for link in ("-no-pie", "-static")]
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


@dataclass(frozen=True)
class Tree:
    """How the targets are built by CMake, and by what its users' programs are."""
    compiler: str
    options: str = "-O2"  # CMAKE_C_FLAGS
    linker: str = ""
    whole: bool = False  # CMAKE_INTERPROCEDURAL_OPTIMIZATION

    def __str__(self):
        return " ".join(["CMake,", self.compiler, self.options] + ["-fuse-ld=" + self.linker] * (self.linker != "") +
                        ["INTERPROCEDURAL_OPTIMIZATION"] * self.whole)

    def missing(self):
        lto = "-flto" if self.whole else self.options
        return Build(self.compiler, tuple(lto.split()), self.linker).missing()


def trees(speed):
    if speed == QUICK:
        return [Tree("gcc", whole=True)]
    return [Tree("gcc", " ".join(("-O2", "-flto=auto", "-ffat-lto-objects") + HARD)), Tree("gcc", "-O3 -flto", "gold"),
            Tree("gcc", "-Os -flto=auto", "mold"), Tree("gcc", "-O2 -flto=auto -flto-partition=max"),
            Tree("gcc", "-O2", "lld"), Tree("clang-19", whole=True), Tree("clang-19", "-O2 -flto", "lld"),
            Tree("clang-19", "-O2 -flto=thin", "mold"), Tree("clang-19", " ".join(("-O3",) + HARD))]


class Problem(Exception):
    pass


def linkers(folder):
    """A folder with the name that gcc has for lld."""
    os.makedirs(folder, exist_ok=True)
    os.symlink(shutil.which("ld.lld-19") or "/nonexistent", os.path.join(folder, "ld.lld"))
    return folder


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
        watched = Watched(process.pid, is_written=True)
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
        linkers(folder)

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


def judge_tree(tree):
    """Builds the libraries, holds the static ones to sealed_test.py, and links programs with each."""
    with tempfile.TemporaryDirectory(prefix="calm-builds-") as folder:
        lto = ["-flto"] if tree.whole else [word for word in tree.options.split() if word.startswith("-flto")]
        linker = ["-fuse-ld=" + tree.linker, "-B" + linkers(os.path.join(folder, "linkers"))] if tree.linker else []
        link = " ".join(linker)
        run("cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=None", "-DCALM_TESTS=OFF",
            "-DCMAKE_C_COMPILER=" + tree.compiler, "-DCMAKE_C_FLAGS=" + tree.options,
            "-DCMAKE_INTERPROCEDURAL_OPTIMIZATION=" + ("ON" if tree.whole else "OFF"),
            "-DCMAKE_EXE_LINKER_FLAGS=" + link, "-DCMAKE_SHARED_LINKER_FLAGS=" + link)
        made = run("cmake", "--build", folder, "--target", "calmalloc", "calmalloc_static", "calmpool", "calmexec",
                   check=False)
        said = SERIAL.sub("", made.stdout + made.stderr)
        if made.returncode != 0 or "warning:" in said:
            raise Problem(said[-3000:])
        libraries = [os.path.join(folder, "lib" + name) for name in
                     ("calmalloc.a", "calmpool.a", "calmexec.a", "calmalloc.so")]
        run(sys.executable, os.path.join(HERE, "sealed_test.py"), tree.compiler, *libraries)
        program, static = os.path.join(folder, "program"), libraries[0]
        cpp = tree.compiler.replace("gcc", "g++").replace("clang", "clang++")
        pie = [[static, "-static-pie"]] if tree.linker != "gold" else []
        for words in ([libraries[3], "-Wl,-rpath," + folder], [static], [static, "-static"], *pie):
            quietly(cpp, *WARN, "-O2", *lto, "-I", os.path.join(ROOT, "include"), os.path.join(HERE, "built.cpp"),
                    "-o", program, "-pthread", *linker, *words)
            look_at(program)


def judged(cases, judge):
    """Judges all, as many at a time as there are processors. Returns (what was wrong, what was missing)."""
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
    wrong, missing = one_file(speed) if kind == "one_file" else judged(trees(speed), judge_tree)
    if wrong:
        return 1
    if missing:
        print("skipped: %s missing; `./calm test --setup --full` brings it. The rest passed." %
              ", ".join(sorted(missing)))
        return 77
    return 0


if __name__ == "__main__":
    sys.exit(main())
