"""What the checks of sequences read of a shared library: its sections, its code's words, its own addresses in data."""
import struct

RELATIVE = {62: 8, 183: 1027}  # of x86-64 and aarch64: "the library's own address, plus this"
SHT_RELA, SHF_EXECINSTR = 4, 4


class Library:
    def __init__(self, path):
        with open(path, "rb") as file:
            self.image = file.read()
        if self.image[:6] != b"\x7fELF\x02\x01":
            raise SystemExit("%s is no 64-bit little-endian ELF file" % path)
        self.machine, = struct.unpack_from("<H", self.image, 18)
        table, = struct.unpack_from("<Q", self.image, 40)
        size, count, names = struct.unpack_from("<HHH", self.image, 58)
        headers = [struct.unpack_from("<IIQQQQIIQQ", self.image, table + i * size) for i in range(count)]
        self.sections = {}
        for name, kind, flags, address, offset, length, *_ in headers:
            start = headers[names][4] + name
            word = self.image[start:self.image.index(b"\0", start)].decode()
            self.sections[word] = (kind, flags, address, offset, length)
        self.own_addresses = dict(self._relative())

    def _relative(self):
        for kind, _, _, offset, length in self.sections.values():
            if kind == SHT_RELA:
                for at in range(offset, offset + length, 24):
                    where, info, addend = struct.unpack_from("<QQq", self.image, at)
                    if info == RELATIVE[self.machine]:
                        yield where, addend

    def place(self, section):
        """Its address and its length in bytes; (0, 0) when there is none."""
        _, _, address, _, length = self.sections.get(section, (0, 0, 0, 0, 0))
        return address, length

    def code_at(self, address, length):
        """Bytes of an executable section; empty when these addresses are in none."""
        for _, flags, start, offset, size in self.sections.values():
            if flags & SHF_EXECINSTR and start <= address and address + length <= start + size:
                return self.image[offset + address - start:][:length]
        return b""

    def section_of(self, address):
        for name, (_, flags, start, _, size) in self.sections.items():
            if flags & SHF_EXECINSTR and start <= address < start + size:
                return name
        return ""

    def numbers(self, address, count):
        """Words of 64 bits of a section with data, as the loader leaves them when it loads the library at 0."""
        for _, flags, start, offset, size in self.sections.values():
            if not flags & SHF_EXECINSTR and start and start <= address and address + 8 * count <= start + size:
                words = struct.unpack_from("<%dQ" % count, self.image, offset + address - start)
                return [self.own_addresses.get(address + 8 * i, word) for i, word in enumerate(words)]
        raise SystemExit("no data at 0x%x" % address)
