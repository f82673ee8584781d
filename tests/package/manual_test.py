"""The manual: every public call has a page, pages are well made and always the same, and headers.py refuses a header
that would leave one out. And the symbols file, the other thing that is made of the headers.

    manual_test.py LIBRARY...      the libraries whose calls must have pages
"""
import os
import re
import shutil
import sys
import tempfile
import unittest

from support import ROOT, needs, run

TOOLS = os.path.join(ROOT, "tools")
sys.path.insert(0, TOOLS)
import headers  # noqa: E402

LIBRARIES = []
TOP = "/* small.h: for a test. */\n#ifndef SMALL_H\n#define SMALL_H\n"


def made(folder, **environment):
    run(sys.executable, os.path.join(TOOLS, "make_man.py"), "--out", folder, env=dict(os.environ, **environment))
    return folder


def names_in_headers():
    text = ""
    for name in headers.header_names(ROOT):
        with open(os.path.join(ROOT, "include", name)) as file:
            text += re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
    return set(re.findall(r"\bcalm_\w+(?=\()", text))


def all_files(folder):
    found = {}
    for place, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            with open(path) as file:
                found[os.path.relpath(path, folder)] = (os.path.islink(path) and os.readlink(path), file.read())
    return found


class Manual(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = made(tempfile.mkdtemp(prefix="calm-man-"))

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def page(self, name, section=3):
        with open(os.path.join(self.folder, "man%d" % section, "%s.%d" % (name, section))) as file:
            return file.read()

    def test_every_exported_call_has_a_page_that_declares_it(self):
        declared, seen = names_in_headers(), 0
        for library in LIBRARIES:
            words = ["-D"] if library.endswith(".so") else []
            lines = run("nm", *words, "--defined-only", "--extern-only", library).stdout.splitlines()
            names = {line.split()[2].split("@")[0] for line in lines if len(line.split()) == 3}
            for name in sorted(name for name in names if name.startswith("calm_")):
                if words or name in declared:  # in an archive, names between its own objects are global, too
                    self.assertIn("\n", self.page(name))
                    self.assertRegex(self.page(name), r"\b%s\(" % name)
                    seen += 1
        self.assertGreater(seen, 60)

    def test_every_name_of_the_headers_that_looks_like_a_call_has_a_page(self):
        pages = {name[:-2] for name in os.listdir(os.path.join(self.folder, "man3"))}
        self.assertEqual(names_in_headers() - pages, set())

    def test_every_option_and_command_is_described(self):
        with open(os.path.join(ROOT, "src", "front", "options.def")) as file:
            options = re.findall(r"^(?:NUMBER|CHOICE)\((\w+),", file.read(), re.M)
        for name in options:
            self.assertIn("\n.TP\n\\fB%s\\fP" % name, self.page("calmalloc", 7))
        self.assertIn("calm run [\\-\\-quiet]", self.page("calm", 1))

    def test_two_runs_write_the_same_bytes(self):
        with tempfile.TemporaryDirectory() as other:
            made(other, PYTHONHASHSEED="7")
            self.assertEqual(all_files(self.folder), all_files(other))

    def test_a_date_can_be_given(self):
        with tempfile.TemporaryDirectory() as other:
            made(other, SOURCE_DATE_EPOCH="86400")
            self.assertIn(" 1970-01-02 ", all_files(other)["man1/calm.1"][1])

    def test_readers_of_man_pages_warn_of_nothing(self):
        pages = sorted(os.path.join(place, name) for place, _, names in os.walk(self.folder) for name in names)
        readers = {"mandoc": ["-Tlint", "-Wwarning"], "groff": ["-man", "-ww", "-Tutf8", "-z"]}
        found = [name for name in readers if shutil.which(name)]
        for name in found:
            done = run(name, *readers[name], *pages, check=False)
            self.assertEqual((done.stdout + done.stderr, done.returncode), ("", 0), name)
        if not found:
            needs.here("mandoc")


class Headers(unittest.TestCase):
    def read(self, text):
        return headers.read_text("small.h", TOP + text + "\n#endif\n").declarations

    def test_a_declaration_without_comment_is_refused(self):
        for text in ("int calm_a(void);", "struct calm_a {\n    int b;\n};", "#define CALM_A 1", "enum { CALM_A };",
                     "typedef struct calm_a calm_a;", "/* A. */\nint calm_a(void);\n\nint calm_b(void);",
                     "namespace calm\n{\nclass a\n{\n};\n}"):
            with self.assertRaisesRegex(headers.Trouble, r"^small\.h:\d+: '\S+' has no comment"):
                self.read(text)

    def test_the_refusal_names_line_and_declaration(self):
        with self.assertRaisesRegex(headers.Trouble, r"^small\.h:7: 'calm_b'"):
            self.read("/* A. */\nint calm_a(void);\n\nint calm_b(void);")

    def test_comments_are_shared_up_to_an_empty_line_and_costs_are_apart(self):
        a, b, c = self.read("/* Does a. Cost: little. */\nint calm_a(const char *name, size_t n);\n"
                            "int calm_b(void); /* Other. */\n\n/* C. */\nvoid *calm_c(int (*f)(void));")
        self.assertEqual((a.paragraphs, a.cost, a.group), (["Does a."], "little.", ["calm_a", "calm_b"]))
        self.assertEqual([(p.type, p.name) for p in a.parameters], [("const char *", "name"), ("size_t", "n")])
        self.assertEqual(b.paragraphs, ["Does a.", "Other."])
        self.assertEqual((c.returns, c.parameters[0].name), ("void *", "f"))

    def test_fields_and_constants_have_their_comments(self):
        s, e = self.read("/* S. */\nstruct calm_s {\n    int a; /* first */\n    char *b;\n};\n\n"
                         "/* E. */\nenum {\n    CALM_X, /* x */\n    CALM_Y /* y */\n};")
        self.assertEqual([(m.name, m.comment) for m in s.members], [("a", "first"), ("b", "")])
        self.assertEqual([(m.name, m.comment) for m in e.members], [("CALM_X", "x"), ("CALM_Y", "y")])

    def test_what_is_internal_is_left_out(self):
        self.assertEqual(self.read("/* Internal: steps. */\n#define CALM_STEP 1\n#define CALM_STEP_2 2"), [])


class Symbols(unittest.TestCase):
    """The symbols file of the Debian package, which is made of the same headers."""

    def test_it_promises_what_the_library_has(self):
        for library in LIBRARIES:
            if library.endswith(".so"):
                done = run(sys.executable, os.path.join(TOOLS, "make_symbols.py"), "--library", library)
                self.assertIn("\n calm_malloc@Base 0.", done.stdout)
                self.assertIn("\n malloc@Base 0.", done.stdout)
                self.assertNotIn("calm_exec_", done.stdout)

    def test_a_library_without_a_promised_name_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            library = os.path.join(folder, "empty.so")
            run("cc", "-shared", "-o", library, "-x", "c", os.devnull)
            done = run(sys.executable, os.path.join(TOOLS, "make_symbols.py"), "--library", library, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr, r"lacks .*\bcalm_malloc\b.*which the headers or the version script promise")


if __name__ == "__main__":
    LIBRARIES = [word for word in sys.argv[1:] if os.path.isfile(word)]
    needs.main(argv=sys.argv[:1])
