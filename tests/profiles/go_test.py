"""Reads a profile of a stripped program with `go tool pprof`, names from the separate debug information.

Seen to fail with return addresses in place of the calls', with a mapping's offset in place of its start, and with the
checksum's complement left out.
"""
import os
import re
import shutil
import tempfile

import support


def pprof(folder, *words):
    scratch = {"PPROF_TMPDIR": folder, "PPROF_BINARY_PATH": folder, "GOTELEMETRY": "off", "TZ": "UTC"}
    return support.run("go", "tool", "pprof", *words, env={**os.environ, **scratch}, cwd=folder)


def flat_and_cum(top):
    """Function to its own and its cumulative bytes."""
    rows = re.findall(r"^ *(\d+)B? +[\d.]+% +[\d.]+% +(\d+)B? +[\d.]+% +(.*)$", top, re.M)
    return {name.split()[0]: (int(flat), int(cum)) for flat, cum, name in rows}


def check_top(folder, program, path, stacks):
    for index, column in (("inuse_space", 1), ("alloc_space", 3)):
        top = pprof(folder, "-top", "-unit=B", "-sample_index=" + index, "-nodefraction=0", "-edgefraction=0",
                    program.path + ".debug", path)
        assert "Type: " + index in top and "Duration: 5s" in top, top
        rows = flat_and_cum(top)
        for names, (_, numbers) in zip(support.FUNCTIONS[0::2], stacks[0::2]):
            assert rows[names[0]] == (numbers[column], numbers[column]), (names, top)
            for name in names[1:]:
                assert rows[name][0] == 0, (name, top)
        assert rows["middle"][1] == stacks[0][1][column], top
        assert rows["run_all"][1] == sum(numbers[column] for _, numbers in stacks), top


def check_raw(folder, program, path, stacks):
    raw = pprof(folder, "-raw", program.path + ".debug", path)
    assert "PeriodType: space bytes" in raw and "Period: 524288" in raw, raw
    assert "Time: 2023-11-14 22:13:20.123456789" in raw, raw
    assert "alloc_objects/count alloc_space/bytes inuse_objects/count inuse_space/bytes" in raw, raw
    samples = [[int(word) for word in line.split()] for line in re.findall(r"^ *([\d ]+): [\d ]+$", raw, re.M)]
    assert samples == [[numbers[2], numbers[3], numbers[0], numbers[1]] for _, numbers in stacks], raw
    for name, mark in (("alpha_site", "alpha_site"), ("middle", "middle"), ("ends_in_call", "ends_in_call"),
                       ("run_all", "run_all 1")):
        line = support.line_of("write_profile.c", mark)
        assert re.search(r" M=\d+ %s \S*write_profile\.c:%d(:\d+)? s=" % (name, line), raw), (name, line, raw)
    assert program.build_id(program.library) in raw, raw


def check_library(folder, program, path):
    """The library keeps its path, so its names are there once its debug information is."""
    shutil.copy(program.library + ".debug", program.library)
    raw = pprof(folder, "-raw", program.path + ".debug", path)
    line = support.line_of("library.c", "library_site")
    assert re.search(r" library_site \S*library\.c:%d(:\d+)? s=" % line, raw), raw


def main():
    support.needs.need("go")
    with tempfile.TemporaryDirectory() as folder:
        program = support.Program(folder, is_stripped=True)
        path, stacks = program.write("pprof")
        check_top(folder, program, path, stacks)
        check_raw(folder, program, path, stacks)
        check_library(folder, program, path)


if __name__ == "__main__":
    main()
