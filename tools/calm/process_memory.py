"""The memory of a running process, read and written from outside, without stopping it.

process_vm_readv copies whatever is there; the process goes on meanwhile. What is read so may change while it is read,
so readers take nothing for granted: numbers are bounded, lists too.
"""
import ctypes
import errno
import os
import pwd
import struct
from dataclasses import dataclass

from trouble import Trouble

PIECES_MAX = 1024  # of one call: IOV_MAX
PT_LOAD, PT_NOTE, NT_GNU_BUILD_ID = 1, 4, 3
NOTES_BYTES_MAX = 1 << 16


class Gone(Exception):
    """The process has ended, or become another program."""


class Vector(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("bytes", ctypes.c_size_t)]


def c_call(name):
    call = getattr(ctypes.CDLL(None, use_errno=True), name)
    call.restype = ctypes.c_ssize_t
    call.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_ulong]
    return call


@dataclass
class Area:
    """A line of /proc/PID/maps."""
    start: int
    end: int
    rights: str
    offset: int
    path: str


class Process:
    def __init__(self, pid):
        self.pid = pid
        self.readv, self.writev = c_call("process_vm_readv"), c_call("process_vm_writev")
        self.program = self.name()

    def file(self, name):
        return "/proc/%d/%s" % (self.pid, name)

    def name(self):
        try:
            with open(self.file("comm"), errors="replace") as file:
                return file.read().strip()
        except OSError:
            raise Trouble("there is no process %d." % self.pid) from None

    def program_path(self):
        try:
            return os.readlink(self.file("exe"))
        except OSError:
            return ""

    def refused(self):
        """Why the kernel does not let us, and what to do."""
        try:
            owner = os.stat(self.file("")).st_uid
        except OSError:
            return Gone()
        who = "process %d (%s)" % (self.pid, self.program)
        if os.geteuid() not in (0, owner):
            try:
                owner = pwd.getpwuid(owner).pw_name
            except KeyError:
                pass
            return Trouble("%s belongs to %s; run calm as that user, or as root." % (who, owner))
        try:
            with open("/proc/sys/kernel/yama/ptrace_scope") as file:
                scope = int(file.read())
        except (OSError, ValueError):
            scope = 0
        if scope > 0:
            return Trouble("%s may not be read while kernel.yama.ptrace_scope is %d; run calm as root, or `sysctl "
                           "kernel.yama.ptrace_scope=0` first." % (who, scope))
        return Trouble("%s may not be read: it is set-uid, or calm runs in a container without CAP_SYS_PTRACE; run "
                       "calm as root outside." % who)

    def failed(self, number):
        if number == errno.EPERM:
            return self.refused()
        if number == errno.ENOSYS:
            return Trouble("this kernel was built without process_vm_readv, by which calm reads processes.")
        return Gone()

    def read(self, address, size):
        return self.read_all([(address, size)])[0]

    def read_all(self, pieces):
        """The bytes at each (address, size)."""
        found = []
        for at in range(0, len(pieces), PIECES_MAX):
            found += self.read_some(pieces[at:at + PIECES_MAX])
        return found

    def read_some(self, pieces):
        size = sum(piece[1] for piece in pieces)
        if not size:
            return [b""] * len(pieces)
        buffer = ctypes.create_string_buffer(size)
        remote = (Vector * len(pieces))(*(Vector(address, length) for address, length in pieces))
        local = Vector(ctypes.addressof(buffer), size)
        got = self.readv(self.pid, ctypes.addressof(local), 1, ctypes.addressof(remote), len(pieces), 0)
        if got != size:
            raise self.failed(ctypes.get_errno() if got < 0 else errno.EFAULT)
        whole, found, at = memoryview(buffer.raw), [], 0
        for _, length in pieces:
            found.append(bytes(whole[at:at + length]))
            at += length
        return found

    def write(self, address, data):
        buffer = ctypes.create_string_buffer(data, len(data))
        local, remote = Vector(ctypes.addressof(buffer), len(data)), Vector(address, len(data))
        got = self.writev(self.pid, ctypes.addressof(local), 1, ctypes.addressof(remote), 1, 0)
        if got != len(data):
            raise self.failed(ctypes.get_errno() if got < 0 else errno.EFAULT)

    def areas(self):
        try:
            with open(self.file("maps"), errors="surrogateescape") as file:
                lines = file.read().splitlines()
        except PermissionError:
            raise self.refused() from None
        except OSError:
            raise Gone() from None
        found = []
        for line in lines:
            words = line.split(None, 5)
            start, end = (int(word, 16) for word in words[0].split("-"))
            found.append(Area(start, end, words[1], int(words[2], 16), words[5] if len(words) > 5 else ""))
        if not found:
            raise Gone()
        return found

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

    def number_in(self, file_name, label):
        """The number behind `label` in a file of /proc/PID, or None."""
        try:
            with open(self.file(file_name)) as file:
                for line in file:
                    if line.startswith(label):
                        return int(line.split()[1])
        except OSError:
            pass
        return None

    def resident_bytes(self):
        try:
            with open(self.file("statm")) as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")
        except (OSError, IndexError):
            raise Gone() from None

    def pages_present(self, start, size):
        """A byte of 0 or 1 for each page of a range, or None where the kernel does not say."""
        page = os.sysconf("SC_PAGESIZE")
        try:
            with open(self.file("pagemap"), "rb", buffering=0) as file:
                file.seek(start // page * 8)
                data = bytearray()
                while len(data) < size // page * 8:
                    more = file.read(size // page * 8 - len(data))
                    if not more:
                        return None
                    data += more
        except OSError:
            return None
        return data[7::8].translate(PRESENT)


PRESENT = bytes(byte >> 7 for byte in range(256))  # bit 63 of an entry
