/*
 * pair.cpp: one object made and freed between breakpoints. Argument 1: rounds until the pair that
 * is traced; argument 2: by what, which is calm::allocator (allocator), its memory resource (pmr),
 * or new and delete of a class derived from calm::object (object).
 */
#include "calmalloc.hpp"

#include <cstdlib>
#include <string>

namespace
{

struct node {
    char bytes[48];
};

struct derived : calm::object {
    char bytes[48];
};

void breakpoint_if(bool is_traced)
{
    if (is_traced)
        __asm__ volatile("int3");
}

void seen(void *block)
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

void run_objects(long rounds)
{
    for (long round = 0; round <= rounds; round++) {
        breakpoint_if(round == rounds);
        auto *one = new derived;
        seen(one);
        breakpoint_if(round == rounds);
        delete one;
        breakpoint_if(round == rounds);
    }
}

} // namespace

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    long rounds = std::strtol(argv[1], nullptr, 10);
    const std::string by = argv[2];
    if (by == "pmr")
        run(std::pmr::polymorphic_allocator<node>(calm::heap()), rounds);
    else if (by == "object")
        run_objects(rounds);
    else if (by == "allocator")
        run(calm::allocator<node>(), rounds);
    else
        return 2;
    return 0;
}
