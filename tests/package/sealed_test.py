"""The static libraries name to a linker what the headers and libcalmalloc.so name, and nothing else; and programs whose
own functions are named as those inside link with them, in any order and both together.

    sealed_test.py COMPILER LIBCALMALLOC_A LIBCALMPOOL_A LIBCALMEXEC_A LIBCALMALLOC_SO

Seen to fail: an archive of plain objects, which has hundreds of names more, and whose program does not link.
"""
import os
import re
import subprocess
import sys
import tempfile
import unittest

from support import ROOT, run

COMPILER, HEAP, POOL, EXEC, SHARED = sys.argv[1:6]
# Hidden: what the heap asks of the pools, and the one base of a program's probes.
BETWEEN = {"calm_pools_used", "calm_pools_find_slow", "calm_pool_look"}
PROBES = {"_.stapsdt.base"}
# Names inside, taken by a program for its own: of the heap, the pools and the executor.
CLASHES = ("live_end", "region", "heap_free_slow", "cache_free_slow", "plan_make", "claim_map", "pools_add", "dispatch",
           "ring_put", "worker_main", "policy_find", "os_wait")


def names(path, table, visibility="DEFAULT"):
    """What a file defines for others."""
    lines = run("readelf", "-W", table, path).stdout.split("\n")
    words = [line.split() for line in lines]
    return {word[7].split("@")[0] for word in words if len(word) >= 8 and word[4] in ("GLOBAL", "WEAK", "UNIQUE")
            and word[6] != "UND" and word[5] == visibility}


def declared(header):
    with open(os.path.join(ROOT, "include", "calmalloc", header)) as file:
        return set(re.findall(r"\b(calm_\w+)\(", file.read()))


class Sealed(unittest.TestCase):
    def test_the_library_names_what_the_shared_one_names(self):
        self.assertIn("malloc", names(HEAP, "--symbols"))
        self.assertEqual(names(HEAP, "--symbols"), names(SHARED, "--dyn-syms"))
        self.assertEqual(names(HEAP, "--symbols", "HIDDEN"), BETWEEN | PROBES)

    def test_the_pools_and_the_executor_name_what_their_headers_declare(self):
        for library, header, first in ((POOL, "pool.h", "calm_pool_alloc"), (EXEC, "exec.h", "calm_exec_start")):
            with self.subTest(header):
                self.assertIn(first, names(library, "--symbols"))
                self.assertEqual(names(library, "--symbols") - declared(header), set())
        self.assertEqual(names(POOL, "--symbols", "HIDDEN"), BETWEEN)
        self.assertEqual(names(EXEC, "--symbols", "HIDDEN"), set())

    def test_a_program_may_use_the_names_inside_for_its_own(self):
        source = "#include <calmalloc/calmalloc.h>\n#include <calmalloc/exec.h>\n#include <calmalloc/pool.h>\n"
        source += "#include <stdlib.h>\n"
        source += "".join("int %s(void);\nint %s(void) { return %d; }\n" % (name, name, at)
                          for at, name in enumerate(CLASHES))
        source += "int main(void)\n{\n    calm_pool *pool;\n    struct calm_pool_config config = {0};\n"
        source += "    void *block = malloc(100);\n    int sum = calm_pool_create(&config, &pool) == 0;\n"
        source += "    sum += calm_exec_strerror(0) == NULL || calm_usable_size(block) < 100;\n    free(block);\n"
        source += "    return sum + %s - %d;\n}\n" % (" + ".join(name + "()" for name in CLASHES),
                                                     sum(range(len(CLASHES))))
        with tempfile.TemporaryDirectory(prefix="calm-sealed-") as folder:
            path = os.path.join(folder, "clashes")
            with open(path + ".c", "w") as file:
                file.write(source)
            for order in ((EXEC, POOL, HEAP), (HEAP, EXEC, POOL)):
                for static in ([], ["-static"]):
                    with self.subTest(order=order, static=static):
                        run(COMPILER, "-std=gnu17", "-fno-builtin", "-I", os.path.join(ROOT, "include"), path + ".c",
                            *order, "-pthread", "-o", path, *static)
                        self.assertEqual(subprocess.run([path]).returncode, 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
