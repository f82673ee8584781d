"""Reads heap profiles in the pprof format, ours and those of others that use the same sample types.

The package protobuf decodes the messages. Their layout is the table below, so that no generated file has to fit
the package's version. Strings are read as bytes: a path need not be UTF-8.
"""
import gzip
import os
import re
import zlib
from dataclasses import dataclass, field
from typing import Dict, List

import say
from trouble import Trouble

MESSAGES = {
    "ValueType": {"type": (1, "int64"), "unit": (2, "int64")},
    "Sample": {"location_id": (1, "uint64*"), "value": (2, "int64*")},
    "Mapping": {"id": (1, "uint64"), "memory_start": (2, "uint64"), "memory_limit": (3, "uint64"),
                "file_offset": (4, "uint64"), "filename": (5, "int64"), "build_id": (6, "int64"),
                "has_functions": (7, "bool"), "has_filenames": (8, "bool"), "has_line_numbers": (9, "bool"),
                "has_inline_frames": (10, "bool")},
    "Line": {"function_id": (1, "uint64"), "line": (2, "int64")},
    "Location": {"id": (1, "uint64"), "mapping_id": (2, "uint64"), "address": (3, "uint64"), "line": (4, "Line*")},
    "Function": {"id": (1, "uint64"), "name": (2, "int64"), "system_name": (3, "int64"), "filename": (4, "int64")},
    "Profile": {"sample_type": (1, "ValueType*"), "sample": (2, "Sample*"), "mapping": (3, "Mapping*"),
                "location": (4, "Location*"), "function": (5, "Function*"), "string_table": (6, "bytes*"),
                "time_nanos": (9, "int64"), "duration_nanos": (10, "int64"), "period_type": (11, "ValueType"),
                "period": (12, "int64"), "comment": (13, "int64*"), "default_sample_type": (14, "int64")},
}
# The four numbers of a stack, and what writers call them. A profile without the allocated ones has zeros there.
KINDS = {
    "live_bytes": ("inuse_space", "space", "inuse_bytes"),
    "live_blocks": ("inuse_objects", "objects", "inuse_blocks"),
    "all_bytes": ("alloc_space", "alloc_bytes"),
    "all_blocks": ("alloc_objects", "alloc_blocks"),
}
UNITS = {"bytes": 1, "byte": 1, "kilobytes": 1 << 10, "megabytes": 1 << 20, "": 1, "count": 1}


# What a file may make us hold: it, one profile of it, all of its profiles, calls of all stacks together and of one.
FILE_BYTES_MAX, UNPACKED_BYTES_MAX, ALL_BYTES_MAX, MEMBER_BYTES = 1 << 28, 1 << 26, 1 << 28, 1 << 10
PARTS_MAX, CALLS_MAX, CALLS_A_STACK_MAX, TEXT_MAX, COMMENTS_MAX = 1 << 21, 1 << 23, 1 << 12, 1 << 12, 64
FIELDS_MAX = 1 << 22  # of a profile and of its parts: an empty part is two bytes of a file and a hundred of memory

GZIP = b"\x1f\x8b\x08"
OTHER_STACKS = "(other stacks)"  # PROFILE_OTHER_NAME of the library
OTHER_FUNCTIONS = "(other functions of scripts)"  # OTHER_NAME of src/site/places.c
SAMPLES_COMMENT = re.compile(r"; ([0-9]{1,19}) samples, ([0-9]{1,19}) lost(?:, ([0-9]{1,19}) cut)?$")
PID = re.compile("[0-9]{1,10}")
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LOG_BYTES_MAX = 1 << 20
PART_COMMENT = "of what was asked for while the profiler was on, in a process that ran already"
PID_COMMENT = "pid "  # and the number: which process a profile is of


@dataclass
class Mapping:
    start: int
    end: int
    offset: int
    path: str
    build_id: str


@dataclass
class Location:
    address: int
    mapping: Mapping = None
    lines: list = field(default_factory=list)  # (function, file, line), innermost first, when the writer knew them

    def is_of_script(self):
        """Whether it is a place in a script: these have a name and no address."""
        return self.address == 0 and bool(self.lines) and self.lines[0][0] != OTHER_STACKS


@dataclass
class Stack:
    locations: List[Location]  # innermost first
    live_bytes: int = 0
    live_blocks: int = 0
    all_bytes: int = 0
    all_blocks: int = 0


@dataclass
class Profile:
    stacks: List[Stack]
    mappings: List[Mapping]
    has_all: bool  # what was allocated in all is known, not only what is live
    period: int
    time_ns: int
    duration_ns: int
    comments: List[str]
    processes: int = 1  # how many it is the sum of

    def total(self, name):
        return sum(getattr(stack, name) for stack in self.stacks)

    def program(self):
        """The name of the program, whose mapping comes first, or an empty string."""
        path = self.mappings[0].path if self.mappings else ""
        return path.rpartition("/")[2] if path.startswith("/") else ""


    def pid(self):
        """The process it is of, or None."""
        words = next((words for words in self.comments if words.startswith(PID_COMMENT)), "")
        return int(words[len(PID_COMMENT):]) if PID.fullmatch(words[len(PID_COMMENT):]) else None


def need_packages():
    try:
        import elftools.elf.elffile  # noqa: F401
        import google.protobuf  # noqa: F401
    except ImportError as error:
        name = "protobuf" if "google" in str(error) else "pyelftools"
        raise Trouble("calm heap needs the Python package %s, which %s, or apt-get install python3-protobuf "
                      "python3-pyelftools brings it." % (name, why_not_fetched())) from None
    except OSError as error:
        raise Trouble("calm heap needs Python packages that this user may not read: '%s': %s; CALM_BUILD_DIR=FOLDER "
                      "fetches them to one of yours." % (error.filename, error.strerror)) from None


def why_not_fetched():
    """Why the environment that ./calm makes does not have the packages, and what helps."""
    folder = os.environ.get("CALM_BUILD_DIR") or os.path.join(ROOT, "build")
    venv = os.path.join(folder, "venv")
    elsewhere = "CALM_BUILD_DIR=FOLDER fetches it to one of yours"
    if os.path.exists(os.path.join(venv, "profiles")):
        return "is in '%s', which this user may not use; %s" % (venv, elsewhere)
    if not os.access(folder, os.W_OK):
        return "was not fetched, since this user may not write to '%s'; %s" % (folder, elsewhere)
    try:
        with open(os.path.join(folder, "profiles.log"), errors="replace") as file:
            said = [line.strip() for line in file.read(LOG_BYTES_MAX).splitlines() if line.startswith("ERROR: ")]
    except OSError:
        said = []
    return "could not be fetched%s; with a network it comes by itself" % (" (%s)" % said[0][7:] if said else "")


def message_class():
    """Makes the class Profile from MESSAGES."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="calm_heap.proto", package="calm.heap", syntax="proto3")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field_name, (number, kind) in fields.items():
            entry = message.field.add(name=field_name, number=number)
            entry.label = kinds.LABEL_REPEATED if kind.endswith("*") else kinds.LABEL_OPTIONAL
            kind = kind.rstrip("*")
            if kind in MESSAGES:
                entry.type, entry.type_name = kinds.TYPE_MESSAGE, ".calm.heap." + kind
            else:
                entry.type = getattr(kinds, "TYPE_" + kind.upper())
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    descriptor = pool.FindMessageTypeByName("calm.heap.Profile")
    if hasattr(message_factory, "GetMessageClass"):
        return message_factory.GetMessageClass(descriptor)
    return message_factory.MessageFactory(pool).GetPrototype(descriptor)


def read_file(path):
    """The bytes of a file, or one sentence."""
    try:
        with open(path, "rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        raise Trouble("there is no file '%s'; to profile a program, write two dashes before it: calm heap -- %s." %
                      (path, path)) from None
    except IsADirectoryError:
        raise Trouble("'%s' is a directory, not a profile." % path) from None
    except PermissionError:
        raise Trouble("'%s' may not be read; chmod +r, or its owner, allows it." % path) from None
    except OSError as error:
        raise Trouble("'%s' cannot be read: %s." % (path, error.strerror)) from None
    if len(data) > FILE_BYTES_MAX:
        raise Trouble("'%s' is too large for a profile: more than %s." % (path, say.amount(FILE_BYTES_MAX)))
    return data


def unpack(data, name):
    """The profile that `data` begins with, unpacked, and what comes behind it."""
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        text = unpacker.decompress(data, UNPACKED_BYTES_MAX)
    except zlib.error as error:
        raise Trouble("%s is damaged (%s); make a new profile." % (name, error)) from None
    if not unpacker.eof and len(text) >= UNPACKED_BYTES_MAX:
        raise Trouble("%s is too large for a profile: more than %s unpacked." % (name, say.amount(UNPACKED_BYTES_MAX)))
    if not unpacker.eof:
        raise Trouble("%s is cut short: whoever wrote it did not get to its end." % name)
    rest = unpacker.unused_data
    return text, rest


def members(data, name):
    """The profiles in `data`, unpacked. Processes that share a descriptor append one after the other."""
    if not data.startswith(GZIP):
        return [data[:UNPACKED_BYTES_MAX]]
    found, left = [], ALL_BYTES_MAX
    while data.startswith(GZIP):
        text, data = unpack(data, name)
        left -= len(text) + MEMBER_BYTES
        if left < 0:
            raise Trouble("%s has too many profiles: more than %s unpacked." % (name, say.amount(ALL_BYTES_MAX)))
        found.append(text)
    return found


def whole_members(data):
    """The profiles in `data` that are whole, unpacked. Processes that end at one time may have written theirs into
    each other's; those are passed over."""
    found, left = [], ALL_BYTES_MAX
    while data and left > 0:
        try:
            text, data = unpack(data, "")
            left -= len(text) + MEMBER_BYTES
            found.append(text)
        except Trouble:
            at = data.find(GZIP, 1)
            if at < 0:
                break
            data = data[at:]
    return found


def decode_all(texts, name):
    """The profiles that can be read."""
    found = []
    for text in texts:
        try:
            found.append(decode(text, name))
        except Trouble:
            continue
    return found


def choose(profiles, wanted):
    """The profile of the process `wanted`: a number, a program's name, of which the last, or `all`: their sum."""
    if wanted == "all" and profiles:
        return merged(profiles) if len(profiles) > 1 else profiles[0]
    for profile in reversed(profiles):
        if wanted in (str(profile.pid()), profile.program()):
            return profile
    known = sorted({"%s (%s)" % (profile.pid(), profile.program()) for profile in profiles})
    raise Trouble("no process '%s' wrote a profile; %s." % (
        wanted, "there are those of " + ", ".join(known[:8]) if known else "none did"))


def of_process(profiles, pid):
    """The profile of one process, or None. A program that has calmalloc linked and preloaded has two heaps, and writes
    a profile of each: their sum."""
    found = [profile for profile in profiles if profile.pid() == pid]
    if len(found) < 2:
        return found[0] if found else None
    profile = merged(found)
    profile.processes, profile.comments[0] = 1, "the program has %d copies of calmalloc; this is their sum" % len(found)
    profile.comments.append("%s%d" % (PID_COMMENT, pid))
    return profile


def merged(profiles):
    """The sum of the profiles of several processes."""
    first = profiles[-1]
    return Profile([stack for profile in profiles for stack in profile.stacks],
                   [mapping for profile in profiles for mapping in profile.mappings],
                   all(profile.has_all for profile in profiles), first.period, min(p.time_ns for p in profiles),
                   max(p.duration_ns for p in profiles),
                   ["the sum of %d processes" % len(profiles)] +
                   [comment for profile in profiles for comment in profile.comments if SAMPLES_COMMENT.search(comment)],
                   len(profiles))


def read(path, process=None):
    """The profile in a file; the last one when there are several, or that of `process`."""
    name = "'%s'" % path
    data = read_file(path)
    if data.startswith(b"heap_v2/"):
        raise Trouble("%s is a heap profile as text (heap_v2); `pprof -proto PROGRAM %s` turns it into one that calm "
                      "reads." % (name, path))
    found = members(data, name)
    if process is None:
        return decode(found[-1], name)
    return choose([decode(text, name) for text in found], process)


def varint(text, at):
    """(the number at `at`, where it ends)."""
    number, shift = 0, 0
    while True:
        byte = text[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, at
        shift += 7


def field_count(text):
    """How many fields a message has and the messages right in it have, up to FIELDS_MAX and a few. What is no message
    is for the parser to refuse."""
    count, waiting, sizes = 0, [(0, len(text), True)], {1: 8, 5: 4}
    while waiting:
        at, end, is_outer = waiting.pop()
        try:
            while at < end and count <= FIELDS_MAX:
                tag, at = varint(text, at)
                count += 1
                size = sizes.get(tag & 7, 0)
                if tag & 7 in (0, 2):
                    size, at = varint(text, at)
                if tag & 7 == 2 and is_outer and size > 0:
                    waiting.append((at, min(at + size, end), False))
                at += size if tag & 7 != 0 else 0
        except IndexError:
            pass
    return count


def decode(text, name):
    """Turns one unpacked profile into a Profile."""
    from google.protobuf.message import DecodeError
    if field_count(text) > FIELDS_MAX:
        raise Trouble("%s makes no sense: it has more than %s parts." % (name, format(FIELDS_MAX, ",")))
    message = message_class()()
    try:
        message.ParseFromString(text)
    except DecodeError:
        message = None
    if message is None or not message.string_table or message.string_table[0] or not message.sample_type:
        raise Trouble("%s is not a profile; calm reads what `calm heap --pprof FILE` and Go's pprof write." % name)
    try:
        return build(message, name)
    except (IndexError, KeyError):
        raise Trouble("%s is damaged: it names parts of itself that are not there; make a new profile." %
                      name) from None


class Strings(list):
    """Numbers from a file count from the front only."""

    def __getitem__(self, index):
        if index < 0:
            raise IndexError
        return super().__getitem__(index)


def check_size(message, name):
    """A few bytes may name a long list many times over; what is built from it is bounded first."""
    lines = {entry.id: len(entry.line) for entry in message.location}
    calls = [len(sample.location_id) + sum(lines.get(number, 0) for number in sample.location_id)
             for sample in message.sample]
    parts = [len(part) for part in (message.sample, message.location, message.function, message.mapping,
                                    message.string_table)]
    if max(calls, default=0) > CALLS_A_STACK_MAX or sum(calls) > CALLS_MAX or sum(parts) > PARTS_MAX:
        raise Trouble("%s makes no sense: its stacks are too many, or too deep." % name)


def build(message, name):
    check_size(message, name)
    strings = Strings(text[:TEXT_MAX].decode(errors="replace") for text in message.string_table)
    columns = columns_of(message, strings, name)
    mappings = {entry.id: Mapping(entry.memory_start, entry.memory_limit, entry.file_offset, strings[entry.filename],
                                  strings[entry.build_id]) for entry in message.mapping}
    functions = {entry.id: (strings[entry.name] or strings[entry.system_name], strings[entry.filename])
                 for entry in message.function}
    locations: Dict[int, Location] = {}
    for entry in message.location:
        lines = [functions[line.function_id] + (line.line,) for line in entry.line]
        locations[entry.id] = Location(entry.address, mappings.get(entry.mapping_id), lines)
    stacks = []
    for sample in message.sample:
        stack = Stack([locations[number] for number in sample.location_id])
        for kind, (index, scale) in columns.items():
            setattr(stack, kind, max(0, sample.value[index]) * scale)
        stacks.append(stack)
    return Profile(stacks, list(mappings.values()), "all_bytes" in columns, max(0, message.period),
                   max(0, message.time_nanos), max(0, message.duration_nanos),
                   [strings[index] for index in message.comment[:COMMENTS_MAX]])


def columns_of(message, strings, name):
    """Where each of our four numbers stands among a sample's values, and what it is counted in."""
    types = [(strings[entry.type], strings[entry.unit]) for entry in message.sample_type]
    columns = {}
    for kind, names in KINDS.items():
        for index, (type_name, unit) in enumerate(types):
            if type_name in names and unit in UNITS:
                columns[kind] = (index, UNITS[unit])
    if "live_bytes" not in columns:
        raise Trouble("%s is a profile of something else (%s), not of a heap; one with inuse_space is needed." %
                      (name, ", ".join(type_name for type_name, _ in types)))
    return columns


def encode(profile, names, first=None):
    """The profile in the format, packed; readers show `first` of its sample types. `names` gives the lines of a
    location, as it has them, that have names."""
    message, strings = message_class()(), {"": 0}

    def string(text):
        return strings.setdefault(text, len(strings))
    kinds = (("alloc_objects", "count"), ("alloc_space", "bytes"), ("inuse_objects", "count"),
             ("inuse_space", "bytes"))
    for name, unit in kinds if profile.has_all else kinds[2:]:
        message.sample_type.add(type=string(name), unit=string(unit))
    numbers = {}
    for mapping in profile.mappings:
        numbers[id(mapping)] = len(numbers) + 1
        message.mapping.add(id=numbers[id(mapping)], memory_start=mapping.start, memory_limit=mapping.end,
                            file_offset=mapping.offset, filename=string(mapping.path),
                            build_id=string(mapping.build_id))
    locations, functions, nameless = {}, {}, set()
    for stack in profile.stacks:
        ids = []
        for location in stack.locations:
            if id(location) not in locations:
                locations[id(location)] = len(locations) + 1
                entry = message.location.add(id=locations[id(location)], address=location.address,
                                             mapping_id=numbers.get(id(location.mapping), 0))
                lines = names(location)
                if not lines:
                    nameless.add(id(location.mapping))
                for name, file, line in lines:
                    number = functions.setdefault((name, file), len(functions) + 1)
                    entry.line.add(function_id=number, line=line)
            ids.append(locations[id(location)])
        values = [stack.live_blocks, stack.live_bytes]
        message.sample.add(location_id=ids, value=[stack.all_blocks, stack.all_bytes] + values if profile.has_all
                           else values)
    for (name, file), number in functions.items():
        message.function.add(id=number, name=string(name), filename=string(file))
    for mapping, entry in zip(profile.mappings, message.mapping):
        if id(mapping) not in nameless:  # so that readers do not look for what they have
            entry.has_functions = entry.has_filenames = entry.has_line_numbers = entry.has_inline_frames = True
    message.time_nanos, message.duration_nanos, message.period = profile.time_ns, profile.duration_ns, profile.period
    message.period_type.type, message.period_type.unit = string("space"), string("bytes")
    message.default_sample_type = string(first or "")
    message.comment.extend(string(comment) for comment in profile.comments)
    message.string_table.extend(text.encode(errors="surrogateescape") for text in strings)
    return gzip.compress(message.SerializeToString(), mtime=0)
