"""What runs on the platforms that are not the one of the build: one list, whichever platform it is.

A run has a name, group.what, and is a function of the platform that raises Failed. The programs are those of
tests/stress, tests/environment, tests/sequences, tests/misuse and tests/pool: C, since no C++ library for musl is at
hand. They are preloaded, linked with the shared library, or linked with the static one.

What cannot be run for aarch64: programs that judge the process by its size or its mappings, since they see the
emulator's (which keeps 280 KiB of each thread that ended), growth by moved pages (it takes what MREMAP_DONTUNMAP leaves
for unmapped), limits on address space, which it ignores, and forks of a child with threads (it stops).
"""
import glob
import json
import os
import shlex
import subprocess
import sys

from platforms import RUN_SECONDS_MAX, Failed, step

STRESS = {
    "single": ["--seeds", "1", "--steps", "4000"],
    "threads": ["--seeds", "2", "--steps", "4000"],
    "churn": ["--steps", "10"],
    "forks": ["--seeds", "1", "--steps", "4"],
}

BY_CORES = "cores=always"

# (program, arguments, options): on every platform.
ENVIRONMENT = [
    ("ordinary", (), ""), ("signals", (), BY_CORES), ("trim_now", (), ""), ("exit_handlers", ("return",), ""),
    ("exit_handlers", ("exit",), ""), ("exit_handlers", ("quick_exit",), ""), ("exit_handlers", ("thread",), ""),
    ("exit_handlers", ("pthread_exit",), ""), ("children", ("vfork",), ""), ("children", ("clone",), ""),
    ("children", ("__clone",), ""), ("children", ("syscall_clone",), ""), ("syscalls", (), ""),
]
# On this machine's processor only. own_areas and its neighbours stop unless the statistics say that threads work on
# their cores' caches: with musl, which registers no area for sequences, on areas of our own.
ENVIRONMENT_NATIVE = [
    ("children", ("clone",), BY_CORES), ("children", ("beside",), BY_CORES), ("children", ("__vfork",), BY_CORES),
    ("children", ("syscall_vfork",), BY_CORES), ("children", ("syscall_clone3",), BY_CORES),
    ("own_areas", (), BY_CORES), ("vfork_allocates", (), BY_CORES), ("vfork_allocates", ("fresh",), BY_CORES),
    ("spawn_under_load", (), ""), ("spawn_under_load", (), BY_CORES), ("fork_in_handler", (), BY_CORES),
    ("held", (), BY_CORES), ("cut_off", ("stay",), BY_CORES), ("free_all", ("500000",), ""),
    ("unshare_after_free", ("300",), ""), ("many_threads", ("73728", "512"), ""),
    ("signals", (), ""), ("fork_under_load", (), ""), ("fork_under_load", (), BY_CORES), ("thread_churn", (), ""),
    ("idle_threads", (), ""), ("half_used", (), ""), ("address_limit", ("256",), ""), ("no_memory", (), ""),
    ("locked", ("free",), ""), ("locked", ("bound",), ""), ("mappings_exhausted", (), ""), ("few_mappings", (), ""),
    ("many_sites", ("overflow",), "sites=intern"),
]
# musl runs no function of .preinit_array, and waits for ever for a thread that ends by the bare system call.
NOT_MUSL = [("before_constructors", (), "")]

# With pages of 64 KiB the emulator itself does not stand these, without calmalloc as well: a program whose main thread
# ended is not waited for, and the second preloaded library is not found (its name gives EFAULT).
NOT_64K = ("environment.exit_handlers_pthread_exit", "environment.preloaded_with_others")

# What every change is held against; the others belong to `./calm test --full`. For aarch64 with pages of 4 KiB: all.
QUICK = {
    "musl_dynamic": {"stress.threads", "environment.names", "environment.ordinary", "environment.preloaded",
                     "environment.refused", "environment.exit_handlers_thread"},
    "musl_static": {"stress.forks", "pool.threads", "environment.names", "environment.ordinary", "misuse.double",
                    "environment.own_areas_by_cores"},
    "aarch64_64k": {"stress.single", "pool.single", "environment.ordinary", "environment.trim_now"},
}

MISUSES = [("double", "misuse=stop", True), ("inside", "misuse=stop", True), ("foreign-named", "foreign=count", False),
           ("foreign-stops", "foreign=stop", True)]
NO_SEQUENCES = "statistics; caches by thread: no restartable sequences here"


class Runs:
    """The runs of one platform: `names` maps a name to what runs."""

    def __init__(self, platform):
        self.platform = platform
        self.is_musl = platform.preset == "musl"
        self.names = {}
        for what in STRESS:
            self.add("stress." + what, self.stress, what, "")
        self.add("stress.threads_by_cores", self.stress, "threads", BY_CORES)
        self.add("pool.single", self.pool, "single")
        self.add("pool.threads", self.pool, "threads")
        for word, options, is_stopped in MISUSES:
            self.add("misuse." + word, self.misuse, word, options, is_stopped)
        self.add("sequences.aborts", self.aborts)
        self.add("sequences.vfork", self.vfork)
        for item in ENVIRONMENT + ([] if self.is_musl else NOT_MUSL):
            self.add(*self.environment_run(item))
        if self.is_musl:
            self.add("environment.names", self.libc_names)
            for item in ENVIRONMENT_NATIVE:
                self.add(*self.environment_run(item))
        else:
            for name in ("shape", "control", "tables"):
                self.add("sequences." + name, getattr(self, name))
            for name in ("statistics", "preloaded_with_others", "opened", "two_copies"):
                self.add("environment." + name, getattr(self, name))
            for name, flags in {"plain": (1,), "signed": (1, "-mbranch-protection=standard"),
                                "tableless": (0, "-fno-asynchronous-unwind-tables", "-fno-unwind-tables")}.items():
                self.add("stacks." + name, self.stacks, name, *flags)
        if self.is_musl and not platform.is_static:
            self.add("environment.preloaded", self.preloaded)
            self.add("environment.refused", self.refused)
        if platform.has_large_pages:
            for name in NOT_64K:
                del self.names[name]

    def add(self, name, function, *arguments):
        if name in self.names:
            raise ValueError("two runs are named " + name)
        self.names[name] = lambda: function(*arguments)

    def environment_run(self, item):
        program, arguments, options = item
        words = [program, *arguments, *(["by_cores"] if options == BY_CORES else [])]
        return "environment." + "_".join(words), self.environment, program, arguments, options

    def source_of(self, folder, name):
        return os.path.join(self.platform.source, "tests", folder, name)

    def program_of(self, name, *words, is_linked=True, **more):
        """A program that has the library as its platform has it, unless it is preloaded."""
        platform = self.platform
        if is_linked and platform.is_static:
            words += ("-static", platform.static)
        elif is_linked and self.is_musl:
            words += (platform.library, "-Wl,-rpath," + platform.build)
        suffix = "_static" if platform.is_static else ""
        return platform.compiled(name + suffix, *words, **more)

    def objects(self, part):
        return glob.glob(os.path.join(self.platform.build, "CMakeFiles", "calm_%s_objects.dir" % part, "src", "**",
                                      "*.o"), recursive=True)

    def preload(self):
        """What a program is started with, where programs are not linked with the library."""
        return [] if self.is_musl else [self.platform.library]

    def environment_program(self, name):
        found = "check_linked.c" if self.platform.is_static else "check_loaded.c"
        files = [self.source_of("environment", file) for file in (name + ".c", "check.c", found, "live.c")]
        return self.program_of(name, *files)

    def environment(self, name, arguments, options):
        self.platform.run(self.environment_program(name), arguments, self.preload(), options)

    def stress(self, name, options):
        words = ["-static"] if self.platform.is_static else []
        program = self.program_of("stress_" + name, self.source_of("stress", name + ".c"),
                                  self.source_of("stress", "oracle.c"), self.platform.core, *words, is_linked=False)
        self.platform.run(program, STRESS[name], options=options)

    def pool(self, way):
        words = ["-static"] if self.platform.is_static else []
        program = self.program_of("pool_stress", self.source_of("pool", "stress.c"), self.platform.core, *words,
                                  is_linked=False)
        self.platform.run(program, [way, "1"])

    def aborts(self):
        self.platform.run(self.program_of("aborts", self.source_of("sequences", "aborts.c"),
                                          *(["-static"] if self.platform.is_static else []), is_linked=False))

    def vfork(self):
        words = ["-static"] if self.platform.is_static else []
        self.platform.run(self.program_of("vfork", self.source_of("sequences", "vfork.c"), *self.objects("libc"),
                                          self.platform.core, *words, is_linked=False))

    def misuse(self, word, options, is_stopped):
        program = self.program_of("misuse", self.source_of("misuse", "misuse_program.c"))
        command, environment = self.platform.started(program, [word], self.preload(), options)
        done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              errors="replace", timeout=RUN_SECONDS_MAX)
        sentence = done.stdout.strip()
        if not sentence or sentence not in done.stderr or (done.returncode != 0) != is_stopped:
            raise Failed("misuse %s ends with %d; it says %r, not %r" % (word, done.returncode, done.stderr, sentence))

    def libc_names(self):
        """All that allocates in musl, and what it gives is ours to free."""
        self.platform.run(self.program_of("names", os.path.join(os.path.dirname(__file__), "names.c")))

    def unlinked(self):
        return self.platform.compiled("ordinary_preloaded", *(self.source_of("environment", file) for file in (
            "ordinary.c", "check.c", "check_loaded.c")), "-Wl,--unresolved-symbols=ignore-all")

    def preloaded(self):
        self.platform.run(self.unlinked(), preload=[self.platform.library])

    def refused(self):
        """A library for the other C library ends a program before its first line, by a sentence of the loader's."""
        others = os.path.join(self.platform.build, "..", "..", "..", "libcalmalloc.so")
        for program, library, sentence in ((self.unlinked(), others, "symbol not found"),
                                           ("/bin/true", self.platform.library, "libc.so: ")):
            command, environment = self.platform.started(program, preload=[library])
            done = subprocess.run(command, env=environment, capture_output=True, text=True)
            if done.returncode != 127 or sentence not in done.stderr:
                raise Failed("%s with %s: %d, %r" % (program, library, done.returncode, done.stderr))

    def shape(self):
        """What descriptors.py has to say of the sequences in the library."""
        step([sys.executable, self.source_of("sequences", "descriptors.py"), self.platform.library,
              self.platform.tools[2], "malloc", "free", "calm_malloc", "calm_free"], self.platform.source)

    def tables(self):
        """Every instruction has an unwind table's entry."""
        step([sys.executable, self.source_of("sequences", "tables_test.py"), self.platform.library,
              self.platform.tools[2], "readelf"], self.platform.source)

    def control(self):
        """It would find a mistake."""
        folder = os.path.join(self.platform.build, "control_64k" if self.platform.has_large_pages else "control")
        os.makedirs(folder, exist_ok=True)
        step([sys.executable, self.source_of("sequences", "control_test.py"), self.platform.compiler,
              self.platform.tools[2], folder, *self.platform.emulator()], self.platform.source)

    def statistics(self):
        said = self.platform.run(self.environment_program("ordinary"), preload=self.preload(), options="stats=text")
        if NO_SEQUENCES not in said:
            raise Failed("the statistics do not say %r:\n%s" % (NO_SEQUENCES, said))

    def plugin(self, name, suffix=".c", **more):
        return self.platform.compiled(name + ".so", self.source_of("environment", name + suffix), "-shared", "-fPIC",
                                      **more)

    def preloaded_with_others(self):
        ordinary, library = self.environment_program("ordinary"), self.platform.library
        tracer, early = self.plugin("tracer"), self.plugin("early_preload")
        self.platform.run(ordinary, ["traced"], [tracer, library])
        self.platform.run(ordinary, [], [early, library])
        self.platform.run(ordinary, [], [library, early])

    def opened(self):
        self.platform.run(self.environment_program("dlopen_library"), [self.platform.library])
        plugin = self.plugin("plugin", ".cpp", compiler=self.platform.tools[1], standard="-std=c++17")
        self.platform.run(self.environment_program("dlopen_plugin"), [plugin], self.preload())

    def two_copies(self):
        files = [self.source_of("environment", file) for file in ("two_copies.c", "check.c", "check_loaded.c")]
        copies = self.platform.compiled("two_copies", *files, self.platform.static)
        self.platform.run(copies, [self.platform.library], self.preload())
        self.platform.run(copies, [self.platform.library])

    def stacks(self, name, has_tables, *flags):
        """As compilers make them, with signed return addresses, and with frame pointers only."""
        self.platform.run(self.platform.compiled(
            "stack_cases_" + name, self.source_of("unit/os", "stack_cases.c"), "-DHAS_TABLES=%d" % has_tables, *flags,
            "-DCASES=stack_cases_plain", "-DCASES_MAIN", "-fno-optimize-sibling-calls", self.platform.core))
