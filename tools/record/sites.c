/*
 * sites.c: reads a process's maps and names addresses by them.
 */
#define _GNU_SOURCE
#include "sites.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    SITES_FIRST = 1 << 12,
    LOOK_AGAIN_MS = 50,
};

uint64_t microseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

uint64_t milliseconds(void)
{
    return microseconds() / 1000;
}

uint64_t salted(const char *text, uint64_t number, uint64_t salt)
{
    uint64_t sum = salt;
    for (; *text != 0; text++)
        sum = (sum ^ (unsigned char)*text) * UINT64_C(0x9e3779b97f4a7c15) ^ sum >> 31;
    sum = (sum ^ number) * UINT64_C(0xd6e8feb86659fd93);
    sum = (sum ^ sum >> 32 ^ salt) * UINT64_C(0x9e3779b97f4a7c15);
    return sum ^ sum >> 29;
}

static void read_modules(struct sites *sites)
{
    char path[64], line[4400];
    snprintf(path, sizeof path, "/proc/%d/maps", sites->process);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return; /* what was read before stays */
    size_t count = 0, capacity = 0;
    struct module *modules = NULL;
    while (fgets(line, sizeof line, file) != NULL) {
        struct module one = {0};
        char rights[8];
        int at = 0;
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %" SCNx64 " %*s %*s %n", &one.start, &one.end,
                   rights, &one.offset, &at) < 4 ||
            rights[2] != 'x' || at == 0)
            continue;
        line[strcspn(line, "\n")] = 0;
        const char *slash = strrchr(line + at, '/');
        const char *name = slash != NULL ? slash + 1 : line + at;
        snprintf(one.name, sizeof one.name, "%.63s", *name != 0 ? name : "?");
        if (count == capacity) {
            capacity = capacity == 0 ? 64 : capacity * 2;
            struct module *larger = realloc(modules, capacity * sizeof *modules);
            if (larger == NULL)
                break;
            modules = larger;
        }
        modules[count++] = one;
    }
    fclose(file);
    if (count == 0) { /* it has just ended */
        free(modules);
        return;
    }
    free(sites->modules);
    sites->modules = modules;
    sites->module_count = count;
}

bool sites_open(struct sites *sites, int process, uint64_t salt)
{
    *sites = (struct sites){.process = process, .salt = salt, .capacity = SITES_FIRST};
    sites->table = calloc(sites->capacity, sizeof *sites->table);
    read_modules(sites);
    sites->looked_ms = milliseconds();
    return sites->table != NULL;
}

void sites_close(struct sites *sites)
{
    free(sites->table);
    free(sites->modules);
}

static const struct module *module_of(const struct sites *sites, uint64_t address)
{
    for (size_t i = 0; i < sites->module_count; i++)
        if (address >= sites->modules[i].start && address < sites->modules[i].end)
            return &sites->modules[i];
    return NULL;
}

static void write_name(struct sites *sites, uint64_t address, struct encoder *encoder)
{
    const struct module *module = module_of(sites, address);
    if (module == NULL && milliseconds() - sites->looked_ms >= LOOK_AGAIN_MS) {
        read_modules(sites);
        sites->looked_ms = milliseconds();
        module = module_of(sites, address);
    }
    const char *name = module == NULL ? "?" : module->name;
    uint64_t offset = module == NULL ? 0 : address - module->start + module->offset;
    char text[160];
    int length;
    if (sites->salt != 0)
        length = snprintf(text, sizeof text, "%u %016" PRIx64 "\n", sites->count,
                          salted(name, module == NULL ? address : offset, sites->salt));
    else
        length = snprintf(text, sizeof text, "%u %s+0x%" PRIx64 "\n", sites->count, name, offset);
    encode_text(encoder, text, (size_t)length);
}

static size_t place_of(const struct sites *sites, uint64_t address)
{
    size_t at = (size_t)(address * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (sites->capacity - 1);
    while (sites->table[at].address != address && sites->table[at].number != 0)
        at = (at + 1) & (sites->capacity - 1);
    return at;
}

static bool grow(struct sites *sites)
{
    struct sites larger = *sites;
    larger.capacity *= 2;
    larger.table = calloc(larger.capacity, sizeof *larger.table);
    if (larger.table == NULL)
        return false;
    for (size_t i = 0; i < sites->capacity; i++)
        if (sites->table[i].number != 0)
            larger.table[place_of(&larger, sites->table[i].address)] = sites->table[i];
    free(sites->table);
    *sites = larger;
    return true;
}

uint32_t sites_number(struct sites *sites, uint64_t address, struct encoder *encoder)
{
    size_t at = place_of(sites, address);
    if (sites->table[at].number != 0)
        return sites->table[at].number;
    if ((sites->count + 1) * 2 > sites->capacity) {
        if (!grow(sites))
            return 0;
        at = place_of(sites, address);
    }
    sites->table[at].address = address;
    sites->table[at].number = ++sites->count;
    write_name(sites, address, encoder);
    return sites->count;
}
