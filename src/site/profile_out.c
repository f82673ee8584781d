/*
 * profile_out.c: buffers, wraps in gzip where asked, and writes through os_write().
 *
 * The gzip is not compressed: each buffer becomes one stored block of deflate. A real compressor
 * needs hundreds of KiB of memory, and time in a program that may be about to die; users can
 * recompress profiles.
 *
 * Owner: the caller of profile_write(), in memory of its own.
 * Design: docs/design/profile-formats.md
 */
#include "site/profile_out.h"

#include "base/bits.h"
#include "base/text.h"
#include "os/os.h"

_Static_assert(PROFILE_OUT_BYTES <= 65535, "the length of a stored block has 16 bits");

/* CRC-32 with the polynomial 0xEDB88320, four bits at a time: `step` has the effect of four zero
 * bits on each remainder. */
static uint32_t crc_add(uint32_t crc, const char *bytes, size_t count)
{
    static const uint32_t step[16] = {
        0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4,
        0x4db26158, 0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
        0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c,
    };
    crc = ~crc;
    for (size_t i = 0; i < count; i++) {
        crc ^= (unsigned char)bytes[i];
        crc = crc >> 4 ^ step[crc & 15];
        crc = crc >> 4 ^ step[crc & 15];
    }
    return ~crc;
}

static void put_little_endian(char *to, uint32_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        to[i] = (char)(value >> 8 * i & 0xff);
}

static void write_out(struct profile_out *out, const char *bytes, size_t count)
{
    if (out->error == 0)
        out->error = os_write(out->fd, bytes, count);
}

static char *contents(struct profile_out *out)
{
    return out->buffer + PROFILE_OUT_BLOCK_HEADER;
}

static void flush(struct profile_out *out, bool is_last)
{
    uint32_t count = (uint32_t)out->used;
    if (out->is_gzip) {
        out->crc = crc_add(out->crc, contents(out), count);
        out->length += count;
        out->buffer[0] = is_last; /* block type 0: stored */
        put_little_endian(out->buffer + 1, count, 2);
        put_little_endian(out->buffer + 3, ~count, 2);
        write_out(out, out->buffer, PROFILE_OUT_BLOCK_HEADER + count);
    } else if (count > 0) {
        write_out(out, contents(out), count);
    }
    out->used = 0;
}

void profile_out_begin(struct profile_out *out, int fd, bool is_gzip)
{
    /* Magic, deflate, no flags, no time, no level said, made on Unix. */
    static const char gzip_header[10] = {0x1f, (char)0x8b, 8, 0, 0, 0, 0, 0, 0, 3};
    out->fd = fd;
    out->error = 0;
    out->is_gzip = is_gzip;
    out->crc = 0;
    out->length = 0;
    out->used = 0;
    if (is_gzip)
        write_out(out, gzip_header, sizeof gzip_header);
}

void profile_out_bytes(struct profile_out *out, const void *bytes, size_t count)
{
    const char *from = (const char *)bytes;
    while (count > 0) {
        size_t part = size_min(count, PROFILE_OUT_BYTES - out->used);
        for (size_t i = 0; i < part; i++)
            contents(out)[out->used + i] = from[i];
        out->used += part;
        from += part;
        count -= part;
        if (out->used == PROFILE_OUT_BYTES)
            flush(out, false);
    }
}

void profile_out_text(struct profile_out *out, const char *words)
{
    size_t length = 0;
    while (words[length] != '\0')
        length++;
    profile_out_bytes(out, words, length);
}

void profile_out_number(struct profile_out *out, uint64_t value)
{
    char digits[24];
    struct text text = text_begin(digits, sizeof digits);
    text_add_number(&text, value);
    profile_out_bytes(out, text.start, text.length);
}

void profile_out_hex(struct profile_out *out, uint64_t value)
{
    char digits[24];
    struct text text = text_begin(digits, sizeof digits);
    text_add(&text, "0x");
    text_add_hex(&text, value);
    profile_out_bytes(out, text.start, text.length);
}

int profile_out_end(struct profile_out *out)
{
    flush(out, true);
    if (out->is_gzip) {
        char trailer[8];
        put_little_endian(trailer, out->crc, 4);
        put_little_endian(trailer + 4, out->length, 4);
        write_out(out, trailer, sizeof trailer);
    }
    return -out->error;
}
