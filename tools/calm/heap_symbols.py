"""Names for addresses: function, file and line, with inlined calls unfolded and C++ and Rust names made readable.

llvm-symbolizer does it where it is installed, else addr2line; where neither is, the symbol tables alone (pyelftools)
give functions without lines. A file whose build id is another than the profile's is not asked. Debug information of
its own package is found by build id. What has no name is shown as module+offset, and advice() says what would bring
names.
"""
import bisect
import ctypes
import errno
import functools
import glob
import json
import os
import re
import shutil
import stat
import subprocess
from dataclasses import dataclass

LLVM_NAMES = ("llvm-symbolizer-19", "llvm-symbolizer")
DEBUG_FOLDER = "/usr/lib/debug"
BUILD_ID = re.compile("[0-9a-f]{4,128}")
SECTIONS_MAX = 1 << 20
NAME_MAX, INLINED_MAX = 4096, 64  # of a name, and of calls that one address stands for
DEPTH_MAX = 64  # PROFILE_DEPTH_MAX of the library: a stack of so many calls may have had more
NEEDS_SYMBOLS, NEEDS_LINES, CHANGED, ABSENT = "symbols", "lines", "changed", "absent"

# What stands between malloc and the code that wanted memory: allocators' fronts, ours in each language first, and the
# standard libraries.
WRAPPER_MODULE = re.compile(r"^lib(calmalloc|stdc\+\+|c\+\+|c\+\+abi)\.so")
WRAPPER_FILE = re.compile(r"/include/c\+\+/|/libstdc\+\+-v3/|/libcxx|^/rustc/[0-9a-f]+/|/rustlib/src/|^/rust/deps/|"
                          r"/include/calmalloc(\.hpp|/[a-z]+\.hp?p?)$|"
                          r"/lib/(zig/)?std/(mem|heap|array_|hash_map|multi_)")
WRAPPER_NAME = re.compile(
    r"^(__rust_|__rustc|__rdl_|<?(alloc|core|std|__gnu_cxx|calm|calmalloc|calmalloc_sys)::|_ZN?K?(St|9__gnu_cxx|4calm)|"
    r"calm_zig_|runtime\.(asm)?cgocall\b|(calmalloc|mem\.Allocator|heap\.\w*allocator\w*)\.)|"
    r"^(.*::)?operator new(\[\])?$|"
    r"^<.+ as (.+::)?(GlobalAlloc|Allocator)>::\w+$|"
    # zmalloc, ztrymalloc_usable_internal, je_malloc, PyMem_RawMalloc, g_malloc0_n, xstrdup: any name of C that ends in
    # a word of the allocator's
    r"^_*([a-z0-9]+_+)*[a-z0-9]{0,7}"
    r"(malloc|calloc|realloc|reallocarray|reallocf|zalloc|aligned_alloc|memalign|strdup|strndup|memdup)"
    r"(_?(n|0|x)|_(usable|internal|impl|num|array|aligned|zero|zeroed|safe|nofail|or_die|with_flags|default|small|"
    r"large|at))*$", re.I)


@dataclass(frozen=True)
class Frame:
    name: str  # as written in the source, or module+offset
    file: str
    line: int
    module: str
    is_named: bool = True
    is_of_script: bool = False

    def place(self):
        if not self.file:
            return ""
        return "%s:%d" % (self.file, self.line) if self.line else self.file


def is_wrapper(frame):
    return not frame.is_of_script and bool(WRAPPER_MODULE.match(frame.module) or WRAPPER_FILE.search(frame.file) or
                WRAPPER_NAME.match(short(frame.name)))


def site_of(frames):
    """The innermost frame that is the program's own decision; frames come innermost first. Of a stack that runs
    through scripts, it is the script's."""
    script = next((frame for frame in frames if frame.is_of_script), None)
    return script or next((frame for frame, caller in zip(frames, frames[1:] + [None])
                           if not is_wrapper(frame) and not is_allocator(frame, caller)), frames[0])


def is_allocator(frame, caller):
    """Whether a frame is the function of an allocator that a container of the standard library has called."""
    return caller is not None and short(frame.name).endswith("::allocate") and is_wrapper(caller)


# Parts of a name of C++ or Python in which brackets or blanks do not mean what they mean elsewhere.
LITERAL = re.compile(r"(?:(?<=^)|(?<=\.))<(?:locals|lambda|listcomp|setcomp|dictcomp|genexpr)>|"
                     r"\boperator(?: ?(?:<=>|<<=?|>>=?|<=?|>=?|->\*?|\(\))|\s+[\w:]+[*&]*(?:\[\])?) ?|"
                     r"\(anonymous namespace\)|\{lambda\([^{}]*\)(#\d+)\}")


@functools.lru_cache(maxsize=None)
def short(name):
    """A C++ or Rust name without template arguments, parameters and result: what fits into a box."""
    if ".(*" in name:  # Go
        return name
    kept, depth, index, is_call = [], 0, 0, False
    while index < len(name):
        literal = LITERAL.match(name, index) if depth == 0 else None
        mark = name[index]
        if literal:
            word = literal.group(0).strip()
            kept.append("{lambda%s}" % literal.group(1) if literal.group(1) else word.replace(" ", "\0"))
            index = literal.end()
            continue
        if mark in "<(" and index > 0:
            depth += 1
            is_call = is_call or (depth == 1 and mark == "(")
            kept.append("<…>" if mark == "<" and depth == 1 else "")
        elif mark in ">)" and depth > 0:
            depth -= 1
        elif depth == 0:
            kept.append(mark)
        index += 1
    if depth != 0:
        return name
    text = re.sub(r"( \[clone [^]]*\]| const| volatile| ?&&?)+$", "", "".join(kept)).strip()
    if is_call:
        text = text.split(" ")[-1] if not text.startswith("<") else text
    return text.replace("\0", " ") or name


class Symbols:
    """Resolves the locations of profiles. One object may serve several, so that each address is asked for once."""

    def __init__(self, debug_folder=None):
        self.debug_folder = debug_folder or os.environ.get("CALM_DEBUG_DIR") or DEBUG_FOLDER
        self.llvm = next((path for path in map(shutil.which, LLVM_NAMES) if path), None)
        if self.llvm is None:
            found = [shutil.which(os.path.basename(path)) for folder in os.environ.get("PATH", "").split(":")
                     for path in sorted(glob.glob(os.path.join(folder, "llvm-symbolizer-[0-9]*")))]
            self.llvm = next((path for path in reversed(found) if path), None)
        self.addr2line = shutil.which("addr2line")
        self.images = {}
        self.frames = {}  # of each location of the last profile, by its id
        self.wanting = {}  # (reason, path): bytes of the stacks whose site lacks something

    def image(self, mapping):
        key = (mapping.path, mapping.build_id)
        if key not in self.images:
            self.images[key] = Image(mapping.path, mapping.build_id, self.debug_folder)
        return self.images[key]

    def learn(self, profile):
        """Asks for all locations that have no names yet; where each is, by its id: (image or None, address)."""
        asked = {}  # image: addresses in the file
        places = {}
        for stack in profile.stacks:
            for location in stack.locations:
                if id(location) in places or location.lines:
                    continue
                image = address = None
                if location.mapping is not None and "/" in location.mapping.path:
                    image = self.image(location.mapping)
                    address = image.address_of(location)
                    asked.setdefault(image, set()).add(address)
                places[id(location)] = (image, address)
        for image, addresses in asked.items():
            image.learn(sorted(addresses - image.known.keys()), self)
        return places

    def resolve(self, profile):
        """Returns the frames of each stack, innermost first, in the order of profile.stacks."""
        places = self.learn(profile)
        unfolded = self.frames = {}
        found = []
        for stack in profile.stacks:
            frames = []
            for location in stack.locations:
                if id(location) not in unfolded:
                    unfolded[id(location)] = self.frames_of(location, places)
                frames += unfolded[id(location)]
            if len(stack.locations) == DEPTH_MAX:
                frames = frames + [Frame("(outer calls were cut off)", "", 0, "", False)]
            frames = frames or [Frame("(no stack)", "", 0, "", False)]
            found.append(frames)
            self.note_wanting(stack, frames, places)
        return found

    def lines(self, location):
        """The (function, file, line) of a location of the last profile, innermost first, where they are known."""
        if location.lines:
            return location.lines
        return [(frame.name, frame.file, frame.line) for frame in self.frames.get(id(location), []) if frame.is_named]

    def frames_of(self, location, places):
        module = os.path.basename(location.mapping.path) if location.mapping is not None else ""
        if location.lines:
            return [Frame(name or "0x%x" % location.address, file, line, module, bool(name), location.is_of_script())
                    for name, file, line in location.lines]
        image, address = places[id(location)]
        if image is None:
            return [Frame("%s+0x%x" % (module, location.address - location.mapping.start) if module else
                          "0x%x" % location.address, "", 0, module, False)]
        known = image.known.get(address) or []
        if not known:
            return [Frame("%s+0x%x" % (image.name, address), "", 0, image.name, False)]
        return [Frame(name, file, line, image.name) for name, file, line in known]

    def note_wanting(self, stack, frames, places):
        """Remembers what the site of this stack lacks, weighed by its bytes."""
        site = site_of(frames)
        if site.is_named and site.file:
            return
        for location in stack.locations:
            image = places.get(id(location), (None, None))[0]
            if image is not None and image.name == site.module:
                reason = image.trouble or (NEEDS_LINES if site.is_named else NEEDS_SYMBOLS)
                key = (reason, image.path)
                self.wanting[key] = self.wanting.get(key, 0) + max(stack.live_bytes, stack.all_bytes, 1)
                return

    def advice(self):
        """One sentence about what would bring the names or lines that are missing, or None."""
        if not self.wanting:
            return None
        grave = {key: weight for key, weight in self.wanting.items() if key[0] != NEEDS_LINES}
        (reason, path), _ = max((grave or self.wanting).items(), key=lambda item: item[1])
        if reason == CHANGED:
            return ("'%s' has changed since the profile was made, so its functions have no names; make a new profile." %
                    path)
        if reason == ABSENT:
            return ("'%s' is not on this machine, so its functions have no names; read the profile where it was made." %
                    path)
        if reason == NEEDS_LINES and not self.llvm and not self.addr2line:
            return "lines need addr2line or llvm-symbolizer; apt-get install binutils brings one."
        lacks = "symbols" if reason == NEEDS_SYMBOLS else "line numbers"
        package = debian_package(path)
        if package:
            return "'%s' has no %s; apt-get install %s brings them%s." % (
                path, lacks, debug_package(package), "" if package == "libc6" else " (from Debian's debug archive)")
        return "'%s' has no %s; compile it with -g%s." % (
            path, lacks, "" if reason == NEEDS_LINES else ", and do not strip it")


def debian_package(path):
    """The Debian package that a file belongs to, or None."""
    if not shutil.which("dpkg-query"):
        return None
    path = os.path.realpath(path)
    for candidate in (path, path[len("/usr"):] if path.startswith("/usr/") else path):
        done = subprocess.run(["dpkg-query", "-S", candidate], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True)
        if done.returncode == 0 and ":" in done.stdout:
            return done.stdout.split(":")[0].split(",")[0]
    return None


def debug_package(package):
    return "libc6-dbg" if package == "libc6" else package + "-dbgsym"


def open_regular(path):
    """A path from a profile may lead anywhere: a pipe would be waited for, a device read without end."""
    file = open(path, "rb", opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY))
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    file.close()
    raise OSError(errno.EINVAL, "not a regular file")


def damage():
    """What reading a file may end in that only looks like one with symbols."""
    from elftools.common.exceptions import DWARFError, ELFError
    return (OSError, ELFError, DWARFError, ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError,
            RecursionError, TypeError, ValueError)


def elf_of(file):
    from elftools.elf.elffile import ELFFile
    elf = ELFFile(file)
    if elf.num_sections() > SECTIONS_MAX or elf.num_segments() > SECTIONS_MAX:
        raise ValueError("a number that no linker writes")
    return elf


class Image:
    """One file that was mapped: where its addresses are, and the names behind those that were asked for."""

    def __init__(self, path, build_id, debug_folder):
        path = path[:-len(" (deleted)")] if path.endswith(" (deleted)") else path
        self.path = os.path.abspath(path)  # of one that was loaded by a relative name and is gone, from where we are
        self.name = os.path.basename(self.path)
        self.known = {}  # address: [(function, file, line)] innermost first
        self.trouble = None
        self.segments = []  # (offset, bytes, address)
        self.source = self.path  # the file that has the symbols
        self.open(build_id.lower(), debug_folder)

    def open(self, build_id, debug_folder):
        build_id = build_id if BUILD_ID.fullmatch(build_id) else ""
        try:
            with open_regular(self.path) as file:
                elf = elf_of(file)
                self.segments = [(part["p_offset"], part["p_filesz"], part["p_vaddr"]) for part in elf.iter_segments()
                                 if part["p_type"] == "PT_LOAD"]
                own_id = build_id_of(elf)
                has_lines = elf.get_section_by_name(".debug_info") is not None
        except damage():
            self.trouble = ABSENT
            own_id, has_lines = None, False
        if build_id and own_id and build_id != own_id:
            self.trouble = CHANGED
            self.segments = []
        build_id = build_id or own_id
        if build_id and not has_lines:
            debug = os.path.join(debug_folder, ".build-id", build_id[:2], build_id[2:] + ".debug")
            if os.path.isfile(debug):
                self.source = debug
                if self.trouble:
                    self.read_segments_of_debug(debug)

    def read_segments_of_debug(self, debug):
        """The file itself is gone; its debug file keeps the program headers, but for the sizes in the file."""
        try:
            with open_regular(debug) as file:
                self.segments = [(part["p_offset"], part["p_memsz"], part["p_vaddr"]) for part in
                                 elf_of(file).iter_segments() if part["p_type"] == "PT_LOAD"]
            self.trouble = None
        except damage():
            pass

    def address_of(self, location):
        """The address inside the file. The format's addresses lie in the call, not behind it."""
        offset = location.address - location.mapping.start + location.mapping.offset
        for start, size, address in self.segments:
            if start <= offset < start + size:
                return offset - start + address
        return offset

    def learn(self, addresses, tools):
        if self.trouble or not addresses:
            return
        if tools.llvm:
            self.ask_llvm(addresses, tools.llvm)
        elif tools.addr2line:
            self.ask_addr2line(addresses, tools.addr2line)
        else:
            try:
                self.read_tables(addresses)
            except damage():
                pass  # names that were found stay

    def ask(self, command, lines):
        return subprocess.run(command, input="".join(line + "\n" for line in lines), stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True, errors="replace").stdout.splitlines()

    def ask_llvm(self, addresses, tool):
        answers = self.ask([tool, "--output-style=JSON", "--inlines", "--demangle", "--obj=" + self.source],
                           ["0x%x" % address for address in addresses])
        for address, text in zip(addresses, answers):
            try:
                entries = json.loads(text).get("Symbol", [])
            except ValueError:
                continue
            self.keep(address, [(entry["FunctionName"], entry["FileName"], entry["Line"]) for entry in entries])

    def ask_addr2line(self, addresses, tool):
        answers = self.ask([tool, "-e", self.source, "-f", "-i", "-C", "-a"],
                           ["0x%x" % address for address in addresses])
        address, entries, index = None, [], 0
        while index < len(answers):
            if re.match(r"0x[0-9a-f]+$", answers[index]):
                address, entries = int(answers[index], 16), []
                index += 1
                continue
            place = re.sub(r" \(discriminator \d+\)$", "", answers[index + 1]) if index + 1 < len(answers) else "??:0"
            file, _, line = place.rpartition(":")
            entries.append((answers[index].replace("??", ""), file.replace("??", ""),
                            int(line) if line.isdigit() else 0))
            self.keep(address, entries)
            index += 2

    def keep(self, address, entries):
        """Keeps what a tool said, unless it is that it knows nothing."""
        named = [(rust(demangle(VERSION.sub("", name[:NAME_MAX]))), tidy(file[:NAME_MAX]), line)
                 for name, file, line in entries[:INLINED_MAX] if name]
        if named:
            self.known[address] = named

    def read_tables(self, addresses):
        symbols = {}
        with open_regular(self.source) as file:
            elf = elf_of(file)
            for section in (".dynsym", ".symtab"):
                table = elf.get_section_by_name(section)
                for symbol in table.iter_symbols() if table is not None and table["sh_type"] != "SHT_NOBITS" else ():
                    if symbol["st_info"]["type"] in ("STT_FUNC", "STT_GNU_IFUNC") and symbol["st_value"]:
                        symbols[symbol["st_value"]] = (symbol["st_size"], symbol.name)
        starts = sorted(symbols)
        for address in addresses:
            index = bisect.bisect_right(starts, address) - 1
            if index >= 0:
                size, name = symbols[starts[index]]
                if address < starts[index] + size:
                    self.keep(address, [(demangle(name), "", 0)])


# What the older Rust names write for characters that linkers did not like.
RUST_MARKS = {"$LT$": "<", "$GT$": ">", "$LP$": "(", "$RP$": ")", "$C$": ",", "$RF$": "&", "$BP$": "*", "$SP$": "@",
              "..": "::"}
RUST_MARK = re.compile(r"_?(\$(?:LT|GT|LP|RP|C|RF|BP|SP)\$|\$u[0-9a-f]{2,4}\$)|\.\.")
VERSION = re.compile(r"@@?[A-Z][\w.]*$")  # that a symbol of a library has
RUST_HASH = re.compile(r"::h[0-9a-f]{16}$")


def rust(name):
    """An older Rust name as its source has it; others stay as they are."""
    if not RUST_HASH.search(name) and "$" not in name:
        return name

    def plain(match):
        mark = match.group(1) or match.group(0)
        return RUST_MARKS.get(mark) or chr(int(mark[2:-1], 16))
    return RUST_MARK.sub(plain, RUST_HASH.sub("", name))


def tidy(file):
    return os.path.normpath(file) if file.startswith("/") else file


def build_id_of(elf):
    for segment in elf.iter_segments():
        if segment["p_type"] == "PT_NOTE":
            for note in segment.iter_notes():
                if note["n_type"] == "NT_GNU_BUILD_ID":
                    return note["n_desc"]
    return None


@functools.lru_cache(maxsize=1)
def demangler():
    """The C++ library's own, when there is one. It reads the older Rust names as well."""
    try:
        function = ctypes.CDLL("libstdc++.so.6").__cxa_demangle
    except (OSError, AttributeError):
        return None
    function.restype = ctypes.c_void_p
    return function


def demangle(name):
    if not name.startswith("_Z") or len(name) > NAME_MAX or demangler() is None:
        return name
    status = ctypes.c_int()
    text = demangler()(name.encode(), None, None, ctypes.byref(status))
    if not text:
        return name
    try:
        return ctypes.string_at(text).decode(errors="replace")
    finally:
        libc_free = ctypes.CDLL(None).free
        libc_free.argtypes = [ctypes.c_void_p]
        libc_free(text)
