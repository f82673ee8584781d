"""The tests of a build folder by name, before and after they are built, and what each needs to be built.

ctest lists them, but a GoogleTest program tells its tests only once it is built: until then their names come from its
sources. What is made of values there, TEST_P, has a name that ends in `*`.
"""
import json
import os
import re
import subprocess
from dataclasses import dataclass, field

import build
from trouble import Trouble

PRODUCTS = "calm-products.txt"  # cmake/CalmTest.cmake writes it
NOT_BUILT = "_NOT_BUILT"
TEST = re.compile(r"^(TEST|TEST_F|TEST_P)\(\s*(\w+),\s*(\w+)\)", re.M)
INSTANCES = re.compile(r"^INSTANTIATE_TEST_SUITE_P\(\s*(\w+),\s*(\w+),", re.M)


@dataclass
class Product:
    target: str
    path: str
    label: str = ""  # of a GoogleTest program
    sources: list = field(default_factory=list)

    def names(self):
        """The tests that the sources of a GoogleTest program have."""
        text = ""
        for path in self.sources:
            with open(path) as file:
                text += file.read()
        suites = INSTANCES.findall(text)
        for kind, suite, name in TEST.findall(text):
            if kind != "TEST_P":
                yield "%s.%s.%s" % (self.target, suite, name)
            for instance in [one for one, of in suites if of == suite and kind == "TEST_P"]:
                yield "%s.%s/%s.%s/*" % (self.target, instance, suite, name)


@dataclass
class Test:
    name: str
    labels: set
    number: int  # ctest's; 0 where the program that has the test is not built
    targets: set  # what has to be built


def read(folder):
    """Every test of a configured build folder. Of a program that is built, the tests are those it says it has, and
    those its sources say: it may be older than they."""
    made = list(products(folder))
    programs = {one.target: one for one in made if one.sources}
    texts = dict(_texts(folder))
    by_path = {one.path: one.target for one in made}
    paths = re.compile(r"(%s)(?![\w.+-])" % "|".join(map(re.escape, by_path)))
    found = []
    for number, test in enumerate(_listed(folder), 1):
        name = test["name"]
        labels = {label for one in test.get("properties", []) if one["name"] == "LABELS" for label in one["value"]}
        if name.endswith(NOT_BUILT):
            continue
        if name in texts:
            found.append(Test(name, labels, number, {by_path[path] for path in paths.findall(texts[name])}))
        else:
            found.append(Test(name, labels, number, {name.split(".")[0]} & set(programs)))
    known = {test.name for test in found}
    for program in programs.values():
        found += [Test(name, {program.label}, 0, {program.target}) for name in program.names()
                  if name not in known and not any(one.startswith(name[:-1]) for one in known if name[-1] == "*")]
    return found


def matching(tests, pattern, skip, is_full):
    """The tests whose names a pattern matches, whatever their case, in ctest's order."""
    wanted, unwanted = _compiled(pattern or ""), _compiled(skip) if skip else None
    return [test for test in tests if wanted.search(test.name) and not (unwanted and unwanted.search(test.name)) and
            (is_full or "full" not in test.labels)]


def _compiled(pattern):
    try:
        return re.compile(pattern, re.I)
    except re.error as error:
        raise Trouble("'%s' is no regular expression: %s." % (pattern, error), 2) from None


def programs_with_values(folder, pattern):
    """The targets of unbuilt programs that may have a test by that name, since a value is part of it."""
    words = re.findall(r"[a-z0-9_]{3,}", pattern.lower())
    for product in products(folder):
        if product.sources and not os.path.exists(product.path):
            text = product.target
            for path in product.sources:
                with open(path) as file:
                    text += file.read().lower()
            if "\ntest_p(" in text and any(word in text for word in words):
                yield product.target


def products(folder):
    with open(os.path.join(folder, PRODUCTS)) as file:
        for line in file:
            target, path, *rest = line.rstrip("\n").split("|")
            yield Product(target, path, rest[0] if rest else "", rest[1:])


def _texts(folder):
    """(name, all that the build says of a test): its command, and its properties with its environment."""
    path = os.path.join(folder, "CTestTestfile.cmake")
    if not os.path.exists(path):
        return
    with open(path) as file:
        text = file.read()
    parts = {}
    for part in re.split(r"^(?=add_test\(|set_tests_properties\(|subdirs\(|include\()", text, flags=re.M):
        named = re.match(r"(?:add_test|set_tests_properties)\(\[(=*)\[(.*?)\]\1\]", part, re.S)
        if named:
            parts[named.group(2)] = parts.get(named.group(2), "") + part
    yield from parts.items()
    for below in re.findall(r'^subdirs\("(.*)"\)$', text, re.M):
        yield from _texts(os.path.join(folder, below))


def _listed(folder):
    """What ctest says of all tests, in the order of their numbers."""
    shown = subprocess.run(["ctest", "--test-dir", folder, "--show-only=json-v1"], text=True, cwd=build.ROOT,
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if shown.returncode != 0:
        raise Trouble("ctest cannot list the tests: " + shown.stderr.strip())
    return json.loads(shown.stdout)["tests"]
