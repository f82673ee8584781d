/*
 * target.h: what a fuzz target is: libFuzzer's entry point, which the standalone driver calls as
 * well.
 */
#ifndef CALM_FUZZ_TARGET_H
#define CALM_FUZZ_TARGET_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Inputs that the driver always runs, and mutates: `count` of them. Each target has some. */
struct fuzz_input {
    const char *data;
    size_t size;
};
extern const struct fuzz_input fuzz_corpus[];
extern const size_t fuzz_corpus_count;

#endif
