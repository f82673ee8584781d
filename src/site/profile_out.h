/*
 * profile_out.h: writes a profile through a buffer to a descriptor, as it is or as gzip.
 *
 * The first error is kept, and nothing is written after it. One thread at a time for each.
 */
#ifndef CALM_SITE_PROFILE_OUT_H
#define CALM_SITE_PROFILE_OUT_H

#include "base/attr.h"

enum {
    PROFILE_OUT_BLOCK_HEADER = 5, /* in front of the bytes, for gzip's block header */
    PROFILE_OUT_BYTES = 32768,
};

struct profile_out {
    int fd;
    int error; /* of the first write that failed, negative */
    bool is_gzip;
    uint32_t crc;    /* CRC-32 of all bytes so far */
    uint32_t length; /* of all bytes so far, modulo 2^32      */
    size_t used;
    char buffer[PROFILE_OUT_BLOCK_HEADER + PROFILE_OUT_BYTES];
};

void profile_out_begin(struct profile_out *out, int fd, bool is_gzip);
void profile_out_bytes(struct profile_out *out, const void *bytes, size_t count);
void profile_out_text(struct profile_out *out, const char *words);
void profile_out_number(struct profile_out *out, uint64_t value);
void profile_out_hex(struct profile_out *out, uint64_t value); /* with 0x in front */

/* Writes the rest. Returns 0 or the first error as a positive errno value. */
int profile_out_end(struct profile_out *out);

#endif
