"""CPython: a dictionary of 600,000 keys, sorts, and a JSON round trip; about a million live objects at the peak.

Run with PYTHONMALLOC=malloc, or the interpreter's own small-object allocator hides the library. Measures many small
blocks of a few sizes from a few call sites, freed much later and in another order. Prints a checksum.
"""

import json
import random
import sys
import zlib


def main() -> None:
    keys = int(sys.argv[1]) if len(sys.argv) > 1 else 600_000
    draw = random.Random(1).getrandbits
    table = {}
    for number in range(keys):
        value = draw(48)
        table["key-%x-%d" % (draw(32), number)] = value if number % 3 else [value, str(value)]
    order = sorted(table, key=lambda key: key[::-1])
    part = {key: table[key] for key in order[: keys // 4]}
    text = json.dumps(part)
    back = json.loads(text)
    assert back == part
    for key in order[::3]:
        del table[key]
    pairs = sorted((str(value), key) for key, value in table.items())
    check = zlib.crc32(text.encode())
    for value, key in pairs[::97]:
        check = zlib.crc32((value + key).encode(), check)
    print(len(table), len(text), check)


main()
