"""The memory of a running process, read and written from outside, without stopping it.

/proc/PID/mem, once open, stays the memory of the program that ran then: when the process ends or becomes another
program, reads and writes find nothing, whoever has its number. The folder /proc/PID is held in the same way. What is
read may change meanwhile, and may be made up: readers take nothing for granted, and what one look reads is bounded.
"""
import errno
import os
import pwd
import struct
from dataclasses import dataclass

import say
from trouble import Trouble

PT_LOAD, PT_NOTE, NT_GNU_BUILD_ID = 1, 4, 3
NOTES_BYTES_MAX = 1 << 16
ADDRESS_MAX = (1 << 63) - 1
MAPS_BYTES_MAX = 1 << 27
STACK_TRIES, THREADS_MAX = 3, 1 << 14
SMAPS_LINES = frozenset(("Rss:", "Swap:"))
# Of one call, and of one look: calls, and bytes with what a call costs.
READ_BYTES_MAX, LOOK_READS_MAX, LOOK_BYTES_MAX, READ_COST = 1 << 26, 1 << 21, 1 << 32, 64
CAP_SYS_PTRACE = 19  # its bit

LEFT = "has no tables any more"


class Refused(Trouble):
    """The kernel does not let us look."""


class Gone(Exception):
    """The process has ended, or become another program, or what was looked for is not in its memory."""


def ptrace_scope():
    """kernel.yama.ptrace_scope; 0 where there is none."""
    try:
        with open("/proc/sys/kernel/yama/ptrace_scope") as file:
            return int(file.read())
    except (OSError, ValueError):
        return 0


def has_capability():
    """Whether we have CAP_SYS_PTRACE."""
    try:
        with open("/proc/self/status") as file:
            words = next(line for line in file if line.startswith("CapEff:"))
        return bool(int(words.split()[1], 16) >> CAP_SYS_PTRACE & 1)
    except (OSError, StopIteration, ValueError, IndexError):
        return False


def remedy(scope):
    """What brings the permission to look, as words for a sentence."""
    if os.geteuid() != 0:
        return "run calm as root" + (", or `sysctl kernel.yama.ptrace_scope=0` first" if 0 < scope < 3 else "")
    return ("`docker run --cap-add SYS_PTRACE` gives it, or in the pod's spec "
            "`securityContext: {capabilities: {add: [SYS_PTRACE]}}`")


@dataclass
class Area:
    """A line of /proc/PID/maps."""
    start: int
    end: int
    rights: str
    offset: int
    path: str

    def is_file(self):
        return bool(self.path) and self.path[0] != "["

    def is_private(self):
        return not self.path or self.path.startswith("[anon")


@dataclass
class Mapped(Area):
    """An area with the bytes of it that are in memory, and that were swapped out."""
    rss: int = 0
    swap: int = 0


class Memory:
    """What a program has in memory, by address: a process's, or a core file's. Each says where it is from by who(),
    reads a piece by read_one(), and knows its areas()."""

    def new_look(self):
        self.reads_left, self.bytes_left = LOOK_READS_MAX, LOOK_BYTES_MAX

    def charge(self, reads, size=0):
        """Of what one look may cost: so many reads, or pieces of what was read, and bytes."""
        self.reads_left -= reads
        self.bytes_left -= size + READ_COST * reads
        if size > READ_BYTES_MAX or self.reads_left < 0 or self.bytes_left < 0:
            raise Trouble("%s has tables that make no sense; no more of them is read." % self.who())

    def read(self, address, size):
        return self.read_all([(address, size)])[0]

    def read_all(self, pieces):
        """The bytes at each (address, size)."""
        size = sum(piece[1] for piece in pieces)
        self.charge(len(pieces), size)
        return [self.read_one(*piece) for piece in pieces]

    def notes(self, area):
        """(name, type, address of the contents, contents) of each note of the file that `area` is the start of."""
        head = self.read(area.start, 64)
        if head[:5] != b"\x7fELF\x02":
            return []
        table, = struct.unpack_from("<Q", head, 32)
        size, count = struct.unpack_from("<HH", head, 54)
        if size != 56 or table + size * count > area.end - area.start:
            return []
        parts = [struct.unpack_from("<IIQQQQQQ", data) for data in
                 self.read_all([(area.start + table + size * index, size) for index in range(count)])]
        first = next((part for part in parts if part[0] == PT_LOAD and part[2] == 0), None)
        if first is None:
            return []
        bias = area.start - first[3]
        found = []
        for kind, _, _, address, _, _, length, _ in parts:
            if kind == PT_NOTE and length <= NOTES_BYTES_MAX:
                found += self.parse_notes(bias + address, length)
        return found

    def parse_notes(self, address, length):
        """Notes that are aligned to 8 have contents of such a size that 4 finds them as well; and mold says 8 of all
        when one is."""
        data, at, found = self.read(address, length), 0, []
        while at + 12 <= length:
            name_bytes, bytes_, kind = struct.unpack_from("<III", data, at)
            contents = at + 12 + (name_bytes + 3) // 4 * 4
            if contents + bytes_ > length:
                break
            found.append((data[at + 12:at + 12 + name_bytes].rstrip(b"\0"), kind, address + contents,
                          data[contents:contents + bytes_]))
            at = contents + (bytes_ + 3) // 4 * 4
        return found

    def build_id(self, area):
        for name, kind, _, contents in self.notes(area):
            if name == b"GNU" and kind == NT_GNU_BUILD_ID:
                return contents.hex()
        return ""


class Process(Memory):
    is_running = True

    def __init__(self, pid, is_written=False):
        self.pid, self.memory = pid, None
        self.new_look()
        try:
            self.folder = os.open("/proc/%d" % pid, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            raise Trouble("there is no process %d." % pid) from None
        self.program = self.name()
        try:
            self.memory = self.open("mem", os.O_RDWR if is_written else os.O_RDONLY)
        except PermissionError:
            raise self.refused() from None
        except OSError:
            raise self.has_ended() from None

    def __del__(self):
        for descriptor in (getattr(self, "folder", None), self.memory):
            if descriptor is not None:
                os.close(descriptor)

    def open(self, name, flags=os.O_RDONLY):
        return os.open(name, flags | os.O_CLOEXEC, dir_fd=self.folder)

    def file(self, name, mode="r", **more):
        return open(name, mode, opener=lambda path, flags: self.open(path, flags), **more)

    def list(self, name):
        """The names in a folder of /proc/PID; OSError where it cannot be read."""
        folder = self.open(name, os.O_RDONLY | os.O_DIRECTORY)
        try:
            return os.listdir(folder)
        finally:
            os.close(folder)

    def name(self):
        try:
            with self.file("comm", errors="replace") as file:
                return file.read(64).rstrip("\n")
        except OSError:
            raise Trouble("there is no process %d." % self.pid) from None

    def who(self):
        return "process %d (%s)" % (self.pid, say.clean(self.program))

    def has_ended(self):
        return Trouble("%s has ended, or is the kernel's own." % self.who())

    def fate(self):
        """What became of it, for those whose read failed."""
        try:
            with self.file("stat", "rb") as file:
                is_zombie = file.read(4096).rpartition(b")")[2].split()[0] in (b"Z", b"X")
            with self.file("maps", "rb") as file:
                first = int(file.readline(4096).partition(b"-")[0], 16)
        except (OSError, ValueError, IndexError):
            return "has ended"
        if is_zombie:
            return "has ended"
        try:
            return LEFT if os.pread(self.memory, 1, first) else "has become another program"
        except OSError:
            return LEFT

    def program_path(self):
        try:
            return os.readlink("exe", dir_fd=self.folder)
        except OSError:
            return ""

    def refused(self):
        """Why the kernel does not let us, and what to do."""
        try:
            owner = os.stat("comm", dir_fd=self.folder).st_uid
        except OSError:
            return self.has_ended()
        who = self.who()
        if os.geteuid() not in (0, owner):
            try:
                owner = pwd.getpwuid(owner).pw_name
            except KeyError:
                pass
            return Refused("%s belongs to %s; run calm as that user, or as root." % (who, owner))
        scope = ptrace_scope()
        if has_capability():
            return Refused("%s may not be read%s; run calm outside of this container or sandbox." % (
                who, ", kernel.yama.ptrace_scope is 3" if scope > 2 else ""))
        return Refused("%s may not be read without the capability CAP_SYS_PTRACE%s; %s." % (
            who, " while kernel.yama.ptrace_scope is %d" % scope if scope > 0 else "", remedy(scope)))

    def read_one(self, address, size):
        if not 0 <= address <= ADDRESS_MAX - size:
            raise Gone()
        try:
            data = os.pread(self.memory, size, address)
        except OSError as error:
            if error.errno in (errno.EIO, errno.EFAULT, errno.EINVAL, errno.ENOMEM):
                raise Gone() from None
            raise
        if len(data) != size:
            raise Gone()
        return data

    def write(self, address, data):
        if not 0 <= address <= ADDRESS_MAX - len(data):
            raise Gone()
        try:
            written = os.pwrite(self.memory, data, address)
        except OSError:
            raise Gone() from None
        if written != len(data):
            raise Gone()

    def areas(self):
        try:
            with self.file("maps", errors="surrogateescape", newline="\n") as file:
                lines = file.read(MAPS_BYTES_MAX).split("\n")[:-1]
        except PermissionError:
            raise self.refused() from None
        except OSError:
            raise Gone() from None
        found = []
        for line in lines:
            words = line.split(maxsplit=5)
            start, end = (int(word, 16) for word in words[0].split("-"))
            found.append(Area(start, end, words[1], int(words[2], 16), words[5] if len(words) > 5 else ""))
        if not found:
            raise Gone()
        return found

    def mappings(self):
        """Its areas, each with what of it is in memory and what was swapped out."""
        try:
            with self.file("smaps", errors="surrogateescape", newline="\n") as file:
                lines = file.read(MAPS_BYTES_MAX).split("\n")
        except PermissionError:
            raise self.refused() from None
        except OSError:
            raise Gone() from None
        found = []
        for line in lines:
            name, _, rest = line.partition(" ")
            if name in SMAPS_LINES:
                if found:
                    setattr(found[-1], name[:-1].lower(), int(rest.split()[0]) << 10)
            elif "-" in name and not name.endswith(":"):
                start, end = (int(word, 16) for word in name.split("-"))
                words = rest.split(maxsplit=4)
                found.append(Mapped(start, end, words[0], int(words[1], 16), words[4] if len(words) > 4 else ""))
        if not found:
            raise Gone()
        return found

    def stack_pointers(self):
        """Where the stacks of the threads end now, as far as the kernel says: it does not of threads that run."""
        found, left = set(), None
        for _ in range(STACK_TRIES):
            try:
                left = self.list("task")[:THREADS_MAX] if left is None else left
            except OSError:
                break
            running = []
            for thread in left:
                try:
                    with self.file("task/%s/syscall" % thread) as file:
                        words = file.read(512).split()
                except OSError:
                    continue
                if len(words) >= 3:
                    found.add(int(words[-2], 16))
                else:
                    running.append(thread)
            left = running
            if not left:
                break
        return found

    def number_in(self, file_name, label):
        """The number behind `label` in a file of /proc/PID, or None."""
        try:
            with self.file(file_name, errors="replace") as file:
                for line in file:
                    if line.startswith(label):
                        return int(line.split()[1])
        except OSError:
            pass
        return None

    def resident_bytes(self):
        try:
            with self.file("statm") as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")
        except (OSError, IndexError):
            raise Gone() from None

    def pages_present(self, start, size):
        """A byte of 0 or 1 for each page of a range, or None where the kernel does not say."""
        pages = self.pages_of(start, size)
        return pages.translate(PRESENT) if pages is not None else None

    def pages_of(self, start, size):
        """The highest byte of what the kernel says of each page, or None."""
        page = os.sysconf("SC_PAGESIZE")
        try:
            with self.file("pagemap", "rb", buffering=0) as file:
                file.seek(start // page * 8)
                data = bytearray()
                while len(data) < size // page * 8:
                    more = file.read(size // page * 8 - len(data))
                    if not more:
                        return None
                    data += more
        except OSError:
            return None
        return data[7::8]


PRESENT = bytes(byte >> 7 for byte in range(256))  # bit 63 of an entry
# The same without those that are neither a file's (61) nor this process's alone (56): shared with a fork, or the one
# page of zeros that the kernel shows where nobody has written.
OWN = bytes(byte >> 7 & (byte >> 5 | byte) & 1 for byte in range(256))
