/*
 * defragment.c: a key-value store that forgets four fifths of its keys, at random, and then brings
 * the others together.
 *
 * What was forgotten leaves holes in every slab, so little memory goes back. calm_should_move says
 * of a block whether its slab is worth emptying, calm_move moves it, and the store, which knows
 * where its pointers are, changes the one. A store that serves requests does some keys at a time.
 *
 *     cc defragment.c $(pkg-config --cflags --libs calmalloc)
 */
#include <calmalloc/calmalloc.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    KEYS = 400000,
    KEPT_ONE_IN = 5,
    VALUE_MAX = 700,
    PASSES_MAX = 4,
    AIM_PERCENT = 110, /* resident for each 100 live */
};

struct entry {
    uint64_t key, length;
    char value[];
};

static struct entry *table[KEYS];

static uint64_t next_random(void)
{
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

static int insert(uint64_t key)
{
    uint64_t length = 1 + next_random() % VALUE_MAX;
    struct entry *entry = calm_malloc(sizeof *entry + length);
    if (entry == NULL)
        return 1;
    entry->key = key;
    entry->length = length;
    memset(entry->value, (int)(key % 251), length);
    table[key] = entry;
    return 0;
}

/* The heap's resident bytes for each 100 of its live blocks. */
static unsigned long report(const char *when)
{
    struct calm_stats stats;
    calm_trim();
    calm_stats_read(&stats);
    size_t live = stats.allocated_bytes - stats.cached_bytes;
    unsigned long percent = stats.resident_bytes * 100 / live;
    printf("%-12s %4zu MiB live, %4zu MiB resident: %lu.%02lu\n", when, live >> 20,
           stats.resident_bytes >> 20, percent / 100, percent % 100);
    return percent;
}

/* One pass over the store: how many entries moved. */
static size_t defragment(void)
{
    size_t moved = 0;
    for (size_t key = 0; key < KEYS; key++) {
        if (table[key] == NULL || !calm_should_move(table[key]))
            continue;
        struct entry *entry = calm_move(table[key]);
        moved += entry != table[key];
        table[key] = entry;
    }
    return moved;
}

static size_t count_wrong(void)
{
    size_t wrong = 0;
    for (uint64_t key = 0; key < KEYS; key++) {
        const struct entry *entry = table[key];
        if (entry == NULL)
            continue;
        wrong += entry->key != key;
        for (uint64_t i = 0; i < entry->length; i++)
            wrong += (unsigned char)entry->value[i] != key % 251;
    }
    return wrong;
}

int main(void)
{
    for (uint64_t key = 0; key < KEYS; key++)
        if (insert(key) != 0)
            return 1;
    report("filled:");
    for (uint64_t key = 0; key < KEYS; key++) {
        if (next_random() % KEPT_ONE_IN == 0)
            continue;
        calm_free(table[key]);
        table[key] = NULL;
    }
    report("forgotten:");
    size_t moved = 1;
    for (unsigned pass = 0; pass < PASSES_MAX && moved > 0; pass++) {
        moved = defragment();
        printf("pass %u moved %zu entries\n", pass + 1, moved);
    }
    unsigned long percent = report("brought together:");
    return count_wrong() > 0 || percent > AIM_PERCENT;
}
