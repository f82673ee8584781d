/*
 * options.c: one table of options; the reader, the checks and the help page come from it.
 */
#include "options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "peers.h"

enum kind { WORD, NUMBER, COUNT, PAIR, LOADS, FLAG };

struct option {
    const char *name;
    enum kind kind;
    const char *metavar;
    const char *help;
    double low, high;
};

static const struct option table[] = {
    {"policy", WORD, "P",
     "steal jsq jbsq1 jbsq2 hash affine; to compare with: p2c prequal least-work", 0, 0},
    {"cores", COUNT, "N", "cores, 1 to 1024 (16)", 1, POLICY_CORES_MAX},
    {"load", LOADS, "L[,L...]", "of what all cores can do, 0.01 to 2 (0.8); several run in turn",
     0.01, 2},
    {"traffic", WORD, "T", "service times: fixed exponential bimodal heavy (exponential)", 0, 0},
    {"then", WORD, "T", "service times of the second half (the same)", 0, 0},
    {"seed", COUNT, "S", "the first seed (1)", 0, 1e15},
    {"seeds", COUNT, "K", "runs with seeds S, S+1, ... (1)", 1, 1e6},
    {"tasks", COUNT, "N", "tasks a run (200000)", 1, 1e12},
    {"warmup", NUMBER, "SHARE", "of the tasks, first ones that do not count (0.25)", 0, 0.99},
    {"service", NUMBER, "NS", "mean service time on an ordinary core (1000)", 10, 1e9},
    {"trace", WORD, "FILE", "recorded tasks instead, a line each; tools/sim/trace.h has its fields",
     0, 0},
    {"bursty", FLAG, "", "arrivals in bursts and lulls instead of evenly at random", 0, 0},
    {"slow", PAIR, "N:FACTOR", "the first N cores take FACTOR times as long", 1, 1000},
    {"drift", COUNT, "N", "after every N tasks other cores are the slow ones", 0, 1e12},
    {"classes", COUNT, "N", "block classes that tasks want, 1 to 16 (4)", 1, WATCH_CLASSES},
    {"class-skew", NUMBER, "S", "Zipf's exponent of how common classes are (1)", 0, 10},
    {"blocks", COUNT, "N", "of each class on each core; 0: as many as wanted (0)", 0, 60000},
    {"tight", PAIR, "N:BLOCKS", "the first N cores have BLOCKS instead", 1, 60000},
    {"hold", NUMBER, "NS", "mean time that a block is kept after its task (20000)", 1, 1e12},
    {"remote", NUMBER, "SHARE", "of blocks that another core frees (0.5)", 0, 1},
    {"keys", COUNT, "N", "keys for affinity (1024)", 1, TRAFFIC_KEYS_MAX},
    {"key-skew", NUMBER, "S", "Zipf's exponent of how common keys are (0)", 0, 10},
    {"delay", NUMBER, "NS", "decision to inbox, event to published line, a theft (0)", 0, 1e9},
    {"wake", NUMBER, "NS", "until a core that was idle begins a task (0)", 0, 1e9},
    {"inbox", COUNT, "N", "tasks in flight that a core accepts (1024)", 1, 65535},
    {"full", WORD, "RULE", "when nothing is feasible: reject shed wait (reject)", 0, 0},
    {"deadline", NUMBER, "NS", "how long a task waits then (100000)", 0, 1e12},
    {"timing", FLAG, "",
     "also CPU seconds, tasks a CPU second, ns a decision: never twice the same", 0, 0},
    {"progress", FLAG, "", "a bar on standard error, also when that is no terminal", 0, 0},
    {"help", FLAG, "", "this page", 0, 0},
};
enum { TABLE_COUNT = sizeof table / sizeof table[0] };

static char sentence[320];
static const char loads_wanted[] =
    "option --load needs up to 32 numbers from 0.01 to 2, with commas between.";

void options_help(void)
{
    printf(
        "usage: calm sim --policy P [OPTIONS]\n\n"
        "Simulates an executor with one pool and one inbox a core, task by task. Prints one JSON\n"
        "object a run on standard output; times are in ns. docs/design/simulator.md says what is\n"
        "modelled; docs/dispatch.md what came out.\n\n");
    for (unsigned i = 0; i < TABLE_COUNT; i++) {
        char name[40];
        snprintf(name, sizeof name, "--%s %s", table[i].name, table[i].metavar);
        printf("  %-22s %s\n", name, table[i].help);
    }
}

/* "option --NAME WORDS 'VALUE'." */
static const char *wrong(const char *name, const char *words, const char *value)
{
    snprintf(sentence, sizeof sentence, "option --%.40s %s '%.40s'.", name, words, value);
    return sentence;
}

/* "option --NAME knows no 'WORD'; there are CHOICES." */
static const char *unknown(const char *name, const char *word, const char *choices)
{
    snprintf(sentence, sizeof sentence, "option --%s knows no '%.40s'; there are %s.", name, word,
             choices);
    return sentence;
}

static const char *out_of_bounds(const struct option *option, const char *value)
{
    snprintf(sentence, sizeof sentence,
             "option --%s needs a %snumber from %.16g to %.16g, not '%.40s'.", option->name,
             option->kind == COUNT ? "whole " : "", option->low, option->high, value);
    return sentence;
}

static bool is(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

/* The place of `word` in a list of words separated by blanks, or -1. */
static int place_in(const char *list, const char *word)
{
    size_t length = strlen(word);
    for (int place = 0; length > 0; place++) {
        size_t next = strcspn(list, " ");
        if (next == length && strncmp(list, word, length) == 0)
            return place;
        if (list[next] == '\0')
            break;
        list += next + 1;
    }
    return -1;
}

static const char policies[] = "steal jsq jbsq1 jbsq2 hash affine p2c prequal least-work";
static const char kinds[] = "fixed exponential bimodal heavy";
static const char rules[] = "reject shed wait";

static const char *set_word(struct sim_options *options, const char *name, const char *word)
{
    struct engine_options *engine = &options->engine;
    const char *choices = NULL;
    int place = 0;
    if (is(name, "policy")) {
        place = place_in(choices = policies, word);
        options->policy = word;
        engine->policy = peer_find(word);
    } else if (is(name, "traffic")) {
        options->traffic = word;
        place = place_in(choices = kinds, word);
        engine->traffic.service = (enum service_kind)place;
    } else if (is(name, "then")) {
        options->then = word;
        place = place_in(choices = kinds, word);
        engine->then = (enum service_kind)place;
    } else if (is(name, "full")) {
        place = place_in(choices = rules, word);
        engine->full = (enum full_rule)place;
    } else {
        options->trace = word;
    }
    return place >= 0 ? NULL : unknown(name, word, choices);
}

static void set_number(struct sim_options *options, const char *name, double value)
{
    struct engine_options *engine = &options->engine;
    struct traffic_options *traffic = &engine->traffic;
    const struct {
        const char *name;
        double *real;
        uint32_t *count;
        unsigned *index;
        uint64_t *large;
    } places[] = {
        {"cores", NULL, &engine->cores, NULL, NULL},
        {"seed", NULL, NULL, NULL, &traffic->seed},
        {"seeds", NULL, NULL, NULL, &options->seeds},
        {"tasks", NULL, NULL, NULL, &engine->tasks},
        {"service", &traffic->service_ns, NULL, NULL, NULL},
        {"drift", NULL, NULL, NULL, &engine->drift_tasks},
        {"classes", NULL, NULL, &traffic->classes, NULL},
        {"class-skew", &traffic->class_skew, NULL, NULL, NULL},
        {"blocks", NULL, &engine->blocks, NULL, NULL},
        {"hold", &traffic->hold_ns, NULL, NULL, NULL},
        {"remote", &traffic->remote, NULL, NULL, NULL},
        {"keys", NULL, NULL, &traffic->keys, NULL},
        {"key-skew", &traffic->key_skew, NULL, NULL, NULL},
        {"delay", &engine->delay_ns, NULL, NULL, NULL},
        {"wake", &engine->wake_ns, NULL, NULL, NULL},
        {"inbox", NULL, &engine->inbox_capacity, NULL, NULL},
        {"deadline", &engine->deadline_ns, NULL, NULL, NULL},
    };
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        if (!is(places[i].name, name))
            continue;
        if (places[i].real != NULL)
            *places[i].real = value;
        else if (places[i].count != NULL)
            *places[i].count = (uint32_t)value;
        else if (places[i].index != NULL)
            *places[i].index = (unsigned)value;
        else
            *places[i].large = (uint64_t)value;
    }
}

/* Reads a number from `text` up to `end`; false when it is none or out of bounds. */
static bool read_number(const struct option *option, const char *text, char end, double *value,
                        const char **rest)
{
    char *stop;
    *value = strtod(text, &stop);
    *rest = stop + (*stop != '\0');
    bool is_whole = option->kind != COUNT || *value == (double)(uint64_t)*value;
    return stop != text && *stop == end && *value >= option->low && *value <= option->high &&
           is_whole;
}

static const char *set_pair(struct sim_options *options, const struct option *option,
                            const char *text)
{
    struct engine_options *engine = &options->engine;
    struct option count = {.kind = COUNT, .low = 0, .high = POLICY_CORES_MAX};
    double cores, value;
    const char *rest;
    if (!read_number(&count, text, ':', &cores, &rest) ||
        !read_number(option, rest, '\0', &value, &rest))
        return wrong(option->name, "needs", option->metavar);
    if (is(option->name, "slow")) {
        engine->slow_cores = (uint32_t)cores;
        engine->slow_factor = value;
    } else {
        engine->tight_cores = (uint32_t)cores;
        engine->tight_blocks = (uint32_t)value;
    }
    return NULL;
}

static const char *set_loads(struct sim_options *options, const struct option *option,
                             const char *text)
{
    size_t length = strlen(text);
    if (length == 0 || text[length - 1] == ',')
        return loads_wanted;
    options->load_count = 0;
    while (*text != '\0') {
        const char *comma = strchr(text, ',');
        double load;
        if (options->load_count == 32 ||
            !read_number(option, text, comma != NULL ? ',' : '\0', &load, &text))
            return loads_wanted;
        options->loads[options->load_count++] = load;
    }
    return NULL;
}

static const char *set(struct sim_options *options, const struct option *option, const char *value,
                       double *warmup)
{
    double number;
    const char *rest;
    switch (option->kind) {
    case WORD: return set_word(options, option->name, value);
    case PAIR: return set_pair(options, option, value);
    case LOADS: return set_loads(options, option, value);
    default:
        if (!read_number(option, value, '\0', &number, &rest))
            return out_of_bounds(option, value);
        if (is(option->name, "warmup"))
            *warmup = number;
        set_number(options, option->name, number);
        return NULL;
    }
}

static void set_flag(struct sim_options *options, const char *name)
{
    if (is(name, "bursty"))
        options->engine.traffic.is_bursty = true;
    else if (is(name, "timing"))
        options->has_timing = true;
    else if (is(name, "progress"))
        options->has_progress = true;
    else
        options->is_help = true;
}

static const char *check(struct sim_options *options, double warmup)
{
    struct engine_options *engine = &options->engine;
    engine->warmup = (uint64_t)((double)engine->tasks * warmup);
    if (options->then == NULL) {
        options->then = options->traffic;
        engine->then = engine->traffic.service;
    }
    if (options->is_help)
        return NULL;
    if (engine->policy == NULL)
        return "sim needs --policy P; --help lists them.";
    if (engine->slow_cores > engine->cores || engine->tight_cores > engine->cores)
        return "--slow or --tight names more cores than there are; --cores has more.";
    if (engine->tight_cores > 0 && engine->blocks == 0)
        return "--tight needs --blocks: what the other cores have.";
    return NULL;
}

const char *options_read(struct sim_options *options, int count, char **words)
{
    *options = (struct sim_options){.engine = {.traffic = traffic_usual,
                                               .cores = 16,
                                               .tasks = 200000,
                                               .slow_factor = 1,
                                               .inbox_capacity = 1024,
                                               .deadline_ns = 100000},
                                    .traffic = "exponential",
                                    .loads = {0.8},
                                    .load_count = 1,
                                    .seeds = 1,
                                    .has_progress = isatty(STDERR_FILENO) != 0};
    double warmup = 0.25;
    for (int i = 0; i < count; i++) {
        const char *word = words[i], *equals = strchr(word, '=');
        if (strncmp(word, "--", 2) != 0)
            return "options begin with two dashes; --help lists them.";
        size_t length = equals != NULL ? (size_t)(equals - word) - 2 : strlen(word) - 2;
        const struct option *option = NULL;
        for (unsigned k = 0; k < TABLE_COUNT; k++)
            if (strlen(table[k].name) == length && strncmp(table[k].name, word + 2, length) == 0)
                option = &table[k];
        if (option == NULL)
            return wrong(word + 2, "is not known; the list is", "calm sim --help");
        if (option->kind == FLAG && equals != NULL)
            return wrong(option->name, "takes no value, and got", equals + 1);
        if (option->kind == FLAG) {
            set_flag(options, option->name);
            continue;
        }
        if (equals == NULL && i + 1 == count)
            return wrong(option->name, "needs a value:", option->metavar);
        const char *trouble = set(options, option, equals != NULL ? equals + 1 : words[++i],
                                  &warmup);
        if (trouble != NULL)
            return trouble;
    }
    return check(options, warmup);
}
