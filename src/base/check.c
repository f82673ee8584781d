/*
 * check.c: stops the program with one sentence. The kernel's part, writing and dying, belongs to
 * os.
 */
#include "base/check.h"

#include <stdarg.h>

#include "base/text.h"

void check_stop(const char *format, ...)
{
    char buffer[512];
    struct text text = text_begin(buffer, sizeof buffer);
    text_add(&text, "calmalloc: ");
    va_list arguments;
    va_start(arguments, format);
    text_format_list(&text, format, arguments);
    va_end(arguments);
    text_add_char(&text, '\n');
    check_write(text.start, text.length);
    check_abort();
}
