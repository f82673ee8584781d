/*
 * facts.h: where words lie and what constants are, by name, for readers outside the process.
 *
 * Who owns the words tells of them, in an array that ends with an empty name. A table lists the
 * arrays, and an ELF note leads to the table. What the names mean: docs/design/watching.md.
 */
#ifndef CALM_BASE_FACTS_H
#define CALM_BASE_FACTS_H

#include "base/attr.h"

enum { FACT_NAME_BYTES = 24, FACT_LISTS = 24 };

struct watch_fact {
    char name[FACT_NAME_BYTES]; /* closed by a NUL */
    const void *value;          /* an address, or a number */
};
_Static_assert(sizeof(struct watch_fact) == 32, "readers know the size");

#define FACT_AT(name, object) {name, &(object)}
#define FACT_NUMBER(name, number) {name, (const void *)(uintptr_t)(number)}
#define FACTS_END {"", NULL}

struct fact_table {
    char magic[16]; /* what the facts are of */
    uint32_t version;
    uint32_t bytes;                             /* of this struct */
    char library[16];                           /* CALM_VERSION_TEXT */
    const struct watch_fact *lists[FACT_LISTS]; /* the last is followed by NULL */
};

/* A statement without instructions: puts a note into the file that the function around it becomes
 * part of. Its contents: how far the table is from here. The table is an operand, because what
 * assembly only names, link-time optimisation renames or leaves out. */
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
