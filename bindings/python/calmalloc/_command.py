"""The command `calm`, and `python -m calmalloc`, which is calm for scripts. Both are tools/calm: of this package where
it is installed, of the checkout where it is imported from one."""
import os
import runpy
import sys
import sysconfig

HELP = """python -m calmalloc run [OPTIONS] script.py ARGS     runs a script on calmalloc, and says what it needed
python -m calmalloc heap [OPTIONS] script.py ARGS    says which functions hold its heap
python -m calmalloc lib                              prints the path of the preloadable library

In place of a script, anything that the interpreter understands: -m MODULE, -c TEXT, -u script.py. OPTIONS are those of
`calm help run` and `calm help heap`. Unless PYTHONMALLOC is set, run and heap set it to malloc: otherwise the
interpreter keeps an allocator of its own for objects of up to 512 bytes. Other words are those of calm:
"""


def home():
    """The folder that has tools/calm: ours in an installed package, else the checkout that this file lies in."""
    here = os.path.dirname(os.path.abspath(__file__))
    if os.path.isdir(os.path.join(here, "tools", "calm")):
        return here
    return os.path.dirname(os.path.dirname(os.path.dirname(here)))


def calm(arguments):
    """Does what `calm ARGUMENTS` does, and ends the process."""
    sys.argv = ["calm", *arguments]
    runpy.run_path(os.path.join(home(), "tools", "calm"), run_name="__main__")


def split(name, arguments):
    """The options that calm's command `name` knows, and after them the interpreter's own words."""
    sys.path.insert(0, os.path.join(home(), "tools", "calm"))
    from commands import COMMANDS, Flag, Option
    kinds = {"--" + entry.name: type(entry) for entry in COMMANDS[name].parameters if isinstance(entry, (Flag, Option))}
    count = 0
    while count < len(arguments):
        key, equals, _ = arguments[count].partition("=")
        if key not in kinds:
            break
        count += 2 if kinds[key] is Option and not equals else 1
    rest = arguments[count:]
    return arguments[:count], rest[1:] if rest[:1] == ["--"] else rest


def main():
    """The console script `calm`."""
    calm(sys.argv[1:])


def module_main():
    """python -m calmalloc ARGUMENTS"""
    name, rest = (sys.argv[1], sys.argv[2:]) if len(sys.argv) > 1 else ("help", [])
    if name in ("help", "-h", "--help") and not rest:
        print(HELP)
    if name in ("run", "heap") and rest[:1] not in (["-h"], ["--help"]):
        options, words = split(name, rest)
        # Interpreters without the global lock have mimalloc built in and refuse to start with another.
        if not sysconfig.get_config_var("Py_GIL_DISABLED"):
            os.environ.setdefault("PYTHONMALLOC", "malloc")
        if name == "heap":
            start = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_start")
            os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [start, os.environ.get("PYTHONPATH")]))
        rest = [*options, "--", sys.executable, *words]
    calm([name, *rest])
