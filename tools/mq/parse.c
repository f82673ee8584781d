/*
 * parse.c: requests are lines that announce what follows: *COUNT, then for each word $BYTES, the
 * bytes, and an end of line. Anything that does not begin with a star is an inline request: words
 * between blanks, up to the end of the line, in which quotes mean what they mean to Redis: "..."
 * with \n \r \t \b \a \xHH and \ before anything else, '...' with \' alone, and after the second
 * quote the word is over.
 */
#include "parse.h"

#include <string.h>

enum { HEADER_BYTES_MAX = 24 }; /* of a line with a mark and a number */

/* What has not been read yet. */
struct reader {
    const char *at;
    const char *end;
};

static enum parse_result wrong(struct request *out, const char *why)
{
    out->wrong = why;
    return PARSE_WRONG;
}

bool parse_integer(struct word word, int64_t *out)
{
    bool is_negative = word.bytes > 1 && word.start[0] == '-';
    const char *at = word.start + is_negative, *end = word.start + word.bytes;
    uint64_t number = 0, most = is_negative ? (uint64_t)INT64_MAX + 1 : INT64_MAX;
    if (at == end || (*at == '0' && word.bytes > 1))
        return false;
    for (; at < end; at++) {
        if (*at < '0' || *at > '9')
            return false;
        uint64_t digit = (uint64_t)(*at - '0');
        if (number > (most - digit) / 10)
            return false;
        number = number * 10 + digit;
    }
    *out = (int64_t)(is_negative ? -number : number);
    return true;
}

/* Reads MARK NUMBER end-of-line. */
static enum parse_result read_header(struct reader *reader, int64_t *number)
{
    size_t bytes = (size_t)(reader->end - reader->at);
    size_t looked = bytes < HEADER_BYTES_MAX ? bytes : HEADER_BYTES_MAX;
    if (bytes == 0)
        return PARSE_MORE;
    const char *end = memchr(reader->at, '\r', looked);
    if (end == NULL)
        return looked < HEADER_BYTES_MAX ? PARSE_MORE : PARSE_WRONG;
    struct word digits = {reader->at + 1, (size_t)(end - reader->at) - 1};
    if (end + 1 == reader->end)
        return PARSE_MORE;
    reader->at = end + 2;
    return end[1] == '\n' && parse_integer(digits, number) ? PARSE_DONE : PARSE_WRONG;
}

static enum parse_result read_word(struct reader *reader, const char *start, size_t most,
                                   struct request *out)
{
    int64_t number;
    char mark = reader->at < reader->end ? *reader->at : '$';
    enum parse_result result = read_header(reader, &number);
    if (result != PARSE_MORE && mark != '$') {
        out->wrong_mark = mark;
        return wrong(out, "expected '$'");
    }
    if (result == PARSE_WRONG || (result == PARSE_DONE && number < 0))
        return wrong(out, "invalid bulk length");
    if (result != PARSE_DONE)
        return result;
    size_t bytes = (size_t)number;
    if (bytes > most || (size_t)(reader->at - start) + bytes + 2 > most)
        return wrong(out, "the request is too long");
    if ((size_t)(reader->end - reader->at) < bytes + 2)
        return PARSE_MORE;
    out->words[out->count++] = (struct word){reader->at, bytes};
    reader->at += bytes + 2;
    bool is_ended = reader->at[-2] == '\r' && reader->at[-1] == '\n';
    return is_ended ? PARSE_DONE : wrong(out, "a word is longer than it says");
}

static enum parse_result read_words(const char *start, size_t bytes, size_t most,
                                    struct request *out)
{
    struct reader reader = {start, start + bytes};
    int64_t count;
    enum parse_result result = read_header(&reader, &count); /* below 1: nothing is asked */
    if (result == PARSE_WRONG || (result == PARSE_DONE && count > REQUEST_WORDS_MAX))
        return wrong(out, "invalid multibulk length");
    for (int64_t i = 0; result == PARSE_DONE && i < count; i++)
        result = read_word(&reader, start, most, out);
    if (result == PARSE_MORE && bytes >= most)
        return wrong(out, "the request is too long");
    out->bytes = (size_t)(reader.at - start);
    return result;
}

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static int hex_of(char c)
{
    const char *digits = "0123456789abcdef";
    const char *at = c == '\0' ? NULL : strchr(digits, c >= 'A' && c <= 'F' ? c - 'A' + 'a' : c);
    return at == NULL ? -1 : (int)(at - digits);
}

/* The character that a backslash in double quotes stands for with what follows it. */
static char read_escape(struct reader *reader)
{
    static const char names[] = "nrtba", meant[] = "\n\r\t\b\a";
    const char *at = reader->at++;
    if (*at == 'x' && reader->end - at > 2 && hex_of(at[1]) >= 0 && hex_of(at[2]) >= 0) {
        reader->at += 2;
        return (char)(hex_of(at[1]) * 16 + hex_of(at[2]));
    }
    const char *name = *at == '\0' ? NULL : strchr(names, *at);
    return name == NULL ? *at : meant[name - names];
}

/* Reads on behind an opening quote, to `to`, which moves on. False: the closing one is missing, or
 * a word goes on behind it. */
static bool read_quoted(struct reader *reader, char quote, char **to)
{
    while (reader->at < reader->end && *reader->at != quote) {
        char c = *reader->at++;
        bool is_escape = c == '\\' && reader->at < reader->end &&
                         (quote == '"' || *reader->at == quote);
        *(*to)++ = is_escape ? read_escape(reader) : c;
    }
    if (reader->at == reader->end)
        return false;
    reader->at++;
    return reader->at == reader->end || is_blank(*reader->at);
}

/* Reads a word of a line that is not blank where the reader stands. Words with quotes go to `to`,
 * which moves on. False: quotes are wrong. */
static bool read_inline_word(struct reader *reader, char **to, struct word *out)
{
    const char *begin = reader->at;
    while (reader->at < reader->end && !is_blank(*reader->at) && *reader->at != '"' &&
           *reader->at != '\'')
        reader->at++;
    size_t plain = (size_t)(reader->at - begin);
    *out = (struct word){begin, plain};
    if (reader->at == reader->end || is_blank(*reader->at))
        return true;
    out->start = *to;
    memcpy(*to, begin, plain);
    *to += plain;
    char quote = *reader->at++;
    bool is_sound = read_quoted(reader, quote, to);
    out->bytes = (size_t)(*to - out->start);
    return is_sound;
}

static enum parse_result read_line(const char *start, size_t bytes, size_t most,
                                   struct request *out)
{
    size_t limit = most < INLINE_BYTES_MAX ? most : (size_t)INLINE_BYTES_MAX;
    size_t looked = bytes < limit ? bytes : limit;
    const char *end = memchr(start, '\n', looked);
    if (end == NULL)
        return looked < limit ? PARSE_MORE : wrong(out, "too big inline request");
    struct reader reader = {start, end};
    char *unquoted = out->unquoted;
    for (;;) {
        while (reader.at < end && is_blank(*reader.at))
            reader.at++;
        if (reader.at == end)
            break;
        if (out->count == REQUEST_WORDS_MAX)
            return wrong(out, "too many words");
        if (!read_inline_word(&reader, &unquoted, &out->words[out->count++]))
            return wrong(out, "unbalanced quotes in request");
    }
    out->bytes = (size_t)(end - start) + 1;
    return PARSE_DONE;
}

enum parse_result parse_request(const char *start, size_t bytes, size_t most, struct request *out)
{
    out->count = 0;
    out->bytes = 0;
    out->wrong = NULL;
    out->wrong_mark = '\0';
    if (bytes == 0)
        return PARSE_MORE;
    return start[0] == '*' ? read_words(start, bytes, most, out)
                           : read_line(start, bytes, most, out);
}
