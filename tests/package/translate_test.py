"""Holds `calm translate` and its table to the options that there are.

What each test was seen to fail on is noted in it.
"""
import os
import re
import sys
import unittest

from support import CALM, ROOT, calm, needs, run

sys.path.append(os.path.join(ROOT, "tools", "calm"))
sys.dont_write_bytecode = True

import options  # noqa: E402
import translate  # noqa: E402

RULES = {"ms", "log2_bytes", "bytes_to_kb", "same"}
CALL = re.compile(r"\b(calm_\w+)\(")


class Table(unittest.TestCase):
    def setUp(self):
        self.knobs = translate.read()
        self.options = {row.name: row for row in options.read(ROOT)}

    def settings(self):
        """(knob, "option=value") of all values that are named."""
        return [(knob, ours) for knob in self.knobs if isinstance(knob.value, dict)
                for several in knob.value.values() for ours in several.split(",") if ours]

    def test_each_option_is_there_and_takes_the_value(self):
        # Seen to fail: an option that is none; a value beyond its range.
        for knob in self.knobs:
            self.assertIn(knob.to, [None, *self.options], knob.knob)
            self.assertIn(knob.value if isinstance(knob.value, str) else None, [None, *RULES], knob.knob)
        for knob, ours in self.settings():
            name, _, value = ours.partition("=")
            values = self.options[name].values
            if " to " in values:
                low, high = (int(word) for word in values.split(" to "))
                self.assertTrue(low <= int(value) <= high, (knob.knob, ours))
            else:
                self.assertIn(value, values.split(" or "), knob.knob)

    def test_each_call_and_option_that_a_note_names_is_there(self):
        # Seen to fail: a call that is none.
        header = ""
        for folder, _, names in os.walk(os.path.join(ROOT, "include")):
            for name in names:
                with open(os.path.join(folder, name)) as file:
                    header += file.read()
        for knob in self.knobs:
            for name in CALL.findall(knob.note):
                self.assertIn(name + "(", header, knob.knob)
            for word in re.findall(r"`([a-z_]+)(?:=[a-z]+)?`", knob.note):
                self.assertTrue(word in self.options or re.search(r"\b%s\b" % word, header) or
                                any(word == other.knob for other in self.knobs) or
                                word in ("sample_alloc", "block", "resident", "metadata"), (knob.knob, word))

    def test_no_knob_stands_twice(self):
        names = [(knob.family, knob.knob) for knob in self.knobs]
        self.assertEqual(len(names), len(set(names)))

    def test_the_page_is_made_from_it(self):
        # Seen to fail: a row changed by hand.
        with open(os.path.join(ROOT, "docs", "coming-from.md")) as file:
            self.assertEqual(file.read(), translate.page(), "python3 tools/calm/translate.py --page makes it anew.")


class Command(unittest.TestCase):
    def said(self, *texts, **environment):
        done = calm("translate", *texts, env=dict(os.environ, **environment))
        return done.stdout.strip(), done.stderr

    def test_a_variables_whole_text_becomes_options_that_the_library_takes(self):
        # Seen to fail: the power of two taken for KiB; a never that is 0; a rate that switches the profiler on.
        library = calm("lib").stdout.strip()
        for text, wanted in (
                ("background_thread:true,dirty_decay_ms:1000,lg_prof_sample:19,prof:true,narenas:2",
                 "purge_delay_ms=1000,profile_kb=512"),
                ("lg_prof_sample:16,prof:true,prof_prefix:a", "profile_kb=64"),
                ("prof:true,lg_prof_sample:16,prof_active:false,thp:never", "profile_kb=0,huge_from_mb=0"),
                ("lg_prof_sample:16,thp:never", "huge_from_mb=0"),
                ("MALLOC_CONF=dirty_decay_ms:-1,stats_print:true", "purge=trim,stats=text"),
                ("MIMALLOC_PURGE_DELAY=0", "purge_delay_ms=0"),
                ("TCMALLOC_HEAP_LIMIT_MB=100", "limit_mb=100"),
                ("TCMALLOC_SAMPLE_PARAMETER=65536", "profile_kb=64"),
                ("GLIBC_TUNABLES=glibc.malloc.arena_max=2:glibc.malloc.hugetlb=1",
                 "huge_from_mb=1,huge_blocks=all"),
                ("glibc.malloc.check=3", "misuse=stop"),
                ("MIMALLOC_PURGE_DELAY=99999999", "purge_delay_ms=60000"),
                ("_RJEM_MALLOC_CONF=dirty_decay_ms:3", "purge_delay_ms=3"),
                ("mimalloc_show_stats=on", "stats=text"),
                ("TCMALLOC_AGGRESSIVE_DECOMMIT=yes", "purge_delay_ms=0"),
                ("TCMALLOC_RELEASE_RATE=3", ""),
                ("MIMALLOC_LIMIT_OS_ALLOC=1", "")):
            out, _ = self.said(text)
            self.assertEqual(out, "CALM_OPTIONS=" + wanted, text)
            done = run("true", env=dict(os.environ, LD_PRELOAD=library, CALM_OPTIONS=wanted.replace("stats=text,", "")))
            self.assertNotIn("calmalloc:", re.sub(r"(?s)calmalloc \d.*", "", done.stderr) if "stats" in wanted else
                             done.stderr)

    def test_what_has_no_counterpart_says_why(self):
        # Seen to fail: a knob without a word.
        out, said = self.said("MALLOC_ARENA_MAX=2", "arena.0.purge", "no_such_knob:1")
        self.assertEqual(out, "CALM_OPTIONS=")
        self.assertRegex(said, r"MALLOC_ARENA_MAX 2 +no setting\. ")
        self.assertIn("calm_trim()", said)
        self.assertRegex(said, r"no_such_knob 1 +not known here")

    def test_without_words_it_is_of_the_environment(self):
        # Seen to fail: an environment that is not looked at.
        self.assertEqual(self.said(MALLOC_CONF="dirty_decay_ms:7")[0], "CALM_OPTIONS=purge_delay_ms=7")

    def test_its_line_can_be_exported_whatever_it_says(self):
        # Seen to fail: nothing printed where nothing is to be set, which export refuses.
        library = calm("lib").stdout.strip()
        for text, wanted in (("MALLOC_ARENA_MAX=2", ""), ("dirty_decay_ms:10", "purge_delay_ms=10")):
            done = run("sh", "-c", 'line=$("$1" translate "$2" 2>/dev/null) && export "$line" && '
                       'LD_PRELOAD="$3" sh -c \'echo "$CALM_OPTIONS"\'', "sh", CALM, text, library)
            self.assertEqual((done.stdout, done.stderr), (wanted + "\n", ""))

    def test_an_empty_text_is_no_text(self):
        # Seen to fail: a page without a line.
        self.assertEqual(self.said("", MALLOC_CONF="dirty_decay_ms:7")[0], "CALM_OPTIONS=purge_delay_ms=7")
        clean = {name: value for name, value in os.environ.items()
                 if not name.startswith(translate.PREFIXES + translate.VARIABLES + ("HEAP",))}
        done = calm("translate", "", env=clean, check=False)
        self.assertEqual((done.returncode, done.stdout, len(done.stderr.splitlines())), (2, "", 1), done.stderr)

    def test_what_is_no_number_is_refused(self):
        # Seen to fail: no setting, and no word about it.
        for text in ("dirty_decay_ms:soon", "dirty_decay_ms:", "MIMALLOC_PURGE_DELAY=1.5", "TCMALLOC_HEAP_LIMIT_MB=1G"):
            done = calm("translate", text, check=False)
            self.assertEqual((done.returncode, done.stdout, len(done.stderr.splitlines())), (2, "", 1), done.stderr)
            self.assertRegex(done.stderr, r"^calm: \w+ takes a whole number, not '")
        for number, wanted in (("0x10", "16"), ("010", "8"), ("9" * 9999, "60000")):
            self.assertEqual(self.said("dirty_decay_ms:" + number)[0], "CALM_OPTIONS=purge_delay_ms=" + wanted)

    def test_what_cannot_be_is_refused(self):
        # Seen to fail: no setting and an empty CALM_OPTIONS, which clears the one that is there.
        for text, said in (("thp:bogus", "calm: thp takes one of always, never, default, not 'bogus'"),
                           ("glibc.malloc.check=5", "calm: glibc.malloc.check takes one of 0, 1, 2, 3, not '5'"),
                           ("hello", "none of these is a setting"), ("FOO=1", "none of these is a setting"),
                           ("GLIBC_TUNABLES=garbage", "none of these is a setting")):
            done = calm("translate", text, check=False)
            self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
            self.assertIn(said, done.stderr)
        out, said = self.said("prof:true,lg_prof_sample:80")
        self.assertEqual(out, "CALM_OPTIONS=profile_kb=268435456")
        self.assertIn("profile_kb=268435456, as near as it can be.", said)

    def test_what_is_as_another_is_said_in_full(self):
        # Seen to fail: "As glibc.malloc.arena_max." and no more.
        knobs = translate.read()
        for knob in knobs:
            self.assertNotRegex(translate.note_of(knobs, knob), r"^As [`\w.]+[.;]( |$)", knob.knob)
        self.assertIn("There are no arenas", self.said("MALLOC_ARENA_TEST=2")[1])

    def test_hostile_text_is_one_page_and_no_traceback(self):
        for text in ("a" * 100000, ":,:,=:", "\x1b[2J:1", "dirty_decay_ms:" + "9" * 10000, "lg_prof_sample:-5",
                     "lg_prof_sample:99999999999", "glibc.malloc.", "="):
            done = calm("translate", text, check=False)
            self.assertIn(done.returncode, (0, 2), done.stderr)
            self.assertNotIn("Traceback", done.stderr)
            self.assertNotIn("\x1b", done.stdout + done.stderr)


if __name__ == "__main__":
    needs.main()
