"""Makes a git repository of generated text at the path given, the same each time: some files, a few hundred commits."""

import random
import subprocess
import sys

COMMITS, FILES, LINES = 400, 150, 120


def text_of(lines: list) -> bytes:
    return ("\n".join(lines) + "\n").encode()


def main() -> None:
    path = sys.argv[1]
    draw = random.Random(3)
    subprocess.run(["git", "init", "-q", "-b", "main", path], check=True)
    words = ["".join(draw.choice("abcdefghijklmnop") for _ in range(draw.randint(2, 9))) for _ in range(3000)]
    line = lambda: " ".join(draw.choice(words) for _ in range(draw.randint(3, 12)))
    files = [[line() for _ in range(LINES)] for _ in range(FILES)]
    stream = bytearray()
    for commit in range(COMMITS):
        message = f"change {commit}: {line()}".encode()
        stream += b"commit refs/heads/main\ncommitter A <a@example> %d +0000\n" % (1_600_000_000 + commit * 60)
        stream += b"data %d\n%s\n" % (len(message), message)
        for number in range(FILES) if commit == 0 else draw.sample(range(FILES), 12):
            lines = files[number]
            for _ in range(6):
                at = draw.randrange(len(lines))
                lines[at : at + draw.randint(0, 2)] = [line() for _ in range(draw.randint(0, 3))]
            content = text_of(lines)
            name = f"part{number % 12}/file{number}.txt".encode()
            stream += b"M 100644 inline %s\ndata %d\n%s\n" % (name, len(content), content)
        stream += b"\n"
    subprocess.run(["git", "-C", path, "fast-import", "--quiet"], input=bytes(stream), check=True)


main()
