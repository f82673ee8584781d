"""Writes an SMT-LIB problem for z3 to standard output: a job shop with a bound on its length, and unions of functions.

Measures a solver's terms and clauses: small blocks of many sizes, with vectors that grow by realloc.
"""

import random
import sys


def main() -> None:
    jobs, machines, limit = (int(text) for text in sys.argv[1:4])
    draw = random.Random(7)
    lines = ["(set-logic QF_UFLIA)", "(declare-fun owner (Int) Int)"]
    times = [[draw.randint(1, 9) for _ in range(machines)] for _ in range(jobs)]
    orders = [draw.sample(range(machines), machines) for _ in range(jobs)]
    for job in range(jobs):
        lines += [f"(declare-const s_{job}_{machine} Int)" for machine in range(machines)]
        first, last = orders[job][0], orders[job][-1]
        lines.append(f"(assert (>= s_{job}_{first} 0))")
        lines.append(f"(assert (<= (+ s_{job}_{last} {times[job][last]}) {limit}))")
        for before, after in zip(orders[job], orders[job][1:]):
            lines.append(f"(assert (>= s_{job}_{after} (+ s_{job}_{before} {times[job][before]})))")
    for machine in range(machines):
        for one in range(jobs):
            for other in range(one):
                a, b = f"s_{one}_{machine}", f"s_{other}_{machine}"
                lines.append(
                    f"(assert (or (>= {a} (+ {b} {times[other][machine]})) (>= {b} (+ {a} {times[one][machine]}))))"
                )
                lines.append(
                    f"(assert (=> (= (owner {a}) (owner {b})) (distinct (owner (+ {a} 1)) (owner (+ {b} {machine})))))"
                )
    lines.append("(check-sat)")
    print("\n".join(lines))


main()
