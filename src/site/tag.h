/*
 * tag.h: a site that the program names by a number, in place of an address.
 *
 * The highest bit distinguishes a tag from every address: it is 0 in code addresses of programs, on
 * both processors. The other 63 bits are a one-to-one mapping of the tag's, so two tags never
 * become one site. All bits of a tag affect the low ones, which site_index() reads. Small tags stay
 * recognisable in a profile: 7 is 0x8000000000000007 on x86-64.
 */
#ifndef CALM_SITE_TAG_H
#define CALM_SITE_TAG_H

#include "base/attr.h"

#define SITE_TAG_BIT ((uint64_t)1 << 63)

ALWAYS_INLINE const void *site_of_tag(uint64_t tag)
{
    uint64_t bits = tag & ~SITE_TAG_BIT;
    bits ^= bits >> 48;
    bits ^= bits >> 24;
    bits ^= bits >> 12;
    bits = bits << CODE_ALIGN_LOG2 | bits >> (63 - CODE_ALIGN_LOG2);
    return (const void *)(uintptr_t)(bits | SITE_TAG_BIT);
}

ALWAYS_INLINE bool site_is_tag(const void *site)
{
    return ((uintptr_t)site & SITE_TAG_BIT) != 0;
}

#endif
