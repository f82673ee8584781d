"""A program on Node holds memory, and none of it is JavaScript's: `calm heap -- node` names the add-on's line.

Seen to fail with the add-on's free() in place (MENDED)."""
import os
import unittest

from users import Task, needs, run

HEADERS = "/usr/include/node"


class NodeAddon(Task):
    def look(self, *flags):
        addon = self.path("addon.node")
        run("cc", "-g", "-O1", "-shared", "-fPIC", "-I" + HEADERS, *flags, self.source("addon.c"), "-o", addon)
        return self.screen("heap", "--", "node", self.source("player.js"), addon)

    def test_the_add_ons_line_is_named(self):
        screen = self.look()
        live, share, words = self.first_row(screen)
        self.assertLess(abs(live / (3000 * 16008 / 2 ** 20) - 1), 0.6, screen)
        self.assertGreater(share, 80, screen)
        self.assertRegex(words, r"^decode ")
        self.assertIn(self.line("addon.c", "malloc(sizeof"), words)
        self.assertRegex(screen, r"(?m)^  not heap +JavaScript's objects, which the program maps memory for")

    def test_mended_it_is_not_named(self):
        self.assertNotIn("addon.c:", self.look("-DMENDED"))


if __name__ == "__main__":
    needs.need("node")
    if not os.path.exists(os.path.join(HEADERS, "node_api.h")):
        needs.skip("Node's headers are missing; apt-get install libnode-dev brings them.")
    unittest.main()
