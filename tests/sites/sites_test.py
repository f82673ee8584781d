"""Runs a program that allocates through wrappers and checks which sites the library found, by their names.

    sites_test.py LIBRARY CASE [PROGRAM]

A case says which functions a person would call the sites, which ones are mere wrappers, and prints both lists. Exit
code 77 where the program under test, or what builds it, is not on the machine.

Seen to fail with a WRAPPER_DEPTH_MAX of 1 (xstrdup), a PROOFS_MIN that no wrapper reaches (frame pointers), with
DIFFERENT_CALLERS_MIN 1, and with a second front end that does not ask who called the wrapper (apart).
"""
import bisect
import json
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import needs  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))


class Case:
    """`sites`: each is the name of a site that was found. `wrappers`: each is looked through. `either`: each was found,
    and as which depends on how many of its callers had misses. `never`: none of these is taken for a site; a regular
    expression that the whole name matches. `static`: a function that only a program with its symbols names."""

    def __init__(self, command, sites, wrappers, never, environment=None, policy="hash", either=(), static=None):
        self.command, self.sites, self.wrappers, self.never, self.either = command, sites, wrappers, never, either
        self.environment = dict(os.environ, **(environment or {}))
        self.policy, self.static = policy, static


def functions(path):
    """(address, name) of a file's functions, sorted: from its symbols, or where stripped, from those it exports."""
    for more in ([], ["-D"]):
        out = subprocess.run(["nm", "-C", "--defined-only"] + more + [path], capture_output=True, text=True).stdout
        found = re.findall(r"^([0-9a-f]+) [tTwWuiV] (.*)$", out, re.M)
        if found:
            return sorted((int(address, 16), name.split("@")[0]) for address, name in found)
    return []


def run(library, case):
    """The program's own report: [(kind, name, samples, callers, sizes, path, offset)]; None of a stripped program."""
    with tempfile.TemporaryFile() as file:
        options = "sites=%s,wrappers=on,sites_fd=%d" % (case.policy, file.fileno())
        done = subprocess.run(case.command, env=dict(case.environment, LD_PRELOAD=library, CALM_OPTIONS=options),
                              pass_fds=[file.fileno()], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=250)
        assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
        file.seek(0)
        reports = [json.loads(line) for line in file.read().splitlines()]
    report = max(reports, key=lambda one: one["looks"])
    print("%d looks, %d wrappers, %d opaque, %d mismatches" %
          tuple(report[key] for key in ("looks", "wrappers", "opaque", "mismatches")))
    found, names = [], set()
    for module in report["modules"]:
        table = functions(module["path"])
        names.update(name for _, name in table)
        starts = [start for start, _ in table]
        for site in module["sites"]:
            at = bisect.bisect_right(starts, site["offset"] - 1) - 1  # a call may be the last instruction
            name = table[at][1] if at >= 0 else "?"
            found.append((site["kind"], name, site["samples"], site["callers"], site["sizes"], module["path"],
                          site["offset"]))
    if case.static and case.static not in names:
        return None
    return sorted(found, key=lambda one: (one[0], -one[2]))


def plain(name):
    """Without a namespace in front, a type's parameters behind, and what compilers add."""
    name = re.sub(r"\(anonymous namespace\)::|\.(constprop|isra|part|cold).*$", "", name)
    return re.sub(r"\(.*$", "", name)


def check(found, case):
    for kind, name, samples, callers, sizes, path, offset in found:
        print("%-8s %5d samples %3d callers %3d sizes  %s  (%s+0x%x)" %
              (kind, samples, callers, sizes, plain(name), os.path.basename(path), offset))
    sites = {plain(name) for kind, name, *_ in found if kind == "site"}
    wrappers = {plain(name) for kind, name, *_ in found if kind == "wrapper"}
    missing = [name for name in case.sites if name not in sites]
    assert not missing, "not found as sites: %s" % ", ".join(missing)
    missing = [name for name in case.wrappers if name not in wrappers]
    assert not missing, "not looked through: %s" % ", ".join(missing)
    missing = [name for name in case.either if name not in sites | wrappers]
    assert not missing, "not found: %s" % ", ".join(missing)
    wrong = [name for name in sites if case.never and re.fullmatch(case.never, name)]
    assert not wrong, "taken for sites: %s" % ", ".join(wrong)
    assert not [name for kind, name, *_ in found if kind == "opaque"], "a wrapper is not looked through"


def case_of_c(program):
    return Case([program], ["make_list", "make_table", "make_buffer", "make_name", "make_path", "make_line",
                            "make_word", "make_node"], ["xmalloc", "xstrdup"], "xmalloc|xstrdup")


def case_of_cxx(program):
    return Case([program], ["make_shape", "fill_vector", "fill_map", "make_title", "make_author", "make_place",
                            "make_note"], [], "operator new.*")


def case_of_python(_):
    return Case(["python3", os.path.join(HERE, "workload.py")],
                ["PyList_New", "PyFloat_FromDouble"], ["PyUnicode_New"],
                "_?Py(Mem|Object)_(Raw)?(Malloc|Calloc|Realloc)|PyUnicode_New", {"PYTHONMALLOC": "malloc"},
                either=["_PyUnicode_FromASCII", "new_keys_object"], static="new_keys_object")


def case_of_rust(_):
    needs.need("rustc")
    program = os.path.join(tempfile.mkdtemp(), "wrapped")
    subprocess.run(["rustc", "-O", "-g", "-o", program, os.path.join(HERE, "wrapped.rs")], check=True)
    return Case([program], ["wrapped::make_tree"], ["alloc::raw_vec::RawVecInner<A>::finish_grow"],
                r"__rust_\w+|__rdl_\w+|alloc::raw_vec::RawVecInner<A>::finish_grow")


def case_of_glib(program):
    return Case([program], ["make_record", "make_table", "make_buffer", "make_small", "make_name", "make_path",
                            "make_line", "make_word"], ["g_malloc", "g_strdup"], "g_malloc|g_strdup")


CASES = {"c": case_of_c, "cxx": case_of_cxx, "python": case_of_python, "rust": case_of_rust, "glib": case_of_glib}


def says(path, offset):
    """The strings that the code just around an address refers to: of a stripped file's function, what it can say."""
    out = subprocess.run(["objdump", "-d", "--no-show-raw-insn", "--start-address=%d" % (offset - 160),
                          "--stop-address=%d" % (offset + 160), path], capture_output=True, text=True).stdout
    with open(path, "rb") as file:
        content = file.read()
    words = []
    for address in re.findall(r"# ([0-9a-f]+) ", out):  # read-only data: an address is an offset in the file
        words.append(content[int(address, 16):].split(b"\0", 1)[0][:60].decode("ascii", "replace"))
    return words


def check_git(library):
    """Debian's git has no symbols, so its functions are told by what they say: xmalloc and its like know a limit and a
    sentence for when there is no memory."""
    needs.need("git")
    with tempfile.TemporaryDirectory() as folder:
        git = ["git", "-C", folder, "-c", "user.name=name", "-c", "user.email=name@example.org"]
        subprocess.run(git[:3] + ["init", "-q"], check=True)
        for number in range(60):
            for name in ("one", "two", "three"):
                with open(os.path.join(folder, name), "a") as file:
                    file.write("".join("%s %d %d\n" % (name, number, line) for line in range(60)))
            subprocess.run(git + ["add", "."], check=True)
            subprocess.run(git + ["commit", "-q", "-m", "change %d" % number], check=True)
        found = run(library, Case(git + ["log", "-p", "--stat", "--stat-width=60"], [], [], None))
    wrappers = [one for one in found if one[0] == "wrapper"]
    for kind, _, samples, callers, sizes, path, offset in found:
        print("%-8s %5d samples %3d callers %3d sizes  %s+0x%x %s" % (kind, samples, callers, sizes, path, offset,
                                                                      says(path, offset)[:4] if kind != "site" else ""))
    known = [one for one in wrappers if any("GIT_ALLOC_LIMIT" in words or "Out of memory" in words
                                            for words in says(one[5], one[6]))]
    assert known, "no wrapper of git's was found"
    busiest = max(wrappers, key=lambda one: one[2])
    assert busiest in known, "the busiest wrapper is another: %s" % (busiest,)
    return 0


def check_apart(library, program):
    """That what is found is used: the wrapper's callers get slabs of their own, and without it they do not. With
    `hash`, a slab that one cohort lent to another has blocks of both, and two functions may share a cohort."""
    for policy, on, least in (("hash", "on", 0.5), ("intern", "auto", 0.9)):
        share = {}
        for wrappers in ("off", on):
            options = "sites=%s,wrappers=%s" % (policy, wrappers)
            done = subprocess.run([program], env=dict(os.environ, LD_PRELOAD=library, CALM_OPTIONS=options), check=True,
                                  stdout=subprocess.PIPE, text=True)
            slabs, pure = (int(word) for word in done.stdout.split())
            share[wrappers] = pure / slabs
            print("%s: %d slabs, %d of one function only" % (options, slabs, pure))
        assert share["off"] < 0.1 and share[on] > least, share
    return 0


def main():
    library, name = sys.argv[1:3]
    program = sys.argv[3] if len(sys.argv) > 3 else None
    if name == "apart":
        return check_apart(library, program)
    if name == "git":
        return check_git(library)
    case = CASES[name](program)
    if case is None:
        print("skipped: what builds the program is missing")
        return 77
    found = run(library, case)
    if found is None:
        print("skipped: the program is stripped, so its functions have no names here")
        return 77
    check(found, case)
    return 0


if __name__ == "__main__":
    sys.exit(main())
