#!/usr/bin/env python3
"""Makes one C file and one header of the allocator, calmalloc.c and calmalloc.h, and for C++ calmalloc.hpp.

    amalgamate.py [--root FOLDER] [--out FOLDER] [--depfile FILE]

They need nothing else. The result has the calm_ names and none of the standard ones, so it may stand beside any other
malloc. Every name that is not public becomes static, and where two sources use one name for things of their own, each
gets its file's name in front. Sources come in the order of the layers; a header is written where it is first needed.
What they take from C that C++ has otherwise is spelled so that compilers of both take the same file.
--depfile has FILE say what was read, as a rule of make.
"""
import argparse
import os
import re
import sys

LAYERS = ("base", "os", "os/linux", "mem", "core", "pool", "site", "exec", "front")  # bottom to top, without libc
PUBLIC = "calmalloc"
PUBLIC_FIRST = "calmalloc/calmalloc.h"

TOKEN = re.compile(r"""
    (?P<comment>/\*.*?\*/|//[^\n]*)
  | (?P<line>^[ \t]*\#(?:\\\n|/\*.*?\*/|[^\n])*)
  | (?P<string>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
  | (?P<number>\.?[0-9](?:[eEpP][+-]|[\w.])*)
  | (?P<word>[A-Za-z_]\w*)
  | (?P<space>\s+)
  | (?P<mark>->|\S)
""", re.X | re.S | re.M)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"][^\n]*$', re.M)
DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)")
MACRO = re.compile(r"^[A-Z][A-Z0-9_]+$")
CONDITIONAL = re.compile(r"^[ \t]*#[ \t]*(if|ifdef|ifndef|endif)\b")
# What compilers of C++ say of designated initialisers, compound literals, {0} and constants of nameless enums.
C_ONLY_WARNINGS = ("pedantic", "extra", "c++20-extensions", "c99-designator", "missing-field-initializers",
                   "missing-braces", "enum-compare", "deprecated-enum-enum-conversion",
                   "deprecated-anon-enum-enum-conversion")
# Words of C++ that C leaves to the program.
CPP_ONLY = {"and", "catch", "class", "concept", "delete", "explicit", "export", "friend", "mutable", "namespace", "new",
            "not", "operator", "or", "private", "protected", "public", "requires", "template", "this", "throw", "try",
            "typename", "using", "virtual", "xor"}
# Not names: keywords that begin or accompany a declaration, and the attributes of base/attr.h.
QUALIFIERS = {"const", "volatile", "extern", "static", "inline", "register", "_Atomic", "_Thread_local", "_Alignas",
              "_Noreturn", "__attribute__", "EXPORT", "HIDDEN", "NOINLINE", "COLD", "NORETURN", "ALWAYS_INLINE",
              "PRINTF_LIKE", "CONSTRUCTOR_FIRST", "DESTRUCTOR_LAST"}

HEAD = """/*
 * calmalloc {version}, a memory allocator for Linux: the whole library in one file.
 *
 * Made by tools/amalgamate.py; edit the sources it names instead. Compile it as C11 or later, or as C++17 or later,
 * with -O2 or more:
 *
 *     cc -O2 -c calmalloc.c
 *     g++ -O2 -c calmalloc.c
 *     clang++ -O2 -x c++ -c calmalloc.c
 *
 * It defines the names of calmalloc.h and nothing else that a linker sees. -DCALM_CHECKS=0 leaves the checks of
 * frees out, 2 adds every assertion. -DCALM_BUILD_OPTIONS='"NAME=VALUE"' sets options before CALM_OPTIONS does.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wunused-variable"
#if defined(__PIC__) && !defined(__PIE__)
#define CALM_TLS_MODEL __attribute__((tls_model("initial-exec")))
#else
#define CALM_TLS_MODEL
#endif
"""

ATOMICS = "stdatomic.h"  # for C only
DIALECT = r"""
/* What the sources take from C, in C++, too. Atomics are plain words there, and the compiler's own functions work on
 * them. A variable that is declared before its definition is both that and unknown to the linker in a nameless
 * namespace only. */
#ifndef __cplusplus
#include <stdatomic.h>
#define CALM_EARLY static
#define CALM_INNER static
#define CALM_END
#else
#define CALM_EARLY namespace { extern
#define CALM_INNER namespace {
#define CALM_END }
#pragma GCC diagnostic ignored "-Wpragmas"
#pragma GCC diagnostic ignored "-Wunknown-warning-option"
%s#define _Alignas(bytes) __attribute__((aligned(bytes)))
#define _Alignof alignof
#define _Atomic
#define _Static_assert static_assert
#define _Thread_local __thread
#define restrict __restrict
#define memory_order_relaxed __ATOMIC_RELAXED
#define memory_order_acquire __ATOMIC_ACQUIRE
#define memory_order_release __ATOMIC_RELEASE
#define memory_order_acq_rel __ATOMIC_ACQ_REL
#define memory_order_seq_cst __ATOMIC_SEQ_CST
#define atomic_signal_fence __atomic_signal_fence
#define atomic_thread_fence __atomic_thread_fence
#define atomic_load_explicit __atomic_load_n
#define atomic_store_explicit __atomic_store_n
#define atomic_exchange_explicit __atomic_exchange_n
#define atomic_fetch_add_explicit __atomic_fetch_add
#define atomic_fetch_sub_explicit __atomic_fetch_sub
#define atomic_fetch_or_explicit __atomic_fetch_or
#define atomic_fetch_and_explicit __atomic_fetch_and
#define atomic_compare_exchange_strong_explicit(word, expected, value, success, failure) \
    __atomic_compare_exchange_n(word, expected, value, false, success, failure)
#define atomic_load(word) __atomic_load_n(word, __ATOMIC_SEQ_CST)
#define atomic_store(word, value) __atomic_store_n(word, value, __ATOMIC_SEQ_CST)
#define atomic_fetch_add(word, value) __atomic_fetch_add(word, value, __ATOMIC_SEQ_CST)
#define atomic_fetch_sub(word, value) __atomic_fetch_sub(word, value, __ATOMIC_SEQ_CST)
#define atomic_compare_exchange_strong(word, expected, value) \
    __atomic_compare_exchange_n(word, expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)
#endif
""" % "".join('#pragma GCC diagnostic ignored "-W%s"\n' % name for name in C_ONLY_WARNINGS)

HEADER_HEAD = """/*
 * calmalloc {version}, a memory allocator for Linux: its public headers in one file.
 *
 * Made by tools/amalgamate.py. For C11 and later and for C++.
 */
"""


class Trouble(Exception):
    """Something a person must look at, in one sentence."""


def tokens(text):
    return [(match.lastgroup, match.group(0)) for match in TOKEN.finditer(text)]


class Declaration:
    """One declaration at the outermost level: where its tokens are, and what it declares."""

    def __init__(self, all_tokens, first, last):
        self.first, self.last = first, last
        inside = [token for token in all_tokens[first:last] if token[0] in ("word", "mark", "string", "number")]
        words = {text for kind, text in inside if kind == "word"}
        flat, bodies = outer(inside)
        self.has_body = bool(bodies)
        self.is_extern = "extern" in words
        outside = {text for kind, text in flat if kind == "word"}
        first_word = next((text for kind, text in inside if kind == "word"), "")
        self.is_skipped = first_word in ("_Static_assert", "__asm__") or "weak" in words
        self.is_internal = bool({"static", "ALWAYS_INLINE", "typedef"} & outside)
        self.is_public = "EXPORT" in outside
        self.tags = tags_of(inside)
        self.constants = constants_of(inside)
        self.name = declared_name(flat)
        self.names = [self.name] + further_names(flat) if self.name else []
        texts = [text for _, text in flat]
        declarator = texts[:texts.index("=")] if "=" in texts else texts
        self.is_variable = "(" not in declarator or points_to_function(flat)
        self.is_unsized = self.is_extern and any(a[1] == "[" and b[1] == "]" for a, b in zip(flat, flat[1:]))
        self.is_definition = self.name is not None and not self.is_extern and (self.has_body or self.is_variable)


def outer(inside):
    """The tokens outside braces and outside the arguments of attributes; and whether there are braces."""
    flat, depth, bodies = [], 0, 0
    for kind, text in inside:
        if text == "{":
            if depth == 0:
                flat.append(("body", "{}"))
            depth += 1
            bodies += 1
        elif text == "}":
            depth -= 1
        elif depth == 0:
            flat.append((kind, text))
    return without_attributes(flat), bodies


def without_attributes(flat):
    kept, index = [], 0
    while index < len(flat):
        if flat[index][1] in ("__attribute__", "__asm__", "PRINTF_LIKE", "_Alignas"):
            index = after_parentheses(flat, index + 1)
            continue
        if flat[index][1] == "_Atomic" and flat[index + 1][1] == "(":
            kept.append(("word", "type"))
            index = after_parentheses(flat, index + 1)
            continue
        kept.append(flat[index])
        index += 1
    return kept


def after_parentheses(flat, index):
    if index >= len(flat) or flat[index][1] != "(":
        return index
    depth = 0
    while index < len(flat):
        depth += (flat[index][1] == "(") - (flat[index][1] == ")")
        index += 1
        if depth == 0:
            break
    return index


def tags_of(inside):
    """Names of structs, unions and enums that are defined here."""
    return {inside[i + 1][1] for i in range(len(inside) - 2)
            if inside[i][1] in ("struct", "union", "enum") and inside[i + 1][0] == "word" and inside[i + 2][1] == "{"}


def constants_of(inside):
    """Names of enumeration constants."""
    found, index = set(), 0
    while index < len(inside):
        if inside[index][1] == "enum":
            index += 1 + (index + 1 < len(inside) and inside[index + 1][0] == "word")
            if index < len(inside) and inside[index][1] == "{":
                depth, is_start = 0, True
                while index < len(inside):
                    kind, text = inside[index]
                    depth += (text in "{(") - (text in ")}")
                    if is_start and kind == "word":
                        found.add(text)
                    is_start = text in "{," and depth == 1
                    index += 1
                    if depth == 0:
                        break
                continue
        index += 1
    return found


def declared_name(flat):
    """The name a function or a variable has; None for what declares neither."""
    skip_next, words = False, []
    for index, (kind, text) in enumerate(flat):
        if kind == "word":
            if text in ("struct", "union", "enum"):
                skip_next = True
                words.append("type")
            elif skip_next:
                skip_next = False
            elif text not in QUALIFIERS:
                words.append(text)
        elif text == "(" and index + 1 < len(flat) and flat[index + 1][1] == "*":
            inner = [word for word_kind, word in flat[index + 2:index + 6] if word_kind == "word"
                     and word not in QUALIFIERS]
            return inner[0] if inner else None
        elif kind == "mark" and text in "([=;,":
            break
        else:
            skip_next = False
    return words[-1] if len(words) >= 2 else None


def further_names(flat):
    """The names after the first, of variables that one declaration lists."""
    found, depth, is_start = [], 0, False
    for kind, text in flat:
        if kind == "mark":
            depth += (text in "([") - (text in ")]")
            is_start = depth == 0 and text in ",*" and (is_start or text == ",")
        elif is_start and kind == "word" and text not in QUALIFIERS:
            found.append(text)
            is_start = False
    return found


def points_to_function(flat):
    return any(flat[i][1] == "(" and flat[i + 1][1] == "*" for i in range(min(len(flat) - 1, 6)))


def declarations(all_tokens):
    """Cuts a source at the ends of its outermost declarations."""
    found, first, depth, has_function_body = [], None, 0, False
    for index, (kind, text) in enumerate(all_tokens):
        if kind in ("comment", "line", "space"):
            continue
        if first is None:
            first, has_function_body, last_mark = index, False, ""
            is_macro = MACRO.match(text) and text not in QUALIFIERS
        if text == "{":
            has_function_body |= depth == 0 and last_mark == ")"
        if depth == 0 and last_mark == ")" and MACRO.match(text):
            continue  # an attribute after the parameters
        depth += (text in "{([") - (text in "})]") if kind == "mark" else 0
        ends = depth == 0 and kind == "mark" and (text == ";" or (text == "}" and has_function_body) or
                                                  (text == ")" and is_macro and not ends_statement(all_tokens, index)))
        last_mark = text
        if ends:
            found.append(Declaration(all_tokens, first, index + 1))
            first = None
    if first is not None:
        raise Trouble("a declaration does not end.")
    return found


def ends_statement(all_tokens, index):
    """Whether a semicolon follows, so that what a macro makes is a declaration's end and not a whole function."""
    following = (text for kind, text in all_tokens[index + 1:] if kind not in ("comment", "line", "space"))
    return next(following, "") == ";"


class Source:
    """One file: its text without includes and guard, and what it declares."""

    def __init__(self, root, name):
        self.name = name
        with open(os.path.join(root, "include" if name.startswith(PUBLIC + "/") else "src", name)) as file:
            self.text = file.read()
        self.is_header = name.endswith(".h")
        self.tokens = tokens(self.text)
        is_cut = not name.endswith(".def") and not name.startswith(PUBLIC + "/")
        self.declarations = declarations(self.tokens) if is_cut else []

    def macros(self):
        return [DEFINE.match(text).group(1) for kind, text in self.tokens if kind == "line" and DEFINE.match(text)]

    def own_names(self):
        """What is this file's alone if it is a .c, by linkage or by scope."""
        names = set()
        for declaration in self.declarations:
            names |= declaration.tags | declaration.constants
            if declaration.name and declaration.is_internal:
                names.update(declaration.names)
        return names

    def static_names(self):
        return {name for declaration in self.declarations if declaration.is_internal for name in declaration.names}

    def all_names(self):
        return self.own_names() | {name for declaration in self.declarations for name in declaration.names}

    def variables(self):
        """The variables that other files may know."""
        return {name for declaration in self.declarations if declaration.is_variable and not declaration.is_internal
                for name in declaration.names}


def sources(root):
    """The .c files, bottom layer first."""
    found = []
    for layer in LAYERS:
        folder = os.path.join(root, "src", layer)
        if os.path.isdir(folder):
            found += [layer + "/" + name for name in sorted(os.listdir(folder)) if name.endswith(".c")]
    return found


class Amalgam:
    def __init__(self, root):
        self.root = root
        self.files = {}
        self.written = set()
        self.system = []
        self.parts = []

    def load(self, name):
        if name not in self.files:
            self.files[name] = Source(self.root, name)
            for mark, other in INCLUDE.findall(self.files[name].text):
                if mark == '"' or other.startswith(PUBLIC + "/"):
                    self.load(other)
        return self.files[name]

    def make(self):
        units = [self.load(name) for name in sources(self.root)]
        if not units:
            raise Trouble("there are no sources in %s." % os.path.join(self.root, "src"))
        self.defined = {name for source in self.files.values() for declaration in source.declarations
                        if declaration.is_definition and not declaration.is_public and not declaration.is_skipped
                        for name in declaration.names}
        self.clashing = self.find_clashes(units)
        for source in units:
            self.write(source)
        return "".join(self.parts)

    def find_clashes(self, units):
        """By source: its static names, which may also be the C library's; others that two files declare; and the
        variables of files it does not include, for what it calls so is a local of its own, which would hide them."""
        headers = set()
        for source in self.files.values():
            if source.is_header:
                headers |= source.all_names()
        users = {}
        for source in units:
            for name in source.all_names():
                users.setdefault(name, []).append(source.name)
        variables = {name for source in units for name in source.variables()}
        return {source.name: source.static_names() | variables - self.seen_names(source, set()) |
                {name for name in source.own_names() if name in headers or len(users[name]) > 1}
                for source in units}

    def seen_names(self, source, visited):
        """What a file and all that it includes declare."""
        visited.add(source.name)
        names = source.all_names()
        for mark, other in INCLUDE.findall(source.text):
            if mark == '"' and other not in visited:
                names |= self.seen_names(self.load(other), visited)
        return names

    def write(self, source):
        """Emits a file once, after the headers it includes; lists of a .def are emitted wherever they are read."""
        if source.name in self.written:
            return
        if not source.name.endswith(".def"):
            self.written.add(source.name)
        for mark, name, is_conditional in includes_of(source):
            if mark == "<" and not name.startswith(PUBLIC + "/"):
                if not is_conditional and name not in self.system:
                    self.system.append(name)
            elif name.endswith(".def"):
                continue
            elif is_conditional:
                self.write_needs(self.load(name))
            else:
                self.write(self.load(name))
        if source.name.startswith(PUBLIC + "/"):
            return  # the one header has it
        self.parts.append("\n/* ---- src/%s ---- */\n\n" % source.name + self.body(source))
        if not source.is_header:
            macros = sorted(set(source.macros()) - {"_GNU_SOURCE"})
            self.parts.append("".join("#undef %s\n" % name for name in macros))

    def write_needs(self, source):
        for mark, name, _ in includes_of(source):
            if mark == '"':
                self.write(self.load(name))
            elif name not in self.system:
                self.system.append(name)

    def body(self, source):
        """The text with every inner name static, names that clash renamed and includes replaced."""
        starts = {declaration.first: declaration for declaration in source.declarations}
        renamed = self.clashing.get(source.name, set())
        prefix = re.sub(r"\W", "_", source.name[:-2]) + "_"
        members = member_positions(source.tokens) if renamed else set()
        out, before, depth, skipped, closed = [], "", 0, 0, 0
        for index, (kind, text) in enumerate(source.tokens):
            declaration = starts.get(index)
            if declaration is not None and declaration.is_unsized and self.becomes_static(declaration):
                skipped = declaration.last + 1  # a static array has its size; only later sources use it
            if index < skipped:
                continue
            if declaration is not None and self.becomes_static(declaration):
                if not declaration.is_variable:
                    out.append("static ")
                else:
                    out.append("CALM_EARLY " if declaration.is_extern else "CALM_INNER ")
                    closed = declaration.last
                if text == "extern":
                    before = text
                    continue
            if kind == "line":
                depth += conditional_step(text)
                text = self.line(text, depth)
                text = re.sub(r"\b\w+\b", lambda word: self.renamed(word.group(0), renamed, prefix), text) \
                    if text.lstrip().startswith("#") and renamed and not text.lstrip().startswith("#include") else text
            elif kind == "word" and text in renamed and before not in (".", "->") and index not in members:
                text = prefix + text
            out.append(text + " CALM_END" if index + 1 == closed else text)
            if kind not in ("space", "comment"):
                before = text
        return "".join(out).strip() + "\n"

    def inner_variables(self):
        """The variables that go into the nameless namespace, where a tag of the same name would be another's."""
        return {name for source in self.files.values() for declaration in source.declarations
                if self.becomes_static(declaration) and declaration.is_variable for name in declaration.names}

    @staticmethod
    def renamed(word, renamed, prefix):
        return prefix + word if word in renamed else word

    def becomes_static(self, declaration):
        return (declaration.name in self.defined and not declaration.is_internal and not declaration.is_public and
                not declaration.is_skipped)

    def line(self, text, depth):
        """A preprocessor line: what it includes, or itself."""
        match = INCLUDE.match(text)
        if match is None:
            return "" if DEFINE.match(text) and DEFINE.match(text).group(1) == "_GNU_SOURCE" else text
        mark, name = match.groups()
        if name == ATOMICS:
            return ""
        if name.endswith(".def"):
            return self.body(self.load(name)).rstrip("\n")
        if mark == '"' and depth > 0 and name not in self.written:
            return self.body(self.load(name)).rstrip("\n")
        return text if mark == "<" and depth > 0 else ""


def spelled_for_cpp(text, tags):
    """The text with an underscore behind each name that is a keyword of C++, and behind each of `tags` as a tag."""
    out, before = [], ""
    for kind, token in tokens(text):
        if kind == "line" and not INCLUDE.match(token):
            hash_end = token.index("#") + 1
            token = token[:hash_end] + spelled_for_cpp(token[hash_end:], tags)
        is_tag = token in tags and before in ("struct", "union", "enum")
        if kind == "word" and (token in CPP_ONLY or is_tag):
            token += "_"
        out.append(token)
        before = before if kind in ("space", "comment") else token
    return "".join(out)


def conditional_step(text):
    match = CONDITIONAL.match(text)
    return 0 if match is None else -1 if match.group(1) == "endif" else 1


def member_positions(all_tokens):
    """Where the members of structs and unions are declared."""
    seen = [(index, kind, text) for index, (kind, text) in enumerate(all_tokens)
            if kind not in ("space", "comment", "line")]
    found, braces = set(), []
    for place, (index, kind, text) in enumerate(seen):
        if text == "{":
            words = [seen[place - back][2] for back in (1, 2) if place >= back]
            braces.append(bool({"struct", "union"} & set(words)) and ")" not in words)
        elif text == "}":
            braces.pop()
        elif braces and braces[-1] and kind == "word" and seen[place + 1][2] in (";", ",", "[", ":", ")"):
            found.add(index)
    return found


def includes_of(source):
    """What a file includes, and whether under a condition other than its guard."""
    depth, found = 0, []
    for kind, text in source.tokens:
        if kind != "line":
            continue
        depth += conditional_step(text)
        match = INCLUDE.match(text)
        if match:
            found.append((match.group(1), match.group(2), depth > (1 if source.is_header else 0)))
    return found


def public_header(root):
    """All headers of include/, the general one first, as one text."""
    folder = os.path.join(root, "include", PUBLIC)
    names = sorted((PUBLIC + "/" + name for name in os.listdir(folder) if name.endswith(".h")),
                   key=lambda name: (name != PUBLIC_FIRST, name))
    parts, written = [], set()

    def write(name):
        if name in written:
            return
        written.add(name)
        with open(os.path.join(root, "include", name)) as file:
            text = file.read()
        for other in re.findall(r'^#include [<"](%s/[^>"]+)' % PUBLIC, text, flags=re.M):
            write(other)
        parts.append(re.sub(r'^#include [<"]%s/[^\n]*\n' % PUBLIC, "", text, flags=re.M))

    for name in names:
        write(name)
    return "\n".join(parts)


def version_of(header):
    return re.search(r'^#define CALM_VERSION_TEXT "([^"]+)"', header, re.M).group(1)


def squeezed(text):
    return re.sub(r"\n{3,}", "\n\n", text)


def write_file(path, text):
    """Only if it changed, so that nothing is compiled again for the same text."""
    if os.path.exists(path):
        with open(path) as file:
            if file.read() == text:
                return
    with open(path, "w") as file:
        file.write(text)


def amalgamate(root, out):
    header = public_header(root)
    version = version_of(header)
    amalgam = Amalgam(root)
    code = amalgam.make()
    code = re.sub(r"^#define HIDDEN .*$", "#define HIDDEN", code, flags=re.M)  # what was hidden is static now
    code = re.sub(r"\b_Thread_local\b", "_Thread_local CALM_TLS_MODEL", code)
    code = spelled_for_cpp(code, amalgam.inner_variables())
    system = "".join("#include <%s>\n" % name for name in sorted(set(amalgam.system) - {ATOMICS}))
    os.makedirs(out, exist_ok=True)
    write_file(os.path.join(out, "calmalloc.h"), squeezed(HEADER_HEAD.format(version=version) + header))
    write_file(os.path.join(out, "calmalloc.hpp"), cpp_header(root))
    write_file(os.path.join(out, "calmalloc.c"),
               squeezed(HEAD.format(version=version) + "\n" + system + '\n#include "calmalloc.h"\n' + DIALECT + code))
    folder = os.path.join(root, "include", PUBLIC)
    return [os.path.join(root, "src", name) for name in amalgam.files if not name.startswith(PUBLIC + "/")] + \
        [os.path.join(folder, name) for name in sorted(os.listdir(folder))] + \
        [os.path.join(root, "include", "calmalloc.hpp"), os.path.abspath(__file__)]


def depfile(out, read):
    """A rule of make: the C file and all that was read for it."""
    escaped = [os.path.abspath(path).replace(" ", "\\ ") for path in [os.path.join(out, "calmalloc.c"), *read]]
    return "%s: %s\n" % (escaped[0], " ".join(escaped[1:]))


def cpp_header(root):
    """The header for C++ and those of ours it includes, which finds the one for C beside it."""
    text = inlined(root, "calmalloc.hpp", set())
    one = '#include "calmalloc.h"\n'
    ours = re.compile(r"(?:^#include <%s/[^\n]*\n)+" % PUBLIC, re.M)
    text = ours.sub(one + "\n", text, count=1)
    if one not in text:
        raise Trouble("calmalloc.hpp includes no header of calmalloc.")
    return squeezed(ours.sub("", text))


def inlined(root, name, seen):
    """A header for C++ with those for C++ that it includes in the place of their first include."""
    seen.add(name)
    with open(os.path.join(root, "include", name)) as file:
        text = file.read()
    return re.sub(r"^#include <(%s/[^>]*\.hpp)>\n" % PUBLIC,
                  lambda match: "" if match.group(1) in seen else inlined(root, match.group(1), seen), text, flags=re.M)


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--root", default=os.path.join(here, ".."), help="the repository")
    parser.add_argument("--out", default=None, help="where to write; dist in the repository when not said")
    parser.add_argument("--depfile", help="where to say what was read")
    options = parser.parse_args()
    out = options.out or os.path.join(options.root, "dist")
    try:
        read = amalgamate(options.root, out)
        if options.depfile:
            write_file(options.depfile, depfile(out, read))
    except (Trouble, OSError) as trouble:
        print("amalgamate: %s" % trouble, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
