/*
 * parse.c: requests are lines that announce what follows: *COUNT, then for each word $BYTES, the
 * bytes, and an end of line. Anything that does not begin with a star is an inline request: words
 * between blanks, up to the end of the line.
 */
#include "parse.h"

#include <stdbool.h>
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

int parse_digits(struct word word, uint64_t *out)
{
    uint64_t number = 0;
    if (word.bytes == 0 || word.bytes > 18)
        return -1;
    for (size_t i = 0; i < word.bytes; i++) {
        if (word.start[i] < '0' || word.start[i] > '9')
            return -1;
        number = number * 10 + (uint64_t)(word.start[i] - '0');
    }
    *out = number;
    return 0;
}

/* Reads MARK NUMBER end-of-line. A number below 0 becomes 0 where the mark is a star, as a client
 * may send it for nothing. */
static enum parse_result read_header(struct reader *reader, char mark, uint64_t *number)
{
    size_t bytes = (size_t)(reader->end - reader->at);
    size_t looked = bytes < HEADER_BYTES_MAX ? bytes : HEADER_BYTES_MAX;
    if (bytes == 0)
        return PARSE_MORE;
    if (reader->at[0] != mark)
        return PARSE_WRONG;
    const char *end = memchr(reader->at, '\r', looked);
    if (end == NULL)
        return looked < HEADER_BYTES_MAX ? PARSE_MORE : PARSE_WRONG;
    struct word digits = {reader->at + 1, (size_t)(end - reader->at) - 1};
    bool is_negative = digits.bytes > 1 && digits.start[0] == '-' && mark == '*';
    digits.start += is_negative;
    digits.bytes -= is_negative;
    if (parse_digits(digits, number) != 0)
        return PARSE_WRONG;
    *number = is_negative ? 0 : *number;
    if (end + 1 == reader->end)
        return PARSE_MORE;
    reader->at = end + 2;
    return end[1] == '\n' ? PARSE_DONE : PARSE_WRONG;
}

static enum parse_result read_word(struct reader *reader, const char *start, size_t most,
                                   struct request *out)
{
    uint64_t bytes;
    enum parse_result result = read_header(reader, '$', &bytes);
    if (result == PARSE_WRONG)
        return wrong(out, "expected '$' and the length of a word");
    if (result != PARSE_DONE)
        return result;
    if (bytes > most || (size_t)(reader->at - start) + bytes + 2 > most)
        return wrong(out, "the request is too long");
    if ((size_t)(reader->end - reader->at) < bytes + 2)
        return PARSE_MORE;
    out->words[out->count++] = (struct word){reader->at, (size_t)bytes};
    reader->at += bytes + 2;
    bool is_ended = reader->at[-2] == '\r' && reader->at[-1] == '\n';
    return is_ended ? PARSE_DONE : wrong(out, "a word is longer than it says");
}

static enum parse_result read_words(const char *start, size_t bytes, size_t most,
                                    struct request *out)
{
    struct reader reader = {start, start + bytes};
    uint64_t count;
    enum parse_result result = read_header(&reader, '*', &count);
    if (result == PARSE_WRONG || (result == PARSE_DONE && count > REQUEST_WORDS_MAX))
        return wrong(out, "invalid multibulk length");
    for (uint64_t i = 0; result == PARSE_DONE && i < count; i++)
        result = read_word(&reader, start, most, out);
    if (result == PARSE_MORE && bytes >= most)
        return wrong(out, "the request is too long");
    out->bytes = (size_t)(reader.at - start);
    return result;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static enum parse_result read_line(const char *start, size_t bytes, size_t most,
                                   struct request *out)
{
    size_t limit = most < INLINE_BYTES_MAX ? most : (size_t)INLINE_BYTES_MAX;
    size_t looked = bytes < limit ? bytes : limit;
    const char *end = memchr(start, '\n', looked);
    if (end == NULL)
        return looked < limit ? PARSE_MORE : wrong(out, "too big inline request");
    for (const char *at = start; at < end;) {
        const char *begin = at;
        while (at < end && !is_blank(*at))
            at++;
        if (at > begin && out->count == REQUEST_WORDS_MAX)
            return wrong(out, "too many words");
        if (at > begin)
            out->words[out->count++] = (struct word){begin, (size_t)(at - begin)};
        at += at < end;
    }
    out->bytes = (size_t)(end - start) + 1;
    return PARSE_DONE;
}

enum parse_result parse_request(const char *start, size_t bytes, size_t most, struct request *out)
{
    out->count = 0;
    out->bytes = 0;
    out->wrong = NULL;
    if (bytes == 0)
        return PARSE_MORE;
    return start[0] == '*' ? read_words(start, bytes, most, out)
                           : read_line(start, bytes, most, out);
}
