"""The longest way through a function: all ways from its entry to its returns are followed, and there must be
finitely many, each of finite length.

What is followed is the graph of (return addresses, place). A call of a function that may be called is entered, once
for each way to it; everything else that leaves the file is refused, and so is any cycle, whichever way its branches
point. What is left has no cycle, so that its longest path can be computed and no execution can be longer.

Each place costs an instruction, and a branch where it is one; the largest sums over all ways are found each for
itself. What a place costs in lines of data is in lines.py.
"""
import re
from dataclasses import dataclass
from typing import Tuple

import aarch64
import lines
import x86_64
from listing import Rejected

MACHINES = {"x86_64": x86_64, "aarch64": aarch64}
STACK_MAX = 8
GUARD = "__stack_chk_fail"  # ends the program
NEVER = -10**9  # more than any way is long


@dataclass
class Bound:
    instructions: int
    lines: int
    branches: int
    ways: int
    backward: int  # jumps to lower addresses, none of which closes a cycle
    longest: Tuple  # the instructions of one longest path


ADDED = re.compile(r"^(\.text\.(unlikely\.|hot\.)?)?(pool_pool_)?|\.(isra|constprop|part|cold|lto_priv)\b.*$")


def plain(name):
    """A function's name as its source has it, without what its section, the file of all sources and compilers add."""
    return ADDED.sub("", name)


def called(instruction):
    """The function that a direct jump or call names."""
    return plain((instruction.outside or instruction.calls).split("@")[0].split("-0x")[0].split("+0x")[0])


class Graph:
    def __init__(self, listing, entry, leaves=(), without=()):
        self.listing, self.machine, self.leaves, self.without = listing, MACHINES[listing.machine], leaves, without
        self.never = set()  # nodes that go on in a function of `without`
        missing = set(without) - {plain(name) for _, name in listing.labels}
        if missing:
            raise Rejected("there is no function %s to leave out" % ", ".join(sorted(missing)))
        self.starts = {place: name for (_, name), place in listing.labels.items()} if without else {}
        self.next_of = {}
        self.order = []  # each node behind all of its successors
        self.backward = set()
        self._walk(((), listing.find(entry)))
        self.entry = ((), listing.find(entry))

    def instruction(self, node):
        found = self.listing.code.get(node[1])
        if found is None:
            raise Rejected("a jump leads to %s, where no instruction begins" % self.listing.where(node[1]))
        return found

    def _successors(self, node):
        stack, place = node
        instruction = self.instruction(node)
        try:
            kind = self.machine.flow(instruction)
        except Rejected as problem:
            raise Rejected("%s: %s" % (self.listing.where(place), problem)) from None
        if kind == "end":
            return []
        if kind == "return":
            return [(stack[:-1], stack[-1])] if stack else []
        if kind in ("call", "jump") and called(instruction) == GUARD:
            return []
        if kind in ("next", "branch", "call") and instruction.after == place:
            raise Rejected("%s: the code ends without a return" % self.listing.where(place))
        following = (stack, instruction.after)
        if kind == "next":
            return [following]
        name = called(instruction)
        if kind == "call" and name in self.machine.LEAVES:
            return [following]
        if instruction.outside or "@plt" in instruction.calls:
            raise Rejected("%s: a call of %s, which lies outside" % (self.listing.where(place), name))
        self._note_direction(instruction)
        if self._begins(instruction.target) in self.without:
            if kind != "branch":
                self.never.add(node)
            return [following] if kind == "branch" else []
        if kind == "call":
            if name not in self.leaves:
                raise Rejected("%s: a call of %s" % (self.listing.where(place), name))
            if instruction.after in stack or len(stack) >= STACK_MAX:
                raise Rejected("%s: calls that do not end" % self.listing.where(place))
            return [(stack + (instruction.after,), instruction.target)]
        target = (stack, instruction.target)
        return [target] if kind == "jump" else [following, target]

    def _begins(self, place):
        """The function that begins at the place, if one does."""
        return plain(self.starts.get(place, ""))

    def _note_direction(self, instruction):
        if instruction.target[:2] == instruction.place[:2] and instruction.target[2] <= instruction.place[2]:
            self.backward.add(instruction.place)

    def _walk(self, entry):
        """Depth first. A successor that is still being visited closes a cycle."""
        open_now, done = {entry}, set()
        self.next_of[entry] = self._successors(entry)
        trail = [(entry, iter(self.next_of[entry]))]
        while trail:
            node, rest = trail[-1]
            following = next(rest, None)
            if following is None:
                trail.pop()
                open_now.discard(node)
                done.add(node)
                self.order.append(node)
            elif following in open_now:
                raise Rejected("%s: a loop, back to %s" % (self.listing.where(node[1]),
                                                           self.listing.where(following[1])))
            elif following not in done:
                open_now.add(following)
                self.next_of[following] = self._successors(following)
                trail.append((following, iter(self.next_of[following])))

    def most(self, weight):
        """The largest sum of weights on any way from the entry, and the way."""
        best = {}
        for node in self.order:
            after = max(self.next_of[node], key=lambda other: best[other][0], default=None)
            rest = best[after][0] if after else NEVER if node in self.never else 0
            best[node] = (weight(node) + rest, after)
        way, node = [], self.entry
        while node is not None:
            way.append(node)
            node = best[node][1]
        return best[self.entry][0], way

    def ways(self):
        count = {}
        for node in self.order:
            count[node] = sum(count[other] for other in self.next_of[node]) or 1
        return count[self.entry]


def bound(listing, entry, leaves=(), is_aligned=True, without=()):
    """`is_aligned`: what the first argument points to begins with a cache line. `without`: functions that are never
    entered; ways that lead into them are no ways."""
    graph = Graph(listing, entry, leaves, without)
    machine = graph.machine

    def more(node):
        """Of a listed leaf outside: its instructions, beyond the call that is counted anyway."""
        instruction = graph.instruction(node)
        is_call = machine.flow(instruction) == "call"
        return machine.LEAVES.get(instruction.outside or instruction.calls.split("@")[0], (0, 0, 0)) if is_call \
            else (0, 0, 0)

    instructions, way = graph.most(lambda node: 1 + more(node)[0])
    branches, _ = graph.most(lambda node: int(machine.flow(graph.instruction(node)) != "next") + more(node)[2])
    touched, on_stack = lines.costs(graph, is_aligned)
    most_lines, _ = graph.most(lambda node: touched[node] + more(node)[1])
    return Bound(instructions, most_lines + on_stack, branches, graph.ways(), len(graph.backward),
                 tuple(graph.instruction(node) for node in way))
