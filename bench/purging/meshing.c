/*
 * meshing.c: how many pages meshing could free, beside what goes back as whole free pages.
 *
 * Meshing puts two pages of blocks of one size into one, if no live block of one lies where one of
 * the other does. The program makes a load, notes which 16 bytes of each page live blocks cover,
 * and counts: the pages that hold any (the others can be given back as they are), and of these the
 * pairs that a search finds (PROBES partners tried for each page, Mesh tries 64), which is close to
 * the most there is. It knows its blocks by their addresses, so any allocator may be under it. What
 * moving the blocks would leave is shown beside it.
 *
 *   holes  50 MB of one size; so many per cent, at random, are freed
 *   churn  blocks of 16 to 1024 bytes live for random times, and at the end a fifth is kept
 *
 *     cc -O2 meshing.c -o meshing && LD_PRELOAD=libcalmalloc.so ./meshing
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE = 4096, GRAIN = 16, WORDS = PAGE / GRAIN / 64, PROBES = 2000 };
enum { BLOCKS_MAX = 4000000, PAGES_MAX = 1 << 20, HASH = 1 << 22, CHURNS = 6000000 };

struct page {
    uintptr_t number;
    uint32_t bytes; /* of its blocks: pages of one size and one layout mesh */
    uint32_t layout;
    uint32_t live;
    bool is_meshed;
    uint64_t map[WORDS];
};

static struct {
    char *start;
    uint32_t bytes;
} *blocks;
static size_t block_count;
static struct page *pages;
static size_t page_count;
static uint32_t *hashed; /* by page number: its index and 1 */

static uint64_t next_random(void)
{
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

/* Past the allocator, zeroed. */
static void *book(size_t bytes)
{
    void *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED)
        exit(1);
    return start;
}

static void add(uint32_t bytes)
{
    char *start = malloc(bytes);
    if (start == NULL || block_count == BLOCKS_MAX)
        exit(1);
    start[0] = 1;
    blocks[block_count].start = start;
    blocks[block_count++].bytes = bytes;
}

static void drop(size_t index)
{
    free(blocks[index].start);
    blocks[index] = blocks[--block_count];
}

static struct page *page_of(uintptr_t number, uint32_t bytes, uint32_t layout)
{
    size_t at = number * UINT64_C(0x9e3779b97f4a7c15) >> 42;
    while (hashed[at] != 0 && pages[hashed[at] - 1].number != number)
        at = (at + 1) % HASH;
    if (hashed[at] != 0)
        return &pages[hashed[at] - 1];
    if (page_count == PAGES_MAX)
        exit(1);
    hashed[at] = (uint32_t)++page_count;
    struct page *page = &pages[page_count - 1];
    page->number = number;
    page->bytes = bytes;
    page->layout = layout;
    return page;
}

static void note(const char *start, uint32_t bytes)
{
    for (uintptr_t at = (uintptr_t)start; at < (uintptr_t)start + bytes; at += GRAIN) {
        uintptr_t number = at / PAGE;
        uint32_t layout = (uint32_t)(((uintptr_t)start - number * PAGE) % bytes);
        struct page *page = page_of(number, bytes, layout);
        size_t grain = at % PAGE / GRAIN;
        page->map[grain / 64] |= (uint64_t)1 << grain % 64;
        page->live += GRAIN;
    }
}

static int by_layout(const void *a, const void *b)
{
    const struct page *left = a, *right = b;
    if (left->bytes != right->bytes)
        return left->bytes < right->bytes ? -1 : 1;
    if (left->layout != right->layout)
        return left->layout < right->layout ? -1 : 1;
    return (left->live > right->live) - (left->live < right->live);
}

static bool is_apart(const struct page *left, const struct page *right)
{
    uint64_t both = 0;
    for (size_t i = 0; i < WORDS; i++)
        both |= left->map[i] & right->map[i];
    return both == 0;
}

/* Of pages of one layout, the emptiest first: each takes the fullest partner that it finds. */
static size_t mesh(struct page *group, size_t count)
{
    size_t pairs = 0;
    for (size_t i = 0; i < count; i++) {
        for (size_t j = count, tried = 0; !group[i].is_meshed && j-- > i + 1 && tried < PROBES;) {
            if (group[j].is_meshed || group[i].live + group[j].live > PAGE)
                continue;
            tried++;
            if (is_apart(&group[i], &group[j])) {
                group[i].is_meshed = group[j].is_meshed = true;
                pairs++;
            }
        }
    }
    return pairs;
}

static void report(const char *name)
{
    memset(hashed, 0, HASH * sizeof *hashed);
    memset(pages, 0, page_count * sizeof *pages);
    page_count = 0;
    size_t live = 0, pairs = 0;
    for (size_t i = 0; i < block_count; i++) {
        note(blocks[i].start, blocks[i].bytes);
        live += blocks[i].bytes;
    }
    qsort(pages, page_count, sizeof *pages, by_layout);
    for (size_t first = 0, end; first < page_count; first = end) {
        end = first;
        while (end < page_count && pages[end].bytes == pages[first].bytes &&
               pages[end].layout == pages[first].layout)
            end++;
        pairs += mesh(pages + first, end - first);
    }
    double mib = 1 << 20, held = (double)page_count * PAGE;
    printf("%-22s %6.1f live %6.1f with a live block %6.1f meshed (-%4.1f %%) %6.1f moved\n", name,
           (double)live / mib, held / mib, (held - (double)pairs * PAGE) / mib,
           100.0 * (double)pairs / (double)page_count, (double)live / mib);
    while (block_count > 0)
        drop(block_count - 1);
}

static void holes(uint32_t bytes, unsigned percent)
{
    char name[64];
    for (size_t total = 0; total < (size_t)50 << 20; total += bytes)
        add(bytes);
    for (size_t left = block_count * (100 - percent) / 100; block_count > left;)
        drop(next_random() % block_count);
    snprintf(name, sizeof name, "holes %u B, %u %%", bytes, percent);
    report(name);
}

static uint32_t size_of_churn(void)
{
    static const uint32_t sizes[] = {16,  32,  48,  64,  80,  96,  112, 128,
                                     160, 192, 224, 256, 320, 512, 768, 1024};
    return sizes[next_random() % 16];
}

static void churn(void)
{
    for (size_t i = 0; i < CHURNS; i++) {
        add(size_of_churn());
        if (block_count > 400000)
            drop(next_random() % block_count);
    }
    for (size_t left = block_count / 5; block_count > left;)
        drop(next_random() % block_count);
    report("churn, a fifth kept");
}

int main(void)
{
    blocks = book(BLOCKS_MAX * sizeof *blocks);
    pages = book(PAGES_MAX * sizeof *pages);
    hashed = book(HASH * sizeof *hashed);
    static const uint32_t sizes[] = {16, 64, 256, 1024};
    static const unsigned percents[] = {50, 80, 90, 95, 99};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (size_t j = 0; j < sizeof percents / sizeof percents[0]; j++)
            holes(sizes[i], percents[j]);
    churn();
    return 0;
}
