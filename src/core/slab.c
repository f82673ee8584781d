/*
 * slab.c: carving a chunk into blocks, and the bitmap of free blocks.
 *
 * Unused metadata waits in stacks by its number of lines and never returns to the kernel, so a
 * stale pointer to it can always be read (the depot's lock then decides what it means). Each slab's
 * metadata has a deferred map (core/deferred.h) on separate pages, which are rarely touched.
 *
 * Owner: carve and retire, the thread that alone has the slab; the rest, the depot's lock. The
 * stacks of unused metadata: any thread, lock-free (base/tagged_stack.h). Invariant B1:
 * popcount(free_map) == free_count. Checked by slab_verify(). Design: docs/design/depots.md
 */
#include "core/slab.h"

#include "base/tagged_stack.h"
#include "core/mark.h"
#include "core/rows.h"
#include "mem/meta.h"
#include "mem/refault.h"
#include "mem/span.h"

enum {
    LINES_MAX = 1 + (CHUNK_BYTES / 8 / 64 * 8) / CACHE_LINE_BYTES,
    DEFERRED_LINES = 256, /* allocated at once, for deferred maps */
    EVERY_PAGE = -1,
};

static struct tagged_stack unused[LINES_MAX + 1]; /* by lines */

static struct refault_meter refaults; /* in sub-pages; slab_forget_dropped() ends its window */

/* Free lines for deferred maps: number of the first, and in the low half how many. */
static _Atomic uint64_t deferred_room;

static unsigned slab_lines(unsigned class)
{
    return 1 + (class_facts[class].map_words + 7u) / 8u;
}

static _Atomic uint32_t *below_of(uint32_t number)
{
    return &((struct slab *)meta_at(number))->below;
}

static void metadata_release(struct slab *slab, unsigned lines)
{
    tagged_push(&unused[lines], meta_number(slab), below_of);
}

/* Zeroed lines for a deferred map. NULL: no memory. When several threads find no room at once, the
 * losers' new lines are lost. */
static void *deferred_map_make(uint32_t lines)
{
    enum { NUMBER_SHIFT = 32 };
    for (;;) { /* each turn is another thread's progress */
        uint64_t room = load(&deferred_room, ACQUIRE);
        uint64_t number = room >> NUMBER_SHIFT, count = (uint32_t)room;
        if (count >= lines) {
            uint64_t left = (number + lines) << NUMBER_SHIFT | (count - lines);
            if (compare_swap(&deferred_room, &room, left, ACQUIRE, RELAXED))
                return meta_at((uint32_t)number);
            continue;
        }
        void *made = meta_alloc((size_t)DEFERRED_LINES * CACHE_LINE_BYTES, SUB_PAGE);
        if (made == NULL)
            return NULL;
        uint64_t fresh = (uint64_t)meta_number(made) << NUMBER_SHIFT | DEFERRED_LINES;
        compare_swap(&deferred_room, &room, fresh, RELEASE, RELAXED);
    }
}

static struct slab *metadata_acquire(unsigned lines)
{
    uint32_t number = tagged_pop(&unused[lines], below_of);
    void *found = number != 0 ? meta_at(number)
                              : meta_alloc((size_t)lines * CACHE_LINE_BYTES, CACHE_LINE_BYTES);
    struct slab *slab = (struct slab *)found;
    if (slab == NULL || likely(slab->deferred != NULL))
        return slab;
    slab->lines = lines;
    slab->deferred = (_Atomic uint64_t *)deferred_map_make(lines - 1);
    if (slab->deferred != NULL)
        return slab;
    metadata_release(slab, lines);
    return NULL;
}

/* Sets all fields but `below`, which a stale reader may follow, and those of deferred frees: the
 * metadata may still be in a stack of such slabs. */
static void fill(struct slab *slab, unsigned bin, struct span span)
{
    uint16_t capacity = class_facts[bin_class(bin)].capacity;
    slab->chunk = (uint32_t)(span.unit / CHUNK_UNITS);
    slab->capacity = capacity;
    slab->bin = (bin_index)bin;
    slab->free_count = capacity;
    slab->list = SLAB_UNLISTED;
    slab->is_pinned = false;
    slab->next = 0;
    slab->previous = 0;
    slab->tick = 0;
    slab->marked = 0;
    slab->dropped = span.is_zero ? (uint32_t)EVERY_PAGE : 0;
}

struct slab *slab_carve(unsigned bin)
{
    const struct class_facts *facts = &class_facts[bin_class(bin)];
    struct slab *slab = metadata_acquire(slab_lines(bin_class(bin)));
    if (slab == NULL)
        return NULL;
    struct span span = span_acquire(CHUNK_UNITS, CHUNK_UNITS, row_owner(bin));
    if (span.unit == 0) {
        metadata_release(slab, slab_lines(bin_class(bin)));
        return NULL;
    }
    fill(slab, bin, span);
    __builtin_memset((void *)(uintptr_t)slab->free_map, 0xff, facts->map_words * sizeof(uint64_t));
    if (facts->capacity % 64 != 0)
        store(&slab->free_map[facts->map_words - 1], bits_below(facts->capacity % 64), RELAXED);
    region.tags[span.unit].slab = slab;
    return slab;
}

void slab_retire(struct slab *slab)
{
    size_t chunk = slab->chunk, unit = chunk * CHUNK_UNITS;
    unsigned class = bin_class(slab->bin);
    ASSERT(slab->free_count == slab->capacity && region_bin(chunk) == NO_SLAB);
    bool is_zero = slab->dropped == (uint32_t)EVERY_PAGE;
    store(&region.tags[unit].asked, 0, RELAXED);
    region.tags[unit].class_before = (uint8_t)class;
    metadata_release(slab, slab_lines(class));
    span_release(unit, CHUNK_UNITS, is_zero);
}

/* Clears the `dropped` bits of blocks [first, last], which are about to be written, and counts the
 * refaults. */
static void note_touched(struct slab *slab, unsigned first, unsigned last)
{
    size_t bytes = class_facts[bin_class(slab->bin)].bytes;
    unsigned page_first = (unsigned)(first * bytes / SUB_PAGE);
    unsigned page_last = (unsigned)(((last + 1) * bytes - 1) / SUB_PAGE);
    uint32_t touched = (uint32_t)((2ull << page_last) - 1) & ~(uint32_t)((1ull << page_first) - 1);
    refault_note_taken(&refaults, bit_count(slab->dropped & touched));
    slab->dropped &= ~touched;
}

void slab_settle_refaults(void)
{
    refault_settle(&refaults);
}

void slab_note_dropped(size_t pages)
{
    refault_note_purged(&refaults, pages);
}

size_t slab_refault_bytes(void)
{
    return load(&refaults.sum, RELAXED) * SUB_PAGE;
}

void slab_forget_dropped(void)
{
    refault_end_window(&refaults);
    store(&refaults.sum, load(&refaults.sum, RELAXED) / 2, RELAXED);
}

/* Lists at most `want` blocks of `map`, a word of free bits, from the lowest on, and clears their
 * bits. Returns how many. `start`: address of the word's first block. */
static size_t list_word(uint64_t *map, char *start, size_t bytes, void **out, size_t want)
{
    size_t count = 0;
    while (*map != 0 && count < want) {
        out[count++] = start + bit_lowest(*map) * bytes;
        *map &= *map - 1;
    }
    return count;
}

/* list_word() for a word whose set bits are one run, as in a fresh slab: reads no single bits. */
static size_t list_run(uint64_t *map, char *start, size_t bytes, void **out, size_t want)
{
    unsigned first = bit_lowest(*map);
    size_t count = size_min(bit_highest(*map) + 1u - first, want);
    char *block = start + first * bytes;
    UNROLLED
    for (size_t i = 0; i < count; i++) {
        out[i] = block;
        block += bytes;
    }
    *map &= ~(bits_below(count) << first);
    return count;
}

/* The first bitmap word >= `word` that is not 0, else `words`. */
static unsigned next_word(const struct slab *slab, unsigned word, unsigned words)
{
    const _Atomic uint64_t *map = slab->free_map;
    while (word + 4 <= words &&
           (load(&map[word], RELAXED) | load(&map[word + 1], RELAXED) |
            load(&map[word + 2], RELAXED) | load(&map[word + 3], RELAXED)) == 0)
        word += 4;
    while (word < words && load(&map[word], RELAXED) == 0)
        word++;
    return word;
}

/* Sets `marked` and the chunk map's limit. All free blocks below must be marked by now. */
static void set_marked(struct slab *slab, unsigned blocks)
{
    uint16_t limit = blocks == 0 ? 0 : class_limit(bin_class(slab->bin), blocks);
    slab->marked = (uint16_t)blocks;
    store(&region.map[slab->chunk].limit, limit, RELEASE);
}

void slab_unmark_from(struct slab *slab, unsigned block)
{
    if (block < slab->marked)
        set_marked(slab, block);
}

/* Marks the taken blocks at or above `marked`. `blocks` are in address order, and no free block is
 * below `last`, so `marked` moves just past `last`. */
static void mark_taken(struct slab *slab, void *const *blocks, size_t count, unsigned last)
{
    size_t bytes = class_facts[bin_class(slab->bin)].bytes;
    const char *marked = slab_start(slab) + slab->marked * bytes;
    size_t first = 0;
    while ((const char *)blocks[first] < marked && ++first < count) {}
    for (size_t i = first; i < count; i++)
        block_mark(blocks[i]);
    unsigned now = slab->free_count == 0 ? slab->capacity : last + 1;
    if (now > slab->marked)
        set_marked(slab, now);
}

size_t slab_alloc(struct slab *slab, void **out, size_t want)
{
    size_t bytes = class_facts[bin_class(slab->bin)].bytes;
    char *start = slab_start(slab);
    unsigned words = class_facts[bin_class(slab->bin)].map_words;
    size_t taken = 0;
    unsigned first = UINT32_MAX, last = 0;
    for (unsigned word = next_word(slab, 0, words); word < words && taken < want;
         word = next_word(slab, word + 1, words)) {
        uint64_t map = load(&slab->free_map[word], RELAXED);
        if (first == UINT32_MAX)
            first = word * 64 + bit_lowest(map);
        uint64_t above = map + (map & -map); /* shares no bit with `map` if the map is one run */
        char *at = start + word * 64 * bytes;
        uint64_t left = map;
        taken += (above & map) == 0 ? list_run(&left, at, bytes, out + taken, want - taken)
                                    : list_word(&left, at, bytes, out + taken, want - taken);
        last = word * 64 + bit_highest(map ^ left);
        store(&slab->free_map[word], left, RELAXED);
    }
    slab->free_count = (uint16_t)(slab->free_count - taken);
    if (taken > 0 && slab->dropped != 0)
        note_touched(slab, first, last);
    if (taken > 0 && slab->marked < slab->capacity)
        mark_taken(slab, out, taken, last);
    return taken;
}

void slab_clear(struct slab *slab)
{
    __builtin_memset((void *)(uintptr_t)slab->free_map, 0,
                     class_facts[bin_class(slab->bin)].map_words * sizeof(uint64_t));
    slab->free_count = 0;
    slab->dropped = 0;
    size_t bytes = class_facts[bin_class(slab->bin)].bytes;
    for (size_t i = 0; i < slab->capacity; i++)
        block_mark(slab_start(slab) + i * bytes);
    set_marked(slab, slab->capacity);
}

verdict slab_verify(const struct slab *slab)
{
    unsigned bits = 0;
    for (unsigned word = 0; word < class_facts[bin_class(slab->bin)].map_words; word++)
        bits += bit_count(load(&slab->free_map[word], RELAXED));
    if (bits != slab->free_count || slab->free_count > slab->capacity)
        return "B1: a slab's count of free blocks is wrong";
    if (region_bin(slab->chunk) != slab->bin)
        return "B2: the chunk map and a slab name different bins";
    return NULL;
}

const struct watch_fact slab_facts[] = {
    FACT_NUMBER("slab.chunk", offsetof(struct slab, chunk)),
    FACT_NUMBER("slab.bin", offsetof(struct slab, bin)),
    FACT_NUMBER("slab.deferred", offsetof(struct slab, deferred)),
    FACT_NUMBER("slab.map", offsetof(struct slab, free_map)),
    FACTS_END,
};
