/*
 * bump_meta.h: metadata for a model, from MEMORY_BYTES of its own that are given out once.
 */
#ifndef CALM_MODEL_BUMP_META_H
#define CALM_MODEL_BUMP_META_H

static _Alignas(64) char memory[MEMORY_BYTES];
static size_t memory_used;

void *meta_alloc(size_t bytes, size_t align)
{
    (void)align;
    if (memory_used + bytes > sizeof memory)
        return NULL;
    void *result = memory + memory_used;
    memory_used += bytes;
    return result;
}

#endif
