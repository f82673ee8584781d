"""`calm translate`: what another allocator's settings are here. coming_from.json has each knob and its counterpart; the
page docs/coming-from.md is made from it as well.

    python3 tools/calm/translate.py --page     prints the page
"""
import json
import os
import re
import sys
import textwrap
from dataclasses import dataclass

if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import options
import say
from trouble import Trouble

HERE = os.path.dirname(os.path.abspath(__file__))
USAGE = 2
VARIABLES = ("MALLOC_CONF", "GLIBC_TUNABLES")  # which have lists of knobs
MALLOC_CONF = re.compile(r"(^|_)(?i:malloc_conf)")  # a library with a prefix has its own: _RJEM_MALLOC_CONF
PREFIXES = ("MIMALLOC_", "TCMALLOC_", "MALLOC_")
SAME_AS = re.compile(r"As `?([\w.]+?)`?\.")
SAYS_WHAT = re.compile(r"`|calm_|docs/|\.h\b")  # a note that names an option, a command, a call or a page
AS_ANOTHER = re.compile(r"As `?([\w.]*\w)`?[.;](?= |$)")
BEYOND = ", as near as it can be"
NUMBER_MAX = (1 << 63) - 1
YES, NO = ("true", "yes", "on", "t", "y"), ("false", "no", "off", "f", "n")
LONGEST = re.compile(r"(\d+) to (\d+)$")


@dataclass
class Knob:
    family: str
    knob: str
    to: str  # an option, or None
    value: object  # how values become ours: a rule's name, or {theirs: "option=ours"}
    note: str


def read():
    with open(os.path.join(HERE, "coming_from.json")) as file:
        return [Knob(**row) for row in json.load(file)]


def find(knobs, name):
    """The knob of a name. Those of mallctl may have numbers in them, and all of arenas are one."""
    for knob in knobs:
        if "*" in knob.knob:
            if re.fullmatch(re.escape(knob.knob).replace(r"\*", ".+"), name):
                return knob
        elif name == knob.knob:
            return knob
    return None


def pairs(text):
    """(name, value or None) of each setting in a text as these variables have it."""
    name, equals, value = text.partition("=")
    if name.upper().startswith("MIMALLOC_"):  # mimalloc reads its variables whatever their case
        name = name.upper()
    if equals and (name in VARIABLES or MALLOC_CONF.search(name)):
        text = value
    elif equals and not name.startswith("glibc."):
        return [(name, value)]
    if text.startswith("glibc."):
        return [tuple(part.partition("=")[::2]) for part in text.split(":") if part]
    found = []
    for part in text.split(","):
        name, colon, value = part.strip().partition(":")
        if name:
            found.append((name, value if colon else None))
    return found


def whole(text):
    """A number as theirs are read, of which a long one is the largest that there is."""
    if not re.fullmatch(r"\s*[-+]?(0[xX][0-9a-fA-F]+|[0-9]+)\s*", text or ""):
        return None
    text = text.strip()
    digits = text.lstrip("+-")
    base = 16 if digits[:2] in ("0x", "0X") else 8 if re.fullmatch("0[0-7]+", digits) else 10
    size = int(digits, base) if len(digits) < 24 else NUMBER_MAX
    return max(-NUMBER_MAX, -size) if text.startswith("-") else min(NUMBER_MAX, size)


def note_of(knobs, knob):
    """What is said of a knob, where the table says only that it is as another one."""
    for _ in knobs:
        said = AS_ANOTHER.match(knob.note)
        other = find(knobs, said[1]) if said else None
        if other is None:
            break
        knob = Knob(knob.family, knob.knob, knob.to, knob.value, other.note + knob.note[said.end():])
    return knob.note


def chosen(knob, value):
    """What stands in the table for one of a knob's few values, as words that mean yes and no are read there."""
    if value is None:
        return None
    word = value if value in knob.value else "1" if value.lower() in YES else "0" if value.lower() in NO else value
    if set(knob.value) <= {"0", "1", "t", "f"} and "1" in knob.value and whole(word):
        word = "1"
    if word not in knob.value and len(knob.value) > 1:
        raise Trouble("%s takes one of %s, not '%s'." % (knob.knob, ", ".join(knob.value), value), USAGE)
    return knob.value.get(word)


def setting(knob, value, rows):
    """`option=value` for a value of theirs; an empty text where ours is so already; None where nothing is known."""
    if isinstance(knob.value, dict):
        return chosen(knob, value)
    if knob.value is None or value is None:
        return None
    number = whole(value)
    if number is None:
        raise Trouble("%s takes a whole number, not '%s'." % (knob.knob, value), USAGE)
    low, high = (int(word) for word in LONGEST.match(rows[knob.to].values).groups())
    if knob.value == "ms" and number < 0:
        return "purge=trim"
    if knob.value == "log2_bytes":
        number = max(1, (1 << min(max(number, 0), 50)) >> 10)
    elif knob.value == "bytes_to_kb":
        number = 0 if number <= 0 else max(1, number >> 10)
    return "%s=%d" % (knob.to, min(max(number, low), high)) + (BEYOND if not low <= number <= high else "")


def needs_another(name, given):
    """Whether a knob of the profiler says nothing here: its rate without the switch, or the switch beside a rate."""
    is_on = given.get("prof") == "true" and given.get("prof_active") != "false"
    return (name == "lg_prof_sample" and not is_on) or (
        name in ("prof", "prof_active") and is_on and "lg_prof_sample" in given)


def of_environment():
    return ["%s=%s" % (name, value) for name, value in sorted(os.environ.items())
            if name in VARIABLES or (name.startswith(PREFIXES) and name != "MALLOC_CONF") or
            name in ("HEAPPROFILE", "HEAPCHECK")]


def start(texts, root):
    knobs, rows = read(), {row.name: row for row in options.read(root)}
    texts = [text for text in texts if text.strip()] or of_environment()
    if not texts:
        raise Trouble("translate needs settings: calm translate \"$MALLOC_CONF\", or NAME=VALUE; the environment has "
                      "none.", USAGE)
    are_known = False
    settings, lines, found = {}, [], [pair for text in texts for pair in pairs(text)]
    given = dict(found)
    for name, value in found:
        knob = find(knobs, name)
        shown = name if value is None else "%s %s" % (name, value)
        if knob is None:
            lines.append((shown, "not known here; docs/coming-from.md lists what is"))
            continue
        are_known = True
        ours = "" if needs_another(name, given) else setting(knob, value, rows)
        if ours:
            settings[ours.partition("=")[0]] = ours.partition(BEYOND)[0]
        head = ours if ours else "as it is" if ours == "" else "no setting" if knob.to is None else (
            "see the option " + knob.to)
        lines.append((shown, "%s. %s" % (head, note_of(knobs, knob))))
    say.pairs("calmalloc:", lines)
    if not are_known:
        raise Trouble("none of these is a setting of another allocator; docs/coming-from.md lists what is known.",
                      USAGE)
    print("CALM_OPTIONS=" + ",".join(settings.values()))  # a line for `export`, also where nothing is to be set
    return 0


FAMILIES = {
    "jemalloc": "MALLOC_CONF (jemalloc)",
    "mimalloc": "MIMALLOC_*",
    "tcmalloc": "TCMALLOC_* and gperftools'",
    "glibc": "GLIBC_TUNABLES and MALLOC_* (glibc)",
    "mallctl": "mallctl (jemalloc)",
}
HEAD = """# Coming from another allocator

Begin without settings: most settings of other allocators work against arenas, caches that cannot shrink, and memory
that goes back only from the top, none of which calmalloc has.

    calm translate "$MALLOC_CONF"             says the same of yours and why, and prints a line for CALM_OPTIONS
    calm translate MALLOC_ARENA_MAX=2         also of other variables; without words, of the environment
    export "$(calm translate "$MALLOC_CONF")" sets it

Free memory goes back after `purge_delay_ms`, by whoever frees; a program that frees nothing keeps what it has until it
calls calm_idle(), calm_trim() or malloc_trim(0).

`python3 tools/calm/translate.py --page` makes this page from `tools/calm/coming_from.json`; a test compares them.
"""


def value_words(knob):
    if isinstance(knob.value, dict):
        return ", ".join("%s: %s" % (theirs, "`%s`" % ours if ours else "as it is") for theirs, ours in
                         knob.value.items())
    return "`%s`" % knob.to if knob.to else "none"


def by_note(knobs):
    """{(counterpart, note): names}. A knob that only points to another one stands beside it."""
    notes, groups = {knob.knob: knob.note for knob in knobs}, {}
    for knob in knobs:
        note = knob.note
        while (same := SAME_AS.fullmatch(note)) and same[1] in notes:
            note = notes[same[1]]
        groups.setdefault((value_words(knob), note), []).append("`%s`" % knob.knob)
    return groups


def item(head, note):
    return textwrap.fill("- %s %s" % (head, note), 120, subsequent_indent="  ", break_on_hyphens=False)


def page():
    knobs, parts = read(), [HEAD]
    for family, title in FAMILIES.items():
        parts.append("## %s\n" % title)
        of_family = [knob for knob in knobs if knob.family == family]
        counterparts = [knob for knob in of_family if knob.to or isinstance(knob.value, dict)]
        if counterparts:
            parts += [item("%s%s %s." % (", ".join(names), "" if ": " in value else ":", value), note)
                      for (value, note), names in by_note(counterparts).items()]
            parts.append("\nNo option:\n")
        groups = {note: names for (_, note), names in
                  by_note([knob for knob in of_family if knob not in counterparts]).items()}
        parts += [item(", ".join(names) + ":", note) for note, names in groups.items() if SAYS_WHAT.search(note)]
        parts.append("")
        rest = [name for note, names in groups.items() if not SAYS_WHAT.search(note) for name in names]
        if rest:
            parts.append(textwrap.fill("Nothing need be done for %s." % ", ".join(rest), 118, break_on_hyphens=False))
        parts.append("")
    return "\n".join(parts)


if __name__ == "__main__":
    if sys.argv[1:] != ["--page"]:
        sys.exit(__doc__)
    sys.stdout.write(page())
