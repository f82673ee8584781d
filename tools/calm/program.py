"""Finds PROGRAM and says in one sentence why the loader could not put calmalloc under it.

Exit codes are the shell's: 127 when there is no such program, 126 when it is there but cannot be run on calmalloc.
"""
import mmap
import os
import shutil
import stat
import struct

from facts import HEAP_MAGIC
from trouble import Trouble

NOT_FOUND, CANNOT_RUN = 127, 126
PT_DYNAMIC, PT_INTERP, PT_GNU_EH_FRAME = 2, 3, 0x6474E550
ET_DYN, DT_FLAGS_1, DF_1_PIE = b"\3\0", 0x6FFFFFFB, 0x08000000
OFFSET_MAX, PART_BYTES_MAX = 1 << 62, 1 << 20
SCRIPT_DEPTH_MAX = 5


def find(name):
    """Returns the path that execvp would run."""
    if "/" in name:
        if not os.path.lexists(name):
            raise Trouble("'%s' does not exist." % name, NOT_FOUND)
        path = name
    else:
        path = shutil.which(name)
        if path is None:
            unrunnable = shutil.which(name, mode=os.F_OK)
            if unrunnable is None or os.path.isdir(unrunnable):
                raise Trouble("'%s' is not found in PATH." % name, NOT_FOUND)
            path = unrunnable
    if not os.path.exists(path):
        raise Trouble("'%s' is a link to nothing." % name, NOT_FOUND)
    if os.path.isdir(path):
        raise Trouble("'%s' is a directory, not a program." % name, CANNOT_RUN)
    if not os.access(path, os.X_OK):
        raise Trouble("'%s' is not executable; chmod +x makes it so." % path, CANNOT_RUN)
    return path


def check(path, depth=0):
    """Raises Trouble when `path` would not load a preloaded library."""
    check_privilege(path)
    try:
        with open(path, "rb") as file:
            head = file.read(4096)
            if head[:4] == b"\x7fELF":
                check_elf(path, file, head)
                return
    except PermissionError:
        return  # executable but not readable: nothing to be known; the report will tell whether it loaded
    if head[:2] == b"#!":
        check_script(path, head, depth)


def check_privilege(path):
    mode = os.stat(path)
    fix = "the loader ignores preloaded libraries for it; run it as its owner, or copy it, which drops that privilege."
    if mode.st_mode & stat.S_ISUID and mode.st_uid != os.getuid():
        raise Trouble("'%s' is set-uid, so %s" % (path, fix), CANNOT_RUN)
    if mode.st_mode & stat.S_ISGID and mode.st_mode & stat.S_IXGRP and mode.st_gid != os.getgid():
        raise Trouble("'%s' is set-gid, so %s" % (path, fix), CANNOT_RUN)
    try:
        os.getxattr(path, "security.capability")
    except OSError:
        return
    if os.getuid() != 0:
        raise Trouble("'%s' has file capabilities, so %s" % (path, fix), CANNOT_RUN)


def check_elf(path, file, head):
    if len(head) < 64:
        raise Trouble("'%s' is not a whole program." % path, CANNOT_RUN)
    if head[4] != 2:
        raise Trouble("'%s' is a 32-bit program; calmalloc is built for 64-bit ones." % path, CANNOT_RUN)
    machine = struct.unpack_from("<H", head, 18)[0]
    with open("/proc/self/exe", "rb") as ours:
        ours_machine = struct.unpack_from("<H", ours.read(20), 18)[0]
    if machine != ours_machine:
        raise Trouble("'%s' is a program for another kind of processor." % path, CANNOT_RUN)
    interpreter = elf_interpreter(file, head)
    if interpreter is None:
        if os.path.basename(path).startswith(("ld-", "ld.")):
            return  # the loader itself, given a program as its argument
        if is_linked_with_calmalloc(file):
            return
        raise Trouble("'%s' is statically linked, so nothing can be preloaded; link it with libcalmalloc.a instead "
                      "(calm install PREFIX brings it)." % path, CANNOT_RUN)
    if "musl" in interpreter:
        raise Trouble("'%s' uses the C library musl; the preloadable library is built for glibc." % path, CANNOT_RUN)


def stacks_advice(path):
    """What to tell of a program whose stacks the library cannot walk, or None: the table that says how is looked for
    with PT_GNU_EH_FRAME."""
    try:
        with open(path, "rb") as file:
            head = file.read(64)
            if head[:4] != b"\x7fELF" or elf_part(file, head, PT_GNU_EH_FRAME) is not None:
                return None
    except OSError:
        return None
    return ("of each stack only the calling line is known, as '%s' is linked without the table of frames; "
            "-Wl,--eh-frame-hdr, or -static-pie, links it with one." % path)


def is_linked_with_calmalloc(file):
    """Whether the facts that the library tells of itself (docs/design/watching.md) are in a program."""
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return data.find(HEAP_MAGIC.encode()) >= 0


def elf_part(file, head, wanted):
    """The bytes of the first part of a kind that a file's program headers tell of, or None."""
    table, = struct.unpack_from("<Q", head, 32)
    size, count = struct.unpack_from("<HH", head, 54)
    for index in range(count):
        file.seek(min(table + index * size, OFFSET_MAX))
        entry = file.read(56)
        if len(entry) < 56:
            return None
        kind, _, offset, _, _, length = struct.unpack_from("<IIQQQQ", entry)
        if kind == wanted:
            file.seek(min(offset, OFFSET_MAX))
            return file.read(min(length, PART_BYTES_MAX))
    return None


def elf_interpreter(file, head):
    part = elf_part(file, head, PT_INTERP)
    return None if part is None else part.rstrip(b"\0").decode(errors="replace")


def is_shared_library(path):
    """Whether the loader takes a file as one: programs are of the same type, and have a flag."""
    with open("/proc/self/exe", "rb") as ours:
        machine = ours.read(20)[18:20]
    try:
        with open(path, "rb") as file:
            head = file.read(64)
            if len(head) < 64 or head[:5] != b"\x7fELF\2" or head[16:18] != ET_DYN or head[18:20] != machine:
                return False
            entries = elf_part(file, head, PT_DYNAMIC) or b""
    except OSError as error:
        raise Trouble("'%s' cannot be read: %s." % (path, error.strerror)) from None
    flags = dict(struct.iter_unpack("<QQ", entries[:len(entries) // 16 * 16]))
    return bool(entries) and not flags.get(DT_FLAGS_1, 0) & DF_1_PIE


def check_script(path, head, depth):
    """The kernel starts the interpreter that the first line names, so that is what must load calmalloc."""
    words = head[2:].split(b"\n", 1)[0].decode(errors="replace").split()
    if not words:
        return
    interpreter = words[0]
    if not os.path.exists(interpreter):
        raise Trouble("'%s' wants the interpreter '%s', which does not exist." % (path, interpreter), NOT_FOUND)
    if not os.access(interpreter, os.X_OK) or os.path.isdir(interpreter):
        raise Trouble("'%s' wants the interpreter '%s', which is not executable." % (path, interpreter), CANNOT_RUN)
    if depth >= SCRIPT_DEPTH_MAX:
        raise Trouble("'%s' leads through too many interpreters." % path, CANNOT_RUN)
    check(interpreter, depth + 1)
    if os.path.basename(interpreter) == "env":
        named = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
        target = shutil.which(named[0]) if named else None
        if named and target is None:
            raise Trouble("'%s' wants the interpreter '%s', which is not found in PATH." % (path, named[0]), NOT_FOUND)
        if target is not None:
            check(target, depth + 1)
