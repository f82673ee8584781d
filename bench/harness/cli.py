"""The command line of `./calm bench`. Every mistake of the caller's is one sentence and exit code 2."""

import argparse
import errno
import os
import re
import signal
import sys
from pathlib import Path
from typing import Callable, Dict, List, Optional, Set, Tuple

import rows as rows_module
from rows.sets import MAIN_PEERS

from . import build, counts, libraries, measure, peers, plan, prove, report
from .base import CACHE, Stop, nearest, need_space, note

PROGRAM = "./calm bench"
INTRODUCTION = """Measures calmalloc against its peers, prints the tables and keeps the raw lines.

  ./calm bench --set quick            a look at all groups, in minutes
  ./calm bench --set general          one set with its usual peers and rounds
  ./calm bench --rows 'larson.*' --peers mimalloc3 --lib new=PATH
  ./calm bench peers                  fetch, build and prove the peers
  ./calm bench rows                   list sets and rows
  ./calm bench report FILE...         tables, plots and a page of raw files
  ./calm bench callgrind              instructions an operation
  ./calm bench prove                  does the lab see what is there, and nothing else?

The same command again goes on where an interrupted run stopped."""


class Parser(argparse.ArgumentParser):
    def __init__(self, prog: str):
        super().__init__(prog=prog, allow_abbrev=False)

    def error(self, message: str):
        raise Stop(f"{message[0].upper()}{message[1:]}; `{self.prog} --help` says more.")


def _matching(pattern: str) -> List:
    """Rows whose whole name, or whose group's, matches."""
    try:
        wanted = re.compile(pattern)
    except re.error as error:
        raise Stop(f"--rows is not a regular expression: {error}.")
    found = [
        row for row in rows_module.ROWS if wanted.fullmatch(row.name) or (row.default and wanted.fullmatch(row.group))
    ]
    if not found:
        close = nearest(pattern, [row.name for row in rows_module.ROWS] + list(rows_module.GROUPS))
        close = close if close.startswith("did") else f"`{PROGRAM} rows` lists them."
        raise Stop(f"No row matches {pattern}: {close}")
    return found


def _set_of(name: str) -> rows_module.Set:
    if name not in rows_module.SETS:
        raise Stop(f"There is no set {name}: " + nearest(name, rows_module.SETS))
    return rows_module.SETS[name]


def _rows_of(name: Optional[str], pattern: Optional[str], usual: str) -> Tuple[str, rows_module.Set, List]:
    """A label, the set whose rounds and peers are taken, and the rows."""
    if pattern is None:
        chosen = _set_of(name or usual)
        return chosen.name, chosen, list(chosen.rows(rows_module.ROWS))
    found = _matching(pattern)
    if name is None:
        return "rows", rows_module.SETS["all"], found
    chosen = _set_of(name)
    inside = {row.name for row in chosen.rows(rows_module.ROWS)}
    found = [row for row in found if row.name in inside]
    if not found:
        raise Stop(f"No row of the set {name} matches {pattern}; without --set all rows are looked at.")
    return name, chosen, found


def _number(low: float, kind: Callable) -> Callable:
    def read(text: str):
        try:
            value = kind(text)
        except ValueError:
            value = low - 1
        if not low <= value < 1e9:
            raise argparse.ArgumentTypeError(f"wants a number from {low:g} on, not '{text}'")
        return value

    return read


def _add_choice(parser: Parser) -> None:
    parser.add_argument("--set", metavar="SET", help=", ".join(rows_module.SETS))
    parser.add_argument("--rows", metavar="REGEX", help="only rows whose whole name or group matches")
    parser.add_argument("--seed", type=_number(0, int), default=1, metavar="N")
    parser.add_argument(
        "--lib",
        action="append",
        default=[],
        metavar="NAME=PATH",
        help="another library; ';VAR=VALUE' after the path sets its environment; `floor` alone is the least that an "
        "allocator can do; `fixed256` and `fixed1024` are ours with caches of so many blocks a bin; repeatable",
    )
    parser.add_argument("--without-calm", action="store_true", help="do not add the library of `./calm lib`")


def _add_peers(parser: Parser) -> None:
    parser.add_argument(
        "--peers", default="", metavar="LIST", help="names with commas, all, or none; default: the set's that are built"
    )


def _add_settings(parser: Parser) -> None:
    parser.add_argument("--rounds", type=_number(1, int), metavar="N", help="runs of each row; default: the set's")
    parser.add_argument(
        "--scale", type=_number(1e-6, float), default=1.0, metavar="X", help="of the work of a row; figures need 1"
    )
    parser.add_argument("--tries", type=_number(1, int), metavar="N", help="of a run that others disturb, at most")
    parser.add_argument(
        "--foreign-limit",
        type=_number(0, float),
        default=0.15,
        metavar="SHARE",
        help="of one core that others may use during a run before it is done again",
    )
    parser.add_argument(
        "--limit", type=_number(1, int), default=0, metavar="SECONDS", help="a run may take; default: the row's own"
    )
    parser.add_argument(
        "--touch", choices=tuple(build.TOUCHES), default="first", help="byte of a block; last: the first and the last"
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="raw lines; default: a dated file below build/bench")


def _settings(options, chosen: rows_module.Set) -> measure.Settings:
    return measure.Settings(
        options.rounds or chosen.rounds,
        options.seed,
        options.scale,
        options.foreign_limit,
        options.tries or chosen.tries,
        options.limit,
        options.touch,
    )


def _run(parser: Parser, argv: List[str]) -> int:
    parser.description, parser.formatter_class = INTRODUCTION, argparse.RawDescriptionHelpFormatter
    _add_choice(parser)
    _add_peers(parser)
    _add_settings(parser)
    options = parser.parse_args(argv)
    label, chosen, found = _rows_of(options.set, options.rows, "quick")
    found = plan.runnable(found)
    settings = _settings(options, chosen)
    need_space(CACHE, 200, "CALM_BENCH_CACHE name another folder")
    measured = libraries.choose(options.lib, options.peers, chosen.peers, not options.without_calm)
    plan.announce(label, found, measured, settings)
    out = options.out or plan.default_file(label, found, measured, settings)
    plan.run(found, measured, settings, out)
    print(report.render([out], measured[0].name, None, "row"))
    note(f"The raw lines are in {out}; `{PROGRAM} report {out}` draws them.")
    return 0


def _peers(parser: Parser, argv: List[str]) -> int:
    parser.add_argument("--again", action="store_true", help="build those that are there already, too")
    print(peers.table(peers.build_all(parser.parse_args(argv).again)))
    return 0


def _list(parser: Parser, argv: List[str]) -> int:
    parser.parse_args(argv)
    for each in rows_module.SETS.values():
        found = each.rows(rows_module.ROWS)
        names = ", ".join(each.peers)
        print(f"--set {each.name:<9} {len(found):>3} rows, {each.rounds} rounds: {each.why}; {names}")
    print()
    for row in rows_module.ROWS:
        reason = measure.missing(row)
        state = f" (left out here: {reason})" if reason else "" if row.default else " (only when named)"
        quick = " (quick)" if row.quick else ""
        print(f"{row.group:<11} {row.name:<20} {row.metric:<8} {row.why}{quick}{state}")
    return 0


def _report(parser: Parser, argv: List[str]) -> int:
    report.add_arguments(parser)
    options = parser.parse_args(argv)
    wanted: Optional[Set[str]] = None
    if options.rows is not None:
        wanted = {row.name for row in _matching(options.rows)}
    return report.run(options, wanted)


def _callgrind(parser: Parser, argv: List[str]) -> int:
    _add_choice(parser)
    _add_peers(parser)
    parser.add_argument("--out", type=Path, metavar="FILE", help="also write the counts as JSON lines")
    options = parser.parse_args(argv)
    _, chosen, found = _rows_of(options.set, options.rows, "general")
    measured = libraries.choose(options.lib, options.peers, chosen.peers, not options.without_calm)
    print(counts.render(found, measured, options.seed, options.out))
    return 0


def _prove(parser: Parser, argv: List[str]) -> int:
    _add_choice(parser)
    _add_settings(parser)
    parser.add_argument(
        "--show", type=Path, nargs="+", metavar="FILE", help="print what such runs recorded, and measure nothing"
    )
    options = parser.parse_args(argv)
    if options.show:
        print(prove.show(options.show))
        return 0
    label, chosen, found = _rows_of(options.set, options.rows, "general")
    mine = libraries.ours(options.lib, not options.without_calm)
    if len(mine) != 1:
        raise Stop("One library is proved at a time: with --lib give --without-calm, and one --lib only.")
    print(prove.run(f"prove-{label}", plan.runnable(found), mine[0], _settings(options, chosen), options.out))
    return 0


COMMANDS: Dict[str, Callable] = {
    "peers": _peers,
    "rows": _list,
    "report": _report,
    "callgrind": _callgrind,
    "prove": _prove,
}
assert set(MAIN_PEERS) <= set(peers.NAMES)


def _dispatch(argv: List[str]) -> int:
    if argv and not argv[0].startswith("-"):
        name = argv[0]
        if name not in COMMANDS:
            raise Stop(f"There is no command {name}: " + nearest(name, COMMANDS))
        return COMMANDS[name](Parser(prog=f"{PROGRAM} {name}"), argv[1:])
    return _run(Parser(prog=PROGRAM), argv)


def _on_terminate(_signal, _frame) -> None:
    raise KeyboardInterrupt


def _system_trouble(error: OSError) -> str:
    where = f" ({error.filename})" if error.filename else ""
    if error.errno == errno.ENOSPC:
        return f"There is no space left{where}; free some, and the same command goes on from here."
    return f"{error.strerror or error}{where}."


def main() -> int:
    signal.signal(signal.SIGTERM, _on_terminate)
    try:
        return _dispatch(sys.argv[1:])
    except Stop as problem:
        print(f"calm bench: {problem}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("calm bench: interrupted; the same command goes on from here.", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return 141
    except OSError as error:
        print(f"calm bench: {_system_trouble(error)}", file=sys.stderr)
        return 2
    except Exception as error:  # a traceback helps nobody but us
        if os.environ.get("CALM_DEBUG"):
            raise
        name = type(error).__name__
        print(f"calm bench: internal error, please report: {name}: {error} (CALM_DEBUG=1 shows where)", file=sys.stderr)
        return 70
