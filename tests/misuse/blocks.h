/*
 * blocks.h: small helpers of the misuse tests: values the compiler cannot see through, and blocks
 * in company, so that the slab of the misused block neither empties nor stays in one cache.
 */
#ifndef TESTS_MISUSE_BLOCKS_H
#define TESTS_MISUSE_BLOCKS_H

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

template <class T> inline T opaque(T value)
{
    asm volatile("" : "+r"(value) : : "memory");
    return value;
}

inline void *at(void *block, std::ptrdiff_t offset)
{
    return opaque(reinterpret_cast<void *>(reinterpret_cast<std::intptr_t>(block) + offset));
}

/* Blocks of one size; the odd ones are meant to stay, so that no slab of theirs becomes empty. */
class company
{
  public:
    company(std::size_t size, std::size_t count) : blocks(count)
    {
        for (void *&block : blocks)
            block = opaque(malloc(opaque(size)));
    }

    void *middle() const
    {
        return blocks[blocks.size() / 4 * 2];
    }

    /* Frees every even block but the middle one. */
    void free_others()
    {
        for (std::size_t i = 0; i < blocks.size(); i += 2)
            if (blocks[i] != middle())
                free(blocks[i]);
    }

    std::vector<void *> blocks;
};

#endif
