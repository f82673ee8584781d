/*
 * check.c: stops the program with one sentence. os makes the kernel calls.
 */
#include "base/check.h"

#include <stdarg.h>

#include "base/text.h"

void check_stop(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    check_stop_list("calmalloc: ", format, arguments);
}

void check_stop_list(const char *who, const char *format, va_list arguments)
{
    char buffer[512];
    struct text text = text_begin(buffer, sizeof buffer);
    text_add(&text, who);
    text_format_list(&text, format, arguments);
    text_add_char(&text, '\n');
    check_write(text.start, text.length);
    check_abort();
}
