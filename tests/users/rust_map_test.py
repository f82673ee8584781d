"""A service in Rust has a map that only grows: `calm heap -- PROGRAM` names the line that inserts, and the line that
makes what is kept.

Seen to fail with a map that is emptied (MENDED)."""
import os
import unittest

from users import Task, needs, run


class RustMap(Task):
    def build(self, **environment):
        program = self.path("sessions")
        run("rustc", "-g", "-O", self.source("sessions.rs"), "-o", program, cwd=self.folder,
            env=dict(os.environ, **environment))
        return program

    def test_the_lines_that_grow_the_map_are_named(self):
        screen = self.screen("heap", "--rate", "64", "--", self.build())
        live, share, words = self.first_row(screen)
        self.assertGreater(live, 15, screen)
        self.assertRegex(screen, r"(?m)^  sampled +once in 64\.0 KiB .*by half$")
        self.assertIn("Service::token", words)
        self.assertIn(self.line("sessions.rs", "repeat(12)"), words)
        self.assertRegex(screen, r"Service::remember .*" + self.line("sessions.rs", "sessions.insert"))

    def test_mended_they_hold_nothing(self):
        screen = self.screen("heap", "--rate", "64", "--", self.build(MENDED="1"))
        self.assertRegex(screen, r"(?m)^  live at the end +[\d.]+ ([KM]iB|B) ")
        self.assertNotRegex(screen, r"\d{2,} MiB .*Service::")


if __name__ == "__main__":
    needs.need("rustc")
    unittest.main()
