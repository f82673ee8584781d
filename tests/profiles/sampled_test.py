"""Compares the three formats of one real profile, stack by stack, by parsers of its own.

Bytes are the same in pprof and in collapsed stacks; heap_v2, scaled up as its readers do, differs by the rounding to
whole samples. The sites' sums are near the truth: by far more than chance allows, so that only a wrong scale fails.

Seen to fail with heap_v2 that has estimates in place of samples, with pprof that writes live bytes for live blocks,
and with collapsed stacks that count what is not live.
"""
import gzip
import math
import os
import re
import sys
import tempfile

import support

RATE = 8192


def varint(words, at):
    value = shift = 0
    while True:
        value |= (words[at] & 127) << shift
        shift += 7
        at += 1
        if words[at - 1] < 128:
            return value, at


def fields(words):
    """(field, number or bytes) of one message."""
    at = 0
    while at < len(words):
        key, at = varint(words, at)
        value, at = varint(words, at)
        if key & 7 == 2:
            value, at = words[at:at + value], at + value
        else:
            assert key & 7 == 0, key
        yield key >> 3, value
    assert at == len(words)


def packed(words):
    at, out = 0, []
    while at < len(words):
        value, at = varint(words, at)
        out.append(value)
    return out


def read_pprof(path):
    """Each stack's return addresses but one and [all blocks, all bytes, live blocks, live bytes]."""
    with gzip.open(path) as file:
        profile = list(fields(file.read()))
    places = {}
    for field, value in profile:
        if field == 4:
            location = dict(fields(value))
            places[location[1]] = location[3]
    samples = [list(fields(value)) for field, value in profile if field == 2]
    return [([places[index] for field, ids in sample if field == 1 for index in packed(ids)],
             [value for field, value in sample if field == 2]) for sample in samples]


def read_heap_v2(path):
    """Each stack's addresses of calls and [live blocks, live bytes, all blocks, all bytes], as sampled."""
    with open(path) as file:
        head, mapped = file.read().split("\nMAPPED_LIBRARIES:\n")
    match = re.fullmatch(r"heap_v2/%d\n  t\*: (\d+): (\d+) \[(\d+): (\d+)\]\n"
                         r"((?:@(?: 0x[0-9a-f]+)+\n  t\*: \d+: \d+ \[\d+: \d+\]\n)*)" % RATE, head)
    assert match, head[:500]
    stacks = []
    for callers, numbers in re.findall(r"@(.*)\n  t\*: (.*)\]\n", match.group(5)):
        addresses = [int(word, 16) for word in callers.split()]
        stacks.append(([addresses[0]] + [address - 1 for address in addresses[1:]],
                       [int(word) for word in re.findall(r"\d+", numbers)]))
    totals = [sum(column) for column in zip(*(numbers for _, numbers in stacks))]
    assert totals == [int(word) for word in match.groups()[:4]], (totals, head[:200])
    assert all(re.match(r"[0-9a-f]+-[0-9a-f]+ [r-][w-][x-][ps] ", line) for line in mapped.splitlines())
    return stacks


def scaled_up(blocks, size):
    if blocks == 0:
        return 0, 0
    chance = -math.expm1(-size / blocks / RATE)
    return blocks / chance, size / chance


def check_heap_v2(pprof, heap_v2):
    assert [callers for callers, _ in heap_v2] == [callers for callers, _ in pprof]
    for (_, sampled), (_, numbers) in zip(heap_v2, pprof):
        for column, (blocks, size) in ((0, numbers[2:4]), (2, numbers[0:2])):
            read_blocks, read_bytes = scaled_up(*sampled[column:column + 2])
            rounding = 0.5 / max(sampled[column], 1) + 0.01
            assert abs(read_bytes - size) <= rounding * size + RATE / 100, (sampled, numbers)
            assert abs(read_blocks - blocks) <= 2 * rounding * blocks + 1, (sampled, numbers)


def check_collapsed(pprof, path):
    with open(path) as file:
        lines = file.read().splitlines()
    live = [(callers, numbers[3]) for callers, numbers in pprof if numbers[3] > 0]
    assert [int(line.rsplit(" ", 1)[1]) for line in lines] == [size for _, size in live]
    assert [line.count(";") + 1 for line in lines] == [len(callers) for callers, _ in live]
    return lines


def main():
    program = sys.argv[3]
    with tempfile.TemporaryDirectory() as folder:
        out = support.run(program, folder)
        at = {kind: os.path.join(folder, "sampled." + kind) for kind in ("pprof", "heap_v2", "collapsed")}
        pprof = read_pprof(at["pprof"])
        assert pprof and all(callers for callers, _ in pprof), pprof
        check_heap_v2(pprof, read_heap_v2(at["heap_v2"]))
        lines = check_collapsed(pprof, at["collapsed"])
        sums = {}
        for line in lines:
            frames, size = line.rsplit(" ", 1)
            address = frames.split(";")[-1].rsplit("+", 1)[1]
            name = support.run("addr2line", "-f", "-e", program, address).split("\n")[0]
            sums[name] = sums.get(name, 0) + int(size)
        for line in out.splitlines():
            name, size = line.split()
            assert 0.7 < sums[name] / int(size) < 1.4, (name, sums, out)


if __name__ == "__main__":
    main()
