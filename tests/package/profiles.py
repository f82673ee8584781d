"""Writes heap profiles in the pprof format, byte by byte: an oracle that shares nothing with the reader under test."""
import gzip

TYPES = (("alloc_objects", "count"), ("alloc_space", "bytes"), ("inuse_objects", "count"), ("inuse_space", "bytes"))


def varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field, value):
    return varint(field << 3) + varint(value)


def block(field, data):
    return varint(field << 3 | 2) + varint(len(data)) + data


class Writer:
    """Collects stacks. A frame is (function, file, line), or (address, mapping) with mapping from map()."""

    def __init__(self, types=TYPES, period=512 << 10, duration_ns=2_500_000_000, comments=()):
        self.types, self.period, self.duration_ns, self.comments = types, period, duration_ns, comments
        self.strings = {"": 0}
        self.mappings, self.functions, self.locations, self.samples = [], {}, {}, []

    def string(self, text):
        return self.strings.setdefault(text, len(self.strings))

    def map(self, start, end, offset, path, build_id=""):
        self.mappings.append((start, end, offset, path, build_id))
        return len(self.mappings)

    def add(self, frames, values):
        """`frames` from the innermost out, `values` one for each type."""
        self.samples.append(([self.locations.setdefault(tuple(frame), len(self.locations) + 1) for frame in frames],
                             values))
        return self

    def message(self):
        body = b"".join(block(1, number(1, self.string(name)) + number(2, self.string(unit)))
                        for name, unit in self.types)
        for ids, values in self.samples:
            body += block(2, block(1, b"".join(map(varint, ids))) + block(2, b"".join(map(varint, values))))
        for index, (start, end, offset, path, build_id) in enumerate(self.mappings, 1):
            body += block(3, number(1, index) + number(2, start) + number(3, end) + number(4, offset) +
                          number(5, self.string(path)) + number(6, self.string(build_id)))
        for frame, location in self.locations.items():
            body += block(4, number(1, location) + self.location(frame))
        for (name, file), function in self.functions.items():
            body += block(5, number(1, function) + number(2, self.string(name)) + number(4, self.string(file)))
        body += number(10, self.duration_ns) + number(12, self.period)
        body += b"".join(number(13, self.string(comment)) for comment in self.comments)
        return body + b"".join(block(6, text.encode()) for text in self.strings)

    def location(self, frame):
        if len(frame) == 2:
            address, mapping = frame
            return number(2, mapping) + number(3, address)
        name, file, line = frame
        function = self.functions.setdefault((name, file), len(self.functions) + 1)
        return number(3, 0x1000 + function) + block(4, number(1, function) + number(2, line))

    def packed(self):
        return gzip.compress(self.message(), mtime=0)

    def write(self, path):
        with open(path, "wb") as file:
            file.write(self.packed())
        return path
