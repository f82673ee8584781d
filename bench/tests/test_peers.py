"""Checks how peers are built and proved: each way to be wrong ends in one sentence or a marked cell, never in a wait.

Run with `python3 bench/tests/test_peers.py`. Takes some seconds; needs gcc, no network, no cargo.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from unittest import mock

BENCH = Path(__file__).resolve().parent.parent
FOLDER = Path(tempfile.mkdtemp(prefix="calm-peers-test-"))
os.environ["CALM_BENCH_CACHE"] = str(FOLDER / "cache")
sys.path.insert(0, str(BENCH))

import rows as rows_module  # noqa: E402
from harness import build, libraries, measure, peer_recipes, peer_tools, peers  # noqa: E402
from harness.base import Stop  # noqa: E402

# What the proof says of each fault of tiny_peer.c.
FAULTS = {
    1: "ended by signal",
    2: "took longer than 1 s",
    3: "passes calls on",
    4: "lost byte",
    5: "is not zero at 999",
    6: "was changed while it was live",
    8: "malloc_usable_size of",
    9: "malloc comes from",
    10: "was changed while it was live, with threads",
    11: "a forked child did not end well",
}


def tiny(fault: int = 0, per_cpu: int = 0) -> str:
    library = FOLDER / f"libtiny{fault}-{per_cpu}.so"
    if not library.exists():
        flags = ["-O2", "-fno-builtin", "-shared", "-fPIC", f"-DFAULT={fault}", f"-DPER_CPU={per_cpu}"]
        subprocess.run(["gcc", *flags, "-o", library, BENCH / "tests" / "tiny_peer.c"], check=True)
    return str(library)


def recipe(make, **more) -> peer_recipes.Recipe:
    return peer_recipes.Recipe(version="1.0", source="here", flags="none", make=make, **more)


def gives(library: str):
    return lambda shop, _recipe: shop.keep(Path(library))


def stops(sentence: str):
    def make(_shop, _recipe):
        raise Stop(sentence)

    return make


class Case(unittest.TestCase):
    def sentence(self, call, *arguments, **more) -> str:
        with self.assertRaises(Stop) as caught:
            call(*arguments, **more)
        text = str(caught.exception)
        self.assertEqual(len(text.splitlines()), 1, text)
        return text

    def recipes(self, again: bool = False, **recipes) -> dict:
        """What `peers` finds with these recipes instead of the real ones."""
        with mock.patch.dict(peers.RECIPES, recipes, clear=True):
            with mock.patch.object(peers, "NAMES", tuple(recipes) + ("glibc",)), mock.patch.object(peers, "note"):
                known = peers.build_all(again)
                self.assertEqual(len(peers.table(known).splitlines()), 2 + len(recipes) + 1)
                self.printed, self.left_out = peers.table(known), peers.missing()
        return known

    def setUp(self):
        for left in peer_tools.FOLDER.glob("*"):
            if left.is_dir():
                shutil.rmtree(left)
            elif not left.name.startswith("proof-"):
                left.unlink()
        peer_tools.crates.cache_clear()


class Proof(Case):
    def proof(self, library: str, env=None, **more):
        return peers.prove_in_depth("it", library, env or {}, **more)

    def test_a_sound_library_and_the_c_library_are_proved(self):
        for library in (tiny(), ""):
            said = self.proof(library)
            self.assertGreater(said["checks"], 20000)
            self.assertEqual(said["faults"], "")
            self.assertEqual(said["c_library_bytes"] > 0, library == "")

    def test_each_fault_is_one_sentence(self):
        for fault, expected in FAULTS.items():
            with self.subTest(fault=fault), mock.patch.object(peers, "PROOF_SECONDS", 1 if fault == 2 else 60):
                self.assertIn(expected, self.sentence(self.proof, tiny(fault)))

    def test_what_only_some_programs_meet_is_told_and_not_refused(self):
        self.assertIn("aligned_alloc(256", self.proof(tiny(7))["faults"])
        self.assertIn("posix_memalign(3, 100) is not refused", self.proof(tiny(12))["faults"])
        self.recipes(crooked=recipe(gives(tiny(7))))
        self.assertIn("fault: aligned_alloc(256", self.printed)

    def test_a_path_for_each_processor_is_proved_on_with_its_setting_and_off_without(self):
        said = self.proof(tiny(per_cpu=1), {"CALM_TEST_PER_CPU": "1"}, has_per_cpu_path=True)
        self.assertEqual((said["per_cpu_active"], said["per_cpu_active_without_env"]), (1, 0))
        for library, env in ((tiny(per_cpu=2), {"CALM_TEST_PER_CPU": "1"}), (tiny(per_cpu=1), {}), (tiny(), {})):
            said = self.sentence(self.proof, library, env, has_per_cpu_path=True)
            self.assertIn("path for each processor is off", said)

    def test_names_are_refused_where_they_are_not_the_librarys(self):
        self.assertIn("it is not active: malloc comes from", self.sentence(peers.prove, "it", tiny(9)))
        self.assertIn("it is not active", self.sentence(peers.prove, "it", str(FOLDER / "gone.so")))
        self.assertEqual(peers.prove("it", tiny())["c"], ["reallocarray", "valloc", "pvalloc", "free_sized",
                                                          "free_aligned_sized"])  # fmt: skip

    def test_a_hang_while_names_are_asked_for_ends(self):
        source = FOLDER / "sleeper.c"
        source.write_text("#include <unistd.h>\n__attribute__((constructor)) static void go(void) { sleep(60); }\n")
        library = FOLDER / "libsleeper.so"
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)
        with mock.patch.object(peers, "PROBE_SECONDS", 0.3):
            self.assertIn("took longer than 0.3 s", self.sentence(peers.prove, "it", str(library)))


class Commands(Case):
    def test_what_takes_too_long_is_killed_with_all_it_started(self):
        start = time.monotonic()
        told = FOLDER / "child"
        text = self.sentence(
            peer_tools.limited, ["sh", "-c", f"sleep 60 & echo $! > {told}; wait"], "Building it", 0.5
        )
        self.assertEqual(text, "Building it took longer than 0.5 s.")
        self.assertLess(time.monotonic() - start, 10)
        stat = Path(f"/proc/{told.read_text().strip()}/stat")
        while self.is_alive(stat):  # on a busy machine a killed process needs a while to go
            self.assertLess(time.monotonic() - start, 10)
            time.sleep(0.01)

    @staticmethod
    def is_alive(stat: Path) -> bool:
        try:
            return ") Z " not in stat.read_text()
        except OSError:
            return False

    def test_a_missing_program_is_named(self):
        text = self.sentence(peer_tools.limited, ["no-such-program"], "Building it", 1)
        self.assertEqual(text, "Building it: no-such-program is not installed.")

    def test_a_failed_build_says_the_error_and_where_the_log_is(self):
        shop, source = peer_tools.Workshop("broken"), FOLDER / "broken.c"
        source.write_text("int main(void) { return nothing; }\nint more(void) { return neither; }\n")
        text = self.sentence(shop.build, ["gcc", "-c", source, "-o", FOLDER / "broken.o"], "it")
        self.assertIn("Building it failed (the log is", text)
        self.assertIn("error", text)
        self.assertIn("nothing", text)
        log = Path(text.split("the log is ")[1].split(")")[0])
        self.assertIn("neither", log.read_text())

    def test_another_file_than_the_pinned_one_is_refused(self):
        shop = peer_tools.Workshop("fetched")
        (shop.folder / "a.whl").write_text("something else")
        self.assertIn("is pinned", self.sentence(shop.checked, "*.whl", "0" * 64))
        self.assertIn("no *.deb came", self.sentence(shop.checked, "*.deb", "0" * 64))

    def test_an_interrupted_build_goes_on_where_it_stopped(self):
        shop, sources = peer_tools.Workshop("parts"), [FOLDER / "one.c", FOLDER / "two.c"]
        sources[0].write_text("int one;\n")
        sources[1].write_text("int two(void) { return nothing; }\n")
        self.sentence(shop.objects, sources, ["gcc"], "it")
        first = next(shop.folder.glob("000-*.o")).stat().st_mtime_ns
        sources[1].write_text("int two;\n")
        made = shop.objects(sources, ["gcc"], "it")
        self.assertEqual((len(made), made[0].stat().st_mtime_ns), (2, first))


class Peers(Case):
    def test_a_peer_that_cannot_be_had_is_listed_with_its_reason_and_the_others_are_there(self):
        known = self.recipes(
            none=recipe(stops("there is no network")),
            crash=recipe(gives(tiny(1))),
            empty=recipe(gives(tiny(9))),
            gone=recipe(gives(str(FOLDER / "gone.so"))),
            sound=recipe(gives(tiny())),
        )
        self.assertEqual([name for name, entry in known.items() if "path" in entry], ["glibc", "sound"])
        self.assertIn("| none | - | - | - | no: there is no network |", self.printed)
        self.assertIn("ended by signal", self.left_out["crash"])
        self.assertIn("malloc comes from", self.left_out["empty"])
        self.assertIn("No such file", self.left_out["gone"])
        self.assertEqual(list(self.left_out), ["none", "crash", "empty", "gone"])

    def test_a_hanging_peer_ends_after_its_time(self):
        with mock.patch.object(peers, "PROOF_SECONDS", 1):
            self.recipes(hang=recipe(gives(tiny(2))))
        self.assertIn("took longer than 1 s", self.left_out["hang"])

    def test_a_second_call_builds_and_proves_nothing(self):
        sound = {"sound": recipe(gives(tiny()))}
        first = self.recipes(**sound)
        with mock.patch.object(peers, "limited", side_effect=AssertionError("a command ran")):
            second = self.recipes(sound=recipe(stops("built again")))
        self.assertEqual(first["sound"], second["sound"])

    def test_a_changed_pin_or_library_or_a_missing_one_is_noticed(self):
        self.recipes(sound=recipe(gives(tiny())))
        changed = recipe(stops("built again"), options=("-O3",))
        self.assertIn("built again", self.recipes(sound=changed)["sound"].get("reason", ""))
        built = self.recipes(sound=recipe(gives(tiny())))["sound"]
        shutil.copyfile(tiny(4), built["path"])
        self.assertIn("lost byte", self.recipes(sound=recipe(stops("built again")))["sound"]["reason"])
        built = self.recipes(sound=recipe(gives(tiny())))["sound"]
        os.unlink(built["path"])
        self.assertIn("built again", self.recipes(sound=recipe(stops("built again")))["sound"]["reason"])

    def test_what_is_there_stays_when_it_cannot_be_had_again(self):
        first = self.recipes(sound=recipe(gives(tiny())))
        again = self.recipes(True, sound=recipe(stops("there is no network")))
        self.assertEqual(first["sound"], again["sound"])

    def test_a_list_that_cannot_be_read_is_one_sentence(self):
        peer_tools.FOLDER.mkdir(parents=True, exist_ok=True)
        peers.MANIFEST.write_text("{")
        self.assertIn("is not JSON", self.sentence(peers.load))

    def test_without_compilers_and_registries_each_peer_has_one_sentence(self):
        """The real recipes, the command line, and a PATH that holds nothing."""
        nothing = FOLDER / "nothing"
        nothing.mkdir()
        cache = str(FOLDER / "empty-cache")
        environment = dict(os.environ, PATH=str(nothing), PIP_NO_INDEX="1", CALM_BENCH_CACHE=cache)
        done = subprocess.run(
            [sys.executable, str(BENCH / "calm_bench.py"), "peers"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            timeout=60,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        for name in peers.NAMES:
            line = next(line for line in done.stdout.splitlines() if line.startswith(f"| {name} |"))
            self.assertIn("| no: ", line)
        for expected in (
            "Fetching the crates: cargo is not installed.",
            "apt-get is not installed.",
            "gcc is not installed.",
            "Fetching cmeel-mimalloc 3.4.3 failed (the log is",
        ):
            self.assertIn(expected, done.stdout)
        self.assertNotIn("Traceback", done.stdout + done.stderr)

    def test_the_document_names_every_peer_with_its_version_and_what_it_cannot_do(self):
        rows = [line.split("|") for line in (BENCH / "peers" / "README.md").read_text().splitlines()]
        told = {row[1].strip().strip("`"): [cell.strip() for cell in row] for row in rows if len(row) > 5}
        for name, wanted in peers.RECIPES.items():
            self.assertEqual(told[name][2:5], [wanted.version, wanted.source, wanted.flags], name)
            self.assertIn(wanted.cannot or "-", told[name][5], name)


class Rows(Case):
    """A peer that was sound when it was proved and fails in a row: the cell says it, and the run goes on."""

    @classmethod
    def setUpClass(cls):
        folder = FOLDER / "binaries"
        folder.mkdir()
        for name, source, more in (("launch", BENCH / "launch.c", ["-static"]),
                                   ("replace", BENCH / "workloads" / "replace.c", [])):  # fmt: skip
            subprocess.run(["gcc", *build.FLAGS, *more, "-o", folder / name, source, "-ldl"], check=True)
        cls.patch = mock.patch.object(build, "binaries", lambda *_: folder)
        cls.patch.start()

    @classmethod
    def tearDownClass(cls):
        cls.patch.stop()

    def failed(self, library: str) -> str:
        row = next(row for row in rows_module.ROWS if row.name == "slots")
        settings = measure.Settings(1, seed=1, scale=0.001, limit=1)
        return measure.run_once(row, libraries.Library("it", library), settings)["failed"]

    def test_a_crash_and_a_hang_are_marked_and_a_sound_peer_is_not(self):
        self.assertEqual(self.failed(tiny()), "")
        self.assertIn("it ended by signal", self.failed(tiny(1)))
        self.assertIn("it took longer than 1 s", self.failed(tiny(2)))

    def test_a_library_without_malloc_and_a_missing_file_are_marked(self):
        for library in (tiny(9), str(FOLDER / "gone.so")):
            self.assertIn("so the library was not active", self.failed(library))

    def test_the_setting_of_a_peer_reaches_the_program(self):
        entry = {"path": tiny(), "version": "1", "env": peers.RECIPES["tcmalloc_percpu"].env}
        with mock.patch.object(peers, "load", return_value={"tcmalloc_percpu": entry}):
            (chosen,) = libraries.choose([], "tcmalloc_percpu", (), False)
        self.assertEqual(chosen.env, {"GLIBC_TUNABLES": "glibc.pthread.rseq=0"})
        self.assertEqual(json.loads(json.dumps(chosen.record()))["env"], chosen.env)


if __name__ == "__main__":
    try:
        unittest.main()
    finally:
        shutil.rmtree(FOLDER, ignore_errors=True)
