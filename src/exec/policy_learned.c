/*
 * policy_learned.c: the core with the least expected time for the task, by weights learned from how
 * tasks ended.
 *
 * A decision looks at four cores: all, or two that were good last time and two at random
 * (Mitzenmacher, Prabhakar, Shah, "Load balancing with memory", FOCS 2002), estimates each by
 * bandit.h, and takes the least. Every second task is followed to its end, and is what the bandit
 * learns from. Idle cores steal, when the thief would be done before the victim's queue is.
 *
 * trial.h compares with the default policy and lets that decide where it is better. Both sides are
 * followed, so the bandit also learns from what it did not choose.
 *
 * Owner: one dispatcher's thread. Design: docs/design/policies.md
 */
#include "exec/learned.h"

#include "exec/policy_parts.h"

enum {
    DRAW_EVERY = 64, /* decisions between two draws of weights */
    SAMPLE_EVERY = 2,
    SHARES_EVERY = 256, /* decisions between two looks at how common classes are */
    TICKET_INDEX_BITS = 10,
    LAPS_MAX = 8, /* a sample that is still under way is then given up */
    FORECAST_EVERY = 4,
};
_Static_assert(LEARNED_TICKETS == 1 << TICKET_INDEX_BITS, "a ticket's low bits are its place");

static const float feature_max = 64; /* in typical service times */
static const float sojourn_max = 48;
static const float failure_cost = 64;
static const float near_short = 4;       /* free blocks: from there on down they are short */
static const float worth_leaving = 0.5f; /* of a typical service time */
static const float least_pace_rise = 1.0f / 512;
static const float typical_fade = 1.0f / 64;

/* Before it has learned: own time and time ahead count fully, and a core about to run dry costs a
 * lot. */
static const struct bandit_belief belief = {.mean = {0, 1, 1, 0, 8, 8, 0, 0, 0},
                                            .floor = {-8, 0.25f, 0.25f, 0, 0, 0, 0, -1, 0},
                                            .ridge = 64};

static const struct policy *const fixed = &policy_steal;

static size_t learned_bytes(const struct policy_setup *setup)
{
    return sizeof(struct learned) + setup->cores * sizeof(uint16_t[WATCH_CLASSES]);
}

static void learned_start(void *state, const struct policy_setup *setup)
{
    struct learned *learned = state;
    learned->random = policy_mix(setup->seed);
    learned->cores = setup->cores;
    learned->tickets = 0;
    learned->typical_ns = 0;
    learned->scale = 0;
    learned->is_frozen = false;
    learned->class_total = 0;
    learned->least_pace = 1;
    for (unsigned i = 0; i < LEARNED_REMEMBERED; i++)
        learned->remembered[i] = 0;
    for (unsigned i = 0; i <= WATCH_CLASSES; i++) {
        learned->class_seen[i] = 0;
        learned->class_share[i] = 0;
    }
    for (unsigned i = 0; i < LEARNED_TICKETS; i++)
        learned->samples[i] = (struct learned_sample){.ticket = 0};
    for (uint32_t core = 0; core < setup->cores; core++)
        for (unsigned i = 0; i < WATCH_CLASSES; i++)
            learned->most_free[core][i] = 0;
    bandit_start(&learned->bandit, &belief, policy_draw(&learned->random));
    trial_start(&learned->trial, setup->cores);
    forecast_start(&learned->forecast);
    fixed->start(learned->fixed_state, setup);
}

void learned_freeze(struct learned *learned, bool is_frozen)
{
    learned->is_frozen = is_frozen;
}

/* --- features --- */

ALWAYS_INLINE float between(float value, float low, float high)
{
    value = value < high ? value : high;
    return value > low ? value : low;
}

/* What is known of one class on one core, in blocks. */
struct blocks {
    float free, most, demand, backlog;
};

ALWAYS_INLINE struct blocks blocks_of(struct learned *learned, const struct watch_line *line,
                                      const struct policy_task *task, uint32_t core, float ahead)
{
    uint32_t free = watch_free(line, task->class);
    uint16_t *most = &learned->most_free[core][task->class];
    free = free < FORECAST_FREE_MAX ? free : (uint32_t)FORECAST_FREE_MAX;
    if (free > *most)
        *most = (uint16_t)free;
    return (struct blocks){.free = (float)free,
                           .most = (float)*most,
                           .demand = ahead * learned->class_share[task->class],
                           .backlog = (float)load(&line->remote_backlog, RELAXED)};
}

ALWAYS_INLINE void features(struct learned *learned, const struct policy_view *view,
                            const struct policy_task *task, uint32_t core, float *x)
{
    const struct watch_line *line = &view->lines[core];
    uint64_t word = load(&line->load, RELAXED);
    float ahead = (float)load_count(word);
    float work = (float)(int64_t)load_work_ns(word);
    float service = (float)load(&line->service_ns, RELAXED);
    float drift = (float)load(&line->drift_ns, RELAXED) * learned->scale;
    float pace = service > 0 ? service * learned->scale : 1; /* 1: a core like the others */
    float own = task->hint_ns != 0 ? (float)task->hint_ns * learned->scale : 1;
    x[0] = 1;
    x[1] = between(own * pace, 0, feature_max);
    x[2] = between((work > 0 ? work * learned->scale : ahead) * pace, 0, feature_max);
    x[3] = between(ahead, 0, feature_max);
    x[4] = x[5] = x[6] = 0;
    x[7] = between(drift, -feature_max, feature_max);
    uint64_t age_ns = watch_age_ns(load(&line->begun, RELAXED), view->now_ns);
    x[8] = ahead > 0 ? between((float)(int64_t)age_ns * learned->scale, 0, feature_max) : 0;
    if (task->class >= WATCH_CLASSES)
        return;
    struct blocks blocks = blocks_of(learned, line, task, core, ahead);
    float y[FORECAST_WEIGHTS];
    forecast_features(y, blocks.free, blocks.most, blocks.demand, blocks.backlog);
    float later = forecast_free(&learned->forecast, y, blocks.free, blocks.most);
    x[4] = between(1 - (blocks.free - blocks.demand) * (1 / near_short), 0, 4);
    x[5] = between(1 - later * (1 / near_short), 0, 4);
    x[6] = between(blocks.backlog * (1.0f / 16), 0, 4);
}

/* --- what every decision brings up to date --- */

static void note_class(struct learned *learned, uint32_t class)
{
    learned->class_seen[class < WATCH_CLASSES ? class : WATCH_CLASSES]++;
    if (++learned->class_total % SHARES_EVERY != 0)
        return;
    uint32_t sum = 0;
    for (unsigned i = 0; i <= WATCH_CLASSES; i++)
        sum += learned->class_seen[i];
    for (unsigned i = 0; i <= WATCH_CLASSES; i++) {
        learned->class_share[i] = (float)learned->class_seen[i] / (float)sum;
        learned->class_seen[i] -= learned->class_seen[i] / 4;
    }
}

/* The typical service time follows the cores that tasks go to. */
static void note_service(struct learned *learned, const struct watch_line *line)
{
    float service = (float)load(&line->service_ns, RELAXED);
    if (service == 0)
        return;
    if (learned->typical_ns == 0)
        learned->typical_ns = service;
    learned->typical_ns += typical_fade * (service - learned->typical_ns);
    learned->scale = 1 / learned->typical_ns;
}

static void note_forecast(struct learned *learned, const struct policy_view *view,
                          const struct policy_task *task, uint32_t core)
{
    forecast_check(&learned->forecast, view);
    const struct watch_line *line = &view->lines[core];
    uint32_t service = load(&line->service_ns, RELAXED);
    if (task->class >= WATCH_CLASSES || service == 0 || learned->class_total % FORECAST_EVERY != 0)
        return;
    float ahead = (float)watch_count(line);
    struct blocks blocks = blocks_of(learned, line, task, core, ahead);
    struct forecast_pending pending = {
        .due_ns = view->now_ns + service, .core = core, .class = task->class, .was = blocks.free};
    forecast_features(pending.x, blocks.free, blocks.most, blocks.demand, blocks.backlog);
    pending.said = forecast_free(&learned->forecast, pending.x, blocks.free, blocks.most);
    forecast_keep(&learned->forecast, &pending);
}

/* A ticket for the task that goes to `core`, or 0 when its place is taken by one still under way.
 */
static uint32_t follow(struct learned *learned, const float *x, unsigned arm)
{
    uint32_t number = ++learned->tickets;
    struct learned_sample *sample = &learned->samples[number % LEARNED_TICKETS];
    if (sample->ticket != 0 && ++sample->laps < LAPS_MAX)
        return 0;
    /* The high bits tell a ticket from an older one in the same place; bit 31 keeps it from being
     * 0. */
    uint32_t ticket = number | (uint32_t)1 << 31;
    *sample = (struct learned_sample){.ticket = ticket,
                                      .scale = learned->scale,
                                      .epoch = learned->trial.epoch,
                                      .arm = (uint8_t)arm,
                                      .is_scored = trial_is_scored(&learned->trial)};
    for (unsigned i = 0; i < BANDIT_FEATURES; i++)
        sample->x[i] = x[i];
    return ticket;
}

static uint32_t note_placed(struct learned *learned, const struct policy_view *view,
                            const struct policy_task *task, uint32_t core, const float *x,
                            unsigned arm)
{
    note_class(learned, task->class);
    note_service(learned, &view->lines[core]);
    note_forecast(learned, view, task, core);
    if (learned->class_total % SAMPLE_EVERY != 0 || learned->scale == 0)
        return 0;
    return follow(learned, x, arm);
}

/* --- decisions --- */

/* Fills in the cores to look at, and returns how many. Some may be the same. */
static unsigned candidates(struct learned *learned, uint32_t cores, uint32_t *found)
{
    if (cores <= LEARNED_CANDIDATES) {
        for (uint32_t core = 0; core < cores; core++)
            found[core] = core;
        return cores;
    }
    for (unsigned i = 0; i < LEARNED_REMEMBERED; i++)
        found[i] = learned->remembered[i];
    for (unsigned i = LEARNED_REMEMBERED; i < LEARNED_CANDIDATES; i += 2) {
        uint64_t bits = policy_draw(&learned->random);
        found[i] = policy_below((uint32_t)bits, cores);
        found[i + 1] = policy_below((uint32_t)(bits >> 32), cores);
    }
    return LEARNED_CANDIDATES;
}

/* The feasible core of least cost, its features in `best_x`; POLICY_REJECT when none is feasible.
 */
static uint32_t least_cost(struct learned *learned, const struct policy_view *view,
                           const struct policy_task *task, const float *weights, float *best_x,
                           float *best_cost)
{
    uint32_t found[LEARNED_CANDIDATES], best = POLICY_REJECT, second = POLICY_REJECT;
    unsigned count = candidates(learned, view->cores, found);
    /* From another one on each time, or equal ones would all go to the first. */
    unsigned from = policy_below((uint32_t)(policy_draw(&learned->random) >> 32), count);
    float least = 0;
    for (unsigned i = 0; i < count; i++) {
        uint32_t core = found[from + i < count ? from + i : from + i - count];
        if (core == best || !policy_feasible(view, task, core))
            continue;
        float x[BANDIT_FEATURES];
        features(learned, view, task, core, x);
        float cost = bandit_sum(weights, x);
        if (best != POLICY_REJECT && cost >= least)
            continue;
        second = best;
        best = core;
        least = cost;
        for (unsigned k = 0; k < BANDIT_FEATURES; k++)
            best_x[k] = x[k];
    }
    if (unlikely(best == POLICY_REJECT)) {
        best = policy_next_feasible(view, task, found[from]);
        if (best == POLICY_REJECT)
            return best;
        features(learned, view, task, best, best_x);
        least = bandit_sum(weights, best_x);
    }
    learned->remembered[0] = best;
    if (second != POLICY_REJECT)
        learned->remembered[1] = second;
    *best_cost = least;
    return best;
}

/* The part of a cost that stays when an idle core steals: not the waiting. */
static float lasting_cost(const float *weights, const float *x)
{
    return bandit_sum(weights, x) - weights[2] * x[2] - weights[3] * x[3] - weights[8] * x[8];
}

/* True when the quickest core there is, with blocks to spare, could save enough to be worth a look.
 */
static bool may_be_worth_leaving(struct learned *learned, const struct watch_line *line,
                                 const float *x)
{
    const float *weights = learned->bandit.drawn;
    float service = (float)load(&line->service_ns, RELAXED);
    if (service == 0 || learned->scale == 0)
        return false;
    float pace = service * learned->scale;
    learned->least_pace *= 1 + least_pace_rise;
    if (pace < learned->least_pace)
        learned->least_pace = pace;
    float own = weights[1] * x[1] * (1 - learned->least_pace / pace);
    float drift = weights[7] * x[7];
    return own + weights[4] * x[4] + weights[5] * x[5] + weights[6] * x[6] +
               (drift > 0 ? drift : 0) >
           worth_leaving;
}

/* Takes the best candidate instead of the fixed policy's choice, where that is worth it. */
static void improve(struct learned *learned, const struct policy_view *view,
                    const struct policy_task *task, struct policy_choice *choice, float *x)
{
    if (likely(!may_be_worth_leaving(learned, &view->lines[choice->core], x)))
        return;
    float best_x[BANDIT_FEATURES], cost;
    const float *weights = learned->bandit.drawn;
    uint32_t best = least_cost(learned, view, task, weights, best_x, &cost);
    if (best == POLICY_REJECT || best == choice->core || bandit_sum(weights, x) <= cost ||
        lasting_cost(weights, x) <= lasting_cost(weights, best_x) + worth_leaving)
        return;
    choice->core = best;
    for (unsigned i = 0; i < BANDIT_FEATURES; i++)
        x[i] = best_x[i];
}

static struct policy_choice learned_choose(void *state, const struct policy_view *view,
                                           const struct policy_task *task)
{
    struct learned *learned = state;
    float x[BANDIT_FEATURES];
    struct policy_choice choice;
    unsigned arm = trial_next(&learned->trial);
    choice = fixed->choose(learned->fixed_state, view, task);
    if (choice.core >= view->cores)
        return choice;
    features(learned, view, task, choice.core, x);
    if (likely(arm == TRIAL_LEARNED)) {
        if (unlikely(learned->class_total % DRAW_EVERY == 0 && !learned->is_frozen))
            bandit_draw(&learned->bandit);
        improve(learned, view, task, &choice, x);
    }
    choice.ticket = note_placed(learned, view, task, choice.core, x, arm);
    return choice;
}

static void learned_finished(void *state, const struct policy_view *view,
                             const struct policy_outcome *outcome)
{
    (void)view;
    struct learned *learned = state;
    struct learned_sample *sample = &learned->samples[outcome->ticket % LEARNED_TICKETS];
    if (sample->ticket != outcome->ticket)
        return;
    sample->ticket = 0;
    if (sample->is_scored)
        trial_score(&learned->trial, sample->arm, sample->epoch, outcome->sojourn_ns,
                    outcome->has_failed);
    if (learned->is_frozen)
        return;
    float cost = between((float)outcome->sojourn_ns * sample->scale, 0, sojourn_max);
    bandit_learn(&learned->bandit, sample->x, outcome->has_failed ? failure_cost : cost);
}

/* True when `thief` would be done with a task before `victim` had come to its last one. */
static bool is_worth_stealing(const struct policy_view *view, uint32_t victim, uint32_t thief)
{
    uint64_t count = watch_count(&view->lines[victim]);
    uint64_t slow = load(&view->lines[thief].service_ns, RELAXED);
    return count * load(&view->lines[victim].service_ns, RELAXED) >= slow;
}

static uint32_t learned_steal(void *state, const struct policy_view *view, uint32_t thief)
{
    struct learned *learned = state;
    if (learned->trial.arm == TRIAL_FIXED)
        return fixed->steal(learned->fixed_state, view, thief);
    return policy_victim(view, thief, policy_draw(&learned->random), is_worth_stealing);
}

uint32_t learned_compare(struct learned *learned, const struct policy_view *view,
                         const struct policy_task *task, uint32_t core, float *regret_ns,
                         uint32_t *ticket)
{
    float x[BANDIT_FEATURES], would_x[BANDIT_FEATURES], cost;
    uint32_t would = least_cost(learned, view, task, learned->bandit.mean, would_x, &cost);
    features(learned, view, task, core, x);
    float regret = bandit_sum(learned->bandit.mean, x) - cost;
    *regret_ns = regret > 0 ? regret * learned->typical_ns : 0;
    *ticket = note_placed(learned, view, task, core, x, TRIAL_FIXED);
    return *regret_ns > 0 && would != POLICY_REJECT ? would : core;
}

const struct policy policy_learned = {.name = "learned",
                                      .state_bytes = learned_bytes,
                                      .start = learned_start,
                                      .choose = learned_choose,
                                      .finished = learned_finished,
                                      .steal = learned_steal};
