"""The one file of all sources: it compiles alone, a program runs on it, its names are calm_ names, and two sources that
use one name for things of their own do not meet in it."""
import os
import re
import shutil
import sys
import tempfile
import unittest

from support import ROOT, defined_names, run

MAKER = os.path.join(ROOT, "tools", "amalgamate.py")
PROBES = "_.stapsdt.base"  # hidden, and one for all objects: what the notes of probes refer to
STRICT = ("-Wall", "-Wextra", "-Wpedantic", "-Werror")

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

# Two sources with one name for: a function, a variable, a type, a constant, a macro; and a member of the same name.
# Also an attribute after parameters, a macro that makes a function, variables that share a declaration, and a parameter
# that has the name of the other source's variable.
SMALL = {
    "include/calmalloc/calmalloc.h": '#define CALM_VERSION_TEXT "9.8.7"\nint calm_one(void);\nint calm_two(void);\n',
    "include/calmalloc.hpp": "#include <calmalloc/calmalloc.h>\n",
    "src/base/attr.h": "#ifndef A\n#define A\n#define EXPORT __attribute__((visibility(\"default\")))\n"
                       "#define BESIDE\n#endif\n",
    "src/base/shared.h": '#ifndef S\n#define S\n#include "base/attr.h"\n'
                         "struct facts { int answer; };\nextern struct facts known;\nint helper(int value);\n#endif\n",
    "src/base/ends.h": "extern int front, rear;\n",
    "src/base/one.c": '#include "base/shared.h"\n#include "base/ends.h"\n#define SCALE 2\nenum { LIMIT = 10 };\n'
                      "struct part { int value; };\n"
                      "struct facts known = {.answer = 40};\nstatic int count, *last = &count;\nint front, rear;\n"
                      "static int answer(struct part part) { return part.value * SCALE + LIMIT + ++*last + front; }\n"
                      "int helper(int value) { return answer((struct part){.value = value}); }\n"
                      "EXPORT int calm_one(void) { return known.answer; }\n",
    "src/core/two.c": '#include "base/shared.h"\n#define SCALE 3\nenum { LIMIT = 20 };\n'
                      "struct part { double value; };\nstatic long last, count = 5;\n"
                      "#define MAKE(name) static int name(void) { return 0; }\nMAKE(nought)\n"
                      "static int rest(int front) BESIDE { return front + nought(); }\n"
                      "static double answer(struct part part) { return part.value * SCALE + LIMIT + rest(0); }\n"
                      "EXPORT int calm_two(void) BESIDE\n{\n    struct part part = {.value = 1.5};\n"
                      "    return (int)answer(part) + helper(1) + (int)(count + last) + known.answer;\n}\n",
    "main.c": '#include "calmalloc.h"\n#include <stdio.h>\n'
              'int main(void) { printf("%d %d\\n", calm_one(), calm_two()); return 0; }\n',
}


class Whole(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="calm-dist-")
        run(sys.executable, MAKER, "--out", cls.folder)
        cls.source = os.path.join(cls.folder, "calmalloc.c")
        cls.object = os.path.join(cls.folder, "calmalloc.o")
        run("gcc", "-std=c11", "-O1", *STRICT, "-c", cls.source, "-o", cls.object)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def test_it_compiles_alone_without_a_warning_as_every_c_since_11(self):
        for words in (("gcc", "-std=c17"), ("gcc", "-std=gnu11", "-fPIC"), ("clang-19", "-std=c11")):
            with self.subTest(words):
                run(*words, *STRICT, "-fsyntax-only", self.source)

    # Seen to fail without the look at the head of the file: 4063 errors.
    def test_a_compiler_of_cpp_is_told_in_one_sentence_that_it_is_c(self):
        for compiler in ("g++", "clang++-19"):
            with self.subTest(compiler):
                done = run(compiler, "-std=c++17", "-x", "c++", "-fsyntax-only", self.source, check=False)
                self.assertNotEqual(done.returncode, 0)
                self.assertEqual(len(re.findall(r"\berror: ", done.stderr)), 1, done.stderr)
                self.assertIn("calmalloc.c is C: compile it by cc -O2 -c calmalloc.c", done.stderr)

    def test_the_headers_compile_alone_as_c_and_as_cpp(self):
        for compiler, standard, header in (("gcc", "c11", "calmalloc.h"), ("g++", "c++17", "calmalloc.h"),
                                           ("g++", "c++17", "calmalloc.hpp"), ("g++", "c++20", "calmalloc.hpp"),
                                           ("clang++-19", "c++17", "calmalloc.hpp"),
                                           ("clang++-19", "c++20", "calmalloc.hpp")):
            with self.subTest(header + " as " + standard):
                path = os.path.join(self.folder, "only" + (".c" if standard == "c11" else ".cpp"))
                with open(path, "w") as file:
                    file.write('#include "%s"\n#include "%s"\nint only(void);\nint only(void) { return 0; }\n' %
                               (header, header))
                run(compiler, "-std=" + standard, *STRICT, "-fsyntax-only", path)

    def test_the_header_of_pools_for_cpp_needs_no_header_of_the_heap(self):
        path = os.path.join(self.folder, "pools.cpp")
        with open(path, "w") as file:
            file.write('#include <calmalloc/pool.hpp>\nvoid *block(calm::pool &pool);\n'
                       'void *block(calm::pool &pool) { return pool.allocate(48); }\n')
        said = run("clang++-19", "-std=c++17", *STRICT, "-fsyntax-only", "-I", os.path.join(ROOT, "include"), "-H",
                   path).stderr
        self.assertIn("calmalloc/pool.h\n", said)
        self.assertNotIn("calmalloc/calmalloc.h", said)

    def test_it_defines_the_names_of_the_header_and_no_other(self):
        with open(os.path.join(self.folder, "calmalloc.h")) as file:
            text = re.sub(r"/\*.*?\*/|^static inline[^{]*\{.*?^\}", "", file.read(), flags=re.S | re.M)
        declared = set(re.findall(r"\b(calm_\w+)\(", text))
        self.assertGreater(len(declared), 20)
        self.assertEqual(defined_names(self.object) - {PROBES}, declared)

    def test_a_program_runs_on_it_beside_the_c_librarys_malloc(self):
        source, program = os.path.join(self.folder, "program.c"), os.path.join(self.folder, "program")
        with open(source, "w") as file:
            file.write(PROGRAM)
        run("gcc", "-std=gnu11", "-O1", *STRICT, source, self.object, "-o", program, "-pthread")
        said = run(program).stdout.split()
        self.assertEqual(said[1:], ["sound", "0", "beside"])

    def test_a_build_sets_options_that_calm_options_overrides(self):
        source, program = os.path.join(self.folder, "options.c"), os.path.join(self.folder, "options")
        with open(source, "w") as file:
            file.write(OPTIONS)
        run("gcc", "-std=gnu11", "-O0", "-DCALM_BUILD_OPTIONS=\"purge_delay_ms=77,cache_kb=99,nobody=1\"", self.source,
            source, "-o", program, "-pthread")
        said = run("env", "CALM_OPTIONS=cache_kb=88", program)
        self.assertEqual(said.stdout, "77 88\n")
        self.assertEqual(said.stderr, 'calmalloc: there is no option "nobody"; see `calm options`\n')

    def test_a_pool_and_an_executor_run_on_it(self):
        source, program = os.path.join(self.folder, "pools.c"), os.path.join(self.folder, "pools")
        with open(source, "w") as file:
            file.write(POOLS)
        run("gcc", "-std=gnu11", "-O1", *STRICT, source, self.object, "-o", program, "-pthread")
        self.assertEqual(run(program).stdout, "0 0 0 10\n")

    def test_it_is_made_the_same_twice(self):
        again = tempfile.mkdtemp(prefix="calm-dist-")
        try:
            run(sys.executable, MAKER, "--out", again)
            for name in ("calmalloc.c", "calmalloc.h", "calmalloc.hpp"):
                with open(os.path.join(again, name)) as one, open(os.path.join(self.folder, name)) as other:
                    self.assertEqual(one.read(), other.read())
        finally:
            shutil.rmtree(again)


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
        run("gcc", "-std=c11", *STRICT, "-Wshadow", os.path.join(folder, "main.c"),
            os.path.join(folder, "calmalloc.c"), "-o", program)
        self.assertEqual(defined_names(program) & {"front", "rear", "helper"}, set())
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
    unittest.main()
