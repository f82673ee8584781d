/*
 * reply.c: replies, byte by byte as redis-server writes them.
 */
#include "reply.h"

#include <stdarg.h>
#include <stdio.h>

void reply_bytes(struct session *session, const char *bytes, size_t count)
{
    memcpy(session->reply + session->reply_bytes, bytes, count);
    session->reply_bytes += count;
}

void reply(struct session *session, const char *line)
{
    reply_bytes(session, line, strlen(line));
}

void reply_header(struct session *session, char mark, uint64_t number)
{
    char digits[NUMBER_BYTES_MAX];
    size_t at = sizeof digits;
    digits[--at] = '\n';
    digits[--at] = '\r';
    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    digits[--at] = mark;
    reply_bytes(session, digits + at, sizeof digits - at);
}

void reply_word(struct session *session, struct word word)
{
    reply_header(session, '$', word.bytes);
    reply_bytes(session, word.start, word.bytes);
    reply(session, "\r\n");
}

void reply_text(struct session *session, const char *text)
{
    reply_word(session, (struct word){text, strlen(text)});
}

void reply_null(struct session *session)
{
    reply(session, session->is_resp3 ? "_\r\n" : "$-1\r\n");
}

void reply_null_list(struct session *session)
{
    reply(session, session->is_resp3 ? "_\r\n" : "*-1\r\n");
}

void reply_map(struct session *session, uint64_t pairs)
{
    if (session->is_resp3)
        reply_header(session, '%', pairs);
    else
        reply_header(session, '*', pairs * 2);
}

void reply_verbatim(struct session *session, struct word word)
{
    static const char kind[] = "txt:";
    if (!session->is_resp3) {
        reply_word(session, word);
        return;
    }
    reply_header(session, '=', word.bytes + strlen(kind));
    reply(session, kind);
    reply_bytes(session, word.start, word.bytes);
    reply(session, "\r\n");
}

void complain(struct session *session, const char *format, ...)
{
    char line[REPLY_SMALL];
    va_list values;
    va_start(values, format);
    int bytes = vsnprintf(line, sizeof line - 2, format, values);
    va_end(values);
    size_t length = (size_t)bytes < sizeof line - 2 ? (size_t)bytes : sizeof line - 3;
    reply_bytes(session, line, length);
    reply(session, "\r\n");
}

void show(struct word word, char shown[SHOWN_BYTES_MAX])
{
    size_t bytes = word.bytes < SHOWN_BYTES_MAX - 1 ? word.bytes : (size_t)SHOWN_BYTES_MAX - 1;
    for (size_t i = 0; i < bytes; i++)
        shown[i] = (char)(word.start[i] >= ' ' && word.start[i] <= '~'     ? word.start[i]
                          : word.start[i] == '\r' || word.start[i] == '\n' ? ' '
                                                                           : '?');
    shown[bytes] = '\0';
}
