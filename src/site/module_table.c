/*
 * module_table.c: copies the modules into bounded memory; finds one by binary search.
 *
 * Owner: the caller of profile_write(), in memory of its own.
 * Design: docs/design/profile-formats.md
 */
#include "site/module_table.h"

#include "site/modules_seen.h"

/* Copies `count` bytes into the table's words; NULL when they are full. */
static char *keep(struct module_table *table, const void *bytes, size_t count)
{
    if (count > MODULE_WORDS_BYTES - table->words_used)
        return NULL;
    char *copy = table->words + table->words_used;
    for (size_t i = 0; i < count; i++)
        copy[i] = ((const char *)bytes)[i];
    table->words_used += count;
    return copy;
}

static size_t length_of(const char *words)
{
    size_t length = 0;
    while (words[length] != '\0')
        length++;
    return length;
}

static void add(const struct os_module *module, void *context)
{
    struct module_table *table = (struct module_table *)context;
    char *path = NULL, *build_id = NULL;
    if (table->count < MODULES_MAX) {
        path = keep(table, module->path, length_of(module->path) + 1);
        build_id = keep(table, module->build_id, module->build_id_bytes);
    }
    if (path == NULL || build_id == NULL) {
        table->left_out++;
        return;
    }
    struct os_module *copy = &table->modules[table->count++];
    *copy = *module;
    copy->path = path;
    copy->build_id = (const unsigned char *)build_id;
}

/* Whether no module in the table overlaps `module`. */
static bool is_unloaded(const struct module_table *table, const struct os_module *module)
{
    for (size_t i = 0; i < table->count; i++)
        if (table->modules[i].start < module->end && module->start < table->modules[i].end)
            return false;
    return true;
}

/* Adds an unloaded module at its place in address order. */
static void add_unloaded(const struct os_module *module, void *context)
{
    struct module_table *table = (struct module_table *)context;
    size_t before = table->count;
    if (!is_unloaded(table, module))
        return;
    add(module, context);
    if (table->count == before)
        return;
    struct os_module added = table->modules[before];
    size_t place = before;
    for (; place > 0 && table->modules[place - 1].start > added.start; place--)
        table->modules[place] = table->modules[place - 1];
    table->modules[place] = added;
}

void module_table_read(struct module_table *table)
{
    table->error = os_modules(add, table);
    modules_seen_visit(add_unloaded, table);
}

size_t module_table_find(const struct module_table *table, uintptr_t address)
{
    size_t low = 0, high = table->count; /* modules below low end at or before the address */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (table->modules[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    bool is_inside = low < table->count && table->modules[low].start <= address;
    return is_inside ? low : table->count;
}
