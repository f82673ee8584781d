/*
 * class.c: the class for an alignment. The tables are in class_tables.c.
 */
#include "core/class.h"

#include "base/bits.h"

unsigned class_aligned(size_t bytes, size_t align)
{
    size_t rounded = align_up(bytes > 0 ? bytes : 1, align);
    if (align > MEDIUM_MAX || bytes > MEDIUM_MAX || rounded > MEDIUM_MAX)
        return 0;
    unsigned class = class_of(rounded);
    while (class < CLASS_COUNT && class_facts[class].bytes % align != 0)
        class += 1;
    return class < CLASS_COUNT ? class : 0;
}
