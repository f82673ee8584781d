"""How many cache lines of data each place of a graph may be the first to touch on its way.

Values are numbered: two registers with the same root differ by their offsets alone. What an instruction computes is
named by how (sums, shifts), so that the same sum has the same name; what is loaded, or not understood, gets a name of
its own; so does a register where ways meet that bring different values. The graph has no cycle, hence a name stands
for one value on any one way. An operand costs nothing where each way to it has touched its line already, and else a
line. Where the root is known to be aligned to lines, lines are told apart by the offset; otherwise each offset counts
as a line of its own. The stack is counted once, from its deepest point.

Taken for granted: operands of up to 8 bytes are naturally aligned, which C promises, so none lies in two lines.
"""
LINE = 64


class State:
    def __init__(self, values, slots, touched):
        self.values, self.slots, self.touched = values, slots, touched


class Numbering:
    def __init__(self, graph, is_aligned):
        self.graph, self.machine = graph, graph.machine
        self.align = {(self.machine.ARGUMENT, "entry"): LINE if is_aligned else 1}
        self.low, self.high = 0, 8
        self.has_address_of_stack = False
        self.cost = {}

    def value(self, state, name):
        return state.values.get(name, ((name, "entry"), 0))

    def alignment(self, root):
        return self.align.get(root, 1)

    def name(self, root, align):
        self.align[root] = min(align, 4096)
        return root

    def join(self, node, states):
        """The state before `node`, of those behind its predecessors."""
        if len(states) == 1:
            only = states[0]
            return State(dict(only.values), dict(only.slots), only.touched)
        touched = frozenset.intersection(*(state.touched for state in states))
        values, slots = {}, {}
        for name in {name for state in states for name in state.values}:
            values[name] = self.meet([self.value(state, name) for state in states], ("met", node, name))
        for at in set.intersection(*(set(state.slots) for state in states)):
            slots[at] = self.meet([state.slots[at] for state in states], ("met", node, at))
        return State(values, slots, touched)

    def meet(self, found, root):
        if all(value == found[0] for value in found):
            return found[0]
        align = min(self.alignment(value[0]) if value[1] % LINE == 0 else 1 for value in found)
        return self.name(root, align), 0

    def sum(self, state, base, index, scale, offset):
        """The value of base + index * scale + offset."""
        root, moved = self.value(state, base) if base else ((), 0)
        offset += moved
        if index:
            other, more = self.value(state, index) if "/" not in index else ((index, id(state)), 0)
            number = scale if isinstance(scale, int) else 1
            align = min(self.alignment(root) if root else 4096, self.alignment(other) * number)
            root = self.name(("sum", root, other, scale), align)
            offset += more * number
        return root, offset

    def visit(self, node, state):
        instruction, machine = self.graph.instruction(node), self.machine
        stack = ((machine.STACK, "entry"))
        keys, cost, loaded = set(), 0, None
        for base, index, scale, offset, size, is_one_line in machine.accesses(instruction):
            root, at = self.sum(state, base, index, scale, offset)
            if root == stack:
                self.low, self.high = min(self.low, at), max(self.high, at + size)
                loaded = at
                continue
            if self.alignment(root) >= LINE:
                keys |= {(root, at // LINE), (root, (at + size - 1) // LINE)}
            else:
                keys.add((root, "at", at))
                cost += not is_one_line
        self.cost[node] = cost + len(keys - state.touched)
        state.touched = state.touched | keys
        self.write(node, instruction, state, stack, loaded)
        return state

    def write(self, node, instruction, state, stack, slot):
        machine = self.machine
        computed = machine.computed(instruction)  # (register, kind, arguments) or None
        step = machine.stack_step(instruction)
        if step is not None:
            root, at = self.value(state, machine.STACK)
            state.values[machine.STACK] = (root, at + step)
        if computed:
            name, kind, arguments = computed
            state.values[name] = self.compute(node, state, name, kind, arguments, slot)
            if kind == "sum" and name != machine.STACK and state.values[name][0] == stack:
                self.has_address_of_stack = True
            return
        if slot is not None:
            stored = machine.stored(instruction)
            state.slots.pop(slot, None)
            if stored:
                state.slots[slot] = self.value(state, stored)
        written = machine.writes(instruction)
        for name in machine.REGISTERS if written is None else written:
            if name and not (name == machine.STACK and step is not None):
                state.values[name] = (("made", node, name), 0)

    def compute(self, node, state, name, kind, arguments, slot):
        fresh = (("made", node, name), 0)
        if kind == "sum":
            return self.sum(state, *arguments)
        if kind == "load":
            return state.slots.get(slot, fresh) if slot is not None and not self.has_address_of_stack else fresh
        source, number = arguments
        root, offset = self.value(state, source)
        if kind == "shift" and offset == 0:
            return self.name(("shift", root, number), self.alignment(root) << number), 0
        if kind == "times" and offset == 0:
            return self.name(("times", root, number), self.alignment(root) * (number & -number)), 0
        return fresh


def costs(graph, is_aligned):
    """Lines by node, and lines of the stack."""
    numbering = Numbering(graph, is_aligned)
    before = {graph.entry: [State({}, {}, frozenset())]}
    for node in reversed(graph.order):
        state = numbering.visit(node, numbering.join(node, before.pop(node)))
        for other in graph.next_of[node]:
            before.setdefault(other, []).append(state)
    depth = numbering.high - numbering.low
    return numbering.cost, (depth - 1 + LINE - 1) // LINE + 1
