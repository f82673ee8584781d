/*
 * api_fuzz.c: the allocation functions as a state machine: each pair of bytes is an operation and
 * its argument.
 *
 * The oracle of the stress tests checks contents, alignment, zeroing and sizes at every step. Each
 * input leaves the heap empty, and the heap's own walk must find nothing wrong and no block
 * missing.
 */
#include <stdbool.h>
#include <string.h>

#include "calmalloc/calmalloc.h"
#include "oracle.h"
#include "target.h"

enum { OPERATIONS_MAX = 400, LIVE_MAX = 48 << 20, SHIFT_MAX = 26 };

const struct fuzz_input fuzz_corpus[] = {
    {"\x00\x10\x00\x20\x00\x30\x06\x00\x06\x01\x06\x02", 12},
    {"\x02\xf0\x02\xf1\x04\x00\x04\x81\x06\x00\x07\x00", 12},
    {"\x03\x7f\x03\x8f\x05\x40\x05\x41\x06\x01\x08\x00\x00\xff", 14},
    {"\x00\xd0\x00\xd0\x04\xe0\x04\xf8\x04\x90\x06\x00\x07\x01\x08\x00", 16},
};
const size_t fuzz_corpus_count = sizeof fuzz_corpus / sizeof fuzz_corpus[0];

static struct oracle oracle;

/* Every magnitude up to 64 MiB from one byte, exact powers of two and their neighbours included. */
static size_t size_of(uint8_t byte, uint8_t more)
{
    size_t base = (size_t)1 << byte % (SHIFT_MAX + 1);
    size_t size = byte < 64 ? byte : base + (base >> 8) * more;
    return size - (more == 1 && size > 0) + (more == 2);
}

static void one(uint8_t operation, uint8_t a, uint8_t b)
{
    size_t index = oracle.count > 0 ? a % oracle.count : 0;
    bool has_room = oracle.live_bytes < LIVE_MAX;
    switch (operation % 9) {
    case 0:
    case 1:
        if (has_room)
            oracle_malloc(&oracle, size_of(a, b), b);
        break;
    case 2:
        if (has_room)
            oracle_calloc(&oracle, b % 7 + 1u, size_of(a, b) / (b % 7 + 1u));
        break;
    case 3:
        if (has_room)
            oracle_aligned(&oracle, (size_t)1 << b % 23, size_of(a, 0) % (1 << 20));
        break;
    case 4:
    case 5:
        if (oracle.count > 0 && has_room)
            oracle_realloc(&oracle, index, size_of(b, a));
        break;
    case 6:
    case 7:
        if (oracle.count > 0)
            oracle_free(&oracle, index, b);
        break;
    default: calm_trim(); break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    stress_repro = "run this target on the input that it wrote";
    oracle_begin(&oracle, 1);
    size_t end = size < OPERATIONS_MAX * 2 ? size : OPERATIONS_MAX * 2;
    for (size_t i = 0; i + 2 < end; i += 2)
        one(data[i], data[i + 1], data[i + 2]);
    oracle_check(&oracle);
    const struct oracle *all[] = {&oracle};
    oracle_check_apart(all, 1, NULL);
    oracle_end(&oracle);
    stress_check_heap(0, 100, (size_t)1 << 30);
    return 0;
}
