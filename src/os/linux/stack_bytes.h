/*
 * stack_bytes.h: reads numbers from a module's unwind tables, never past their end.
 */
#ifndef CALM_OS_LINUX_STACK_BYTES_H
#define CALM_OS_LINUX_STACK_BYTES_H

#include <string.h>

#include "base/attr.h"

/* A module's tables, which lie in the readable segment [start, end). */
struct stack_tables {
    uintptr_t start, end;
    uintptr_t header;         /* .eh_frame_hdr */
    uintptr_t code, code_end; /* the addresses that the tables cover */
};

/* at <= end. A read past the end returns 0 and sets is_bad. */
struct stack_bytes {
    uintptr_t at, end;
    bool is_bad;
};

/* Reads between two addresses of the tables; empty and bad if they lie outside. */
ALWAYS_INLINE struct stack_bytes stack_bytes_from(const struct stack_tables *tables, uintptr_t at,
                                                  uintptr_t end)
{
    bool is_inside = tables->start <= at && at <= end && end <= tables->end;
    return (struct stack_bytes){.at = at, .end = is_inside ? end : at, .is_bad = !is_inside};
}

ALWAYS_INLINE void stack_bytes_skip(struct stack_bytes *bytes, uint64_t count)
{
    if (unlikely(count > bytes->end - bytes->at)) {
        bytes->is_bad = true;
        bytes->at = bytes->end;
        return;
    }
    bytes->at += count;
}

/* `size` is 1, 2, 4 or 8. Both processors are little-endian. */
ALWAYS_INLINE uint64_t stack_bytes_unsigned(struct stack_bytes *bytes, unsigned size)
{
    uintptr_t at = bytes->at;
    uint64_t value = 0;
    stack_bytes_skip(bytes, size);
    if (likely(bytes->at - at == size))
        memcpy(&value, (const void *)at, size);
    return value;
}

ALWAYS_INLINE int64_t stack_bytes_signed(struct stack_bytes *bytes, unsigned size)
{
    uint64_t value = stack_bytes_unsigned(bytes, size);
    uint64_t sign = (uint64_t)1 << (size * 8 - 1);
    return (int64_t)((value ^ sign) - sign);
}

/* LEB128. Bits beyond 64 are dropped; the last byte gives the sign. */
static inline uint64_t stack_bytes_leb(struct stack_bytes *bytes, bool is_signed)
{
    uint64_t value = 0;
    unsigned shift = 0;
    for (;;) {
        uint64_t byte = stack_bytes_unsigned(bytes, 1);
        if (shift < 64)
            value |= (byte & 0x7f) << shift;
        shift += shift < 64 ? 7 : 0;
        if ((byte & 0x80) != 0 && !bytes->is_bad)
            continue;
        if (is_signed && (byte & 0x40) != 0 && shift < 64)
            value |= ~(uint64_t)0 << shift;
        return value;
    }
}

static inline uint64_t stack_bytes_uleb(struct stack_bytes *bytes)
{
    return stack_bytes_leb(bytes, false);
}

static inline int64_t stack_bytes_sleb(struct stack_bytes *bytes)
{
    return (int64_t)stack_bytes_leb(bytes, true);
}

#endif
