/*
 * learned_report.c: writes the facts of `learned` and the latest moves.
 *
 * Owner: nobody; no state.
 */
#include "site/learned_report.h"

#include "site/learned.h"

enum { WIDTH = 20, NARROW = 12 };

struct line {
    const char *name;
    uint64_t value;
};

enum { LINES = 6 };

static void lines_of(const struct learned_facts *facts, struct line out[LINES])
{
    const struct line lines[LINES] = {
        {"clock_kib", facts->clock_kib}, {"decisions", facts->decisions},
        {"moves", facts->moves},         {"samples", facts->samples},
        {"sites", facts->sites},         {"cohorts", facts->cohorts},
    };
    for (size_t i = 0; i < LINES; i++)
        out[i] = lines[i];
}

static void add_move(struct text *text, const struct learned_move *move)
{
    text_add_column(text, move->at_kib, NARROW);
    text_add(text, "    0x");
    text_add_hex(text, move->index);
    text_add_column(text, move->from, NARROW);
    text_add_column(text, move->to, NARROW);
    text_add_column(text, move->lifetime_kib, NARROW + 3);
    text_add_column(text, move->bytes, NARROW);
    text_add_column(text, move->live_bytes, NARROW);
    text_add_char(text, '\n');
}

void learned_report_text(struct text *text)
{
    struct learned_move moves[LEARNED_LOG_MAX];
    struct line lines[LINES];
    struct learned_facts facts = learned_facts();
    if (!facts.is_on)
        return;
    lines_of(&facts, lines);
    for (size_t i = 0; i < LINES; i++) {
        text_add_column(text, lines[i].value, WIDTH);
        text_format(text, "  learned_%s\n", lines[i].name);
    }
    size_t count = learned_log(moves);
    if (count > 0)
        text_add(text, "  sites that moved; times in KiB that passed through caches\n");
    if (count > 0)
        text_add(text, "     at time    index        from          to       lifetime  block bytes"
                       "  live bytes\n");
    for (size_t i = 0; i < count; i++)
        add_move(text, &moves[i]);
}

static void add_json_move(struct text *text, const struct learned_move *move)
{
    const struct line lines[] = {
        {"at_kib", move->at_kib},
        {"index", move->index},
        {"from", move->from},
        {"to", move->to},
        {"lifetime_kib", move->lifetime_kib},
        {"bytes", move->bytes},
        {"live_bytes", move->live_bytes},
    };
    text_add_char(text, '{');
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        text_add_member(text, lines[i].name, lines[i].value);
    text_add_char(text, '}');
}

void learned_report_json(struct text *text)
{
    struct learned_move moves[LEARNED_LOG_MAX];
    struct line lines[LINES];
    struct learned_facts facts = learned_facts();
    if (!facts.is_on)
        return;
    lines_of(&facts, lines);
    text_add(text, "\"learned\":{");
    for (size_t i = 0; i < LINES; i++)
        text_add_member(text, lines[i].name, lines[i].value);
    text_add(text, ",\"log\":[");
    size_t count = learned_log(moves);
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            text_add_char(text, ',');
        add_json_move(text, &moves[i]);
    }
    text_add(text, "]},");
}
