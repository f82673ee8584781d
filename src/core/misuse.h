/*
 * misuse.h: the caller's mistakes: found exactly, reported in one sentence, fatal or counted by
 * option.
 */
#ifndef CALM_CORE_MISUSE_H
#define CALM_CORE_MISUSE_H

#include "base/attr.h"

/* Set from the options of the same names. */
struct misuse_policy {
    _Atomic bool stops_on_misuse;
    _Atomic bool stops_on_foreign;
};
extern struct misuse_policy misuse_policy;

/* Counts since the start. */
uint64_t misuse_count(void);
uint64_t misuse_foreign_count(void);

enum pointer_kind {
    POINTER_SMALL,   /* the start of a slab's block, live or free */
    POINTER_LARGE,   /* the start of a large block */
    POINTER_BAD,     /* in the region, but no live block begins there; reported */
    POINTER_FOREIGN, /* not in the region; reported */
    POINTER_POOLED,  /* in a pool (core/pooled.h), which misuse_classify() does not look for */
};

/* Classifies `block`, not NULL, for the call that `verb` names ("free of"), and reports a bad
 * pointer. */
enum pointer_kind misuse_classify(const void *block, const char *verb);

void misuse_report_double(const void *block, const char *verb, size_t bytes);
/* A pool's block; `error` is a CALM_E code. */
void misuse_report_pool(const void *block, const char *verb, int error);
void misuse_report_sized(const void *block, size_t bytes, size_t told);
/* A free block that malloc, or a cache that gives blocks back, found without its mark. */
void misuse_report_spoiled(const void *block, size_t bytes);
void misuse_report_aligned(const void *block, size_t bytes, size_t told);

#endif
