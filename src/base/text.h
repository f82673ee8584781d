/*
 * text.h: builds short texts in the caller's memory, for messages and reports.
 *
 * Never allocates, unlike the C library's printf. Text that does not fit is cut, as `is_cut` says,
 * unless `on_full` makes room.
 */
#ifndef CALM_BASE_TEXT_H
#define CALM_BASE_TEXT_H

#include <stdarg.h>

#include "base/attr.h"

struct text {
    char *start;
    size_t capacity; /* bytes at start, the closing NUL included */
    size_t length;   /* bytes written, without the NUL */
    bool is_cut;
    void (*on_full)(struct text *filled); /* empties the text: length is 0 */
};

/* Whether two strings are equal, without a call to the C library. */
ALWAYS_INLINE bool text_is_same(const char *left, const char *right)
{
    for (; *left != '\0' && *left == *right; left++)
        right++;
    return *left == *right;
}

/* Begins an empty text in `buffer`. Pre: capacity > 0. */
struct text text_begin(char *buffer, size_t capacity);

void text_add_char(struct text *text, char c);
void text_add(struct text *text, const char *words);
void text_add_number(struct text *text, uint64_t value);
void text_add_hex(struct text *text, uint64_t value);

/* Adds a member of a JSON object, after a comma if needed. */
void text_add_member(struct text *text, const char *name, uint64_t value);

/* Adds `value` right-aligned in `width` columns. */
void text_add_column(struct text *text, uint64_t value, size_t width);

/* Supports %s, %u (unsigned), %zu, %p, %% and nothing else. */
void text_format(struct text *text, const char *format, ...) PRINTF_LIKE(2, 3);
void text_format_list(struct text *text, const char *format, va_list arguments) PRINTF_LIKE(2, 0);

#endif
