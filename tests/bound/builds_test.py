#!/usr/bin/env python3
"""What calm_pool_bound says is of the very code that is linked: programs of one file, by several optimisations.

    builds_test.py COMPILER FOLDER

Each is the amalgamation and a program that prints what calm_pool_bound says. Before it is stamped that is
CALM_EUNCHECKED and no cost. Then it is what tools/bound computes of that program, or still CALM_EUNCHECKED where there
is no bound. Seen to fail with a stamp of another program, and with costs that were left from an earlier stamp.
"""
import os
import re
import shutil
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
COMPILER, FOLDER = sys.argv[1], os.path.abspath(sys.argv[2])
PROGRAM = """
#include <calmalloc.h>
#include <stdio.h>
int main(void)
{
    const size_t sizes[] = {64, 128};
    const uint32_t blocks[] = {100, 200};
    const struct calm_pool_config config = {.block_bytes = sizes, .blocks = blocks, .classes = 2};
    struct calm_pool_limits limits;
    calm_pool *pool;
    if (calm_pool_bound(&config, &limits) != 0 || calm_pool_create(&config, &pool) != 0)
        return 1;
    void *block = calm_pool_alloc(pool, 100); /* used, so that nothing is left out of the link */
    if (block == NULL || calm_pool_free(pool, block) != 0 || calm_pool_free_remote(pool, NULL) != 0)
        return 1;
    printf("%d %u %u %u\\n", limits.cost_code == CALM_EUNCHECKED, limits.alloc.instructions, limits.free.lines,
           limits.free_remote.branches);
    return 0;
}
"""


def run(*command):
    return subprocess.run(command, capture_output=True, text=True)


def bound(*words):
    return run(sys.executable, os.path.join(ROOT, "tools", "bound"), *words)


class Builds(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        shutil.rmtree(FOLDER, ignore_errors=True)
        os.makedirs(FOLDER)
        subprocess.run([sys.executable, os.path.join(ROOT, "tools", "amalgamate.py"), "--root", ROOT, "--out", FOLDER],
                       check=True)
        with open(os.path.join(FOLDER, "program.c"), "w") as file:
            file.write(PROGRAM)

    def program(self, *flags):
        path = os.path.join(FOLDER, "program" + "".join(flags).replace("-", "_"))
        subprocess.run([COMPILER, "-std=c11", "-w", *flags, "-DCALM_CHECKS=1", "-I" + FOLDER,
                        os.path.join(FOLDER, "calmalloc.c"), os.path.join(FOLDER, "program.c"), "-o", path, "-pthread"],
                       check=True)
        return path

    def said(self, path):
        return run(path).stdout.split()

    def test_it_is_of_the_code_that_is_linked(self):
        seen = set()
        for flags in (("-O2",), ("-Os", "-fno-stack-protector")):
            path = self.program(*flags)
            self.assertEqual(self.said(path), ["1", "0", "0", "0"])
            self.assertNotEqual(bound("--stamped", path).returncode, 0)
            self.assertEqual(bound("--stamp", path).returncode, 0)
            self.assertEqual(bound("--stamped", path).returncode, 0)
            computed = bound(path).stdout
            self.assertEqual(self.said(path), [
                "0", re.search(r"calm_pool_alloc +(\d+) inst", computed)[1],
                re.search(r"calm_pool_free MANY .* (\d+) lines", computed)[1],
                re.search(r"calm_pool_free_remote MANY .* (\d+) branches", computed)[1]])
            seen.add(tuple(self.said(path)))
        self.assertEqual(len(seen), 2, "both builds say the same: are they?")

    def test_code_without_a_bound_says_so_also_where_it_was_stamped_before(self):
        path = self.program("-O0")
        with open(path, "rb") as file:
            at = file.read().index(b"calm-bound-stamp")
        with open(path, "r+b") as file:  # as if it had been written
            file.seek(at + 24)
            file.write(b"\1\0\0\0")
        self.assertEqual(self.said(path)[0], "0")
        done = bound("--stamp", path)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"\Abound: [^\n]+ has no bound: [^\n]+ was not checked\.\n\Z")
        self.assertEqual(self.said(path), ["1", "0", "0", "0"])

    def test_what_is_not_of_calmalloc_is_refused(self):
        done = bound("--stamp", "/bin/ls")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("no stamp", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
