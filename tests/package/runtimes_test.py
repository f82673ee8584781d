"""Holds `calm heap` and `calm top` to what they say of programs whose language keeps its objects in memory of its own.

Seen to fail: nothing said.
"""
import os
import re
import shutil
import subprocess
import time

from support import InFolder, calm, needs

NODE = "const kept = []; for (let i = 0; i < 400000; i++) kept.push({i, s: 's' + i}); "
RUBY = "$kept = Array.new(400000) { |i| Object.new }; "
JAVA = """public class Kept { public static void main(String[] words) throws Exception {
    java.util.ArrayList<byte[]> kept = new java.util.ArrayList<>();
    for (int i = 0; i < 400; i++) kept.add(new byte[100000]);
    System.out.println(kept.size()); if (words.length > 0) Thread.sleep(60000); } }
"""
ROW = r"not heap:? +([\d.]+) MiB of ([\d.]+) MiB resident: files, and what the program maps itself, %s too\n"


class Runtimes(InFolder):
    def check(self, what, least, once, for_ever):
        """`once` ends; `for_ever` waits. What is not heap is `least` MiB at least, and less than RSS."""
        pattern = ROW % re.escape(what)
        self.assertRegex(calm("heap", "--", *once).stderr, "not heap +%s, which the program maps" % re.escape(what))
        process = subprocess.Popen(for_ever, env=dict(os.environ, LD_PRELOAD=self.library), cwd=self.folder,
                                   stdout=subprocess.PIPE)
        try:
            process.stdout.readline()
            time.sleep(0.5)
            self.is_right(re.search(pattern, calm("top", "--once", str(process.pid)).stdout), least)
        finally:
            process.kill()
            process.communicate()

    def is_right(self, found, least):
        self.assertIsNotNone(found)
        rest, rss = map(float, found.groups())
        self.assertTrue(least <= rest < rss, found.group(0))

    def test_node(self):
        needs.here("node")
        node = shutil.which("node")
        self.check("JavaScript's objects", 30, [node, "-e", NODE],
                   [node, "-e", NODE + "console.log(1); setTimeout(() => {}, 60000)"])

    def test_ruby(self):
        needs.here("ruby")
        ruby = shutil.which("ruby")
        self.check("Ruby's objects", 10, [ruby, "-e", RUBY], [ruby, "-e", RUBY + "puts 1; $stdout.flush; sleep 60"])

    def test_java(self):
        needs.here("java")
        path = self.file("Kept.java", JAVA)
        self.check("Java's objects", 40, ["java", path], ["java", path, "wait"])

    def test_a_program_without_such_a_language_has_no_such_row(self):
        self.assertNotIn("not heap", calm("heap", "--", "/bin/ls", "/").stderr)


if __name__ == "__main__":
    needs.main()
