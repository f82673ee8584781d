"""Programs that replace a part of the names themselves: what they do not replace must lead to what they do."""

from cases import case
from harness import SCRIPTS, find_program


@case("replaced_new", "programs", ("g++",), must_see=("replaced",))
def replaced_new(world):
    """C++17 [new.delete]: each form that a program has not replaced calls one that it may have replaced."""
    for options in (("-O0",), ("-O2",), ("-O2", "-no-pie")):
        world.run(find_program("g++"), "-std=c++17", *options, SCRIPTS / "replaced_new.cpp", "-o", "replaced")
        world.run("./replaced", label=f"replaced {' '.join(options)}")


@case("own_heap", "programs", ("g++",), must_see=("own_heap",), own_allocator=("own_heap",))
def own_heap(world):
    """The executable comes before every preloaded library, so its malloc is everybody's malloc."""
    compiler = find_program("gcc")
    source = SCRIPTS / "own_heap.c"
    world.run(compiler, "-fno-builtin", "-shared", "-fPIC", "-DLIBRARY", source, "-o", "libuser.so")
    world.run(compiler, "-fno-builtin", "-rdynamic", source, "-o", "own_heap", "./libuser.so")
    world.run("./own_heap")
