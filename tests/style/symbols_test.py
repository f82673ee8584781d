"""What the includes cannot show: no object names a function or variable of a layer, or of a part of core, above its
own, but those of UPWARDS. And a tree of two files that does is found out.

    symbols_test.py OBJECTS CC      OBJECTS: the folder where calm_core_objects has those of src/
"""
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools"))
import check_style  # noqa: E402

COMPILER, OBJECTS = sys.argv.pop(), sys.argv.pop().rstrip(os.sep)

# Declared below and defined above, each where its header says so.
UPWARDS = {
    "base": {"check_write", "check_abort"},
    "pool": {"claim_lock", "claim_unlock", "claim_map", "claim_return", "claim_populate"},
    "core": {"above", "limit_passed_by", "heap_configure"},
}
SKIPPED = 77


def rank(layer, name):
    """The place of a file in the order of layers and parts, from below."""
    part = check_style.core_part(name) if layer == "core" else 0
    return check_style.LAYERS.index(layer), -1 if part is None else part


def read_symbols(folder):
    """The global names that objects define and that they need, each as a list of layer, file, name."""
    paths = [os.path.join(here, name) for here, _, names in os.walk(folder) for name in names if name.endswith(".o")]
    said = subprocess.run(["nm", "-A"] + paths, check=True, stdout=subprocess.PIPE, text=True).stdout
    defined, needed = [], []
    for line in said.splitlines():
        path, rest = line[len(folder) + 1:].split(":", 1)
        kind, word = rest.split()[-2:]
        entry = (path.split(os.sep)[0], os.path.basename(path).replace(".c.o", ".c"), word)
        if kind == "U":
            needed.append(entry)
        elif kind.isupper():
            defined.append(entry)
    return defined, needed


def upwards(folder):
    """Each name of something above, as a sentence; and how many names were seen."""
    defined, needed = read_symbols(folder)
    where = {word: (layer, name) for layer, name, word in defined}
    found = sorted("%s/%s needs %s of %s/%s" % (layer, name, word, *where[word]) for layer, name, word in needed
                   if word in where and rank(*where[word]) > rank(layer, name) and word not in UPWARDS.get(layer, ()))
    return found, len(where)


class Symbols(unittest.TestCase):
    def test_none_goes_up(self):
        found, count = upwards(OBJECTS)
        self.assertGreater(count, 500)
        self.assertEqual(found, [])

    def test_one_that_goes_up_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(os.path.join(folder, "core"))
            os.mkdir(os.path.join(folder, "mem"))
            for path, text in (("core/slab", "void purge_all(void); void slab(void) { purge_all(); }"),
                               ("core/purge", "void slab(void); void purge_all(void) { slab(); }"),
                               ("mem/span", "void slab(void); void span(void) { slab(); }")):
                source = os.path.join(folder, path + ".c")
                with open(source, "w", encoding="utf-8") as file:
                    file.write(text + "\n")
                subprocess.run([COMPILER, "-c", source, "-o", source + ".o"], check=True)
            self.assertEqual(upwards(folder)[0], ["core/slab.c needs purge_all of core/purge.c",
                                                  "mem/span.c needs slab of core/slab.c"])


if __name__ == "__main__":
    if upwards(OBJECTS)[1] == 0:
        print("symbols_test: no symbols in '%s': objects of link-time optimisation, perhaps." % OBJECTS)
        sys.exit(SKIPPED)
    unittest.main()
