#!/usr/bin/env python3
"""Writes the symbols file of the Debian package: the names that libcalmalloc.so.0 promises, each once.

    make_symbols.py [--root FOLDER] [--out FILE] [--library LIBRARY]

They are those of the version script src/libc/calmalloc.map. Where it says calm_*, the headers say which. Names that
compilers make up stay patterns; names of the C library's own may be absent. With LIBRARY, a name that is promised and
not in it is an error; the other way round it is one of the package's own check, dpkg-gensymbols -c4.
"""
import argparse
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import headers as public  # noqa: E402

OWN = "calm_*"
NOT_IN_LIBRARY = {"calmalloc/exec.h"}  # a static library of its own


def exported(root):
    with open(os.path.join(root, "src", "libc", "calmalloc.map")) as file:
        text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
    return re.search(r"global:(.*?)local:", text, re.S).group(1).replace(";", " ").split()


def own_calls(root):
    return [one.name for header in public.read_all(root) if header.name not in NOT_IN_LIBRARY
            for one in header.declarations
            if one.kind == "function" and one.name.startswith("calm_") and not one.is_inline]


def symbols_file(root):
    with open(os.path.join(root, "include", "calmalloc", "calmalloc.h")) as file:
        version = re.search(r'CALM_VERSION_TEXT "([^"]+)"', file.read()).group(1)
    lines = []
    for name in exported(root):
        if name == OWN:
            lines += ["%s@Base" % call for call in own_calls(root)]
        elif name.endswith("*"):
            lines.append('(regex)"^%s.*@Base$"' % re.escape(name[:-1]))
        else:
            lines.append("%s%s@Base" % ("(optional)" if name.startswith("__") else "", name))
    lines.sort()
    return "libcalmalloc.so.0 libcalmalloc0 #MINVER#\n" + "".join(" %s %s\n" % (line, version) for line in lines)


def missing(text, library):
    """What the file promises by name and the library does not export."""
    promised = set(re.findall(r"^ ([A-Za-z]\w*)@Base ", text, re.M))
    lines = subprocess.run(["nm", "-D", "--defined-only", library], check=True, stdout=subprocess.PIPE,
                           text=True).stdout.splitlines()
    return sorted(promised - {line.split()[-1] for line in lines})


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--root", default=os.path.dirname(HERE))
    parser.add_argument("--out")
    parser.add_argument("--library")
    options = parser.parse_args()
    text = symbols_file(options.root)
    lost = missing(text, options.library) if options.library else []
    if lost:
        sys.exit("make_symbols: %s lacks %s, which the headers or the version script promise." %
                 (options.library, ", ".join(lost)))
    if options.out is None:
        sys.stdout.write(text)
        return
    with open(options.out, "w") as file:
        file.write(text)


if __name__ == "__main__":
    main()
