/*
 * text.c: bounded text without allocation; see text.h.
 *
 * Owner: the caller, one thread at a time for each text.
 */
#include "base/text.h"

struct text text_begin(char *buffer, size_t capacity)
{
    buffer[0] = '\0';
    return (struct text){.start = buffer, .capacity = capacity};
}

void text_add_char(struct text *text, char c)
{
    if (text->length + 1 >= text->capacity && text->on_full != NULL)
        text->on_full(text);
    if (text->length + 1 >= text->capacity) {
        text->is_cut = true;
        return;
    }
    text->start[text->length++] = c;
    text->start[text->length] = '\0';
}

void text_add(struct text *text, const char *words)
{
    while (*words != '\0')
        text_add_char(text, *words++);
}

static void add_digits(struct text *text, uint64_t value, unsigned base, size_t width)
{
    char digits[20];
    size_t count = 0;
    do {
        digits[count++] = "0123456789abcdef"[value % base];
        value /= base;
    } while (value != 0);
    for (size_t column = count; column < width; column++)
        text_add_char(text, ' ');
    while (count > 0)
        text_add_char(text, digits[--count]);
}

void text_add_number(struct text *text, uint64_t value)
{
    add_digits(text, value, 10, 0);
}

void text_add_hex(struct text *text, uint64_t value)
{
    add_digits(text, value, 16, 0);
}

void text_add_member(struct text *text, const char *name, uint64_t value)
{
    if (text->length > 0 && text->start[text->length - 1] != '{')
        text_add_char(text, ',');
    text_format(text, "\"%s\":", name);
    text_add_number(text, value);
}

void text_add_column(struct text *text, uint64_t value, size_t width)
{
    add_digits(text, value, 10, width);
}

void text_format_list(struct text *text, const char *format, va_list arguments)
{
    for (; *format != '\0'; format++) {
        if (*format != '%') {
            text_add_char(text, *format);
            continue;
        }
        format++;
        switch (*format) {
        case 's': text_add(text, va_arg(arguments, const char *)); break;
        case 'u': text_add_number(text, va_arg(arguments, unsigned)); break;
        case 'z':
            format++; /* always followed by u */
            text_add_number(text, va_arg(arguments, size_t));
            break;
        case 'p':
            text_add(text, "0x");
            text_add_hex(text, (uintptr_t)va_arg(arguments, void *));
            break;
        default: text_add_char(text, *format); break;
        }
    }
}

void text_format(struct text *text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    text_format_list(text, format, arguments);
    va_end(arguments);
}
