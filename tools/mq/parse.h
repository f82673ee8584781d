/*
 * parse.h: finds one request of the Redis protocol (RESP2, or an inline line) at the start of some
 * bytes.
 *
 * Words point into the bytes; only those of an inline line that have quotes are copied, without
 * them, into the request. Nothing is kept between calls: with more bytes the caller asks again from
 * the request's start.
 */
#ifndef CALM_MQ_PARSE_H
#define CALM_MQ_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    REQUEST_WORDS_MAX = 1024,
    INLINE_BYTES_MAX = 4096, /* of an inline request, its end included */
};

struct word {
    const char *start;
    size_t bytes;
};

struct request {
    size_t count; /* words; 0: an empty request, to be skipped */
    size_t bytes; /* that the request takes                    */
    const char *wrong;
    char wrong_mark; /* not 0: what is there in place of a $ */
    struct word words[REQUEST_WORDS_MAX];
    char unquoted[INLINE_BYTES_MAX]; /* words that had quotes */
};

enum parse_result {
    PARSE_DONE,
    PARSE_MORE, /* its end has not come yet                                              */
    PARSE_WRONG /* `wrong` says why; where the next request begins cannot be known       */
};

/* Reads the request at `start`. One that takes more than `most` bytes is wrong. */
enum parse_result parse_request(const char *start, size_t bytes, size_t most, struct request *out);

/* Reads a decimal number as redis-server does: no blanks, no plus, no zeros before other digits. */
bool parse_integer(struct word word, int64_t *out);

#endif
