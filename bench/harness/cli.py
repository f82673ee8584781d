"""The command line. Every mistake of the caller's is one sentence on standard error and exit code 2."""

import argparse
import re
import signal
import sys
from pathlib import Path
from typing import List

import rows as rows_module

from . import counts, libraries, measure, peers, report
from .base import Stop


def _rows(pattern: str) -> List:
    """Rows whose whole name, or whose group's, matches; `.` alone means every row that runs by default."""
    if pattern in (".", "all"):
        return [row for row in rows_module.ROWS if row.default]
    try:
        wanted = re.compile(pattern)
    except re.error as error:
        raise Stop(f"--rows is not a regular expression: {error}.")
    found = [
        row for row in rows_module.ROWS if wanted.fullmatch(row.name) or (row.default and wanted.fullmatch(row.group))
    ]
    if not found:
        raise Stop(f"No row matches {pattern}; `calm_bench.py rows` lists them.")
    return found


def _arguments(argv: List[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="calm_bench.py", description="Measures calmalloc against its peers.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    peers_command = commands.add_parser("peers", help="fetch, build and prove the peers")
    peers_command.add_argument("--again", action="store_true", help="build those that are there already, too")

    commands.add_parser("rows", help="list the rows")

    def add_choice(command) -> None:
        command.add_argument("--rows", default=".", metavar="REGEX", help="whole row or group names; default: all")
        command.add_argument(
            "--peers", default="all", metavar="LIST", help="names with commas, default: all that were built"
        )
        command.add_argument(
            "--lib",
            action="append",
            default=[],
            metavar="NAME=PATH",
            help="another library; ';VAR=VALUE' after the path sets its environment; repeatable",
        )
        command.add_argument("--without-calm", action="store_true", help="do not add the library of `./calm lib`")
        command.add_argument("--seed", type=int, default=1)

    run = commands.add_parser("run", help="measure; goes on where FILE stops")
    add_choice(run)
    run.add_argument("--repeats", type=int, default=7)
    run.add_argument("--scale", type=float, default=1.0, help="multiplies the work of each row; figures need 1")
    run.add_argument(
        "--foreign-limit",
        type=float,
        default=0.15,
        metavar="SHARE",
        help="of one core that others may use during a run before it is done again",
    )
    run.add_argument("--tries", type=int, default=3, help="of a run that others disturb; the quietest counts")
    run.add_argument("--out", required=True, type=Path, metavar="FILE")

    show = commands.add_parser("report", help="make tables, plots and a page of raw files")
    report.add_arguments(show)

    count = commands.add_parser("callgrind", help="count instructions an operation of one-thread rows")
    add_choice(count)
    count.add_argument("--out", type=Path, default=None, metavar="FILE", help="also write the counts as JSON lines")
    return parser.parse_args(argv)


def _dispatch(options: argparse.Namespace) -> int:
    if options.command == "peers":
        known = peers.build_all(options.again)
        print(peers.table(known))
        return 0
    if options.command == "rows":
        for row in rows_module.ROWS:
            reason = measure.missing(row)
            state = f" (left out here: {reason})" if reason else "" if row.default else " (only when named)"
            print(f"{row.group:<11} {row.name:<16} {row.metric:<8} {row.why}{state}")
        return 0
    if options.command == "report":
        wanted = None if options.rows is None else {row.name for row in _rows(options.rows)}
        return report.run(options, wanted)
    chosen = libraries.choose(options.lib, options.peers, not options.without_calm)
    if options.command == "callgrind":
        print(counts.render(_rows(options.rows), chosen, options.seed, options.out))
        return 0
    if options.repeats < 1 or options.tries < 1 or options.scale <= 0:
        raise Stop("--repeats, --tries and --scale must be above zero.")
    settings = measure.Settings(options.repeats, options.seed, options.scale, options.foreign_limit, options.tries)
    measure.run_rows(_rows(options.rows), chosen, settings, options.out)
    return 0


def _on_terminate(_signal, _frame) -> None:
    raise KeyboardInterrupt


def main() -> int:
    signal.signal(signal.SIGTERM, _on_terminate)
    try:
        return _dispatch(_arguments(sys.argv[1:]))
    except Stop as problem:
        print(f"calm_bench: {problem}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("calm_bench: interrupted; the same command goes on from here.", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return 141
