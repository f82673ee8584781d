"""A Redis whose keys were deleted keeps its RSS: `calm explain` says that it lies in pages which the few keys that
are left pin, and how many these are.

Seen to fail without the sentence about free space. Keys deleted from one end pin next to nothing, and get none."""
import random
import re
import unittest

from users import Task, needs, run, wait_for

KEYS, KEPT_SHARE = 150000, 0.07
MIB = 1 << 20


class RedisDeleted(Task):
    def redis(self):
        process = self.start("redis-server", "--port", "0", "--unixsocket", "redis.sock", "--save", "", "--daemonize",
                             "no")
        self.assertTrue(wait_for(lambda: self.ask("PING", check=False).stdout == "PONG\n"))
        return process

    def ask(self, *words, **more):
        return run("redis-cli", "-s", self.path("redis.sock"), *words, **more)

    def pipe(self, commands):
        path = self.path("commands")
        with open(path, "wb") as file:
            for words in commands:
                file.write(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words))
        with open(path) as file:
            self.ask("--pipe", stdin=file)

    def fill(self, order):
        """Keys with values of 150 to 200 bytes, of which all but KEPT_SHARE are deleted, as `order` puts them."""
        choice = random.Random(1)
        self.pipe([b"SET", b"user:%d" % key, b"v" * choice.randint(150, 200)] for key in range(KEYS))
        keys = list(range(KEYS))
        order(choice, keys)
        gone = keys[:int(KEYS * (1 - KEPT_SHARE))]
        self.pipe([b"DEL", *[b"user:%d" % key for key in gone[at:at + 100]]] for at in range(0, len(gone), 100))
        return KEYS - len(gone)

    def free_space(self, screen):
        """MiB of free space between live blocks that the screen tells of, or 0."""
        text = re.sub(r"\s+", " ", screen)
        found = re.search(r"Live blocks fill (\d+) % of the pages that they pin: ([\d.]+) MiB of (?:[\d.]+) MiB are "
                          r"free space between them", text)
        return (int(found[1]), float(found[2])) if found else (100, 0.0)

    def test_what_pins_the_pages_is_said(self):
        process = self.redis()
        self.assertEqual(self.free_space(self.screen("explain", str(process.pid)))[1], 0)
        kept = self.fill(lambda choice, keys: choice.shuffle(keys))
        screen = self.screen("explain", str(process.pid))
        filled, free = self.free_space(screen)
        self.assertLess(filled, 30, screen)
        self.assertGreater(free, KEYS * 200 * 0.6 / MIB, screen)
        self.assertRegex(screen, r"pinned by [\d,]+ live blocks of \d+ B")
        pinning = sum(int(number.replace(",", "")) for number in re.findall(r"pinned by ([\d,]+) live blocks", re.sub(
            r"\s+", " ", screen)))
        self.assertLessEqual(pinning, 4 * kept, screen)
        self.assertIn("What would lower it", screen)

    def test_keys_deleted_from_one_end_pin_little(self):
        process = self.redis()
        self.fill(lambda choice, keys: None)
        self.assertLess(self.free_space(self.screen("explain", str(process.pid)))[1], 8)


if __name__ == "__main__":
    needs.need("redis-server", "redis-cli")
    unittest.main()
