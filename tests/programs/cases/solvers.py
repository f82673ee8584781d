"""z3: millions of small objects of many sizes in a search that takes another path when anything is wrong."""

from cases import case
from harness import SCRIPTS, find_program


@case("z3", "full", ("z3",))
def z3(world):
    world.run(find_program("z3"), SCRIPTS / "puzzle.smt2")
    world.run(
        find_program("z3"),
        "smt.random_seed=7",
        "sat.random_seed=7",
        "-st",
        SCRIPTS / "puzzle.smt2",
        normalise=without_use,
    )


def without_use(text):
    """The statistics without what was used of time and memory, which is not the same twice."""
    return b"\n".join(line for line in text.splitlines() if b"time" not in line and b"memory" not in line)
