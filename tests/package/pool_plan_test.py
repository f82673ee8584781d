"""Holds `calm pool plan` and `calm run --sizes` to what they say: classes against every possible choice, recorded peaks
against a program that counts its own."""
import itertools
import json
import os
import random
import shutil
import sys
import tempfile
import unittest

from support import CALM, calm, run

sys.path.insert(0, os.path.join(os.path.dirname(CALM), "tools", "calm"))
import pool  # noqa: E402
import pool_plan  # noqa: E402

PROGRAM = """
#include <stdlib.h>
int main(void)
{
    void *volatile held[7];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 7; i++)
            held[i] = malloc(7777);
        for (int i = 0; i < 7; i++)
            free(held[i]);
    }
    void *volatile one = calloc(3, 1111);
    void *volatile other = aligned_alloc(64, 6400);
    one = realloc(one, 5555);
    void *volatile large = malloc(3 << 20);
    free(one);
    free(other);
    free(large);
    return 0;
}
"""


def waste(rows, lasts):
    """Rounding bytes of a choice, counted block by block."""
    total, first = 0, 0
    for last in lasts:
        for size, peak, asked, _ in rows[first:last + 1]:
            total += rows[last][0] * peak - asked
        first = last + 1
    return total


class Planner(unittest.TestCase):
    def test_no_choice_of_classes_loses_less_than_the_one_proposed(self):
        source = random.Random(1)
        for _ in range(60):
            histogram = [(source.randrange(1, 3000), source.randrange(1, 50)) for _ in range(source.randrange(1, 10))]
            rows = pool_plan.merge(histogram)
            found = pool_plan.best(rows, 64)
            self.assertEqual(len(found), len(rows))
            for count, (lost, lasts) in enumerate(found, 1):
                choices = [(*cuts, len(rows) - 1) for cuts in itertools.combinations(range(len(rows) - 1), count - 1)]
                self.assertEqual(lost, min(waste(rows, choice) for choice in choices), (histogram, count))
                self.assertEqual(lost, waste(rows, lasts))

    def test_two_sizes_and_one_class_lose_what_the_smaller_one_leaves(self):
        made = pool_plan.plan([(16, 10), (64, 1)], 1)
        self.assertEqual([one.block_bytes for one in made.classes], [64])
        self.assertEqual(made.classes[0].rounding_bytes, 10 * 48)
        self.assertEqual([one.block_bytes for one in pool_plan.plan([(16, 10), (64, 1)], 2).classes], [16, 64])

    def test_more_classes_never_lose_more(self):
        source = random.Random(2)
        rows = pool_plan.merge([(source.randrange(1, 100000), source.randrange(1, 9)) for _ in range(700)])
        lost = [bytes_ for bytes_, _ in pool_plan.best(rows, 64)]
        self.assertEqual(lost, sorted(lost, reverse=True))

    def test_what_is_many_times_the_whole_is_no_percentage(self):
        # Seen to fail: 20000.0 %.
        self.assertEqual([pool.percentage(part, 10) for part in (0, 1, 99, 100, 2000)],
                         ["0.0 %", "10.0 %", "990.0 %", "10 times", "200 times"])
        self.assertEqual(pool.percentage(1, 0), "-")

    def test_a_stride_is_what_the_library_says_it_is(self):
        sizes = list(range(1, 64)) + [100, 1000, 4095, 4097, 1 << 20]
        import pool
        library = pool.Library()
        for size in sizes:
            self.assertIsNotNone(library.bytes_of([size], [1]))
            self.assertEqual(pool_plan.stride(size), library.said.stride_bytes[0], size)


class Command(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="calm-pool-")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def file(self, name, text=""):
        path = os.path.join(self.folder, name)
        with open(path, "w") as file:
            file.write(text)
        return path

    def plan(self, text, *more):
        return json.loads(calm("pool", "plan", "--json", *more, self.file("sizes", text)).stdout)

    def test_the_proposed_pool_holds_every_peak_as_the_library_counts(self):
        made = self.plan("24 100000\n40 70000\n1000 300\n1048576 2\n", "--classes", "3", "--headroom", "0")
        self.assertEqual([one["block_bytes"] for one in made["classes"]], [40, 1000, 1048576])
        self.assertEqual([one["peak"] for one in made["classes"]], [170000, 300, 2])
        for one in made["classes"]:
            self.assertEqual(one["blocks"], one["peak"])
        needed = sum(one["blocks"] * one["block_bytes"] for one in made["classes"])
        self.assertTrue(needed < made["bytes"] < 1.02 * needed + (1 << 17), (needed, made["bytes"]))
        self.assertEqual(made["classes"][0]["rounding_bytes"], 100000 * 16)

    def test_headroom_is_in_the_blocks(self):
        made = self.plan("64 1000\n", "--headroom", "50")
        self.assertEqual(made["classes"][0]["blocks"], 1500)

    def test_what_no_class_can_hold_is_left_out_and_said(self):
        self.assertEqual(self.plan("64 1000\n2000000 3\n")["left_out_blocks"], 3)

    def test_the_table_ends_with_a_configuration_that_compiles_and_makes_a_pool(self):
        said = calm("pool", "plan", self.file("sizes", "24 100\n500 20\n")).stdout
        source = self.file("made.c", "#include <calmalloc/pool.h>\nint main(void) {\n%s\ncalm_pool *pool;\n"
                           "return calm_pool_create(&config, &pool);\n}\n" % said[said.index("static const"):])
        library = os.path.dirname(calm("lib").stdout.strip())
        program = os.path.join(self.folder, "made")
        run("cc", "-I", os.path.join(os.path.dirname(CALM), "include"), source, "-o", program, "-L", library,
            "-lcalmpool")
        run(program)

    def test_a_file_that_is_no_histogram_is_refused_in_one_sentence(self):
        for text, word in (("", "nothing to plan"), ("{}", "--sizes"), ("12 x\n", "line 1"), ("2000000 1\n", "nothing"),
                           ("8 20000000\n", "16,777,216")):
            done = calm("pool", "plan", self.file("bad", text), check=False)
            self.assertEqual((done.returncode, done.stdout), (1, ""), text)
            self.assertIn(word, done.stderr)
        self.assertEqual(calm("pool", "plan", "--classes", "65", self.file("bad", "8 1"), check=False).returncode, 2)

    def test_recorded_peaks_are_those_of_the_program(self):
        program, sizes = os.path.join(self.folder, "counted"), os.path.join(self.folder, "counted.json")
        run("cc", "-O1", self.file("counted.c", PROGRAM), "-o", program)
        calm("run", "--quiet", "--sizes", sizes, "--", program)
        with open(sizes) as file:
            found = json.load(file)
        rows = {row["bytes"]: (row["allocs"], row["peak"]) for row in found["sizes"]}
        self.assertEqual([rows.get(size) for size in (7777, 3333, 6400, 5555)], [(21, 7), (1, 1), (1, 1), (1, 1)])
        self.assertEqual(found["larger"], {"allocs": 1, "peak": 1})
        self.assertGreaterEqual(found["peak_live_bytes"], 3 << 20)

    def test_children_do_not_write_over_what_their_parent_records(self):
        sizes = os.path.join(self.folder, "parent.json")
        program = os.path.join(self.folder, "parent")
        run("cc", "-O1", self.file("parent.c", PROGRAM.replace("int main(void)\n{", """#include <unistd.h>
            int main(void)\n{\n    if (fork() == 0) exit(0);\n    if (system("/bin/true") != 0) return 1;""")),
            "-o", program)
        calm("run", "--quiet", "--sizes", sizes, "--", program)
        with open(sizes) as file:
            rows = {row["bytes"]: row["peak"] for row in json.load(file)["sizes"]}
        self.assertEqual(rows.get(7777), 7)


if __name__ == "__main__":
    unittest.main(verbosity=2)
