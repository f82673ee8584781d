/*
 * facts.h: where words lie and what constants are, by name, for readers outside the process.
 *
 * Who owns the words tells of them, in an array that ends with an empty name. What the names mean,
 * and how the arrays are found: docs/design/watching.md.
 */
#ifndef CALM_BASE_FACTS_H
#define CALM_BASE_FACTS_H

#include "base/attr.h"

enum { FACT_NAME_BYTES = 24 };

struct watch_fact {
    char name[FACT_NAME_BYTES]; /* closed by a NUL */
    const void *value;          /* an address, or a number */
};
_Static_assert(sizeof(struct watch_fact) == 32, "readers know the size");

#define FACT_AT(name, object) {name, &(object)}
#define FACT_NUMBER(name, number) {name, (const void *)(uintptr_t)(number)}
#define FACTS_END {"", NULL}

#endif
