"""Shows that every rule of tools/check_style.py can fail: a clean small tree has no finding, and each change to it
that breaks one rule gives exactly one finding, on the line that breaks it."""
import os
import subprocess
import sys
import tempfile
import unittest

CHECKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "check_style.py")

CLEAN = {
    ".clang-format": "ColumnLimit: 100\n",
    "src/base/attr.h": "/* attr.h: a fixture. */\n#ifndef ATTR_H\n#define ATTR_H\n#ifdef __clang__\n#endif\n#endif\n",
    "src/mem/span.h": "/* span.h: a fixture. */\n#ifndef SPAN_H\n#define SPAN_H\n#include <stdint.h>\n"
                      "#include \"base/attr.h\"\nint span(void);\n#endif\n",
    "src/mem/span.c": "/* span.c: a fixture. */\n#include \"mem/span.h\"\n\nint span(void)\n{\n    return 1;\n}\n",
    "src/core/depot.c": "/* depot.c: a fixture. */\n#include \"mem/span.h\"\n#include \"calmalloc/calmalloc.h\"\n",
    "src/os/linux/os.c": "/* os.c: a fixture. */\n#include <sys/mman.h>\n#if 1\n#endif\n",
    "src/libc/malloc.c": "/* malloc.c: a fixture. */\n#include <errno.h>\n#include \"core/depot.h\"\n",
    "tools/run.py": "print(1)\n",
}
SPAN = CLEAN["src/mem/span.c"]
LONG_NAME = "a" * 80


def after(text, extra):
    return text + extra


# name: (path, its text, line of the finding, words of its sentence)
BROKEN = {
    "an include upwards": ("src/mem/span.c", SPAN.replace("\n\n", "\n#include \"core/depot.h\"\n\n", 1), 3,
                           "lies above"),
    "an include of pools by a layer beside them": (
        "src/mem/span.c", SPAN.replace("\n\n", "\n#include \"pool/pool.h\"\n\n", 1), 3, "lies above"),
    "an include of the kernel by pools": ("src/pool/pool.c", "/* pool.c: a fixture. */\n#include \"os/os.h\"\n", 2,
                                          "lies above"),
    "an include of a higher part of core": (
        "src/core/depot.c", after(CLEAN["src/core/depot.c"], "#include \"core/cache.h\"\n"), 4,
        "depots includes \"core/cache.h\" of caches, a part of core above it"),
    "an include of a part that begins alike": (
        "src/core/purge_turn.c", "/* purge_turn.c: a fixture. */\n#include \"core/purge.h\"\n", 2,
        "notices includes \"core/purge.h\" of purge, a part of core above it"),
    "a file of core in no part": ("src/core/extra.c", "/* extra.c: a fixture. */\n", 1, "in no part of core"),
    "a relative include": ("src/mem/span.c", SPAN.replace("\n\n", "\n#include \"../base/attr.h\"\n\n", 1), 3,
                           "relative"),
    "an include of a source": ("src/core/depot.c", after(CLEAN["src/core/depot.c"], "#include \"mem/span.c\"\n"), 4,
                               "a .c is included"),
    "an include without layer": ("src/mem/span.c", SPAN.replace("\n\n", "\n#include \"span2.h\"\n\n", 1), 3,
                                 "no layer"),
    "own header second": ("src/mem/span.c", SPAN.replace("#include", "#include \"base/attr.h\"\n#include", 1), 2,
                          "must be included first"),
    "own header missing": ("src/mem/span.c", SPAN.replace("#include \"mem/span.h\"\n", ""), 1,
                           "must be included first"),
    "a system header": ("src/mem/span.c", SPAN.replace("\n\n", "\n#include <string.h>\n\n", 1), 3, "system header"),
    "a conditional": ("src/mem/span.c", after(SPAN, "#if 1\n#endif\n"), 8, "conditionals belong"),
    "a second guard": ("src/mem/span.h", after(CLEAN["src/mem/span.h"], "#ifndef B\n#define B\n#endif\n"), 8,
                       "conditionals belong"),
    "a layer nobody knows": ("src/extra/file.c", "/* file.c: a fixture. */\n", 1, "not a layer"),
    "no introduction": ("src/mem/span.c", SPAN.split("\n", 1)[1], 1, "no comment at the top"),
    "a long introduction": ("src/mem/span.c", "/*\n" + " * Words.\n" * 24 + " */\n" + SPAN.split("\n", 1)[1], 1,
                            "26 lines"),
    "a long function": ("src/mem/span.c", SPAN.replace("    return 1;\n", "    span();\n" * 69), 5, "71 lines"),
    "a long file": ("src/mem/span.c", after(SPAN, "\n" * 694), 702, "701 lines"),
    "a long line": ("src/mem/span.c", after(SPAN, "int %s%s;\n" % (LONG_NAME, "b" * 16)), 8, "101 columns"),
    "a long line of Python": ("tools/run.py", after("", "x = '%s'\n" % ("b" * 115)), 1, "121 columns"),
    "a tab": ("src/mem/span.c", after(SPAN, "\tint a;\n"), 8, "a tab"),
    "blanks at the end": ("src/mem/span.c", after(SPAN, "int a; \n"), 8, "blanks at the end"),
    "a note to oneself": ("src/mem/span.c", after(SPAN, "/* TO" + "DO: more */\n"), 8, "finish it"),
    "a repair note": ("src/mem/span.c", after(SPAN, "/* FIX" + "ME: more */\n"), 8, "finish it"),
    "a triple x": ("src/mem/span.c", after(SPAN, "/* X" + "XX: more */\n"), 8, "finish it"),
    "a ticket's number": ("src/mem/span.c", after(SPAN, "/* see issue " + "#12 */\n"), 8, "finish it"),
    "a path of a machine": ("tools/run.py", "open('/ho" + "me/someone/file')\n", 1, "path of one machine"),
}


class EveryRule(unittest.TestCase):
    def findings(self, files):
        with tempfile.TemporaryDirectory() as root:
            for path, text in files.items():
                full = os.path.join(root, path)
                os.makedirs(os.path.dirname(full), exist_ok=True)
                with open(full, "w") as file:
                    file.write(text)
            done = subprocess.run([sys.executable, CHECKER, root], capture_output=True, text=True)
            lines = done.stdout.splitlines()
            self.assertTrue(lines and lines[-1].startswith("check_style: "), done.stdout + done.stderr)
            found = lines if "no file to check" in lines[-1] else lines[:-1]
            self.assertEqual(done.returncode, 1 if found else 0)
            return found

    def test_a_clean_tree_has_no_finding(self):
        self.assertEqual(self.findings(CLEAN), [])

    def test_an_empty_tree_is_an_error(self):
        self.assertNotEqual(self.findings({".clang-format": CLEAN[".clang-format"]}), [])

    def test_limits_allow_their_own_value(self):
        self.assertEqual(self.findings(
            {**CLEAN, "src/mem/span.c": after(SPAN, "int %s%s;\n" % (LONG_NAME, "b" * 15))}), [])
        self.assertEqual(self.findings({**CLEAN, "src/mem/span.c": after(SPAN, "\n" * 693)}), [])
        self.assertEqual(self.findings(
            {**CLEAN, "src/mem/span.c": SPAN.replace("    return 1;\n", "    span();\n" * 68)}), [])

    def test_words_in_comments_are_no_includes(self):
        self.assertEqual(self.findings(
            {**CLEAN, "src/mem/span.c": SPAN.replace("\n\n", "\n/*\n#include \"core/depot.h\"\n#if 1\n*/\n\n", 1)}), [])

    def test_a_part_of_core_includes_itself_and_those_below(self):
        names = ("cores", "depot_parts", "slab", "rows", "misuse")
        lines = "".join("#include \"core/%s.h\"\n" % name for name in names)
        self.assertEqual(self.findings({**CLEAN, "src/core/thread.c": "/* thread.c: a fixture. */\n" + lines}), [])

    def test_each_break_is_found_once_on_its_line(self):
        for name, (path, text, line, words) in BROKEN.items():
            with self.subTest(name):
                found = self.findings({**CLEAN, path: text})
                self.assertEqual(len(found), 1, found)
                self.assertTrue(found[0].startswith("%s:%d: " % (path, line)), found[0])
                self.assertIn(words, found[0])


if __name__ == "__main__":
    unittest.main()
