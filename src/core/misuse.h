/*
 * misuse.h: the caller's mistakes: found out exactly, said in one sentence, fatal or counted by
 * option.
 */
#ifndef CALM_CORE_MISUSE_H
#define CALM_CORE_MISUSE_H

#include "base/attr.h"

/* What misuse does, set from the options of the same names. */
struct misuse_policy {
    _Atomic bool stops_on_misuse;
    _Atomic bool stops_on_foreign;
};
extern struct misuse_policy misuse_policy;

/* Counts since the start. */
uint64_t misuse_count(void);
uint64_t misuse_foreign_count(void);

/* What a block pointer turned out to be. */
enum pointer_kind {
    POINTER_SMALL,   /* the start of a block of a slab, live as far as bits tell */
    POINTER_LARGE,   /* the start of a large block                               */
    POINTER_BAD,     /* ours, but no live block begins there; has been reported  */
    POINTER_FOREIGN, /* not ours; has been reported                              */
};

/* Classifies `block`, not NULL, for the call named `verb` ("free of"), and reports what is wrong
 * with it. */
enum pointer_kind misuse_classify(const void *block, const char *verb);

void misuse_report_double(const void *block, const char *verb, size_t bytes);
/* A pool's block with a CALM_E code that says what is wrong. */
void misuse_report_pool(const void *block, const char *verb, int error);
void misuse_report_sized(const void *block, size_t bytes, size_t told);
/* A block that malloc was about to hand out. */
void misuse_report_spoiled(const void *block, size_t bytes);
void misuse_report_aligned(const void *block, size_t bytes, size_t told);

#endif
