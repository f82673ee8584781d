#!/usr/bin/env python3
"""Tests tools/bound: on code whose longest paths are known, on code that has none, and on pools with a loop or a call
put into their source.

    tool_test.py COMPILER FOLDER
"""
import json
import os
import re
import shutil
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
TOOL = os.path.join(ROOT, "tools", "bound")
FLAGS = ["-std=c17", "-O2", "-DCALM_CHECKS=1", "-fPIC", "-fvisibility=hidden", "-ffreestanding",
         "-I" + os.path.join(ROOT, "include")]
COMPILER, FOLDER = sys.argv[1:3]


def compiled(source, name, include):
    path = os.path.join(FOLDER, name + ".o")
    subprocess.run([COMPILER, *FLAGS, "-I" + include, "-c", source, "-o", path], check=True)
    return path


def bound(*arguments):
    return subprocess.run([sys.executable, TOOL, *arguments], capture_output=True, text=True)


def changed_pool(name, old, new):
    """An object of the pool's operations, with one place of their source changed."""
    sources = os.path.join(FOLDER, name)
    shutil.rmtree(sources, ignore_errors=True)
    for part in ("base", "pool"):
        shutil.copytree(os.path.join(ROOT, "src", part), os.path.join(sources, part))
    path = os.path.join(sources, "pool", "pool.c")
    with open(path) as file:
        text = file.read()
    if text.count(old) < 1:
        raise AssertionError("the place to change is not in pool.c: " + old)
    with open(path, "w") as file:
        file.write(text.replace(old, new, 1))
    return compiled(path, name, sources)


class Known(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.path = compiled(os.path.join(HERE, "known.c"), "known", HERE)

    def numbers(self, name):
        done = bound("--json", "--operation", name, self.path)
        self.assertEqual(done.returncode, 0, done.stderr)
        row = json.loads(done.stdout)["x86_64"][name]
        return row["instructions"], row["lines"], row["branches"]

    def refused(self, name, because):
        done = bound("--operation", name, self.path)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn(because, done.stderr)

    def test_a_straight_function_has_as_many_instructions_as_it_has(self):
        # Its argument is not known to be aligned, so that its two words may lie in two lines; two of the stack.
        self.assertEqual(self.numbers("known_straight"), (4, 4, 1))

    def test_the_longer_side_of_a_fork_counts(self):
        self.assertEqual(self.numbers("known_fork"), (6, 4, 2))

    def test_a_jump_backwards_that_makes_no_loop_is_accepted(self):
        self.assertEqual(self.numbers("known_backward"), (4, 2, 3))

    def test_a_second_read_of_the_same_word_is_no_further_line(self):
        self.assertEqual(self.numbers("known_same_line"), (5, 5, 1))

    def test_a_loop_is_refused(self):
        self.refused("known_loop", "a loop")

    def test_a_jump_to_the_own_entry_is_a_loop(self):
        self.refused("known_recursion", "a loop")

    def test_a_call_out_of_the_file_is_refused(self):
        self.refused("known_call", "a call of malloc")

    def test_a_jump_to_what_a_register_holds_is_refused(self):
        self.refused("known_indirect", "leads to where its operand says")

    def test_a_division_is_refused_as_its_time_depends_on_data(self):
        self.refused("known_division", "may take any time")

    def test_a_string_instruction_is_refused(self):
        self.refused("known_string", "may take any time")


class Pools(unittest.TestCase):
    def test_a_pool_with_a_loop_is_refused(self):
        path = changed_pool("with_loop", "    if (load(below, SEQ_CST) != 0)\n        fetch_or(",
                            "    while (load(below, SEQ_CST) != 0)\n        fetch_or(")
        done = bound("--operation", "calm_pool_drain", path)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("a loop", done.stderr)

    def test_a_pool_with_a_call_is_refused(self):
        path = changed_pool("with_call", "    pool->failed++;\n", "    pool_verify(pool);\n    pool->failed++;\n")
        done = bound("--operation", "calm_pool_alloc", path)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("a call of pool_verify", done.stderr)

    def test_a_table_that_says_less_or_more_than_the_code_needs_fails(self):
        path = compiled(os.path.join(ROOT, "src", "pool", "pool.c"), "pool", os.path.join(ROOT, "src"))
        measured = json.loads(bound("--json", "--operation", "calm_pool_free", path).stdout)["x86_64"]
        for change, check, exact in ((0, 0, 0), (-1, 1, 1), (1, 0, 1)):
            table = os.path.join(FOLDER, "table.def")
            with open(table, "w") as file:
                for name, row in measured.items():
                    features = " | ".join("HAS_" + one for one in name.split()[1:]) or "0"
                    file.write("BOUND(x86_64, pool_free, %s, %d, %d, %d)\n" %
                               (features, row["instructions"] + change, row["lines"], row["branches"]))
            for mode, expected in (("--check", check), ("--exact", exact)):
                done = bound(mode, table, "--operation", "calm_pool_free", path)
                self.assertEqual(done.returncode, expected, (change, mode, done.stderr))

    def test_what_a_configuration_does_without_shortens_the_longest_path(self):
        path = compiled(os.path.join(ROOT, "src", "pool", "pool.c"), "pool", os.path.join(ROOT, "src"))
        rows = json.loads(bound("--json", "--operation", "calm_pool_alloc", path).stdout)["x86_64"]
        self.assertEqual(len(rows), 8)
        for name, row in rows.items():
            for less, other in rows.items():
                if set(less.split()) < set(name.split()):
                    self.assertLess(other["instructions"], row["instructions"], (less, name))

    def test_a_feature_without_its_function_is_refused(self):
        path = changed_pool("inlined", "static NOINLINE void *lend(", "ALWAYS_INLINE void *lend(")
        done = bound("--operation", "calm_pool_alloc", path)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("no function lend to leave out", done.stderr)

    def test_every_operation_of_the_table_is_one_that_the_header_declares(self):
        with open(os.path.join(ROOT, "src", "pool", "bound_rows.def")) as file:
            named = re.findall(r"^BOUND\((\w+),", file.read(), re.M)
        with open(os.path.join(ROOT, "include", "calmalloc", "pool.h")) as file:
            header = file.read()
        self.assertTrue(named)
        for name in named:
            self.assertRegex(header, r"\bcalm_%s\(" % name)


if __name__ == "__main__":
    os.makedirs(FOLDER, exist_ok=True)
    unittest.main(argv=sys.argv[:1], verbosity=2)
