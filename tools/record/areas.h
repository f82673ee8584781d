/*
 * areas.h: what of a process's heap is resident: the Rss of those anonymous mappings in which a
 * block was ever seen. The same for the recorded program, whatever its allocator, and for the
 * replay. What an allocator keeps in mappings without blocks is not counted.
 */
#ifndef CALM_RECORD_AREAS_H
#define CALM_RECORD_AREAS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    AREA_SHIFT = 16,
    ADDRESS_BITS = 48,
};

struct areas {
    uint64_t *marks; /* a bit for each 64 KiB of the address space, mostly never touched */
    char *text;
    size_t text_bytes;
};

bool areas_open(struct areas *areas);
void areas_close(struct areas *areas);

static inline void areas_mark(struct areas *areas, uint64_t address)
{
    uint64_t at = (address & ((UINT64_C(1) << ADDRESS_BITS) - 1)) >> AREA_SHIFT;
    uint64_t bit = UINT64_C(1) << at % 64, *word = &areas->marks[at / 64];
    if ((*word & bit) == 0)
        __atomic_fetch_or(word, bit, __ATOMIC_RELAXED);
}

/* False: the process is gone or does not let us look. `path` is its smaps. */
bool areas_resident(struct areas *areas, const char *path, uint64_t *out_bytes);

#endif
