"""What one instruction of x86-64 does, from objdump's Intel syntax: where it goes on, what memory it touches, which
registers it writes. What is not known here is refused, or taken to write everything."""
import re

from listing import Rejected

FAMILIES = {"a": "ax", "b": "bx", "c": "cx", "d": "dx"}
PREFIXES = ("lock", "notrack", "bnd", "data16", "cs", "ds", "fs", "gs")
# Work or waiting that their operands do not show, or that leaves the program.
FORBIDDEN = re.compile(r"^(rep|repz|repnz|repe|repne|syscall|sysenter|int|int3|loop\w*|hlt|in|out|ins\w*|outs\w*|"
                       r"cpuid|xbegin|pause|mwait|x?rstor\w*|x?save\w*|div|idiv|\(bad\))$")
ENDS = ("ud2", "ud1", "ud0")
NO_WRITE = ("cmp", "test", "bt", "nop", "endbr64", "ret", "prefetcht0", "prefetchw", "ucomisd", "comisd", "mfence",
            "lfence", "sfence")
FIRST_IS_WRITTEN = re.compile(
    r"^(v?mov\w*|lea|add|sub|and|or|xor|not|neg|inc|dec|shl|shr|sar|sal|rol|ror|rorx|shlx|shrx|sarx|andn|bextr|blsr|"
    r"blsi|blsmsk|bts|btr|btc|bsf|bsr|tzcnt|lzcnt|popcnt|cmov\w+|set\w+|adc|sbb|bswap|shld|shrd|pxor|xorps|por|pand|"
    r"paddq|paddd|psubd|psubq|punpck\w+|pinsr\w|pextr\w|pshuf\w+|psrl\w+|psll\w+|xorpd|andps|orps|unpck\w+|shufps)$")
ACCUMULATOR = ("cdqe", "cwde", "cdq", "cqo")
SIZES = {"BYTE": 1, "WORD": 2, "DWORD": 4, "QWORD": 8, "XMMWORD": 16, "YMMWORD": 32, "ZMMWORD": 64, "TBYTE": 16}
ALIGNED_MOVES = re.compile(r"^v?mov(aps|apd|dqa)$")
MEMORY = re.compile(r"(?:(\w+) PTR )?(?:[fg]s:)?\[([^\]]*)\]|(?:(\w+) PTR )?([fg]s:0x[0-9a-f]+)")


def register(name):
    """The name of the whole register: eax, ax and al are rax."""
    name = name.strip()
    match = re.match(r"^[er]?([abcd])(x|l|h)$", name)
    if match:
        return "r" + match.group(1) + "x"
    match = re.match(r"^[er]?(si|di|bp|sp)l?$", name)
    if match:
        return "r" + match.group(1)
    match = re.match(r"^(r\d+)[bwd]?$", name)
    if match:
        return match.group(1)
    match = re.match(r"^[xyz]mm(\d+)$", name)
    return "v" + match.group(1) if match else None


def split(text):
    """Prefixes, mnemonic and operands."""
    words = text.split(" ")
    prefixes = []
    while words and words[0] in PREFIXES and len(words) > 1:
        prefixes.append(words.pop(0))
    if words and words[0].startswith("rex"):
        words.pop(0)
    rest = " ".join(words[1:])
    operands = [part.strip() for part in re.split(r",(?![^\[]*\])", rest)] if rest else []
    return prefixes, words[0], operands


def flow(instruction):
    """One of next, jump, branch, call, return, end; raises Rejected for what has no bound."""
    prefixes, mnemonic, operands = split(instruction.text)
    if FORBIDDEN.match(mnemonic):
        raise Rejected("'%s' may take any time" % instruction.text)
    if mnemonic in ENDS:
        return "end"
    if mnemonic == "ret":
        return "return"
    if mnemonic in ("call", "jmp") or mnemonic.startswith("j"):
        if instruction.target is None and not instruction.outside:
            raise Rejected("'%s' leads to where its operand says" % instruction.text)
        return {"call": "call", "jmp": "jump"}.get(mnemonic, "branch")
    return "next"


def _address(inner):
    """Base, index, scale and offset of an operand's inside."""
    base, index, scale, offset = "", "", 1, 0
    for sign, part in re.findall(r"([+-]?)([^+-]+)", inner.replace(" ", "")):
        scaled = re.match(r"^(\w+)\*(\d)$", part)
        if scaled:
            index, scale = register(scaled.group(1)) or scaled.group(1), int(scaled.group(2))
        elif re.match(r"^(0x)?[0-9a-f]+$", part) and register(part) is None:
            offset += int(part, 16) * (-1 if sign == "-" else 1)
        elif part == "rip":
            base = "rip"
        elif not base:
            base = register(part) or part
        else:
            index = register(part) or part
    return base, index, scale, offset


def accesses(instruction):
    """A list of (base, index, scale, offset, bytes, is_one_line) for each memory operand, the stack's included."""
    _, mnemonic, operands = split(instruction.text)
    if mnemonic in ("push", "call"):
        found = [("rsp", "", 1, -8, 8, True)]
    elif mnemonic in ("pop", "ret"):
        found = [("rsp", "", 1, 0, 8, True)]
    elif mnemonic == "leave":
        found = [("rbp", "", 1, 0, 8, True)]
    else:
        found = []
    if mnemonic == "lea" or mnemonic.startswith(("nop", "prefetch")):
        return found
    for operand in operands:
        match = MEMORY.search(operand)
        if match is None:
            continue
        size = SIZES.get(match.group(1) or match.group(3) or "", 0)
        if match.group(4):
            found.append((match.group(4), "", 1, 0, size or 8, True))
            continue
        base, index, scale, offset = _address(match.group(2))
        if base == "rip":
            # Each is a place of its own: the relocation, or the address that the comment gave, is not looked at.
            base, offset = "rip@%s" % (instruction.place,), 0
        if "fs:" in operand or "gs:" in operand:
            base = "fs:" + base
        bit_string = mnemonic in ("bts", "btr", "btc", "bt") and register(operands[-1]) is not None
        found.append((base, index + ("/" + register(operands[-1]) if bit_string else ""), scale, offset, size or 8,
                      0 < size <= 8 or bool(ALIGNED_MOVES.match(mnemonic))))
    return found


def writes(instruction):
    """The registers that are written, or None for all."""
    _, mnemonic, operands = split(instruction.text)
    if mnemonic in NO_WRITE or mnemonic.startswith(("nop", "j")):
        return ["rsp"] if mnemonic == "ret" else []
    if mnemonic == "push" or mnemonic == "call":
        return ["rsp"]
    if mnemonic == "pop":
        return ["rsp", register(operands[0])]
    if mnemonic in ACCUMULATOR:
        return ["rax", "rdx"]
    if mnemonic in ("mul", "imul") and len(operands) == 1:
        return ["rax", "rdx"]
    if mnemonic == "imul":
        return [register(operands[0])]
    if mnemonic == "mulx":
        return [register(operands[0]), register(operands[1])]
    if mnemonic in ("xchg", "xadd"):
        return [name for name in map(register, operands) if name]
    if mnemonic == "cmpxchg":
        return ["rax"] + [name for name in [register(operands[0])] if name]
    if FIRST_IS_WRITTEN.match(mnemonic):
        name = register(operands[0])
        return [name] if name else []
    return None


def computed(instruction):
    """(register, kind, arguments) where the value that is written is understood, else None. Of whole registers, or of
    lower halves whose upper half is thereby zero only where that keeps what is known: shifts and products do not."""
    _, mnemonic, operands = split(instruction.text)
    name = register(operands[0]) if operands else None
    if name is None or operands[0] != name or name.startswith("v") or len(operands) < 2:
        return None
    other = register(operands[1])
    is_number = re.match(r"^-?(0x)?[0-9a-f]+$", operands[1]) and other is None
    if mnemonic == "mov" and other == operands[1]:
        return name, "sum", (other, "", 1, 0)
    if mnemonic == "mov" and operands[1].startswith("QWORD PTR"):
        return name, "load", ()
    if mnemonic == "lea":
        base, index, scale, offset = _address(MEMORY.search(operands[1]).group(2))
        return None if base == "rip" else (name, "sum", (base, index, scale, offset))
    if name == STACK:
        return None
    if mnemonic in ("add", "sub") and is_number:
        number = int(operands[1], 16)
        number -= (number >> 63) << 64
        return name, "sum", (name, "", 1, number if mnemonic == "add" else -number)
    if mnemonic == "add" and other == operands[1]:
        return name, "sum", (name, other, 1, 0)
    if mnemonic in ("shl", "sal") and is_number:
        return name, "shift", (name, int(operands[1], 16))
    if mnemonic == "imul" and len(operands) == 3 and operands[1] == other and re.match(r"^0x[0-9a-f]+$", operands[2]):
        return name, "times", (other, int(operands[2], 16))
    return None


def stored(instruction):
    """The whole register that is stored, else None."""
    _, mnemonic, operands = split(instruction.text)
    if mnemonic == "push" or (mnemonic == "mov" and operands[0].startswith("QWORD PTR")):
        name = register(operands[-1])
        return name if name == operands[-1] else None
    return None


def stack_step(instruction):
    """How far the stack pointer moves, where that is known."""
    _, mnemonic, operands = split(instruction.text)
    if mnemonic in ("push", "call"):
        return -8
    if mnemonic in ("pop", "ret"):
        return 8
    if mnemonic in ("sub", "add") and operands[0] == "rsp" and re.match(r"^0x[0-9a-f]+$|^\d+$", operands[1]):
        return int(operands[1], 16) * (-1 if mnemonic == "sub" else 1)
    return None


ARGUMENT = "rdi"
STACK = "rsp"
# Parts of libgcc that wide atomic instructions may be called through: none here.
LEAVES = {}
REGISTERS = ["r" + name for name in ("ax", "bx", "cx", "dx", "si", "di", "bp", "sp")]
REGISTERS += ["r%d" % n for n in range(8, 16)]
