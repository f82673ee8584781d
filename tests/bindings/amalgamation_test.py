"""The one file of all sources: compilers of C and of C++ take it alone, programs run on what either makes of it, its
names are calm_ names, and two sources that use one name for things of their own do not meet in it."""
import os
import re
import shutil
import sys
import tempfile
import unittest

from support import ROOT, defined_names, needs, run

MAKER = os.path.join(ROOT, "tools", "amalgamate.py")
PROBES = "_.stapsdt.base"  # hidden, and one for all objects: what the notes of probes refer to
ABORTED = "calm_rseq_aborted"  # weak and hidden: assembly that link-time optimisation may put into another file
STRICT = ("-Wall", "-Wextra", "-Wpedantic", "-Werror")
AS_C = ("gcc", "-std=c11")
AS_CPP = ("g++", "-std=c++17")
AS_CPP_BY_CLANG = ("clang++-19", "-std=c++17", "-x", "c++")
FAST_PATHS = ("calm_malloc", "calm_free", "calm_free_sized", "calm_adapter_free", "calm_pool_alloc", "calm_pool_free")
ADDED_MAX = 2  # instructions by C++; none with gcc 12 and clang 19
OF_CPP = re.compile(r"^(_Z|__cxa_|__gxx_|_Unwind_)")

PROGRAM = """
#include "calmalloc.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
static void *work(void *unused)
{
    static _Thread_local void *blocks[1000];
    for (int round = 0; round < 50; round++) {
        for (int i = 0; i < 1000; i++)
            blocks[i] = calm_realloc(calm_calloc(1, (size_t)i), (size_t)i * 3 + 1);
        for (int i = 0; i < 1000; i++)
            calm_free(blocks[i]);
    }
    return unused;
}
int main(void)
{
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], 0, work, 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], 0);
    struct calm_stats stats;
    calm_stats_read(&stats);
    void *theirs = malloc(100);
    const char *wrong = calm_verify();
    printf("%s %s %d %s\\n", calm_version(), wrong == 0 ? "sound" : wrong, (int)stats.misuses,
           calm_usable_size(theirs) == 0 ? "beside" : "instead");
    free(theirs);
    return stats.mapped_bytes == 0;
}
"""

OPTIONS = """
#include "calmalloc.h"
#include <stdio.h>
int main(void)
{
    uint64_t delay = 0, cache = 0;
    calm_free(calm_malloc(1));
    if (calm_option_get("purge_delay_ms", &delay) != 0 || calm_option_get("cache_kb", &cache) != 0)
        return 1;
    printf("%d %d\\n", (int)delay, (int)cache);
    return 0;
}
"""

# A pool, and an executor of one core whose tasks add up what they are given.
POOLS = """
#include "calmalloc.h"
#include <stdio.h>
static unsigned long sum;
static void add(calm_worker *worker, void *payload)
{
    void *block = calm_worker_alloc(worker, 64);
    if (block != 0 && calm_worker_free(worker, block) == 0)
        __atomic_fetch_add(&sum, *(unsigned long *)payload, __ATOMIC_RELAXED);
}
int main(void)
{
    const size_t block_bytes = 64;
    const uint32_t percent = 100;
    calm_pool *pool = 0;
    int error = calm_pool_init(&pool, &block_bytes, 1, &percent, 1 << 16);
    void *block = error == 0 ? calm_pool_alloc(pool, 64) : 0;
    printf("%d %d ", error, block == 0 ? -1 : calm_pool_free(pool, block));
    calm_pool_destroy(pool);
    struct calm_pool_config pools = {.block_bytes = &block_bytes, .percent = &percent, .classes = 1, .bytes = 1 << 16};
    struct calm_exec_config config = {.pools = &pools, .cores = 1, .inbox_capacity = 16, .payload_bytes = sizeof sum};
    calm_exec *exec = 0;
    error = calm_exec_start(&config, &exec);
    for (unsigned long i = 1; error == 0 && i <= 4; i++) {
        struct calm_task task = {.function = add, .payload = &i, .payload_bytes = sizeof i};
        error = calm_exec_submit(exec, &task);
    }
    calm_exec_destroy(exec);
    printf("%d %lu\\n", error, sum);
    return 0;
}
"""

# The standard names over ours, and what a program says in which they are everybody's, before the first constructor on.
STANDARD = """
#include "calmalloc.h"
#include <errno.h>
void *malloc(size_t size) { return calm_malloc(size); }
void *calloc(size_t count, size_t size) { return calm_calloc(count, size); }
void *realloc(void *block, size_t size) { return calm_realloc(block, size); }
void *aligned_alloc(size_t align, size_t size) { return calm_aligned_alloc(align, size); }
void *memalign(size_t align, size_t size);
void *memalign(size_t align, size_t size) { return calm_aligned_alloc(align, size); }
int posix_memalign(void **out, size_t align, size_t size)
{
    void *block = calm_aligned_alloc(align, size);
    if (block != 0)
        *out = block;
    return block != 0 ? 0 : ENOMEM;
}
void free(void *block) { calm_free(block); }
size_t malloc_usable_size(void *block);
size_t malloc_usable_size(void *block) { return calm_usable_size(block); }
"""
EVERYBODY = """
import ctypes, json, os, threading
ours = ctypes.CDLL(None)
ours.malloc.restype = ours.calm_verify.restype = ctypes.c_void_p
ours.calm_usable_size.argtypes, ours.calm_usable_size.restype = [ctypes.c_void_p], ctypes.c_size_t
workers = [threading.Thread(target=lambda: json.loads(json.dumps([{"a": str(n)} for n in range(20000)])))
           for _ in range(4)]
[worker.start() for worker in workers]
child = os.fork()
if child == 0:
    os._exit(7 if len([str(n) for n in range(100000)]) == 100000 else 1)
[worker.join() for worker in workers]
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), ours.calm_usable_size(ours.malloc(100)), ours.calm_verify())
"""

# Two sources with one name for: a function, a variable, a type, a constant, a macro; and a member of the same name.
# Also an attribute after parameters, a macro that makes a function, variables that share a declaration, and a parameter
# that has the name of the other source's variable. For C++ a keyword of its, also in a macro, a struct and a
# variable of one name, and an atomic.
SMALL = {
    "include/calmalloc/calmalloc.h": '#define CALM_VERSION_TEXT "9.8.7"\nint calm_one(void);\nint calm_two(void);\n',
    "include/calmalloc.hpp": "#include <calmalloc/calmalloc.h>\n",
    "src/base/attr.h": "#ifndef A\n#define A\n#define EXPORT __attribute__((visibility(\"default\")))\n"
                       "#define BESIDE\n#endif\n",
    "src/base/shared.h": '#ifndef S\n#define S\n#include "base/attr.h"\n'
                         "#include <stdatomic.h>\n#define CLASS(of) ((of).class + 0) /* class's */\n"
                         "struct facts { _Atomic int answer; int class; };\nextern struct facts known, facts;\n"
                         "int helper(int value);\n#endif\n",
    "src/base/ends.h": "extern int front, rear;\n",
    "src/base/one.c": '#include "base/shared.h"\n#include "base/ends.h"\n#define SCALE 2\nenum { LIMIT = 10 };\n'
                      "struct part { int value; };\n"
                      "struct facts known = {.answer = 40}, facts = {.class = 0};\n"
                      "static int count, *last = &count;\nint front, rear;\n"
                      "static int answer(struct part part) { return part.value * SCALE + LIMIT + ++*last + front; }\n"
                      "int helper(int value) { return answer((struct part){.value = value}); }\n"
                      "EXPORT int calm_one(void) { return atomic_load(&known.answer) + CLASS(facts); }\n",
    "src/core/two.c": '#include "base/shared.h"\n#define SCALE 3\nenum { LIMIT = 20 };\n'
                      "struct part { double value; };\nstatic long last, count = 5;\n"
                      "#define MAKE(name) static int name(void) { return 0; }\nMAKE(nought)\n"
                      "static int rest(int front) BESIDE { return front + nought(); }\n"
                      "static double answer(struct part part) { return part.value * SCALE + LIMIT + rest(0); }\n"
                      "EXPORT int calm_two(void) BESIDE\n{\n    struct part part = {.value = 1.5};\n"
                      "    return (int)answer(part) + helper(1) + (int)(count + last) + atomic_load(&known.answer);\n"
                      "}\n",
    "main.c": '#include "calmalloc.h"\n#include <stdio.h>\n'
              'int main(void) { printf("%d %d\\n", calm_one(), calm_two()); return 0; }\n',
}


def setUpModule():
    global FOLDER
    FOLDER = tempfile.mkdtemp(prefix="calm-dist-")
    run(sys.executable, MAKER, "--out", FOLDER)


def tearDownModule():
    shutil.rmtree(FOLDER)


def path_of(name):
    return os.path.join(FOLDER, name)


def written(name, text):
    with open(path_of(name), "w") as file:
        file.write(text)
    return path_of(name)


def compiled(language, name, *options):
    """The whole file's object, as a shared library has it. Made once."""
    if not os.path.exists(path_of(name)):
        run(*language, "-O2", "-fPIC", *options, "-c", path_of("calmalloc.c"), "-o", path_of(name))
    return path_of(name)


def instructions(path, function):
    lines = run("objdump", "-d", "--no-show-raw-insn", "--disassemble=" + function, path).stdout.splitlines()
    return sum(re.match(r"^\s+[0-9a-f]+:", line) is not None for line in lines)


class Whole(unittest.TestCase):
    def test_it_compiles_alone_without_a_warning_as_every_c_since_11(self):
        for words in (("gcc", "-std=c17"), ("gcc", "-std=gnu11", "-fPIC"), ("clang-19", "-std=c11")):
            with self.subTest(words):
                needs.here(words[0])
                run(*words, *STRICT, "-fsyntax-only", path_of("calmalloc.c"))

    # Seen to fail with class as a name, with a pointer to void that becomes another without a cast, with designated
    # members out of their order and without the nameless namespaces.
    def test_it_compiles_alone_without_a_warning_as_every_cpp_since_17(self):
        for words in (("g++", "-std=gnu++17"), ("g++", "-std=c++20", "-fno-exceptions", "-fno-rtti"),
                      ("clang++-19", "-std=c++20"), ("aarch64-linux-gnu-g++", "-std=c++17")):
            with self.subTest(words):
                needs.here(words[0])
                run(*words, *STRICT, "-fsyntax-only", "-x", "c++", path_of("calmalloc.c"))

    # In C++ an atomic is a plain word, which only the functions read and write in one piece. Seen to fail with
    # `extent->reserved` read without one.
    def test_atomics_are_read_and_written_by_functions_only(self):
        needs.here("clang-19")
        run("clang-19", "-std=c11", "-Werror=atomic-implicit-seq-cst", "-fsyntax-only", path_of("calmalloc.c"))

    def test_the_headers_compile_alone_as_c_and_as_cpp(self):
        for compiler, standard, header in (("gcc", "c11", "calmalloc.h"), ("g++", "c++17", "calmalloc.h"),
                                           ("g++", "c++17", "calmalloc.hpp"), ("g++", "c++20", "calmalloc.hpp"),
                                           ("clang++-19", "c++17", "calmalloc.hpp"),
                                           ("clang++-19", "c++20", "calmalloc.hpp")):
            with self.subTest(header + " as " + standard + " by " + compiler):
                needs.here(compiler)
                path = written("only" + (".c" if standard == "c11" else ".cpp"),
                               '#include "%s"\n#include "%s"\nint only(void);\nint only(void) { return 0; }\n' %
                               (header, header))
                run(compiler, "-std=" + standard, *STRICT, "-fsyntax-only", path)

    def test_the_header_of_pools_for_cpp_needs_no_header_of_the_heap(self):
        needs.here("clang++-19")
        path = written("pools.cpp", '#include <calmalloc/pool.hpp>\nvoid *block(calm::pool &pool);\n'
                                    'void *block(calm::pool &pool) { return pool.allocate(48); }\n')
        said = run("clang++-19", "-std=c++17", *STRICT, "-fsyntax-only", "-I", os.path.join(ROOT, "include"), "-H",
                   path).stderr
        self.assertIn("calmalloc/pool.h\n", said)
        self.assertNotIn("calmalloc/calmalloc.h", said)

    def test_it_is_made_the_same_twice(self):
        again = tempfile.mkdtemp(prefix="calm-dist-")
        try:
            run(sys.executable, MAKER, "--out", again)
            for name in ("calmalloc.c", "calmalloc.h", "calmalloc.hpp"):
                with open(os.path.join(again, name)) as one, open(path_of(name)) as other:
                    self.assertEqual(one.read(), other.read())
        finally:
            shutil.rmtree(again)


class Object:
    """What holds of the object, whatever the language. All is linked by gcc, so without a library of C++."""

    @classmethod
    def setUpClass(cls):
        needs.here(cls.LANGUAGE[0])
        cls.object = compiled(cls.LANGUAGE, cls.__name__ + ".o", *STRICT)

    def linked(self, name, text, *objects):
        program = path_of(type(self).__name__ + "-" + name)
        run("gcc", "-std=gnu11", "-O1", *STRICT, written(name + ".c", text), *objects, "-o", program, "-pthread")
        return program

    def test_it_defines_the_names_of_the_header_and_no_other(self):
        with open(path_of("calmalloc.h")) as file:
            text = re.sub(r"/\*.*?\*/|^static inline[^{]*\{.*?^\}", "", file.read(), flags=re.S | re.M)
        declared = set(re.findall(r"\b(calm_\w+)\(", text))
        self.assertGreater(len(declared), 20)
        self.assertEqual(defined_names(self.object) - {PROBES, ABORTED}, declared)

    # Seen to fail with an object that has a destructor.
    def test_it_needs_nothing_of_cpp_and_one_constructor_runs_before_main(self):
        needed = {line.split()[-1] for line in run("nm", "-u", self.object).stdout.splitlines()}
        self.assertIn("pthread_create", needed)
        self.assertEqual({name for name in needed if OF_CPP.match(name)}, set())
        sections = run("readelf", "-SW", self.object).stdout
        sizes = re.findall(r" (?:INIT|FINI)_ARRAY +[0-9a-f]+ [0-9a-f]+ ([0-9a-f]+)", sections)
        self.assertEqual([int(size, 16) for size in sizes], [8, 8])

    def test_a_program_runs_on_it_beside_the_c_librarys_malloc(self):
        said = run(self.linked("program", PROGRAM, self.object)).stdout.split()
        self.assertEqual(said[1:], ["sound", "0", "beside"])

    def test_a_build_sets_options_that_calm_options_overrides(self):
        sets = compiled(self.LANGUAGE, type(self).__name__ + "-sets.o", "-O0",
                        "-DCALM_BUILD_OPTIONS=\"purge_delay_ms=77,cache_kb=99,nobody=1\"")
        said = run("env", "CALM_OPTIONS=cache_kb=88", self.linked("options", OPTIONS, sets))
        self.assertEqual(said.stdout, "77 88\n")
        self.assertIn('"nobody" in CALM_OPTIONS is ignored', said.stderr)

    def test_a_pool_and_an_executor_run_on_it(self):
        self.assertEqual(run(self.linked("pools", POOLS, self.object)).stdout, "0 0 0 10\n")

    def test_preloaded_it_serves_a_process_with_threads_and_a_fork(self):
        library = path_of(type(self).__name__ + ".so")
        run("gcc", "-std=gnu11", "-O1", "-shared", "-fPIC", "-fno-builtin", *STRICT, written("standard.c", STANDARD),
            self.object, "-o", library, "-pthread")
        said = run("env", "LD_PRELOAD=" + library, "PYTHONMALLOC=malloc", sys.executable, "-c", EVERYBODY)
        self.assertEqual((said.stdout, said.stderr), ("7 112 None\n", ""))


class AsC(Object, unittest.TestCase):
    LANGUAGE = AS_C


class AsCpp(Object, unittest.TestCase):
    LANGUAGE = AS_CPP

    def test_the_fast_paths_take_as_many_instructions_as_in_c(self):
        of_c = compiled(AS_C, AsC.__name__ + ".o", *STRICT)
        for function in FAST_PATHS:
            with self.subTest(function):
                count = instructions(of_c, function)
                self.assertGreater(count, 10)
                self.assertLessEqual(instructions(self.object, function), count + ADDED_MAX)


class AsCppByClang(Object, unittest.TestCase):
    LANGUAGE = AS_CPP_BY_CLANG


class Small(unittest.TestCase):
    def made(self, files):
        folder = tempfile.mkdtemp(prefix="calm-dist-")
        self.addCleanup(shutil.rmtree, folder)
        for name, text in files.items():
            path = os.path.join(folder, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as file:
                file.write(text)
        return folder, run(sys.executable, MAKER, "--root", folder, "--out", folder, check=False)

    def test_names_that_two_sources_use_for_their_own_do_not_meet(self):
        folder, done = self.made(SMALL)
        self.assertEqual(done.returncode, 0, done.stderr)
        program = os.path.join(folder, "program")
        for language in (AS_C, AS_CPP, AS_CPP_BY_CLANG):
            with self.subTest(language):
                needs.here(language[0])
                run(*language, *STRICT, "-Wshadow", os.path.join(folder, "main.c"),
                    os.path.join(folder, "calmalloc.c"), "-o", program)
                self.assertEqual(defined_names(program) & {"front", "rear", "helper", "known", "facts"}, set())
                self.assertEqual(run(program).stdout, "40 82\n")  # 24 + (2 + 10 + 1) + 5 + 40

    def test_without_the_renaming_they_would_meet(self):
        """The control: the two sources one after the other."""
        folder, _ = self.made(SMALL)
        both = os.path.join(folder, "both.c")
        with open(both, "w") as file:
            file.write('#include "src/base/one.c"\n#include "src/core/two.c"\n')
        done = run("gcc", "-std=c11", "-I" + folder + "/src", "-fsyntax-only", both, check=False)
        self.assertIn("redefinition", done.stderr)

    def test_a_source_that_does_not_end_is_refused(self):
        _, done = self.made({**SMALL, "src/base/one.c": "int f(void) {\n"})
        self.assertEqual(done.returncode, 1)
        self.assertIn("does not end", done.stderr)


if __name__ == "__main__":
    needs.main()
