/*
 * options.h: the user's options, read from CALM_OPTIONS="name=value,name=value".
 *
 * options.def is the list. This struct, the parser, `calm options` and the tests come from it.
 */
#ifndef CALM_FRONT_OPTIONS_H
#define CALM_FRONT_OPTIONS_H

#include "base/atomic.h"
#include "base/attr.h"
#include "base/text.h"

enum option_when { START, ANYTIME };

struct option {
    const char *name;
    const char *words; /* the choices, separated by '|'; NULL: a number */
    const char *help;
    uint64_t standard; /* the default */
    uint64_t minimum;
    uint64_t maximum;
    enum option_when when;
};

enum option_index {
#define NUMBER(name, standard, minimum, maximum, when, help) OPTION_##name,
#define CHOICE(name, standard, words, when, help) OPTION_##name,
#include "front/options.def"
#undef NUMBER
#undef CHOICE
    OPTION_COUNT
};

extern const struct option options[OPTION_COUNT];

enum option_error { OPTION_FINE, OPTION_UNKNOWN, OPTION_BAD_VALUE, OPTION_FIXED };

/* The current value. */
uint64_t option_value(enum option_index index);

/*
 * Reads "name=value,..." into the options, whatever their `when`. Each invalid part adds one line
 * to `complaints` and changes no option. Any bytes are safe.
 */
void options_parse(const char *line, struct text *complaints);

/* Read any option by name; write an option whose `when` is ANYTIME. */
enum option_error option_read(const char *name, uint64_t *out);
enum option_error option_write(const char *name, uint64_t value);

#endif
