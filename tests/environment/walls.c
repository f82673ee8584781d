/*
 * walls.c: what of the process is the heap's, by the kernel's own list.
 *
 *   walls guards   every table and the heap have an inaccessible page on both sides
 *   walls sizes    no more is mapped than the blocks need, as who writes a core or limits address
 *                  space sees it
 *   walls places   the program runs itself RUNS times: the place of the heap, and how far it is
 * from each table, from the C library, the program and the stack, and tables from each other, have
 * at least BITS_MIN bits of chance. A bit counts that is seen both ways in an eighth of the runs.
 *
 * Seen to fail with a heap whose tables lie where the kernel puts them; `guards` also without the
 * guard below, `places` with places that are multiples of 2 MiB, and with a heap that lies at one
 * distance below its library.
 */
#define _GNU_SOURCE

#include "check.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

enum {
    AREAS_MAX = 4096,
    RUNS = 300,
    OFTEN = RUNS / 8,
    BITS_MIN = 28,
    TABLES = 3,
    PLACES = 1 + TABLES,
    OTHERS = 3, /* the C library, the program, the stack: at the kernel's will */
    ALL_PLACES = PLACES + OTHERS
};

struct area {
    uintptr_t start, end;
    bool is_open, is_closed; /* readable and writable, or nothing at all */
    bool is_anonymous;
};

static struct area areas[AREAS_MAX];
static size_t area_count;

static void read_areas(void)
{
    char line[512], access[8], name[256];
    FILE *maps = fopen("/proc/self/maps", "r");
    CHECK(maps != NULL, "no list of mappings");
    area_count = 0;
    while (area_count < AREAS_MAX && fgets(line, sizeof line, maps) != NULL) {
        struct area *area = &areas[area_count++];
        name[0] = '\0';
        sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %7s %*s %*s %*s %255s", &area->start, &area->end,
               access, name);
        area->is_open = strncmp(access, "rw-p", 4) == 0;
        area->is_closed = strncmp(access, "---p", 4) == 0;
        area->is_anonymous = name[0] == '\0' || strncmp(name, "[anon:calmalloc", 15) == 0;
    }
    fclose(maps);
}

static bool holds(const struct area *area, const void *address)
{
    return (uintptr_t)address >= area->start && (uintptr_t)address < area->end;
}

/* Has the two places where the heap's extents lie: the program lies between. */
static bool is_apart(const struct area *area)
{
    uintptr_t top = (uintptr_t)getauxval(AT_RANDOM) / 32 * 31;
    return area->is_open && area->is_anonymous && area->end < top &&
           (area->end < (uintptr_t)&areas || area->start > (uintptr_t)sbrk(0) + 1024 * MIB);
}

/* Where the heap begins, and then the tables. Returns how many. */
static size_t find_places(uintptr_t places[PLACES])
{
    void *block = malloc(64);
    size_t count = 1;
    places[0] = 0;
    read_areas();
    for (size_t i = 1; i + 1 < area_count; i++) {
        const struct area *area = &areas[i];
        if (!is_apart(area))
            continue;
        CHECK(area[-1].is_closed && area[-1].end == area->start, "no guard below %" PRIxPTR,
              area->start);
        CHECK(area[1].is_closed && area[1].start == area->end, "no guard behind %" PRIxPTR,
              area->end);
        if (holds(area, block))
            places[0] = area->start;
        else if (count < PLACES)
            places[count++] = area->start;
    }
    free(block);
    return count;
}

static void need_47_bits(void)
{
    if (getauxval(AT_RANDOM) >> 46 != 1)
        check_skip("not 47 bits of addresses");
}

static void check_guards(void)
{
    uintptr_t places[PLACES];
    need_47_bits();
    for (size_t i = 0; i < 100000; i++)
        CHECK(malloc(i % 3000) != NULL, "no memory");
    CHECK(find_places(places) == PLACES && places[0] != 0, "the heap or a table is not apart");
}

static void check_sizes(void)
{
    static const size_t payload = 200 * MIB;
    size_t before = virtual_bytes();
    CHECK(before < 64 * MIB, "a small process has %zu MiB mapped", before / MIB);
    for (size_t done = 0; done < payload; done += 4000)
        memset(malloc(4000), 1, 4000);
    size_t mapped = virtual_bytes() - before;
    CHECK(mapped < payload + payload / 4, "%zu MiB are mapped for blocks of %zu MiB", mapped / MIB,
          payload / MIB);
}

static void read_places(const char *program, uintptr_t places[ALL_PLACES])
{
    char command[512];
    snprintf(command, sizeof command, "%s print", program);
    FILE *output = popen(command, "r");
    CHECK(output != NULL, "cannot run again");
    for (size_t i = 0; i < ALL_PLACES; i++)
        CHECK(fscanf(output, "%" SCNxPTR, &places[i]) == 1, "the heap or a table is not apart");
    pclose(output);
}

static void print_places(void)
{
    uintptr_t places[PLACES];
    for (size_t i = 0, found = find_places(places); i < found; i++)
        printf("%" PRIxPTR "\n", places[i]);
    printf("%" PRIxPTR "\n%" PRIxPTR "\n%" PRIxPTR "\n", (uintptr_t)&getauxval,
           (uintptr_t)&print_places, (uintptr_t)places);
}

/* How many bits of the words are 0 and 1 in OFTEN of them each. */
static unsigned bits_of_chance(const uintptr_t words[RUNS])
{
    unsigned bits = 0;
    for (unsigned bit = 0; bit < 8 * sizeof words[0]; bit++) {
        unsigned ones = 0;
        for (unsigned run = 0; run < RUNS; run++)
            ones += words[run] >> bit & 1;
        bits += ones >= OFTEN && RUNS - ones >= OFTEN;
    }
    return bits;
}

static void check_places(const char *program)
{
    static uintptr_t seen[RUNS][ALL_PLACES];
    need_47_bits();
    for (unsigned run = 0; run < RUNS; run++)
        read_places(program, seen[run]);
    for (size_t a = 0; a < PLACES; a++)
        for (size_t b = a; b < ALL_PLACES; b++) {
            uintptr_t words[RUNS];
            for (unsigned run = 0; run < RUNS; run++)
                words[run] = a == b ? seen[run][a] : seen[run][a] - seen[run][b];
            unsigned bits = bits_of_chance(words);
            CHECK(bits >= BITS_MIN, "only %u bits of place %zu from %zu are random", bits, a, b);
            printf("%zu %zu %u\n", a, b, bits);
        }
}

int main(int count, char **words)
{
    check_is_calmalloc();
    check_time_limit(120);
    CHECK(count == 2, "what of the walls?");
    if (strcmp(words[1], "guards") == 0)
        check_guards();
    else if (strcmp(words[1], "sizes") == 0)
        check_sizes();
    else if (strcmp(words[1], "places") == 0)
        check_places(words[0]);
    else
        print_places();
    return 0;
}
