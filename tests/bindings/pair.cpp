/*
 * pair.cpp: one object made and freed between breakpoints, by calm::allocator or, with a second
 * argument, by its memory resource. Argument 1: rounds until the pair that is traced.
 */
#include "calmalloc.hpp"

#include <cstdlib>

namespace
{

struct node {
    char bytes[48];
};

void breakpoint_if(bool is_traced)
{
    if (is_traced)
        __asm__ volatile("int3");
}

void seen(node *block)
{
    __asm__ volatile("" : : "r"(block) : "memory");
}

template <class Allocator> void run(Allocator allocator, long rounds)
{
    for (long round = 0; round <= rounds; round++) {
        breakpoint_if(round == rounds);
        node *block = allocator.allocate(1);
        seen(block);
        breakpoint_if(round == rounds);
        allocator.deallocate(block, 1);
        breakpoint_if(round == rounds);
    }
}

} // namespace

int main(int argc, char **argv)
{
    long rounds = argc > 1 ? std::strtol(argv[1], nullptr, 10) : 0;
    if (argc > 2)
        run(std::pmr::polymorphic_allocator<node>(calm::heap()), rounds);
    else
        run(calm::allocator<node>(), rounds);
    return 0;
}
