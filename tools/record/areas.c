/*
 * areas.c: reads smaps without asking for memory.
 */
#define _GNU_SOURCE
#include "areas.h"
#include "codec.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { TEXT_BYTES = 1 << 16 };

static const size_t marks_bytes = (size_t)1 << (ADDRESS_BITS - AREA_SHIFT - 3);

bool areas_open(struct areas *areas)
{
    areas->marks = table_map(marks_bytes);
    areas->text = table_map(TEXT_BYTES);
    return areas->marks != NULL && areas->text != NULL;
}

void areas_close(struct areas *areas)
{
    table_unmap(areas->marks, marks_bytes);
    table_unmap(areas->text, TEXT_BYTES);
}

static bool is_marked(const struct areas *areas, uint64_t start, uint64_t end)
{
    uint64_t last = (end - 1) >> AREA_SHIFT;
    for (uint64_t at = start >> AREA_SHIFT; at <= last;) {
        if (at % 64 == 0 && last - at >= 64 && areas->marks[at / 64] == 0) {
            at += 64;
            continue;
        }
        if (areas->marks[at / 64] >> at % 64 & 1)
            return true;
        at++;
    }
    return false;
}

static uint64_t hex(const char **at)
{
    uint64_t number = 0;
    for (;; (*at)++) {
        char c = **at;
        if (c >= '0' && c <= '9')
            number = number << 4 | (unsigned)(c - '0');
        else if (c >= 'a' && c <= 'f')
            number = number << 4 | (unsigned)(c - 'a' + 10);
        else
            return number;
    }
}

struct mapping {
    uint64_t start, end;
    bool is_heap; /* by its kind: private, of no file, no stack */
};

/* A mapping's first line: "start-end rwxp offset device inode   name". */
static bool read_mapping(const char *line, struct mapping *out)
{
    const char *at = line;
    uint64_t start = hex(&at);
    if (at == line || *at != '-')
        return false;
    at++;
    uint64_t end = hex(&at);
    if (*at != ' ' || strlen(at) < 6)
        return false;
    bool is_private = at[4] == 'p';
    at += 6;
    for (unsigned field = 0; field < 2; field++) { /* offset and device */
        at += strcspn(at, " ");
        at += strspn(at, " ");
    }
    bool has_file = *at != '0';
    at += strcspn(at, " ");
    at += strspn(at, " ");
    bool is_named = *at != 0 && strncmp(at, "[heap]", 6) != 0 && strncmp(at, "[anon:", 6) != 0;
    *out = (struct mapping){start, end, is_private && !has_file && !is_named};
    return true;
}

static void read_line(struct areas *areas, const char *line, struct mapping *now, uint64_t *sum)
{
    if (strncmp(line, "Rss:", 4) == 0) {
        uint64_t kib = 0;
        for (const char *at = line + 4; *at != 0; at++)
            if (*at >= '0' && *at <= '9')
                kib = kib * 10 + (unsigned)(*at - '0');
        if (now->is_heap && kib > 0 && now->end <= UINT64_C(1) << ADDRESS_BITS &&
            is_marked(areas, now->start, now->end))
            *sum += kib * 1024;
    } else if ((line[0] >= '0' && line[0] <= '9') || (line[0] >= 'a' && line[0] <= 'f')) {
        read_mapping(line, now);
    }
}

bool areas_resident(struct areas *areas, const char *path, uint64_t *out_bytes)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    struct mapping now = {0};
    uint64_t sum = 0;
    size_t kept = 0;
    bool has_any = false;
    for (;;) {
        ssize_t got = read(fd, areas->text + kept, TEXT_BYTES - 1 - kept);
        if (got <= 0)
            break;
        has_any = true;
        char *line = areas->text, *end = areas->text + kept + got;
        for (char *stop; (stop = memchr(line, '\n', (size_t)(end - line))) != NULL;
             line = stop + 1) {
            *stop = 0;
            read_line(areas, line, &now, &sum);
        }
        kept = (size_t)(end - line);
        if (kept == TEXT_BYTES - 1)
            kept = 0; /* a name longer than any line we need */
        memmove(areas->text, line, kept);
    }
    close(fd);
    *out_bytes = sum;
    return has_any;
}
