"""Writes an SMT-LIB problem for z3 to standard output: scopes of linear constraints, each checked and left.

Measures a solver that is used again and again, as by a program that verifies another: rows, bounds and numbers are
asked for as vectors of their own, and dropped with their scope. make_problem.py makes one long search.
"""

import random
import sys


def main() -> None:
    variables, scopes = (int(text) for text in sys.argv[1:3])
    draw = random.Random(3)
    lines = ["(set-logic QF_LIA)"]
    lines += [f"(declare-const x{number} Int)" for number in range(variables)]
    for _ in range(scopes):
        lines.append("(push)")
        for _ in range(variables):
            a, b, c = draw.sample(range(variables), 3)
            left = f"(+ (* {draw.randint(1, 9)} x{a}) (* {draw.randint(1, 9)} x{b}) x{c})"
            lines.append(f"(assert (<= {left} {draw.randint(0, 90)}))")
        lines += ["(check-sat)", "(pop)"]
    print("\n".join(lines))


main()
