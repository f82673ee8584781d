"""Reads the command line against the table in commands.py, and writes help from it."""
import build
from commands import COMMANDS, Flag, Option, Word
from trouble import Trouble

USAGE = 2


def main(arguments):
    name, rest = (arguments[0], arguments[1:]) if arguments else ("help", [])
    if name in ("-h", "--help"):
        name = "help"
    if name == "--version":
        name = "version"
    command = COMMANDS.get(name)
    if command is None:
        raise Trouble("there is no command '%s'; `calm help` lists them." % name, USAGE)
    if command.needs_checkout and not build.IS_CHECKOUT:
        raise Trouble("%s works on calmalloc's sources; use ./calm %s in a checkout of them." % (name, name), USAGE)
    if command.is_raw:
        return command.function(rest) or 0
    values = read(command, rest)
    return 0 if values is None else command.function(**values) or 0


def read(command, arguments):
    """Returns the keyword arguments of the command, or None after printing its help."""
    values = {parameter.name: parameter.default for parameter in command.parameters}
    flags = {dashed(p): p for p in command.parameters if isinstance(p, (Flag, Option))}
    words = [p for p in command.parameters if isinstance(p, Word)]
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        if argument in ("-h", "--help"):
            print(help_text(command))
            return None
        if argument == "--":
            marked = [word for word in words if word.needs_dashes]
            if marked and rest:
                values[marked[0].name], rest = rest, []
            break
        if not argument.startswith("-") or argument == "-":
            rest.insert(0, argument)
            if any(word.takes_rest and not word.needs_dashes for word in words):
                break
            give_word(command, words, values, [rest.pop(0)])
            continue
        key, equals, value = argument.partition("=")
        parameter = flags.get(key)
        if parameter is None:
            raise Trouble("%s knows no option '%s'; `calm %s --help` lists them." % (command.name, key, command.name),
                          USAGE)
        if isinstance(parameter, Flag):
            if equals:
                raise Trouble("option '%s' takes no value." % key, USAGE)
            values[parameter.name] = True
            continue
        if not equals:
            if not rest:
                raise Trouble("option '%s' needs a value: %s %s." % (key, key, parameter.metavar), USAGE)
            value = rest.pop(0)
        values[parameter.name] = value
    while rest:
        if not words:
            raise Trouble("%s takes no argument '%s'." % (command.name, rest[0]), USAGE)
        taken = len(rest) if words[0].takes_rest else 1
        give_word(command, words, values, rest[:taken])
        rest = rest[taken:]
    for word in words:
        if word.is_required and not values[word.name]:
            raise Trouble("%s needs %s: calm %s" % (command.name, word.metavar, usage(command)), USAGE)
    return values


def dashed(parameter):
    return "--" + parameter.name.replace("_", "-")


def give_word(command, words, values, given):
    if not words or words[0].needs_dashes:
        raise Trouble("%s takes no argument '%s'." % (command.name, given[0]), USAGE)
    word = words[0]
    if word.is_many:
        values[word.name] = (values[word.name] or []) + given
        return
    words.pop(0)
    values[word.name] = given if word.takes_rest else given[0]


def usage(command):
    parts = [command.name]
    for parameter in command.parameters:
        if isinstance(parameter, Flag):
            parts.append("[%s]" % dashed(parameter))
        elif isinstance(parameter, Option):
            parts.append("[%s %s]" % (dashed(parameter), parameter.metavar))
        elif parameter.takes_rest:
            words = "-- %s ARGS..." % parameter.metavar
            parts.append(words if parameter.is_required else "[%s]" % words)
        else:
            words = parameter.metavar + ("..." if parameter.is_many else "")
            parts.append(words if parameter.is_required else "[%s]" % words)
    return " ".join(parts)


def help_text(command):
    lines = ["usage: calm " + usage(command), "", command.help]
    named = [p for p in command.parameters if p.help]
    if named:
        lines.append("")
    for parameter in named:
        label = parameter.metavar if isinstance(parameter, Word) else dashed(parameter)
        if isinstance(parameter, Option):
            label += " " + parameter.metavar
        lines.append("  %-16s %s" % (label, parameter.help))
    return "\n".join(lines)
