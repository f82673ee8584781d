/*
 * facts.h: addresses of words and values of constants, by name, for readers outside the process.
 *
 * The owner of the words lists them in an array that ends with an empty name. A table lists the
 * arrays, and an ELF note points to the table. What the names mean: docs/design/watching.md.
 */
#ifndef CALM_BASE_FACTS_H
#define CALM_BASE_FACTS_H

#include "base/attr.h"

enum { FACT_NAME_BYTES = 24, FACT_LISTS = 24 };

struct watch_fact {
    char name[FACT_NAME_BYTES]; /* NUL-terminated */
    const void *value;          /* an address, or a number */
};
_Static_assert(sizeof(struct watch_fact) == 32, "readers know the size");

#define FACT_AT(name, object) {name, &(object)}
#define FACT_NUMBER(name, number) {name, (const void *)(uintptr_t)(number)}
#define FACTS_END {"", NULL}

struct fact_table {
    char magic[16]; /* identifies the table */
    uint32_t version;
    uint32_t bytes;                             /* of this struct */
    char library[16];                           /* CALM_VERSION_TEXT */
    const struct watch_fact *lists[FACT_LISTS]; /* NULL-terminated */
};

/* A statement without instructions: adds a note to the linked file, with the distance from the note
 * to the table. The table is an operand because link-time optimisation renames or drops what only
 * assembly names. */
#define FACTS_NOTE(table)                                                                          \
    __asm__ volatile(".pushsection .note.calmalloc, \"a\", \"note\"\n"                             \
                     ".balign 4\n"                                                                 \
                     ".4byte 10, 8, 1\n"                                                           \
                     ".asciz \"calmalloc\"\n"                                                      \
                     ".balign 4\n"                                                                 \
                     ".8byte %c[facts] - .\n"                                                      \
                     ".popsection"                                                                 \
                     :                                                                             \
                     : [facts] ADDRESS_OPERAND(&(table)))

#endif
