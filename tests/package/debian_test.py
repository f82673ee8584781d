"""The Debian packages: built with their tests on, twice to the same bytes, without an error of lintian's, and unpacked
into an empty folder, where programs are compiled against them and run on them."""
import hashlib
import os
import re
import shutil
import sys
import tempfile
import unittest

from support import HERE, ROOT, needs, run

CONSUMER = os.path.join(HERE, "consumer")
PACKAGES = ("libcalmalloc0", "libcalmalloc-dev", "calmalloc-tools")


def need_builder():
    needs.need("dpkg-buildpackage", "dh", "lintian")
    done = run("dpkg-checkbuilddeps", cwd=ROOT, check=False)
    if done.returncode != 0:
        needs.skip("apt-get build-dep would bring what is missing: " + done.stderr.split(":")[-1].strip())


def copy_of_the_tree(folder):
    """What a checkout has: the files git knows, as they are now."""
    names = run("git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard").stdout.split("\0")
    for name in names:
        source, target = os.path.join(ROOT, name), os.path.join(folder, name)
        if name and os.path.exists(source):
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copy2(source, target)


def built(folder, options, **variables):
    tree = os.path.join(folder, "calmalloc")
    copy_of_the_tree(tree)
    keep = {key: value for key, value in os.environ.items() if not key.startswith(("CALM_", "CMAKE_"))}
    done = run("dpkg-buildpackage", "-us", "-uc", "-b", cwd=tree,
               env=dict(keep, DEB_BUILD_OPTIONS=options + " parallel=%d" % (os.cpu_count() or 1), **variables))
    return done.stdout


def digests(folder):
    found = {}
    for name in os.listdir(folder):
        if name.endswith(".deb"):
            with open(os.path.join(folder, name), "rb") as file:
                found[name] = hashlib.sha256(file.read()).hexdigest()
    return found


class Debian(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="calm-debian-")
        cls.first = os.path.join(cls.folder, "first")
        cls.log = built(cls.first, "")
        cls.root = os.path.join(cls.folder, "root")
        for name in os.listdir(cls.first):
            if name.endswith(".deb") and "dbgsym" not in name:
                run("dpkg", "-x", os.path.join(cls.first, name), cls.root)
        cls.triplet = run("dpkg-architecture", "-qDEB_HOST_MULTIARCH").stdout.strip()
        cls.libraries = os.path.join(cls.root, "usr", "lib", cls.triplet)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def path(self, *parts):
        return os.path.join(self.root, "usr", *parts)

    def test_the_build_ran_the_tests(self):
        self.assertRegex(self.log, r"100% tests passed, 0 tests failed out of [1-9]\d+")

    def test_there_are_three_packages(self):
        names = {name.split("_")[0] for name in os.listdir(self.first) if name.endswith(".deb")}
        self.assertEqual({name for name in names if not name.endswith("-dbgsym")}, set(PACKAGES))

    def test_lintian_finds_no_error(self):
        changes = [os.path.join(self.first, name) for name in os.listdir(self.first) if name.endswith(".changes")]
        done = run("lintian", "--fail-on", "error", "--allow-root", *changes, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_another_build_elsewhere_gives_the_same_bytes(self):
        with tempfile.TemporaryDirectory(prefix="calm-debian-again-") as again:
            built(again, "nocheck")
            self.assertEqual(digests(again), digests(self.first))

    # Seen to fail with sealing that knows nothing of link-time optimisation.
    def test_it_builds_and_passes_its_tests_with_link_time_optimisation(self):
        with tempfile.TemporaryDirectory(prefix="calm-debian-lto-") as folder:
            log = built(folder, "", DEB_BUILD_MAINT_OPTIONS="optimize=+lto hardening=+all")
            self.assertIn("-flto=auto -ffat-lto-objects", log)
            self.assertRegex(log, r"100% tests passed, 0 tests failed out of [1-9]\d+")
            for name in os.listdir(folder):
                if name.startswith(("libcalmalloc0_", "libcalmalloc-dev_")) and name.endswith(".deb"):
                    run("dpkg", "-x", os.path.join(folder, name), os.path.join(folder, "root"))
            libraries = os.path.join(folder, "root", "usr", "lib", self.triplet)
            self.assertIn("BIND_NOW", run("readelf", "-d", os.path.join(libraries, "libcalmalloc.so.0")).stdout)
            program = os.path.join(folder, "consumer")
            run("cc", "-O2", "-flto=auto", "-I", os.path.join(folder, "root", "usr", "include"),
                os.path.join(CONSUMER, "consumer.c"), "-o", program, os.path.join(libraries, "libcalmalloc.a"))
            self.assertRegex(run(program).stdout, r"malloc ours calm_malloc ours stack foreign$")

    def test_the_library_is_hardened(self):
        library = os.path.join(self.libraries, "libcalmalloc.so.0")
        dynamic, segments = run("readelf", "-d", library).stdout, run("readelf", "-lW", library).stdout
        self.assertIn("BIND_NOW", dynamic)
        self.assertIn("GNU_RELRO", segments)
        self.assertIn("-D_FORTIFY_SOURCE=2", self.log)

    def test_a_program_built_with_the_packages_runs(self):
        env = dict(os.environ, PKG_CONFIG_PATH=os.path.join(self.libraries, "pkgconfig"))
        flags = run("pkg-config", "--cflags", "--libs", "calmalloc", env=env).stdout.split()
        program = os.path.join(self.folder, "consumer")
        run("cc", "-O2", os.path.join(CONSUMER, "consumer.c"), "-o", program, *flags)
        done = run(program, env=dict(os.environ, LD_LIBRARY_PATH=self.libraries))
        self.assertRegex(done.stdout, r"^version \S+ header \S+ malloc ours calm_malloc ours stack foreign$")

    def test_any_program_runs_on_it_preloaded(self):
        done = run(sys.executable, "-c", "print(sorted('ba'))", env=dict(
            os.environ, LD_LIBRARY_PATH=self.libraries, LD_PRELOAD="libcalmalloc.so.0", CALM_OPTIONS="stats=text"))
        self.assertEqual(done.stdout, "['a', 'b']\n")
        self.assertRegex(done.stderr, r"[1-9]\d* +allocated_bytes")

    def test_the_command_needs_no_sources(self):
        with open(self.path("bin", "calm")) as file:
            words = re.search(r"^exec (.*) \"\$@\"$", file.read(), re.M).group(1).split()
        self.assertTrue(os.path.isdir(self.root + words[-1]))
        command = words[:-1] + ["-B", self.root + words[-1]]
        self.assertRegex(run(*command, "version").stdout, r"^calmalloc \d+\.\d+\.\d+$")
        self.assertIn("purge_delay_ms", run(*command, "options").stdout)
        done = run(*command, "run", "--", "sort", "--version")
        self.assertIn("sort (GNU", done.stdout)
        self.assertIn("counted       nothing", done.stderr)
        self.assertNotIn("building", done.stderr)

    def test_manuals_are_there(self):
        for name in ("man1/calm.1.gz", "man3/calm_malloc.3.gz", "man3/calm_stats_json.3.gz", "man7/calmalloc.7.gz"):
            self.assertTrue(os.path.exists(self.path("share", "man", name)), name)


if __name__ == "__main__":
    need_builder()
    unittest.main()
