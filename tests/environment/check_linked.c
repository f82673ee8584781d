/*
 * check_linked.c: the functions of a libcalmalloc.a in the program itself, where no loader can be
 * asked for them.
 */
#define _GNU_SOURCE

#include "check.h"

#include <stdlib.h>
#include <string.h>

#include "calmalloc/calmalloc.h"

enum { BYTES = 777 };

static const struct {
    const char *name;
    void (*function)(void);
} functions[] = {
    {"calm_verify", (void (*)(void))calm_verify},
    {"calm_stats_read", (void (*)(void))calm_stats_read},
    {"calm_stats_json", (void (*)(void))calm_stats_json},
};

void check_is_calmalloc(void)
{
    void *block = hidden(malloc(BYTES));
    CHECK(calm_usable_size(block) >= BYTES, "malloc belongs to another heap");
    free(block);
}

void *check_symbol(const char *name)
{
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (strcmp(functions[i].name, name) == 0)
            return *(void *const *)&functions[i].function;
    CHECK(false, "no %s in check_linked.c", name);
}
