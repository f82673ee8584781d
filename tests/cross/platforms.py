"""The platforms that are not the one of the build: how programs for them are made, and how they are started."""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import needs  # noqa: E402

RUN_SECONDS_MAX = 300
BUILD_SECONDS_MAX = 3000 # a busy machine needs many times what an idle one does


class Failed(Exception):
    """A step that did not do what it should; the text is all it said."""


def step(command, source, seconds=RUN_SECONDS_MAX, **more):
    try:
        done = subprocess.run(command, cwd=source, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", timeout=seconds, **more)
    except subprocess.TimeoutExpired:
        raise Failed("not done after %d s, so perhaps on a busy machine: %s" % (seconds, " ".join(command))) from None
    if done.returncode != 0:
        raise Failed("%s\nfailed with %d: %s" % (done.stdout[-12000:], done.returncode, " ".join(command)))
    return done.stdout


class Platform:
    """A build by one preset. `build` is shared by the platforms of a preset."""
    preset, compiler, tools = "", "", ()
    is_static, has_large_pages = False, False
    targets = ("calmalloc", "calmalloc_static", "calmalloc_core", "calmpool", "calm_launch")

    def __init__(self, source, build):
        self.source, self.build = source, build
        self.library = os.path.join(build, "libcalmalloc.so")
        self.static = os.path.join(build, "libcalmalloc.a")
        self.core = os.path.join(build, "libcalmalloc_core.a")
        self.products = os.path.join(build, "programs")

    def missing(self):
        """What has to be installed first; empty when nothing has."""
        return needs.reason(*self.tools)

    def build_libraries(self):
        step(["cmake", "--preset", self.preset, "-B", self.build], self.source)
        step(["cmake", "--build", self.build, "-j2", "--target", *self.targets], self.source,
             seconds=BUILD_SECONDS_MAX)
        os.makedirs(self.products, exist_ok=True)

    def compiled(self, name, *words, compiler=None, standard="-std=gnu17"):
        """A program or library of these sources and flags. Made under another name first: tests run side by side."""
        product = os.path.join(self.products, name)
        inputs = [word for word in words if os.path.isabs(word) and os.path.isfile(word)]
        if os.path.exists(product) and all(os.path.getmtime(path) < os.path.getmtime(product) for path in inputs):
            return product
        folders = ["src", "include", "tests/stress", "tests/environment"]
        fresh = "%s.%d" % (product, os.getpid())
        step([compiler or self.compiler, standard, "-O2", "-g", "-w", "-fno-builtin", "-DCALM_CHECKS=1",
              *("-I" + os.path.join(self.source, folder) for folder in folders),
              *words, "-lpthread", "-ldl", "-o", fresh], self.source)
        os.rename(fresh, product)
        return product

    def started(self, program, arguments=(), preload=(), options=""):
        """The command that runs it, and its environment."""
        environment = dict(os.environ)
        if preload:
            environment["LD_PRELOAD"] = ":".join(preload)
        if options:
            environment["CALM_OPTIONS"] = options
        return [program, *arguments], environment

    def run(self, program, arguments=(), preload=(), options=""):
        command, environment = self.started(program, arguments, preload, options)
        return step(command, self.source, env=environment)


class Musl(Platform):
    preset, compiler = "musl", "musl-gcc"
    tools = ("musl-gcc",)


class MuslStatic(Musl):
    """Everything in one file: the allocator is part of the program."""
    is_static = True


class Aarch64(Platform):
    preset, compiler = "aarch64", "aarch64-linux-gnu-gcc"
    tools = ("aarch64-linux-gnu-gcc", "aarch64-linux-gnu-g++", "aarch64-linux-gnu-objdump", "qemu-aarch64")
    pages = ()

    def missing(self):
        why = super().missing()
        if why:
            return why
        asked = subprocess.run([self.compiler, "-print-file-name=crt1.o"], capture_output=True, text=True)
        if os.path.isabs(asked.stdout.strip()):
            return ""
        return "the C library for aarch64 is missing; `./calm test --setup` brings it."

    def emulator(self):
        with open(os.path.join(self.build, "CMakeCache.txt")) as file:
            words = re.search(r"^CMAKE_CROSSCOMPILING_EMULATOR:\w+=(.*)$", file.read(), re.M).group(1)
        return [*words.split(";"), *self.pages]

    def started(self, program, arguments=(), preload=(), options=""):
        words = self.emulator()
        if preload:
            words += ["-E", "LD_PRELOAD=" + ":".join(preload)]
        if options:
            words += ["-E", "CALM_OPTIONS=" + options]
        return [*words, program, *arguments], dict(os.environ)


class Aarch64Large(Aarch64):
    """Pages of 64 KiB."""
    pages = ("-p", "65536")
    has_large_pages = True


PLATFORMS = {
    "musl_dynamic": Musl,
    "musl_static": MuslStatic,
    "aarch64_4k": Aarch64,
    "aarch64_64k": Aarch64Large,
}
