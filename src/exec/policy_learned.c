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
    SAMPLE_EVERY = 2, /* decisions between two that are followed */
    FORECAST_EVERY = 8,
    REFUSED_EVERY = 2 * SAMPLE_EVERY, /* refusals between two that count: half as much as a task */
    NEAR_SHORT = 4,   /* free blocks that are not promised: from there on down they are short */
    PLENTY = 12,      /* free blocks more than tasks: from there on up nobody asks for shortage */
    PLACED_NOTED = 8, /* classes of the tasks that were placed on a core last, a byte each */
    TICKET_INDEX_BITS = 10,
    LAPS_MAX = 8, /* a sample that is still under way is then given up */
};
_Static_assert(LEARNED_TICKETS == 1 << TICKET_INDEX_BITS, "a ticket's low bits are its place");

static const float feature_max = 64; /* in typical service times */
static const float sojourn_max = 48;
static const float failure_cost = 64;
static const float near_short = NEAR_SHORT;
static const float few_free = 1;         /* forecast; with fewer a task is likely to find none */
static const float worth_leaving = 0.5f; /* of a typical service time */
static const float least_pace_rise = 1.0f / 512;
static const float typical_fade = 1.0f / 32;
static const uint64_t each_byte = 0x0101010101010101;

/* Before it has learned: own time and time ahead count fully, and a core about to run dry costs a
 * lot. A task ahead takes no longer than the task itself. */
static const struct bandit_belief belief = {.mean = {0, 1, 1, 0, 8, 8, 0, 0, 0},
                                            .floor = {-8, 0.25f, 0.25f, 0, 0, 0, 0, -1, 0},
                                            .ridge = 64,
                                            .whole = 1,
                                            .parts = {2, 3}};

static const struct policy *const fixed = &policy_steal;

static size_t learned_bytes(const struct policy_setup *setup)
{
    return sizeof(struct learned) + setup->cores * sizeof(uint16_t[WATCH_CLASSES]);
}

static void learned_start(void *state, const struct policy_setup *setup)
{
    struct learned *learned = (struct learned *)state;
    learned->random = policy_mix(setup->seed);
    learned->cores = setup->cores;
    learned->tickets = 0;
    learned->typical_ns = 0;
    learned->scale = 0;
    learned->is_frozen = false;
    learned->placed_count = learned->refused_count = 0;
    learned->least_pace = 1;
    for (unsigned i = 0; i < LEARNED_REMEMBERED; i++)
        learned->remembered[i] = 0;
    for (unsigned i = 0; i < LEARNED_TICKETS; i++)
        learned->samples[i] = (struct learned_sample){.ticket = 0};
    for (uint32_t core = 0; core < POLICY_CORES_MAX; core++)
        learned->placed[core] = 0;
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
    if (is_frozen)
        bandit_settle(&learned->bandit); /* who does not learn has no use for trying */
}

/* --- features --- */

ALWAYS_INLINE float at_most(float value, float high)
{
    return value < high ? value : high;
}

ALWAYS_INLINE float between(float value, float low, float high)
{
    value = at_most(value, high);
    return value > low ? value : low;
}

/* Tasks of the class that wait at the core. What was placed there last waits there still, since
 * cores and thieves take the oldest: as many of the classes noted as tasks wait behind one. */
ALWAYS_INLINE uint32_t promised(const struct learned *learned, uint32_t core, uint32_t class,
                                uint32_t ahead)
{
    uint32_t waiting = ahead > 0 ? ahead - 1 : 0;
    uint32_t known = waiting < PLACED_NOTED ? waiting : (uint32_t)PLACED_NOTED;
    uint64_t differ = learned->placed[core] ^ each_byte * class;
    uint64_t same = ~(((differ & each_byte * 0x7F) + each_byte * 0x7F) | differ) >> 7 & each_byte;
    same &= known == PLACED_NOTED ? UINT64_MAX : ((uint64_t)1 << 8 * known) - 1;
    uint32_t count = (uint32_t)(same * each_byte >> 56);
    return waiting > PLACED_NOTED ? count * waiting / PLACED_NOTED : count;
}

ALWAYS_INLINE uint32_t least_of(uint32_t one, uint32_t other)
{
    return one < other ? one : other;
}

/* The highest count of free blocks that was seen there. */
ALWAYS_INLINE void note_most(struct learned *learned, const struct policy_view *view,
                             const struct policy_task *task, uint32_t core)
{
    if (task->class >= WATCH_CLASSES)
        return;
    uint16_t *most = &learned->most_free[core][task->class];
    uint32_t free = watch_free(&view->lines[core], task->class);
    if (free > *most)
        *most = (uint16_t)least_of(free, FORECAST_FREE_MAX);
}

ALWAYS_INLINE void look_at_blocks(const struct learned *learned, const struct watch_line *line,
                                  const struct policy_task *task, uint32_t core,
                                  struct learned_look *look)
{
    uint16_t most = learned->most_free[core][task->class];
    look->free = (uint16_t)least_of(watch_free(line, task->class), FORECAST_FREE_MAX);
    look->most = most > look->free ? most : look->free;
    look->demand = promised(learned, core, task->class, load_count(look->load));
    look->backlog = load(&line->remote_backlog, RELAXED);
}

/* What a core says, and what is known of it, as it is when the task is placed. Blocks are looked at
 * closer only where they are not plenty. */
ALWAYS_INLINE void look_at(const struct learned *learned, const struct policy_view *view,
                           const struct policy_task *task, uint32_t core, struct learned_look *look)
{
    const struct watch_line *line = &view->lines[core];
    look->load = load(&line->load, RELAXED);
    look->begun = load(&line->begun, RELAXED);
    look->now_ns = view->now_ns;
    look->service_ns = load(&line->service_ns, RELAXED);
    look->drift_ns = load(&line->drift_ns, RELAXED);
    look->hint_ns = task->hint_ns;
    look->free = look->most = 0;
    look->demand = look->backlog = 0;
    look->is_plenty = true;
    if (task->class >= WATCH_CLASSES)
        return;
    uint32_t free = watch_free(line, task->class), ahead = load_count(look->load);
    if (likely(free >= PLENTY + ahead))
        return;
    look->is_plenty = false;
    look_at_blocks(learned, line, task, core, look);
}

/* The forecast's features of a look at a class, and what it then says. */
ALWAYS_INLINE float later_free(const struct learned *learned, const struct learned_look *look,
                               float *x)
{
    forecast_features(x, look->free, look->most, (float)look->demand, (float)look->backlog);
    return forecast_free(&learned->forecast, x, look->free, look->most);
}

/* The bandit's features of a look; `scale` is one over the typical service time. */
ALWAYS_INLINE void features(const struct learned *learned, const struct learned_look *look,
                            float scale, float *x)
{
    float ahead = (float)load_count(look->load);
    float work = (float)(int64_t)load_work_ns(look->load);
    float service = (float)look->service_ns;
    float pace = service > 0 ? service * scale : 1; /* 1: a core like the others */
    float own = look->hint_ns != 0 ? (float)look->hint_ns * scale : 1;
    x[0] = 1;
    x[1] = at_most(own * pace, feature_max);
    x[2] = at_most((work > 0 ? work * scale : ahead) * pace, feature_max);
    x[3] = at_most(ahead, feature_max);
    x[4] = x[5] = x[6] = 0;
    x[7] = between((float)look->drift_ns * scale, -feature_max, feature_max);
    uint64_t age_ns = watch_age_ns(look->begun, look->now_ns);
    x[8] = ahead > 0 ? at_most((float)(int64_t)age_ns * scale, feature_max) : 0;
    if (likely(look->is_plenty))
        return;
    float y[FORECAST_WEIGHTS];
    float room = (float)look->free - (float)look->demand;
    x[4] = between(1 - room * (1 / near_short), 0, 4);
    x[5] = between(1 - later_free(learned, look, y) * (1 / near_short), 0, 4);
    x[6] = between((float)look->backlog * (1.0f / 16), 0, 4);
}

/* --- what every decision brings up to date --- */

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
    uint32_t service = load(&view->lines[core].service_ns, RELAXED);
    if (task->class >= WATCH_CLASSES || service == 0)
        return;
    struct learned_look look;
    look.load = load(&view->lines[core].load, RELAXED);
    look_at_blocks(learned, &view->lines[core], task, core, &look);
    struct forecast_pending pending = {.due_ns = view->now_ns + service,
                                       .core = core,
                                       .class = task->class,
                                       .was = (float)look.free};
    pending.said = later_free(learned, &look, pending.x);
    forecast_keep(&learned->forecast, &pending);
}

/* A ticket for the task that goes to `core`, or 0 when its place is taken by one still under way.
 */
static uint32_t follow(struct learned *learned, const struct policy_view *view,
                       const struct policy_task *task, uint32_t core, unsigned arm)
{
    uint32_t number = ++learned->tickets;
    struct learned_sample *sample = &learned->samples[number % LEARNED_TICKETS];
    if (sample->ticket != 0 && ++sample->laps < LAPS_MAX)
        return 0;
    /* The high bits tell a ticket from an older one in the same place; bit 31 keeps it from being
     * 0. */
    sample->ticket = number | (uint32_t)1 << 31;
    sample->scale = learned->scale;
    sample->epoch = learned->trial.epoch;
    sample->laps = 0;
    sample->arm = (uint8_t)arm;
    sample->is_scored = trial_is_scored(&learned->trial);
    look_at(learned, view, task, core, &sample->look);
    return sample->ticket;
}

/* What a decision leaves behind: the class each time, more every second and every eighth. */
static uint32_t note_placed(struct learned *learned, const struct policy_view *view,
                            const struct policy_task *task, uint32_t core, unsigned arm)
{
    uint32_t number = ++learned->placed_count, ticket = 0;
    if (number % SAMPLE_EVERY == 0) {
        note_service(learned, &view->lines[core]);
        note_most(learned, view, task, core);
        if (learned->scale != 0)
            ticket = follow(learned, view, task, core, arm);
    } else if (number % FORECAST_EVERY == 1) {
        note_most(learned, view, task, core);
        note_forecast(learned, view, task, core);
    }
    learned->placed[core] = learned->placed[core] << 8 | task->class;
    return ticket;
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

/* What a task is expected to take on a core, in typical service times, and the part of it that
 * stays when an idle core steals: not the waiting. */
struct estimate {
    float cost, lasting;
};

ALWAYS_INLINE struct estimate estimate(struct learned *learned, const struct policy_view *view,
                                       const struct policy_task *task, uint32_t core,
                                       const float *weights)
{
    struct learned_look look;
    float x[BANDIT_FEATURES];
    look_at(learned, view, task, core, &look);
    features(learned, &look, learned->scale, x);
    float lasting = weights[0] + weights[1] * x[1] + weights[7] * x[7];
    if (unlikely(!look.is_plenty))
        lasting += weights[4] * x[4] + weights[5] * x[5] + weights[6] * x[6];
    float waiting = weights[2] * x[2] + weights[3] * x[3] + weights[8] * x[8];
    return (struct estimate){.cost = lasting + waiting, .lasting = lasting};
}

/* The feasible core of least cost; POLICY_REJECT when none is feasible. */
static uint32_t least_cost(struct learned *learned, const struct policy_view *view,
                           const struct policy_task *task, const float *weights,
                           struct estimate *least)
{
    uint32_t found[LEARNED_CANDIDATES], best = POLICY_REJECT, second = POLICY_REJECT;
    unsigned count = candidates(learned, view->cores, found);
    /* From another one on each time, or equal ones would all go to the first. */
    unsigned from = policy_below((uint32_t)(policy_draw(&learned->random) >> 32), count);
    for (unsigned i = 0; i < count; i++) {
        uint32_t core = found[from + i < count ? from + i : from + i - count];
        if (core == best || !policy_feasible(view, task, core))
            continue;
        struct estimate expected = estimate(learned, view, task, core, weights);
        if (best != POLICY_REJECT && expected.cost >= least->cost)
            continue;
        second = best;
        best = core;
        *least = expected;
    }
    if (unlikely(best == POLICY_REJECT)) {
        best = policy_next_feasible(view, task, found[from]);
        if (best == POLICY_REJECT)
            return best;
        *least = estimate(learned, view, task, best, weights);
    }
    learned->remembered[0] = best;
    if (second != POLICY_REJECT)
        learned->remembered[1] = second;
    return best;
}

/* Free blocks of the class that no waiting task is promised; below 0: more are promised than free.
 */
ALWAYS_INLINE int32_t room_at(const struct learned *learned, const struct policy_view *view,
                              uint32_t class, uint32_t core)
{
    const struct watch_line *line = &view->lines[core];
    uint32_t free = watch_free(line, class), ahead = watch_count(line);
    if (likely(free >= NEAR_SHORT + ahead))
        return (int32_t)(free - ahead); /* enough, whatever waits */
    return (int32_t)free - (int32_t)promised(learned, core, class, ahead);
}

/* The next core, all around, that has a block for the task which is not promised; where there is
 * none the one that lacks least. */
static uint32_t next_with_room(const struct learned *learned, const struct policy_view *view,
                               const struct policy_task *task, uint32_t core)
{
    uint32_t other = core, best = core;
    int32_t most = room_at(learned, view, task->class, core);
    for (uint32_t seen = 1; seen < view->cores && most <= 0; seen++) {
        other = other + 1 < view->cores ? other + 1 : 0;
        int32_t room = room_at(learned, view, task->class, other);
        if (room > most && policy_feasible(view, task, other)) {
            most = room;
            best = other;
        }
    }
    return best;
}

/* True when the quickest core there is, with blocks to spare, could save enough to be worth a look.
 * Nothing that needs features: most decisions end here. */
static bool may_be_worth_leaving(struct learned *learned, const struct policy_view *view,
                                 const struct policy_task *task, uint32_t core)
{
    const struct watch_line *line = &view->lines[core];
    const float *weights = learned->bandit.drawn;
    float service = (float)load(&line->service_ns, RELAXED);
    if (service == 0 || learned->scale == 0)
        return false;
    if (task->class < WATCH_CLASSES && room_at(learned, view, task->class, core) < NEAR_SHORT)
        return true;
    float pace = service * learned->scale;
    learned->least_pace *= 1 + least_pace_rise;
    if (pace < learned->least_pace)
        learned->least_pace = pace;
    float own = weights[1] * (pace - learned->least_pace);
    if (unlikely(task->hint_ns != 0))
        own *= (float)task->hint_ns * learned->scale;
    float drift = weights[7] * (float)load(&line->drift_ns, RELAXED) * learned->scale;
    return own + (drift > 0 ? drift : 0) > worth_leaving;
}

/* The best candidate, where that is worth leaving the fixed policy's choice. */
static uint32_t improve(struct learned *learned, const struct policy_view *view,
                        const struct policy_task *task, uint32_t core)
{
    const float *weights = learned->bandit.drawn;
    struct estimate least = {0, 0};
    uint32_t best = least_cost(learned, view, task, weights, &least);
    if (best == POLICY_REJECT || best == core)
        return core;
    struct estimate here = estimate(learned, view, task, core, weights);
    bool is_worth = here.cost > least.cost && here.lasting > least.lasting + worth_leaving;
    return is_worth ? best : core;
}

/* True when every free block of the class is promised to a task that waits, at each core, and
 * `core`, which lacks least, will have none to spare when the task begins. */
static bool is_exhausted(const struct learned *learned, const struct policy_view *view,
                         const struct policy_task *task, uint32_t core)
{
    struct learned_look look;
    float x[FORECAST_WEIGHTS];
    if (room_at(learned, view, task->class, core) > 0)
        return false;
    look.load = load(&view->lines[core].load, RELAXED);
    look_at_blocks(learned, &view->lines[core], task, core, &look);
    return later_free(learned, &look, x) < few_free;
}

/* A task that is refused counts as half a task that failed: whoever submits it knows at once and
 * has lost no time. */
static struct policy_choice refuse(struct learned *learned)
{
    if (++learned->refused_count % REFUSED_EVERY == 0 && trial_is_scored(&learned->trial))
        trial_score(&learned->trial, TRIAL_LEARNED, learned->trial.epoch, 0, true);
    return policy_chose(POLICY_REJECT);
}

static struct policy_choice learned_choose(void *state, const struct policy_view *view,
                                           const struct policy_task *task)
{
    struct learned *learned = (struct learned *)state;
    unsigned arm = trial_next(&learned->trial);
    struct policy_choice choice = fixed->choose(learned->fixed_state, view, task);
    if (choice.core >= view->cores)
        return choice;
    if (likely(arm == TRIAL_LEARNED) &&
        unlikely(may_be_worth_leaving(learned, view, task, choice.core))) {
        choice.core = improve(learned, view, task, choice.core);
        if (task->class < WATCH_CLASSES && room_at(learned, view, task->class, choice.core) <= 0) {
            choice.core = next_with_room(learned, view, task, choice.core);
            if (is_exhausted(learned, view, task, choice.core))
                return refuse(learned);
        }
    }
    choice.ticket = note_placed(learned, view, task, choice.core, arm);
    return choice;
}

static void learned_finished(void *state, const struct policy_view *view,
                             const struct policy_outcome *outcome)
{
    (void)view;
    struct learned *learned = (struct learned *)state;
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
    float x[BANDIT_FEATURES];
    features(learned, &sample->look, sample->scale, x);
    bandit_learn(&learned->bandit, x, outcome->has_failed ? failure_cost : cost);
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
    struct learned *learned = (struct learned *)state;
    if (learned->trial.arm == TRIAL_FIXED)
        return fixed->steal(learned->fixed_state, view, thief);
    return policy_victim(view, thief, policy_draw(&learned->random), is_worth_stealing);
}

uint32_t learned_compare(struct learned *learned, const struct policy_view *view,
                         const struct policy_task *task, uint32_t core, float *regret_ns,
                         uint32_t *ticket)
{
    const float *weights = learned->bandit.mean;
    struct estimate least = {0, 0};
    uint32_t would = least_cost(learned, view, task, weights, &least);
    float regret = estimate(learned, view, task, core, weights).cost - least.cost;
    *regret_ns = regret > 0 ? regret * learned->typical_ns : 0;
    *ticket = note_placed(learned, view, task, core, TRIAL_FIXED);
    return *regret_ns > 0 && would != POLICY_REJECT ? would : core;
}

const struct policy policy_learned = {.name = "learned",
                                      .state_bytes = learned_bytes,
                                      .start = learned_start,
                                      .choose = learned_choose,
                                      .finished = learned_finished,
                                      .steal = learned_steal};
