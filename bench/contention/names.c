/*
 * names.c: tells bookkeeping apart: by the tables that the heap has, and by what was asked of
 * meta_alloc, which the linker leads through here.
 */
#include "names.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/cache.h"
#include "core/depot.h"

enum { PIECES_MAX = 1 << 16, BATCH_CHUNK_BYTES = 16 * 1024 };

static struct piece {
    uintptr_t start;
    size_t bytes;
} pieces[PIECES_MAX];
static size_t piece_count;

void *__real_meta_alloc(size_t bytes, size_t align);
void *__wrap_meta_alloc(size_t bytes, size_t align);

/* Pieces come in rising order but for where a chunk begins. */
static void *noted(void *piece, size_t bytes)
{
    if (piece_count == PIECES_MAX)
        abort();
    pieces[piece_count++] = (struct piece){(uintptr_t)piece, bytes};
    return piece;
}

void *__wrap_meta_alloc(size_t bytes, size_t align)
{
    return noted(__real_meta_alloc(bytes, align), bytes);
}

static size_t piece_bytes(uintptr_t address, uintptr_t *start)
{
    for (size_t i = 0; i < piece_count; i++) {
        *start = pieces[i].start;
        if (address >= pieces[i].start && address < pieces[i].start + pieces[i].bytes)
            return pieces[i].bytes;
    }
    return 0;
}

static const char *depot_field(size_t offset)
{
    if (offset - offsetof(struct depot, batches) < sizeof(struct batch_stack))
        return "batches";
    if (offset - offsetof(struct depot, lock) < sizeof(struct lock))
        return "lock";
    if (offset - offsetof(struct depot, lists) < sizeof(uint32_t[DEPOT_LISTS]))
        return "lists";
    if (offset - offsetof(struct depot, free_blocks) < sizeof(size_t))
        return "free_blocks";
    return "others";
}

static bool name_depot(char name[NAME_MAX_BYTES], uintptr_t address, bool is_exact)
{
    for (struct depot *depot = depot_newest(); depot != NULL; depot = depot->below) {
        size_t offset = address - (uintptr_t)depot;
        size_t other = address - (uintptr_t)load(&depot->others, RELAXED);
        if (other < (shard_count - 1) * (size_t)SHARD_STACK_BYTES)
            offset = offsetof(struct depot, batches) + other % SHARD_STACK_BYTES;
        if (offset >= sizeof *depot)
            continue;
        if (is_exact)
            snprintf(name, NAME_MAX_BYTES, "depot.%s of %zu B, row %u", depot_field(offset),
                     bin_bytes(depot->bin), bin_row(depot->bin));
        else
            snprintf(name, NAME_MAX_BYTES, "depot.%s", depot_field(offset));
        return true;
    }
    return false;
}

static const char *name_piece(uintptr_t address)
{
    uintptr_t start;
    size_t bytes = piece_bytes(address, &start);
    if (bytes == CACHE_BYTES)
        return address - start < offsetof(struct cache, below)   ? "cache entries"
               : address - start < offsetof(struct cache, arena) ? "cache header"
                                                                 : "cache arrays";
    if (bytes == BATCH_CHUNK_BYTES)
        return "batch contents";
    return bytes == 0 ? NULL : "slab bookkeeping";
}

/* The line that a chunk of metadata begins with: how far it is used. Its first piece is behind. */
static bool begins_chunk(uintptr_t address)
{
    for (size_t i = 0; i < piece_count; i++)
        if (address < pieces[i].start && pieces[i].start - address <= 4096)
            return address % 4096 < CACHE_LINE_BYTES;
    return false;
}

void name_write(char name[NAME_MAX_BYTES], uintptr_t address, bool is_exact)
{
    uintptr_t map = (uintptr_t)region.map, tags = (uintptr_t)region.tags;
    size_t chunks = load(&region.chunks, RELAXED);
    const char *kind = name_piece(address);
    if (name_depot(name, address, is_exact))
        return;
    if (address - (uintptr_t)region.base < chunks << CHUNK_SHIFT)
        kind = "blocks";
    else if (address - map < chunks * sizeof *region.map)
        kind = "chunk map";
    else if (address - tags < chunks * CHUNK_UNITS * sizeof *region.tags)
        kind = "span tags";
    else if (address - (uintptr_t)core_slots < sizeof core_slots)
        kind = "core slots";
    else if (kind == NULL && begins_chunk(address))
        kind = "front of the metadata";
    if (kind != NULL)
        snprintf(name, NAME_MAX_BYTES, "%s", kind);
    else
        snprintf(name, NAME_MAX_BYTES, "@%zx", (size_t)address);
}
