"""Reads heap_v2 with jeprof, and collapsed stacks with a parser of its own and addr2line.

Seen to fail with estimates in place of samples, with the first address not of the call, and with offsets in the file
in place of addresses.
"""
import re
import tempfile

import support


def check_jeprof(program):
    path, stacks = program.write("heap_v2")
    for option, column in (("--inuse_space", 1), ("--alloc_space", 3)):
        text = support.run("jeprof", "--text", "--show_bytes", option, program.path, path)
        rows = {}
        for line in text.splitlines():
            match = re.match(r" *(\d+) +[\d.]+% +[\d.]+% +(\d+) +[\d.]+% (\S+)$", line)
            if match:
                rows[match.group(3)] = (int(match.group(1)), int(match.group(2)))
        for names, (_, numbers) in zip(support.FUNCTIONS, stacks):
            flat = rows[names[0]][0]
            assert abs(flat - numbers[column]) <= numbers[column] / 1000 + 1, (names, flat, numbers, text)
        total = sum(numbers[column] for _, numbers in stacks)
        assert abs(rows["run_all"][1] - total) <= total / 1000, text


def check_collapsed(program):
    path, stacks = program.write("collapsed")
    with open(path) as file:
        lines = file.read().splitlines()
    assert len(lines) == len(stacks), lines
    files = {file.split("/")[-1]: file for file in (program.path, program.library)}
    for line, names, (_, numbers) in zip(lines, support.FUNCTIONS, stacks):
        frames, live_bytes = line.rsplit(" ", 1)
        assert int(live_bytes) == numbers[1], line
        found = []
        for frame in frames.split(";"):
            file, address = frame.rsplit("+", 1)
            found.append(support.run("addr2line", "-f", "-e", files[file], address).split("\n")[0])
        assert tuple(reversed(found)) == names, (line, found)


def main():
    with tempfile.TemporaryDirectory() as folder:
        program = support.Program(folder, is_stripped=False)
        check_collapsed(program)
        support.needs.need("jeprof")
        check_jeprof(program)


if __name__ == "__main__":
    main()
