"""The memory that a core file kept of a process, by the same calls as that of one that runs (process_memory.py).

A core has what the program wrote, and leaves out most of what came from files: that is read from the files themselves,
if they are still here and begin as the core says. It does not say which pages were in memory: those that hold nothing
but zeros count as absent, and so does what the file left as a hole.
"""
import bisect
import io
import os
import struct

from process_memory import PT_LOAD, PT_NOTE, Gone, Mapped, Memory
from trouble import Trouble

NT_PRSTATUS, NT_PRPSINFO, NT_FILE = 1, 3, 0x46494C45
ET_CORE, PN_XNUM = 4, 0xFFFF
NOTES_BYTES_MAX, PARTS_MAX = 1 << 28, 1 << 20
STACK_POINTER_AT = {62: 112 + 8 * 19, 183: 112 + 8 * 31}  # of the registers of a thread, by machine
PIECE_BYTES, PAGE_BYTES = 1 << 20, 4096
ENVIRONMENT_BYTES = 1 << 20  # at most, with the program's words
ZEROS = bytes(PIECE_BYTES)
PAGE_ZEROS = bytes(PAGE_BYTES)
WITHIN = 0x81  # as the kernel's word for a page in memory that is one process's


class Core(Memory):
    is_running = False

    def __init__(self, path):
        self.path, self.pid, self.program = path, 0, "?"
        self.missing = []  # files that were mapped and cannot be read here
        self.new_look()
        try:
            self.descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            raise Trouble("'%s' cannot be read: %s." % (path, error.strerror)) from None
        self.size = os.fstat(self.descriptor).st_size
        self.pointers, self.names, self.parts, self.files, self.code = set(), [], [], {}, {}
        try:
            self.read_head()
        except (struct.error, IndexError, ValueError, OSError):
            raise Trouble("'%s' is a core file that is damaged or was cut short." % path) from None
        self.starts = [part[0] for part in self.parts]

    def __del__(self):
        for descriptor in [getattr(self, "descriptor", None)] + list(getattr(self, "files", {}).values()):
            if descriptor is not None:
                os.close(descriptor)

    def who(self):
        return "the core file '%s'" % self.path

    def has_ended(self):
        """Why calmalloc's tables were not found."""
        missing = [name for name in self.missing if "calmalloc" in name] or self.missing[:1]
        return Trouble("%s leaves out a part of calmalloc's tables%s." % (
            self.who(), ", and '%s' is not here, or is not the file that ran" % missing[0] if missing else ""))

    def refused(self):
        return self.has_ended()

    def number_in(self, _file_name, _label):
        return None

    def file(self, name, *_words, **_more):
        if name != "environ":
            raise FileNotFoundError(name)
        return io.BytesIO(self.environment())

    def environment(self):
        """What the environment had for calmalloc when the program began: it lies at the end of the first stack."""
        ends = [part[1] for part in self.parts if any(part[0] <= pointer < part[1] for pointer in self.pointers)]
        if not ends:
            return b""
        part = self.part_at(max(ends) - 1)
        size = min(part[4], ENVIRONMENT_BYTES)
        data = os.pread(self.descriptor, size, part[3] + part[4] - size)
        return b"\0".join(word for word in data.split(b"\0") if word.startswith(b"CALM_OPTIONS="))

    # Its head: what was mapped, and notes.

    def read_head(self):
        head = os.pread(self.descriptor, 64, 0)
        if head[:6] != b"\x7fELF\x02\x01" or struct.unpack_from("<H", head, 16)[0] != ET_CORE:
            raise Trouble("'%s' is not a core file of a 64-bit program." % self.path)
        self.machine, = struct.unpack_from("<H", head, 18)
        table, sections = struct.unpack_from("<QQ", head, 32)
        size, count = struct.unpack_from("<HH", head, 54)
        if count == PN_XNUM:
            count, = struct.unpack_from("<I", os.pread(self.descriptor, 64, sections), 44)
        if size != 56 or count > PARTS_MAX:
            raise ValueError
        data = os.pread(self.descriptor, size * count, table)
        for kind, flags, offset, address, _, in_file, in_memory, _ in struct.iter_unpack("<IIQQQQQQ", data):
            if kind == PT_NOTE:
                self.read_notes(os.pread(self.descriptor, min(in_file, NOTES_BYTES_MAX), offset))
            elif kind == PT_LOAD and in_memory:
                self.parts.append((address, address + in_memory, flags, offset, min(in_file, self.size - offset)))
        self.parts.sort()

    def read_notes(self, data):
        at = 0
        while at + 12 <= len(data):
            name_bytes, length, kind = struct.unpack_from("<III", data, at)
            contents = at + 12 + (name_bytes + 3) // 4 * 4
            part = data[contents:contents + length]
            at = contents + (length + 3) // 4 * 4
            if kind == NT_PRSTATUS and self.machine in STACK_POINTER_AT:
                self.pointers.add(struct.unpack_from("<Q", part, STACK_POINTER_AT[self.machine])[0])
            elif kind == NT_PRPSINFO:
                self.pid, = struct.unpack_from("<I", part, 24)
                self.program = part[40:56].split(b"\0")[0].decode(errors="replace")
            elif kind == NT_FILE:
                count, page = struct.unpack_from("<QQ", part)
                names = part[16 + 24 * count:].split(b"\0")
                for index in range(count):
                    start, end, offset = struct.unpack_from("<QQQ", part, 16 + 24 * index)
                    self.names.append((start, end, offset * page, os.fsdecode(names[index])))
        self.names.sort()

    def areas(self):
        """As /proc/PID/maps would have them, with those of files that the core left out."""
        found = []
        for start, end, flags, _, _ in self.parts:
            rights = "".join(mark if flags & bit else "-" for mark, bit in (("r", 4), ("w", 2), ("x", 1))) + "p"
            name = self.name_at(start)
            found.append(Mapped(start, end, rights, name[2] + start - name[0] if name else 0, name[3] if name else ""))
        known = {area.start for area in found}
        found += [Mapped(start, end, "r-xp" if self.is_code(offset, end - start, name) else "r--p", offset, name)
                  for start, end, offset, name in self.names
                  if start not in known and self.part_at(start) is None]
        if not found:
            raise Gone()
        return sorted(found, key=lambda area: area.start)

    def is_code(self, offset, size, path):
        """Whether a part of a file is code, by what the file says: gcore leaves such parts out."""
        if path not in self.code:
            self.code[path] = self.code_of(path)
        return any(start < offset + size and offset < end for start, end in self.code[path])

    def code_of(self, path):
        """Where a file has code: [start, end) of each part."""
        descriptor = self.file_of(path)
        try:
            head = os.pread(descriptor, 64, 0) if descriptor is not None else b""
            if head[:5] != b"\x7fELF\x02":
                return []
            table, = struct.unpack_from("<Q", head, 32)
            _, count = struct.unpack_from("<HH", head, 54)
            parts = struct.iter_unpack("<IIQQQQQQ", os.pread(descriptor, 56 * count, table))
            return [(at, at + in_file) for kind, flags, at, _, _, in_file, _, _ in parts
                    if kind == PT_LOAD and flags & 1]
        except (OSError, struct.error):
            return []

    def name_at(self, address):
        index = bisect.bisect_right(self.names, (address, 1 << 64)) - 1
        return self.names[index] if index >= 0 and address < self.names[index][1] else None

    def part_at(self, address):
        index = bisect.bisect_right(self.starts, address) - 1
        return self.parts[index] if index >= 0 and address < self.parts[index][1] else None

    def mappings(self):
        """Its areas, with the bytes of those that are no files which are not zero."""
        found = self.areas()
        for area in found:
            if not area.is_file():
                area.rss = self.pages_of(area.start, area.end - area.start).count(WITHIN) * PAGE_BYTES
        return found

    def stack_pointers(self):
        return self.pointers

    # Memory.

    def read_one(self, address, size):
        part = self.part_at(address)
        if part is not None and address + size <= part[0] + part[4]:
            data = os.pread(self.descriptor, size, part[3] + address - part[0])
        else:
            data = self.read_file(address, size)
        if len(data) != size:
            raise Gone()
        return data

    def read_file(self, address, size):
        """What a mapped file has there, if the core left it out."""
        name = self.name_at(address)
        if name is None or address + size > name[1]:
            raise Gone()
        descriptor = self.file_of(name[3])
        if descriptor is None:
            raise Gone()
        return os.pread(descriptor, size, name[2] + address - name[0])

    def file_of(self, path):
        if path not in self.files:
            self.files[path] = self.open_file(path)
            self.missing += [path] if self.files[path] is None else []
        return self.files[path]

    def open_file(self, path):
        """A file of this machine that begins as the one that the process had mapped, or None."""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            return None
        first = next((name for name in self.names if name[3] == path and name[2] == 0), None)
        part = self.part_at(first[0]) if first else None
        if part is not None and part[4] >= PAGE_BYTES and first[0] == part[0]:
            if os.pread(descriptor, PAGE_BYTES, 0) != os.pread(self.descriptor, PAGE_BYTES, part[3]):
                os.close(descriptor)
                return None
        return descriptor

    def pages_of(self, start, size):
        """As of a process: which pages hold something."""
        found = bytearray(size // PAGE_BYTES)
        end = start + size
        first = max(0, bisect.bisect_right(self.starts, start) - 1)
        for begin, stop, _, offset, in_file in self.parts[first:]:
            if begin >= end:
                break
            low, high = max(begin, start), min(begin + in_file, end)
            if low < high:
                self.find_pages(found, low - start, offset + low - begin, high - low)
        return bytes(found)

    def find_pages(self, found, at, offset, size):
        """Notes in `found`, from its byte of `at` on, what of [offset, offset + size) of the file is not zero."""
        for from_, to in self.ranges_with_data(offset, size):
            for begin in range(from_, to, PIECE_BYTES):
                data = os.pread(self.descriptor, min(PIECE_BYTES, to - begin), begin)
                if data == ZEROS[:len(data)]:
                    continue
                page = (at + begin - offset) // PAGE_BYTES
                for index in range(0, len(data), PAGE_BYTES):
                    if data[index:index + PAGE_BYTES] != PAGE_ZEROS:
                        found[page + index // PAGE_BYTES] = WITHIN

    def ranges_with_data(self, offset, size):
        """The parts of the file that are no holes, in whole pages from `offset` on."""
        at, end = offset, offset + size
        while at < end:
            try:
                start = os.lseek(self.descriptor, at, os.SEEK_DATA)
                stop = os.lseek(self.descriptor, start, os.SEEK_HOLE)
            except OSError:
                return
            start = offset + (max(start, at) - offset) // PAGE_BYTES * PAGE_BYTES
            stop = min(end, offset - (offset - stop) // PAGE_BYTES * PAGE_BYTES)
            if start < stop:
                yield start, stop
            at = max(stop, at + PAGE_BYTES)

    # Of the files that were mapped.

    def notes(self, area):
        try:
            return super().notes(area)
        except Gone:
            return []

    def program_path(self):
        return self.names[0][3] if self.names else ""

    def fate(self):
        return "has ended"


def is_core(path):
    """Whether a file says of itself that it is one."""
    try:
        with open(path, "rb") as file:
            head = file.read(18)
    except OSError:
        return False
    return head[:4] == b"\x7fELF" and head[16:18] == b"\x04\0"
