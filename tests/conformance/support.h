/*
 * support.h: what the conformance tests share: values the compiler cannot see through, patterns,
 * lists of sizes.
 *
 * `opaque` hides a value from the optimiser, so that calls with odd arguments are made at run time
 * and no pair of malloc and free is removed. Patterns are a function of the seed and the offset, so
 * that a byte that moved to the wrong place is found as well as one that was overwritten.
 */
#ifndef TESTS_CONFORMANCE_SUPPORT_H
#define TESTS_CONFORMANCE_SUPPORT_H

#include <cstddef>
#include <cstdint>
#include <vector>

constexpr std::size_t KIB = 1024;
constexpr std::size_t MIB = 1024 * KIB;

template <class T> inline T opaque(T value)
{
    asm volatile("" : "+r"(value) : : "memory");
    return value;
}

inline std::size_t too_large()
{
    return opaque(static_cast<std::size_t>(PTRDIFF_MAX) + 1);
}

inline bool is_aligned(const void *block, std::size_t alignment)
{
    return (reinterpret_cast<std::uintptr_t>(block) & (alignment - 1)) == 0;
}

inline unsigned char pattern_at(std::size_t offset, unsigned seed)
{
    return static_cast<unsigned char>(seed + offset * 7 + (offset >> 8) * 13);
}

inline void pattern_write(void *block, std::size_t size, unsigned seed)
{
    auto *bytes = static_cast<unsigned char *>(block);
    for (std::size_t i = 0; i < size; i++)
        bytes[i] = pattern_at(i, seed);
    asm volatile("" : : "r"(block) : "memory");
}

/* Returns how many of the first `size` bytes differ from the pattern. */
inline std::size_t pattern_errors(const void *block, std::size_t size, unsigned seed)
{
    const auto *bytes = static_cast<const unsigned char *>(block);
    std::size_t errors = 0;
    for (std::size_t i = 0; i < size; i++)
        errors += bytes[i] != pattern_at(i, seed);
    return errors;
}

inline std::size_t nonzero_bytes(const void *block, std::size_t size)
{
    const auto *bytes = static_cast<const unsigned char *>(block);
    std::size_t count = 0;
    for (std::size_t i = 0; i < size; i++)
        count += bytes[i] != 0;
    return count;
}

/* Every small size, then five sizes around and between powers of two, up to `largest`. */
inline std::vector<std::size_t> sizes_up_to(std::size_t largest)
{
    std::vector<std::size_t> sizes;
    for (std::size_t size = 0; size <= 130 && size <= largest; size++)
        sizes.push_back(size);
    for (std::size_t power = 256; power <= largest; power *= 2)
        for (std::size_t size : {power - power / 4, power - 1, power, power + 1, power + power / 8})
            if (size <= largest)
                sizes.push_back(size);
    return sizes;
}

#endif
