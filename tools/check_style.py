#!/usr/bin/env python3
"""Checks what a machine can hold of how calmalloc is written. One sentence for each finding; exit 1 when any.

    check_style.py [ROOT]

Rules of src/: includes go down the layers only, and in core down its parts; they are never relative and never a .c; a
.c includes its own header first; system headers only in os and libc, apart from those of the language; preprocessor
conditionals only in base/attr.h, os and libc; a comment at the top introduces the file; functions and files have a
bounded length.
Rules of all our text files: line length, tabs, trailing blanks, no unfinished business, no paths of a machine.
"""
import fnmatch
import os
import re
import sys

LAYERS = ("base", "pool", "os", "mem", "core", "site", "exec", "front", "libc")  # each includes those before
APART = {"os": {"pool"}, "mem": {"pool"}}  # but not these: pools stand beside them, on base alone
# The parts of core, bottom to top: each includes itself and those before. What must go up: src/core/above.h.
CORE_PARTS = (
    ("tables", ("above", "class", "class_tables", "mark", "rows", "search")),
    ("notices", ("misuse", "purge_turn")),
    ("slabs", ("slab",)),
    ("depots", ("batch", "depot", "depot_*", "shard", "deferred")),
    ("caches", ("armed", "cache", "cache_*", "cores", "home", "misuse_search", "registry", "run", "sampled_small",
                "thread", "thread_words")),
    ("large", ("large", "large_cache")),
    ("purge", ("purge",)),
    ("heap", ("compact", "fork", "heap", "limit", "pooled", "sampled")),
)
LAYERS_WITH_SYSTEM = ("os", "libc")
LANGUAGE_HEADERS = {"stdint.h", "stddef.h", "stdbool.h", "stdatomic.h", "stdalign.h", "limits.h", "stdarg.h",
                    "stdnoreturn.h"}
LINE_MAX_OTHER = 120  # of C and C++ it is the ColumnLimit of .clang-format
FILE_LINES_MAX = 700
FUNCTION_LINES_MAX = 70
INTRODUCTION_LINES_MAX = 25
C_KINDS = (".c", ".h", ".cpp", ".def")
OTHER_KINDS = (".py", ".sh", ".cmake", ".txt", ".md", ".map", ".in", ".json", ".yml")
TEXT_ROOTS = ("src", "include", "examples", "tests", "bench", "tools", "cmake", "docs")
LONG_LINES_ALLOWED = (".md", ".json")  # tables of documents and data
SKIPPED_FOLDERS = {"__pycache__", "corpus", "build"}

UNFINISHED = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "X" * 3, "HA" + "CK")) + r")\b|\bissue #\d")
MACHINE_PATH = re.compile(r"(?<![\w.])/(work|home|Users|root)/\w+|(?<![\w.])/tmp/[\w-]*(build|house)\w*")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
CONDITIONAL = re.compile(r"^\s*#\s*(if|ifdef|ifndef|elif)\b")


class Checker:
    def __init__(self, root):
        self.root = root
        self.findings = []
        self.file_count = 0
        self.line_max_c = self.read_column_limit()

    def read_column_limit(self):
        with open(os.path.join(self.root, ".clang-format")) as file:
            return int(re.search(r"^ColumnLimit: (\d+)$", file.read(), re.M).group(1))

    def find(self, path, line, sentence):
        self.findings.append("%s:%d: %s" % (os.path.relpath(path, self.root), line, sentence))

    def run(self):
        for top in TEXT_ROOTS:
            for folder, folders, names in os.walk(os.path.join(self.root, top)):
                folders[:] = sorted(name for name in folders if name not in SKIPPED_FOLDERS)
                for name in sorted(names):
                    if name.endswith(C_KINDS + OTHER_KINDS):
                        self.check_file(os.path.join(folder, name))
        return self.findings

    def check_file(self, path):
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read()
        lines = text.split("\n")
        self.file_count += 1
        self.check_text(path, lines)
        relative = os.path.relpath(path, self.root).split(os.sep)
        if relative[0] == "src" and path.endswith((".c", ".h", ".def")):
            self.check_introduction(path, lines)
            code = without_comments(text).split("\n")
            self.check_includes(path, relative, code)
            self.check_conditionals(path, relative, code)
            self.check_functions(path, code)
            if len(lines) > FILE_LINES_MAX + 1:
                self.find(path, len(lines), "the file has %d lines; %d are allowed, split it." %
                          (len(lines) - 1, FILE_LINES_MAX))

    def check_text(self, path, lines):
        limit = self.line_max_c if path.endswith(C_KINDS) else LINE_MAX_OTHER
        is_makefile = os.path.basename(path) == "Makefile"
        for number, line in enumerate(lines, 1):
            width = len(line.rstrip("\\").rstrip()) if path.endswith(C_KINDS) else len(line)
            if width > limit and not path.endswith(LONG_LINES_ALLOWED):
                self.find(path, number, "the line has %d columns; %d are allowed." % (width, limit))
            if "\t" in line and not is_makefile:
                self.find(path, number, "a tab; indent with blanks.")
            if line != line.rstrip():
                self.find(path, number, "blanks at the end of the line.")
            if UNFINISHED.search(line):
                self.find(path, number, "'%s': finish it or file it elsewhere." % UNFINISHED.search(line).group(0))
            if MACHINE_PATH.search(line):
                self.find(path, number, "'%s' is a path of one machine." % MACHINE_PATH.search(line).group(0))

    def check_introduction(self, path, lines):
        if not lines[0].startswith("/*"):
            self.find(path, 1, "no comment at the top says what the file is for.")
            return
        end = next((index for index, line in enumerate(lines) if "*/" in line), len(lines) - 1)
        if end + 1 > INTRODUCTION_LINES_MAX:
            self.find(path, 1, "the comment at the top has %d lines; %d are allowed." %
                      (end + 1, INTRODUCTION_LINES_MAX))

    def check_includes(self, path, relative, code):
        layer = relative[1] if len(relative) > 2 else None
        if layer not in LAYERS:
            self.find(path, 1, "'%s' is not a layer; the layers are %s." % (layer, ", ".join(LAYERS)))
            return
        if layer == "core" and core_part(relative[-1]) is None:
            self.find(path, 1, "the file is in no part of core; CORE_PARTS in tools/check_style.py has them.")
        includes = []
        for number, line in enumerate(code, 1):
            match = INCLUDE.match(line)
            if match:
                includes.append((number, match.group(1), match.group(2)))
        for number, mark, name in includes:
            self.check_include(path, layer, number, mark, name)
        own = "/".join(relative[1:])[:-2] + ".h"
        if path.endswith(".c") and os.path.exists(os.path.join(self.root, "src", own)):
            if not includes or includes[0][2] != own:
                self.find(path, includes[0][0] if includes else 1,
                          "its own header, \"%s\", must be included first." % own)

    def check_include(self, path, layer, number, mark, name):
        if name.startswith(".") or "/../" in name:
            self.find(path, number, "a relative include; name the layer: \"layer/file.h\".")
            return
        if name.endswith(".c"):
            self.find(path, number, "a .c is included; give it a header.")
        if mark == "<":
            is_ours = name.startswith("calmalloc/")
            if not is_ours and name not in LANGUAGE_HEADERS and layer not in LAYERS_WITH_SYSTEM:
                self.find(path, number, "<%s> is a system header; only %s may include it." %
                          (name, " and ".join(LAYERS_WITH_SYSTEM)))
            return
        other = name.split("/")[0]
        if other == "calmalloc":
            return
        if other not in LAYERS or "/" not in name:
            self.find(path, number, "\"%s\" names no layer; write \"layer/file.h\"." % name)
        elif layer == other == "core":
            self.check_part(path, number, name)
        elif LAYERS.index(other) > LAYERS.index(layer) or other in APART.get(layer, ()):
            self.find(path, number, "%s includes \"%s\", which lies above it or apart." % (layer, name))

    def check_part(self, path, number, name):
        own, other = core_part(os.path.basename(path)), core_part(name.split("/")[1])
        if own is not None and other is not None and other > own:
            self.find(path, number, "%s includes \"%s\" of %s, a part of core above it." %
                      (CORE_PARTS[own][0], name, CORE_PARTS[other][0]))

    def check_conditionals(self, path, relative, code):
        if relative[1] in LAYERS_WITH_SYSTEM or relative[1:] == ["base", "attr.h"]:
            return
        seen_code = False
        for number, line in enumerate(code, 1):
            match = CONDITIONAL.match(line)
            is_guard = (match and match.group(1) == "ifndef" and not seen_code and path.endswith(".h") and
                        number < len(code) and re.match(r"\s*#\s*define\b", code[number]))
            if match and not is_guard:
                self.find(path, number, "#%s: conditionals belong to base/attr.h, os and libc; use a constant and if."
                          % match.group(1))
            seen_code = seen_code or bool(line.strip())

    def check_functions(self, path, code):
        """A body is a brace at the start of a line up to the next closing brace at the start of a line."""
        start = None
        for number, line in enumerate(code, 1):
            if line.rstrip() == "{":
                start = number
            elif line.startswith("}") and start is not None:
                length = number - start + 1
                if length > FUNCTION_LINES_MAX:
                    self.find(path, start, "the function has %d lines; %d are allowed." % (length, FUNCTION_LINES_MAX))
                start = None


def core_part(name):
    """The number of the part of core that a file belongs to, or None."""
    stem = name.rsplit(".", 1)[0]
    return next((number for number, (_, patterns) in enumerate(CORE_PARTS)
                 if any(fnmatch.fnmatchcase(stem, pattern) for pattern in patterns)), None)


def without_comments(text):
    """The text with comments and the insides of strings blanked, lines kept. Include names survive."""
    def blank(match):
        word = match.group(0)
        if word.startswith("/"):
            return re.sub(r"[^\n]", " ", word)
        return word
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', blank, text, flags=re.S)


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    checker = Checker(os.path.abspath(root))
    findings = checker.run()
    for finding in findings:
        print(finding)
    if checker.file_count == 0:
        print("check_style: no file to check in '%s'." % root)
        return 1
    print("check_style: %d files, %d findings." % (checker.file_count, len(findings)))
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
