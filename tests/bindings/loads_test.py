"""The Rust loads of the lab, at a small size: under calmalloc they compute what they compute under the C library."""
import importlib.util
import os
import tempfile
import unittest

from support import ROOT, fetched, need_cargo

FOLDER = os.path.join(ROOT, "bench", "rust")
# What they compute is looked at here, not how fast, so the compiler need not take minutes.
QUICKLY = {"CARGO_PROFILE_RELEASE_OPT_LEVEL": "1", "CARGO_PROFILE_RELEASE_LTO": "off",
           "CARGO_PROFILE_RELEASE_CODEGEN_UNITS": "16"}


def load_module():
    os.environ.setdefault("CALM_BENCH_CACHE", os.environ.get("CARGO_TARGET_DIR", tempfile.gettempdir()))
    spec = importlib.util.spec_from_file_location("loads", os.path.join(FOLDER, "loads.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Loads(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        os.environ.update(QUICKLY)
        fetched(FOLDER)
        cls.loads = load_module()
        cls.folders = {name: cls.loads.built(name, cls.loads.LOADS) for name in ("calm", "glibc")}

    def test_each_computes_the_same_on_both_and_says_what_it_needed(self):
        for load in self.loads.LOADS:
            with self.subTest(load):
                said = {name: self.loads.run([os.path.join(folder, load), "2"])[0]
                        for name, folder in self.folders.items()}
                self.assertEqual(said["calm"]["allocator"], "calm")
                self.assertEqual(said["glibc"]["allocator"], "glibc")
                self.assertEqual(said["calm"]["check"], said["glibc"]["check"])
                self.assertGreater(said["calm"]["peak_rss_kib"], 1000)

    def test_different_results_are_an_error(self):
        """The control of the comparison itself."""
        line = {"check": "1", "wall_s": 1, "cpu_s": 1, "peak_rss_kib": 1}
        with self.assertRaises(SystemExit):
            self.loads.judge("json", {"calm": [line], "glibc": [{**line, "check": "2"}]})


if __name__ == "__main__":
    need_cargo()
    unittest.main()
