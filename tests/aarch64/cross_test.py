"""Builds calmalloc for aarch64 and runs it there, on an emulator. Exit code 77 when a tool is missing.

    cross_test.py SOURCE_DIR BUILD_DIR

The emulator has no restartable sequences, so caches are the threads' own; the sequences themselves are tested by
tests/sequences, which needs no kernel that knows them. What cannot be run there: programs that judge the process by
its size or its mappings, since they see the emulator's (which keeps 280 KiB of each thread that ended), growth by
moved pages (it takes what MREMAP_DONTUNMAP leaves for unmapped), limits on address space, which it ignores, and forks
of a child with threads (it stops).

Seen to fail: the statistics' sentence without its reason, a helper that never calls its body, a vfork that returns
what it got, a system call with its fourth argument in another register, depots without their lock (sometimes).
"""
import glob
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time

PREFIX = "aarch64-linux-gnu-"
TOOLS = (PREFIX + "gcc", PREFIX + "g++", PREFIX + "objdump", "qemu-aarch64")
PACKAGES = "gcc-aarch64-linux-gnu g++-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user"
RUN_SECONDS_MAX = 300
REASON = "statistics; caches by thread: no restartable sequences here"

STRESS = [["single", "--seeds", "1", "--steps", "4000"],
          ["threads", "--seeds", "2", "--steps", "4000"],
          ["churn", "--steps", "10"],
          ["forks", "--seeds", "1", "--steps", "4"]]
PRELOADED = [["before_constructors"], ["ordinary"], ["signals"], ["trim_now"],
             ["exit_handlers", "return"], ["exit_handlers", "exit"], ["exit_handlers", "quick_exit"],
             ["exit_handlers", "thread"], ["exit_handlers", "pthread_exit"]]
MISUSES = [("double", "misuse=stop", True), ("inside", "misuse=stop", True), ("foreign-named", "foreign=count", False),
           ("foreign-stops", "foreign=stop", True)]


def missing():
    """What has to be installed first; empty when nothing has."""
    for tool in TOOLS:
        if shutil.which(tool) is None:
            return tool
    start = subprocess.run([TOOLS[0], "-print-file-name=crt1.o"], capture_output=True, text=True).stdout.strip()
    return "" if os.path.isabs(start) else "the C library for aarch64"


class Cross:
    def __init__(self, source, build):
        self.source, self.build = source, build
        self.tests = os.path.join(source, "tests")
        self.library = os.path.join(build, "libcalmalloc.so")
        self.static = os.path.join(build, "libcalmalloc.a")
        self.core = os.path.join(build, "libcalmalloc_core.a")
        self.products = os.path.join(build, "programs")
        self.emulator = []
        self.started = time.monotonic()

    def step(self, command, **more):
        done = subprocess.run(command, cwd=self.source, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", timeout=RUN_SECONDS_MAX, **more)
        if done.returncode != 0:
            print(done.stdout[-12000:])
            sys.exit("failed with %d: %s" % (done.returncode, " ".join(command)))
        return done.stdout

    def say(self, *words):
        print("%5.1f s  %s" % (time.monotonic() - self.started, " ".join(words)), flush=True)

    def build_libraries(self):
        self.step(["cmake", "--preset", "aarch64", "-B", self.build])
        self.step(["cmake", "--build", self.build, "-j2", "--target", "calmalloc", "calmalloc_static",
                   "calmalloc_core", "calm_launch"])
        with open(os.path.join(self.build, "CMakeCache.txt")) as file:
            emulator = re.search(r"^CMAKE_CROSSCOMPILING_EMULATOR:\w+=(.*)$", file.read(), re.M).group(1)
        self.emulator = emulator.split(";")
        os.makedirs(self.products, exist_ok=True)
        self.say("built")

    def compiled(self, name, *words, compiler="gcc", standard="-std=gnu17"):
        """A program or library of these sources and flags."""
        product = os.path.join(self.products, name)
        folders = ["src", "include", "tests/stress", "tests/environment"]
        self.step([PREFIX + compiler, standard, "-O2", "-g", "-w", "-fno-builtin", "-DCALM_CHECKS=1",
                   *("-I" + os.path.join(self.source, folder) for folder in folders),
                   *words, "-lpthread", "-ldl", "-o", product])
        return product

    def source_of(self, folder, name):
        return os.path.join(self.tests, folder, name)

    def command(self, program, arguments=(), preload=(), options=""):
        words = [*self.emulator]
        if preload:
            words += ["-E", "LD_PRELOAD=" + ":".join(preload)]
        if options:
            words += ["-E", "CALM_OPTIONS=" + options]
        return [*words, program, *arguments]

    def run(self, program, arguments=(), preload=(), options=""):
        said = self.step(self.command(program, arguments, preload, options))
        self.say("fine:", os.path.basename(program), *map(os.path.basename, arguments), options)
        return said

    def run_sequences(self):
        """Their shape, what they do, and that these two tests would find a mistake."""
        objdump = PREFIX + "objdump"
        script = self.source_of("sequences", "descriptors.py")
        said = self.step([sys.executable, script, self.library, objdump, "malloc", "free", "calm_malloc", "calm_free"])
        self.say(said.strip())
        self.run(self.compiled("aborts", self.source_of("sequences", "aborts.c")))
        self.run(self.compiled("vfork", self.source_of("sequences", "vfork.c"), self.static))
        folder = os.path.join(self.build, "control")
        os.makedirs(folder, exist_ok=True)
        said = self.step([sys.executable, self.source_of("sequences", "control_test.py"), PREFIX + "gcc", objdump,
                          folder, *self.emulator])
        self.say(said.strip())

    def run_stress(self):
        for name, *arguments in STRESS:
            program = self.compiled("stress_" + name, self.source_of("stress", name + ".c"),
                                    self.source_of("stress", "oracle.c"), self.core)
            self.run(program, arguments)
            if name == "threads":
                self.run(program, arguments, options="cores=always")

    def environment(self, name, *words, **more):
        suffix = ".cpp" if more else ".c"
        return self.compiled(name, self.source_of("environment", name + suffix), *words, **more)

    def run_environment(self):
        check = self.source_of("environment", "check.c")
        for name, *arguments in PRELOADED:
            self.run(self.environment(name, check), arguments, [self.library])
        ordinary = os.path.join(self.products, "ordinary")
        said = self.run(ordinary, preload=[self.library], options="stats=text")
        if REASON not in said:
            sys.exit("the statistics do not say %r:\n%s" % (REASON, said))
        tracer = self.environment("tracer", "-shared", "-fPIC")
        early = self.environment("early_preload", "-shared", "-fPIC")
        self.run(ordinary, ["traced"], [tracer, self.library])
        self.run(ordinary, [], [early, self.library])
        self.run(ordinary, [], [self.library, early])
        self.run(self.environment("dlopen_library", check), [self.library])
        plugin = self.environment("plugin", "-shared", "-fPIC", compiler="g++", standard="-std=c++17")
        self.run(self.environment("dlopen_plugin", check), [plugin], [self.library])
        copies = self.environment("two_copies", check, self.static)
        self.run(copies, [self.library], [self.library])
        self.run(copies, [self.library])

    def run_misuse(self):
        program = self.compiled("misuse", self.source_of("misuse", "misuse_program.c"))
        for word, options, is_stopped in MISUSES:
            done = subprocess.run(self.command(program, [word], [self.library], options), stdin=subprocess.DEVNULL,
                                  capture_output=True, text=True, errors="replace", timeout=RUN_SECONDS_MAX)
            sentence = done.stdout.strip()
            if not sentence or sentence not in done.stderr or (done.returncode != 0) != is_stopped:
                sys.exit("misuse %s ends with %d; it says %r, not %r" % (word, done.returncode, done.stderr, sentence))
            self.say("fine: misuse", word)

    def run_stacks(self):
        """As compilers make them, with signed return addresses, and with frame pointers only."""
        cases = self.source_of("unit/os", "stack_cases.c")
        words = ["-DCASES=stack_cases_plain", "-DCASES_MAIN", "-fno-optimize-sibling-calls", self.core]
        self.run(self.compiled("stack_cases", cases, "-DHAS_TABLES=1", *words))
        self.run(self.compiled("stack_cases_signed", cases, "-DHAS_TABLES=1", "-mbranch-protection=standard", *words))
        self.run(self.compiled("stack_cases_tableless", cases, "-DHAS_TABLES=0", "-fno-asynchronous-unwind-tables",
                               "-fno-unwind-tables", *words))

    def run_helper(self):
        """The emulator makes no thread that has a working directory of its own, as the helper has. So this is a
        library whose helper shares it, and memory goes back while the program sleeps."""
        path = os.path.join(self.source, "src", "os", "linux", "thread.c")
        with open(path) as file:
            original = file.read()
        if "CLONE_VM | CLONE_FILES" not in original:
            sys.exit("src/os/linux/thread.c no longer has the helper's flags: bring this test up to date")
        changed = os.path.join(self.products, "thread.c")
        with open(changed, "w") as file:
            file.write(original.replace("CLONE_VM | CLONE_FILES", "CLONE_VM | CLONE_FS | CLONE_FILES"))
        with open(os.path.join(self.build, "compile_commands.json")) as file:
            line = next(item for item in json.load(file) if os.path.samefile(item["file"], path))
        words = shlex.split(line["command"])
        words[words.index("-o") + 1] = changed + ".o"
        words[words.index("-c") + 1] = changed
        self.step(words)
        objects = [name for name in glob.glob(os.path.join(self.build, "CMakeFiles", "calm_*_objects.dir", "src", "**",
                                                           "*.o"), recursive=True)
                   if not name.endswith(os.path.join("os", "linux", "thread.c.o"))]
        library = self.compiled("libcalmalloc_helped.so", "-shared", *objects, changed + ".o")
        program = self.environment("free_all", self.source_of("environment", "check.c"))
        self.run(program, ["500000"], [library])


def main():
    tool = missing()
    if tool:
        print("%s is missing; apt-get install %s brings it." % (tool, PACKAGES))
        return 77
    cross = Cross(*map(os.path.abspath, sys.argv[1:3]))
    cross.build_libraries()
    cross.run_sequences()
    cross.run_stress()
    cross.run_environment()
    cross.run_misuse()
    cross.run_stacks()
    cross.run_helper()
    return 0


if __name__ == "__main__":
    sys.exit(main())
