/*
 * options.c: parses and stores options. Allocates nothing; runs before the first allocation.
 *
 * Owner: the start writes all values; later each value is read and written as one word.
 */
#include "front/options.h"

const struct option options[OPTION_COUNT] = {
#define NUMBER(name, standard, minimum, maximum, when, help)                                       \
    {#name, NULL, help, standard, minimum, maximum, when},
#define CHOICE(name, standard, words, when, help)                                                  \
    {#name, words, help, standard, 0, UINT64_MAX, when},
#include "front/options.def"
#undef NUMBER
#undef CHOICE
};

static _Atomic uint64_t values[OPTION_COUNT] = {
#define NUMBER(name, standard, minimum, maximum, when, help) standard,
#define CHOICE(name, standard, words, when, help) standard,
#include "front/options.def"
#undef NUMBER
#undef CHOICE
};

/* Part of the line, not terminated. */
struct piece {
    const char *start;
    size_t length;
};

static bool piece_is(struct piece piece, const char *word, size_t word_length)
{
    if (piece.length != word_length)
        return false;
    for (size_t i = 0; i < word_length; i++)
        if (piece.start[i] != word[i])
            return false;
    return true;
}

static size_t length_until(const char *words, char stop)
{
    size_t length = 0;
    while (words[length] != '\0' && words[length] != stop)
        length++;
    return length;
}

static uint64_t word_count(const char *words)
{
    uint64_t count = 1;
    for (; *words != '\0'; words++)
        count += *words == '|';
    return count;
}

static bool read_number(struct piece piece, uint64_t *out)
{
    uint64_t number = 0;
    for (size_t i = 0; i < piece.length; i++) {
        char c = piece.start[i];
        if (c < '0' || c > '9' || number > (UINT64_MAX - 9) / 10)
            return false;
        number = number * 10 + (uint64_t)(c - '0');
    }
    *out = number;
    return piece.length > 0;
}

static bool read_word(struct piece piece, const char *words, uint64_t *out)
{
    for (uint64_t index = 0;; index++) {
        size_t length = length_until(words, '|');
        if (piece_is(piece, words, length)) {
            *out = index;
            return true;
        }
        if (words[length] == '\0')
            return false;
        words += length + 1;
    }
}

static bool is_in_range(const struct option *option, uint64_t value)
{
    if (option->words != NULL)
        return value < word_count(option->words);
    return value >= option->minimum && value <= option->maximum;
}

static const struct option *find(struct piece name)
{
    for (size_t i = 0; i < OPTION_COUNT; i++)
        if (piece_is(name, options[i].name, length_until(options[i].name, '\0')))
            return &options[i];
    return NULL;
}

static void add_piece(struct text *text, struct piece piece)
{
    for (size_t i = 0; i < piece.length; i++)
        text_add_char(text, piece.start[i] >= ' ' && piece.start[i] <= '~' ? piece.start[i] : '?');
}

static void complain_of_value(struct text *complaints, const struct option *option,
                              struct piece value)
{
    text_format(complaints, "calmalloc: option %s stays, as it cannot be \"", option->name);
    add_piece(complaints, value);
    if (option->words != NULL) {
        text_format(complaints, "\"; it is one of %s\n", option->words);
        return;
    }
    text_add(complaints, "\"; it is a number from ");
    text_add_number(complaints, option->minimum);
    text_add(complaints, " to ");
    text_add_number(complaints, option->maximum);
    text_add_char(complaints, '\n');
}

static void parse_one(struct piece part, struct text *complaints)
{
    struct piece name = {part.start, 0};
    while (name.length < part.length && part.start[name.length] != '=')
        name.length++;
    size_t skipped = name.length < part.length ? name.length + 1 : name.length;
    struct piece value = {part.start + skipped, part.length - skipped};
    const struct option *option = find(name);
    if (option == NULL) {
        text_add(complaints, "calmalloc: \"");
        add_piece(complaints, name);
        text_add(complaints, "\" in CALM_OPTIONS is ignored, as there is no such option; "
                             "`./calm options` lists them, NAME=VALUE,NAME=VALUE sets them\n");
        return;
    }
    uint64_t number;
    bool is_read = read_number(value, &number) ||
                   (option->words != NULL && read_word(value, option->words, &number));
    if (is_read && is_in_range(option, number))
        store(&values[option - options], number, RELAXED);
    else
        complain_of_value(complaints, option, value);
}

static struct piece without_blanks(struct piece part)
{
    while (part.length > 0 && *part.start == ' ')
        part = (struct piece){part.start + 1, part.length - 1};
    while (part.length > 0 && part.start[part.length - 1] == ' ')
        part.length--;
    return part;
}

void options_parse(const char *line, struct text *complaints)
{
    while (*line != '\0') {
        size_t length = length_until(line, ',');
        struct piece part = without_blanks((struct piece){line, length});
        if (part.length > 0)
            parse_one(part, complaints);
        line += length + (line[length] == ',');
    }
}

uint64_t option_value(enum option_index index)
{
    return load(&values[index], RELAXED);
}

static const struct option *find_name(const char *name)
{
    return find((struct piece){name, length_until(name, '\0')});
}

enum option_error option_read(const char *name, uint64_t *out)
{
    const struct option *option = find_name(name);
    if (option == NULL)
        return OPTION_UNKNOWN;
    *out = load(&values[option - options], RELAXED);
    return OPTION_FINE;
}

enum option_error option_write(const char *name, uint64_t value)
{
    const struct option *option = find_name(name);
    if (option == NULL)
        return OPTION_UNKNOWN;
    if (option->when != ANYTIME)
        return OPTION_FIXED;
    if (!is_in_range(option, value))
        return OPTION_BAD_VALUE;
    store(&values[option - options], value, RELAXED);
    return OPTION_FINE;
}
