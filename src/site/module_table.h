/*
 * module_table.h: a table of the process's modules, to look up addresses while a profile is
 * written.
 */
#ifndef CALM_SITE_MODULE_TABLE_H
#define CALM_SITE_MODULE_TABLE_H

#include "os/modules.h"

enum {
    MODULES_MAX = 4096,
    MODULE_WORDS_BYTES = 256 * 1024, /* for paths and build ids */
};

struct module_table {
    size_t count;
    size_t left_out; /* modules that found the table full                    */
    int error;       /* 0 or a negative errno, when the list cannot be read  */
    size_t words_used;
    struct os_module modules[MODULES_MAX]; /* in address order; pointers lead into words */
    char words[MODULE_WORDS_BYTES];
};

/* Fills `table`, which must read as zero. */
void module_table_read(struct module_table *table);

/* Index of the module that contains `address`, or `count`. */
size_t module_table_find(const struct module_table *table, uintptr_t address);

#endif
