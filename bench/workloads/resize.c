/*
 * resize SEED MODE BUFFERS LEAST MOST STEPS: BUFFERS buffers that change their length by realloc,
 * STEPS times one at random. MODE 0: to a length of LEAST to MOST bytes, as likely from one
 * doubling as from another. MODE 1: it is freed, and another takes its place that grows from LEAST
 * to MOST, to twice as much each time, and is cut down to LEAST. Every byte that a buffer gains is
 * written; what it keeps is compared on each page.
 *
 * Measures what growing and shrinking in place leave behind: how much is resident for each byte
 * that is live (`resident_over_live`, the mean of samples), page faults, and CPU time, copies
 * included. A buffer cut down where it lies may hold what it had before. Does not measure buffers
 * that only grow (grow_steps, grow_many, vectors).
 */
#include "written.h"

enum { BUFFERS_MAX = 4096 };

static struct buffer {
    unsigned char *bytes;
    uint32_t length;
    uint32_t stamp;
} buffers[BUFFERS_MAX];
static uint64_t live_bytes, check;

/* On each page of the buffer from `from` on, behind whose last byte nothing is compared. */
static void write_from(struct buffer *buffer, uint32_t from)
{
    memset(buffer->bytes + from, (unsigned char)buffer->stamp, buffer->length - from);
    for (uint32_t at = (from + SLOT_PAGE - 1) & -(uint32_t)SLOT_PAGE; at < buffer->length;
         at += SLOT_PAGE)
        memcpy(buffer->bytes + at, &buffer->stamp, sizeof buffer->stamp);
}

static void compare(const struct buffer *buffer, uint32_t length)
{
    uint32_t found;
    for (uint32_t at = 0; at < length; at += SLOT_PAGE) {
        memcpy(&found, buffer->bytes + at, sizeof found);
        if (found != buffer->stamp)
            fail("realloc lost byte %u of %u", at, length);
    }
    if (buffer->bytes[length - 1] != (unsigned char)buffer->stamp)
        fail("realloc lost byte %u of %u", length - 1, length);
}

static void change(struct buffer *buffer, uint32_t length)
{
    uint32_t before = buffer->length, kept = before < length ? before : length;
    unsigned char *bytes = realloc(buffer->bytes, length);
    if (bytes == NULL)
        fail("realloc to %u returned NULL", length);
    buffer->bytes = bytes;
    buffer->length = length;
    if (kept > 0)
        compare(buffer, kept);
    if (length > kept)
        write_from(buffer, kept);
    live_bytes += (uint64_t)length - before;
}

static void drop(struct buffer *buffer)
{
    if (buffer->bytes == NULL)
        return;
    compare(buffer, buffer->length);
    check = check * 31 + buffer->stamp;
    live_bytes -= buffer->length;
    free(buffer->bytes);
    *buffer = (struct buffer){0};
}

static void grow_and_cut(struct buffer *buffer, uint32_t least, uint32_t most)
{
    for (uint64_t length = least; length <= most; length *= 2)
        change(buffer, (uint32_t)length);
    change(buffer, least);
}

int main(int argc, char **argv)
{
    uint64_t random = random_stream(argument(argc, argv, 1, "seed"), 0);
    uint64_t mode = argument(argc, argv, 2, "mode");
    uint32_t count = (uint32_t)argument(argc, argv, 3, "buffers");
    uint32_t least = (uint32_t)argument(argc, argv, 4, "least");
    uint32_t most = (uint32_t)argument(argc, argv, 5, "most");
    uint64_t steps = argument(argc, argv, 6, "steps");
    if (mode > 1 || count == 0 || count > BUFFERS_MAX || least < 16 || least % 16 != 0 ||
        most < least || most > UINT32_MAX / 2)
        fail("mode 0 or 1, 1 to %d buffers, and a least length that is a multiple of 16",
             BUFFERS_MAX);
    held_begin();
    for (uint64_t i = 0; i < count + steps; i++) {
        struct buffer *buffer = &buffers[i < count ? i : random_below(&random, count)];
        if (mode == 1)
            drop(buffer);
        if (buffer->bytes == NULL)
            buffer->stamp = (uint32_t)(next_random(&random) >> 32);
        if (mode == 1)
            grow_and_cut(buffer, least, most);
        else
            change(buffer, draw_doubling(&random, least, most));
        if (i >= count)
            held_step(i - count, steps, live_bytes);
    }
    held_end();
    for (uint32_t i = 0; i < count; i++)
        drop(&buffers[i]);
    held_result();
    return result_print(check);
}
