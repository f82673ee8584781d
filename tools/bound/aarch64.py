"""What one instruction of aarch64 does, from objdump's syntax. As x86_64.py; less is known, so more is taken to be a
line of its own."""
import re

from listing import Rejected

FORBIDDEN = re.compile(r"^(svc|hvc|smc|brk|hlt|wfe|wfi|yield|ldxr\w*|ldaxr\w*|stxr\w*|stlxr\w*|ldxp|stxp|stlxp|ldaxp|"
                       r"dc|ic|tlbi|[us]div)$")
BRANCH = re.compile(r"^(b\.\w+|cbn?z|tbn?z)$")
MEMORY = re.compile(r"^(ld|st|swp|cas)")
ADDRESS = re.compile(r"\[(\w+)(?:, ([^\]]*))?\](!)?(?:, #(-?\w+))?")
NO_WRITE = re.compile(r"^(cmp|cmn|tst|ccmp|ccmn|nop|bti|paciasp|autiasp|prfm|dmb|dsb|isb|b|b\.\w+|cbn?z|tbn?z|ret|"
                      r"str|stur|strb|strh|sturb|sturh|stlr|stlrb|stlrh)$")


def register(name):
    match = re.match(r"^[wx](\d+)$", name.strip())
    if match:
        return "x" + match.group(1)
    return "sp" if name.strip() in ("sp", "wsp") else None


def split(text):
    mnemonic, _, rest = text.partition(" ")
    return mnemonic, [part.strip() for part in re.split(r",(?![^\[]*\])", rest)] if rest else []


def flow(instruction):
    mnemonic, _ = split(instruction.text)
    if FORBIDDEN.match(mnemonic):
        raise Rejected("'%s' may take any time" % instruction.text)
    if mnemonic in ("udf", ".inst"):
        return "end"
    if mnemonic == "ret":
        return "return"
    if mnemonic in ("br", "blr", "braa", "blraa"):
        raise Rejected("'%s' leads to where its operand says" % instruction.text)
    if mnemonic in ("b", "bl") or BRANCH.match(mnemonic):
        if instruction.target is None and not instruction.outside:
            raise Rejected("'%s' leads to where its operand says" % instruction.text)
        return {"b": "jump", "bl": "call"}.get(mnemonic, "branch")
    return "next"


def accesses(instruction):
    mnemonic, operands = split(instruction.text)
    match = ADDRESS.search(instruction.text)
    if not MEMORY.match(mnemonic) or match is None:
        return []
    base, inner = register(match.group(1)) or match.group(1), match.group(2) or ""
    offset = re.match(r"^#(-?\w+)$", inner)
    index = "" if offset or not inner else "/".join(filter(None, map(register, inner.split(",")[:1]))) or inner
    first = operands[0]
    size = 1 if mnemonic.rstrip("al").endswith("b") else 2 if mnemonic.endswith("h") else 4 if first[0] == "w" else 8
    size = 16 if first[0] == "q" else size
    pair = mnemonic in ("ldp", "stp", "ldpsw")
    at = int(offset.group(1), 0) if offset else 0
    parts = [(base, index, 1 if not inner or offset else inner, at, size, size <= 8)]
    return parts + [(base, index, 1, at + size, size, size <= 8)] if pair else parts


def writes(instruction):
    mnemonic, operands = split(instruction.text)
    match = ADDRESS.search(instruction.text)
    found = []
    if match and (match.group(3) or match.group(4)):
        found.append(register(match.group(1)))
    if mnemonic == "bl":
        return ["x30"]
    if NO_WRITE.match(mnemonic):
        return found
    if mnemonic in ("stp",):
        return found
    if MEMORY.match(mnemonic):
        return found + [name for name in map(register, operands) if name]
    name = register(operands[0]) if operands else None
    return found + ([name] if name else [])


def computed(instruction):
    """(register, kind, arguments) where the value that is written is understood, else None."""
    mnemonic, operands = split(instruction.text)
    name = register(operands[0]) if operands else None
    if name is None or name != operands[0] or name == STACK:
        return None
    if mnemonic == "mov" and register(operands[1]) == operands[1]:
        return name, "sum", (operands[1], "", 1, 0)
    address = ADDRESS.search(instruction.text)
    if mnemonic == "ldr" and address and not address.group(4):
        return name, "load", ()
    if mnemonic not in ("add", "sub", "lsl") or register(operands[1]) != operands[1]:
        return None
    number = re.match(r"^#(0x[0-9a-f]+|\d+)$", operands[2])
    shift = re.match(r"^lsl #(\d+)$", operands[3]) if len(operands) > 3 else None
    if number and (shift or len(operands) == 3):
        amount = int(number.group(1), 0) << int(shift.group(1) if shift else 0)
        if mnemonic == "lsl":
            return name, "shift", (operands[1], amount)
        return name, "sum", (operands[1], "", 1, amount if mnemonic == "add" else -amount)
    if mnemonic == "add" and register(operands[2]) == operands[2] and (shift or len(operands) == 3):
        return name, "sum", (operands[1], operands[2], 1 << int(shift.group(1) if shift else 0), 0)
    return None


def stored(instruction):
    """The whole register that is stored, else None."""
    mnemonic, operands = split(instruction.text)
    return operands[0] if mnemonic == "str" and register(operands[0]) == operands[0] else None


def stack_step(instruction):
    mnemonic, operands = split(instruction.text)
    match = ADDRESS.search(instruction.text)
    if match and match.group(1) == "sp" and (match.group(3) or match.group(4)):
        return int(match.group(4) or match.group(2).lstrip("#"), 0)
    if mnemonic in ("sub", "add") and operands[:2] == ["sp", "sp"] and operands[2].startswith("#"):
        return int(operands[2].lstrip("#"), 0) * (-1 if mnemonic == "sub" else 1)
    return None


ARGUMENT = "x0"
STACK = "sp"
REGISTERS = ["x%d" % n for n in range(31)] + ["sp"]
_HELPER = re.compile(r"^__aarch64_(ldadd|ldclr|ldeor|ldset|swp|cas)[1248]_(relax|acq|rel|acq_rel|sync)$")


class _Leaves(dict):
    """The helpers of libgcc that choose between one atomic instruction (ARMv8.1) and a loop (before). Counted as the
    first, which the page on the bound says: bti, adrp, ldrb, cbz, the instruction, ret; two lines, two branches."""

    def __contains__(self, name):
        return _HELPER.match(name) is not None

    def get(self, name, otherwise=None):
        return (6, 2, 2) if name in self else otherwise


LEAVES = _Leaves()
