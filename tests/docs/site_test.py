"""`calm docs` builds the site strictly: every link and every anchor leads somewhere, every page has a place in the
navigation, every public name is in the reference, and nothing is fetched when a page is read. What is wrong stops it.
"""
import html
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PARTS = ("calm", "mkdocs.yml", "CMakeLists.txt", "LICENSE", "README.md", "TOUR.md", "CONTRIBUTING.md", "CHANGELOG.md",
         "SECURITY.md", "docs", "include", "tools", "bindings", "examples", "src", "bench/README.md",
         "tests/programs")  # what the site is made of, or links to
BUILD = os.environ["CALM_BUILD_DIR"]
SITE = os.path.join(BUILD, "site")


def docs(root=ROOT, folder=BUILD):
    return subprocess.run([os.path.join(root, "calm"), "docs"], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, env=dict(os.environ, CALM_BUILD_DIR=folder))


def pages():
    """All but that for addresses that are none: its links are for a server."""
    return [os.path.join(folder, name) for folder, _, names in os.walk(SITE) for name in names
            if name.endswith(".html") and name != "404.html"]


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def setUpModule():
    if sys.version_info < (3, 11):
        print("skipped: the site's packages need Python 3.11.")
        sys.exit(77)
    done = docs()
    if "could not be installed" in done.stderr:
        print("skipped: " + done.stderr.strip())
        sys.exit(77)
    if done.returncode != 0:
        raise AssertionError(done.stdout + done.stderr)
    assert done.stdout == os.path.join(SITE, "index.html") + "\n", done.stdout


class Site(unittest.TestCase):
    def test_every_page_of_the_tree_is_there(self):
        for folder, _, names in os.walk(os.path.join(ROOT, "docs")):
            for name in names:
                if name.endswith(".md"):
                    path = os.path.relpath(os.path.join(folder, name), os.path.join(ROOT, "docs"))
                    self.assertTrue(os.path.exists(os.path.join(SITE, path[:-3] + ".html")), path)
        # Seen to fail: words of an older README.
        first = read(os.path.join(SITE, "index.html"))
        for heading in re.findall(r"^## (.*)$", read(os.path.join(ROOT, "README.md")), re.M):
            self.assertIn(html.escape(heading), first)
        self.assertIn("malloc(48)", read(os.path.join(SITE, "tour.html")))

    def test_the_reference_has_each_call_of_the_headers_with_a_section(self):
        for name in os.listdir(os.path.join(ROOT, "include", "calmalloc")):
            if not name.endswith(".h"):
                continue
            text = re.sub(r"/\*.*?\*/", "", read(os.path.join(ROOT, "include", "calmalloc", name)), flags=re.S)
            page = read(os.path.join(SITE, "reference", name.replace(".h", ".html")))
            headings = html.unescape(" ".join(re.findall(r"<h2[^>]*>(.*?)<a", page)))
            calls = re.findall(r"^(?:\w[\w ]*[ *])?(calm_\w+)\([^)]*\)[^;{]*;", text, re.M)
            self.assertGreater(len(calls), 2, name)
            self.assertEqual([call for call in calls if not re.search(r"\b%s\b" % call, headings)], [])

    def test_options_are_those_of_the_definition(self):
        names = re.findall(r"^(?:NUMBER|CHOICE)\((\w+),", read(os.path.join(ROOT, "src", "front", "options.def")), re.M)
        page = read(os.path.join(SITE, "options.html"))
        self.assertEqual([name for name in names if "<code>%s</code>" % name not in page], [])

    def test_links_between_pages_lead_to_pages_and_none_to_sources(self):
        for path in pages():
            for target in re.findall(r'<a [^>]*href="([^"#:]+)["#]', read(path)):
                to = os.path.join(os.path.dirname(path), html.unescape(target))
                self.assertTrue(os.path.exists(to), "%s in %s" % (target, path))

    def test_reading_a_page_fetches_nothing(self):
        fetched = re.compile(r'<(script|img|iframe)[^>]+src="(https?:)?//|<link[^>]+(stylesheet|preconnect)[^>]+//')
        for path in pages():
            self.assertIsNone(fetched.search(read(path)), path)


class Mistakes(unittest.TestCase):
    """In a copy of what the site is made of."""

    def setUp(self):
        self.copy = tempfile.mkdtemp(prefix="calm-site-")
        self.addCleanup(shutil.rmtree, self.copy)
        for part in PARTS:
            source, target = os.path.join(ROOT, part), os.path.join(self.copy, part)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            if os.path.isdir(source):
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("target", "__pycache__"))
            else:
                shutil.copy(source, target)
        os.mkdir(os.path.join(self.copy, "build"))
        os.symlink(os.path.join(BUILD, "site-venv"), os.path.join(self.copy, "build", "site-venv"))

    def stopped(self):
        done = docs(self.copy, os.path.join(self.copy, "build"))
        self.assertEqual(done.returncode, 1)
        return sum(line.startswith("WARNING") for line in done.stderr.splitlines()), done.stderr

    def test_a_link_and_an_anchor_that_lead_nowhere_stop_it(self):
        with open(os.path.join(self.copy, "docs", "heap.md"), "a") as file:
            file.write("\n[a](nowhere.md) [b](top.md#nowhere) [c](../src/nowhere.c)\n")
        count, said = self.stopped()
        self.assertEqual(count, 3, said)
        for words in ("nowhere.md", "top.md#nowhere", "nowhere.c"):
            self.assertIn(words, said)

    def test_a_page_without_a_place_stops_it_and_one_of_a_known_folder_has_one(self):
        os.mkdir(os.path.join(self.copy, "docs", "elsewhere"))
        for path in ("docs/elsewhere/lost.md", "docs/design/found.md"):
            with open(os.path.join(self.copy, path), "w") as file:
                file.write("# A page\n")
        count, said = self.stopped()
        self.assertEqual(count, 1, said)
        self.assertIn("elsewhere/lost.md", said)
        self.assertNotIn("found.md", said)


if __name__ == "__main__":
    unittest.main()
