/*
 * options_fuzz.c: any bytes as CALM_OPTIONS: nothing is read or written out of bounds, values stay
 * in their ranges, and complaints are whole printable lines, one for each part that was not
 * understood.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "front/options.h"
#include "target.h"

#define INPUT(words) {words, sizeof words - 1}
const struct fuzz_input fuzz_corpus[] = {
    INPUT("sites=hash,cohorts=64,misuse=count,purge_delay_ms=10"),
    INPUT("cohorts=0,cohorts=18446744073709551616,cohorts=-1,cohorts=,cohorts"),
    INPUT("=,==,,,sites=of,sites=offf,sites=off|hash,unknown=1,\xff\x01\n=\x7f"),
    INPUT("purge_delay_ms=60001,cache_kb=16,report_fd=1048575,stats=text"),
};
const size_t fuzz_corpus_count = sizeof fuzz_corpus / sizeof fuzz_corpus[0];

static void fail(const char *sentence)
{
    fprintf(stderr, "options: %s\n", sentence);
    abort();
}

static uint64_t words_in(const char *words)
{
    uint64_t count = 1;
    for (; *words != '\0'; words++)
        count += *words == '|';
    return count;
}

static void check_values(void)
{
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        uint64_t value = option_value((enum option_index)i);
        uint64_t read = value + 1;
        if (option_read(options[i].name, &read) != OPTION_FINE || read != value)
            fail("a value reads differently by its name");
        bool is_fine = options[i].words != NULL
                           ? value < words_in(options[i].words)
                           : value >= options[i].minimum && value <= options[i].maximum;
        if (!is_fine)
            fail("a value is out of its range");
    }
}

/* How many parts of the line no option can take, counted the slow way. */
static size_t parts_in(const char *line)
{
    size_t parts = 0;
    for (const char *at = line; *at != '\0';) {
        size_t length = strcspn(at, ",");
        parts += length > 0;
        at += length + (at[length] == ',');
    }
    return parts;
}

static void check_complaints(const struct text *complaints, const char *line)
{
    size_t lines = 0;
    if (strlen(complaints->start) != complaints->length ||
        complaints->length >= complaints->capacity)
        fail("the complaints' length is wrong");
    for (size_t i = 0; i < complaints->length; i++) {
        char c = complaints->start[i];
        lines += c == '\n';
        if ((c < ' ' || c > '~') && c != '\n')
            fail("a complaint holds a byte that is not printable");
    }
    if (lines > parts_in(line))
        fail("more complaints than parts");
    if (complaints->length > 0 && !complaints->is_cut &&
        complaints->start[complaints->length - 1] != '\n')
        fail("the last complaint is no whole line");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *line = malloc(size +
                        1); /* of exactly its size, so that a sanitizer sees a step too far */
    if (size > 0)
        memcpy(line, data, size);
    line[size] = '\0';
    size_t capacity = size > 0 ? (size_t)data[0] * 8 + 1 : 1;
    char *buffer = malloc(capacity);
    struct text complaints = text_begin(buffer, capacity);
    options_parse(line, &complaints);
    check_values();
    check_complaints(&complaints, line);
    free(buffer);
    free(line);
    char none[1];
    struct text unheard = text_begin(none, sizeof none);
    options_parse("stats=off,report_fd=0", &unheard); /* this program's own end stays quiet */
    return 0;
}
