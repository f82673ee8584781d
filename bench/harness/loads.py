"""What the loads of languages share (bench/rust, bench/zig): words of a command line, and whose turn it is."""
import sys


def stop(sentence):
    sys.exit("loads: " + sentence)


def chosen(words, known, what):
    names = words.split(",")
    for name in names:
        if name not in known:
            stop("there is no %s %s; there are %s." % (what, name, ", ".join(known)))
    return names


def turn(allocators, number):
    """The allocators in the order of their turn: each begins once in a while, and each follows another one."""
    at = number % len(allocators)
    order = allocators[at:] + allocators[:at]
    return order if number // len(allocators) % 2 == 0 else order[::-1]
