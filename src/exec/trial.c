/*
 * trial.c: epochs, scores and who leads.
 *
 * Owner: the thread that owns the state. Design: docs/design/policies.md
 */
#include "exec/trial.h"

#include "base/bits.h"

enum {
    TURNS = 8,               /* epochs spent by turns, four each                               */
    PROBE_FIXED_EVERY = 128, /* one epoch in so many for the fixed one while the learned leads */
    PROBE_LEARNED_EVERY = 32,
    TASKS_MIN = 1024,      /* scored tasks of each before a comparison                       */
    TOLERATED_BUCKETS = 1, /* one bucket is noise                                            */
    ALARM_BUCKETS = 5,     /* half as much again: 2^(5/8) is 1.54                            */
    ALARMS = 2,
};

void trial_start(struct trial *trial, uint32_t cores)
{
    *trial = (struct trial){.turns = TURNS, .arm = TRIAL_LEARNED, .leader = TRIAL_LEARNED};
    uint32_t wanted = TRIAL_EPOCH_A_CORE * cores;
    trial->epoch_decisions = wanted > TRIAL_EPOCH_MIN ? wanted : (uint32_t)TRIAL_EPOCH_MIN;
}

void trial_force(struct trial *trial, unsigned arm)
{
    trial->is_forced = 1;
    trial->leader = trial->arm = (uint8_t)arm;
}

uint32_t trial_bucket(uint32_t sojourn_ns)
{
    if (sojourn_ns < 8)
        return sojourn_ns;
    unsigned high = bit_highest(sojourn_ns);
    return (high - 2) * 8 + (sojourn_ns >> (high - 3) & 7);
}

uint32_t trial_tail(const struct trial_score *score)
{
    uint64_t above = 0;
    for (uint32_t bucket = TRIAL_BUCKETS; bucket-- > 0;) {
        above += score->times[bucket];
        if (above * 100 > score->tasks)
            return bucket;
    }
    return 0;
}

static void add(struct trial_score *score, uint32_t sojourn_ns, bool has_failed)
{
    score->tasks++;
    score->failed += has_failed;
    score->times[has_failed ? TRIAL_BUCKETS - 1 : trial_bucket(sojourn_ns)]++;
}

void trial_score(struct trial *trial, unsigned arm, uint32_t epoch, uint32_t sojourn_ns,
                 bool has_failed)
{
    add(&trial->score[arm], sojourn_ns, has_failed);
    if (epoch == trial->epoch)
        add(&trial->now, sojourn_ns, has_failed);
}

/* Older epochs count half as much at each comparison. */
static void halve(struct trial_score *score)
{
    score->tasks = 0;
    score->failed /= 2;
    for (uint32_t bucket = 0; bucket < TRIAL_BUCKETS; bucket++) {
        score->times[bucket] /= 2;
        score->tasks += score->times[bucket];
    }
}

/* Where each has enough tasks; else they add up until then. */
static void compare(struct trial *trial)
{
    const struct trial_score *learned = &trial->score[TRIAL_LEARNED];
    const struct trial_score *fixed = &trial->score[TRIAL_FIXED];
    if (learned->tasks < TASKS_MIN || fixed->tasks < TASKS_MIN)
        return;
    bool is_slower = trial_tail(learned) > trial_tail(fixed) + TOLERATED_BUCKETS;
    /* Failed shares crosswise: more than a quarter more, and more than one in a thousand more. */
    uint64_t failed_learned = (uint64_t)learned->failed * fixed->tasks;
    uint64_t failed_fixed = (uint64_t)fixed->failed * learned->tasks;
    uint64_t slack = (uint64_t)learned->tasks * fixed->tasks / 1000;
    bool fails_more = failed_learned > failed_fixed + failed_fixed / 4 + slack;
    bool fails_less = failed_fixed > failed_learned + failed_learned / 4 + slack;
    uint8_t leader = fails_more || (is_slower && !fails_less) ? TRIAL_FIXED : TRIAL_LEARNED;
    if (leader != trial->leader)
        trial->usual_bucket = 0;
    trial->leader = leader;
    halve(&trial->score[TRIAL_LEARNED]);
    halve(&trial->score[TRIAL_FIXED]);
}

static void look_for_change(struct trial *trial)
{
    if (trial->now.tasks < TASKS_MIN / 8)
        return;
    uint32_t bucket = trial_tail(&trial->now);
    if (trial->usual_bucket == 0)
        trial->usual_bucket = bucket;
    trial->alarms = bucket >= trial->usual_bucket + ALARM_BUCKETS ? trial->alarms + 1 : 0;
    if (trial->alarms == 0 && bucket > trial->usual_bucket)
        trial->usual_bucket++;
    else if (trial->alarms == 0 && bucket < trial->usual_bucket)
        trial->usual_bucket--;
    if (trial->alarms < ALARMS)
        return;
    trial->alarms = 0;
    trial->usual_bucket = 0;
    trial->turns = TURNS;
    trial->score[TRIAL_LEARNED] = trial->score[TRIAL_FIXED] = (struct trial_score){0};
}

void trial_end_epoch(struct trial *trial)
{
    trial->epochs_of[trial->arm]++;
    if (trial->turns > 0) {
        if (--trial->turns == 0)
            compare(trial);
    } else if (trial->arm == trial->leader) {
        look_for_change(trial);
    } else {
        compare(trial);
    }
    trial->decisions = 0;
    trial->epoch++;
    trial->now = (struct trial_score){0};
    uint32_t every = trial->leader == TRIAL_LEARNED ? PROBE_FIXED_EVERY : PROBE_LEARNED_EVERY;
    if (trial->turns > 0)
        trial->arm ^= 1;
    else
        trial->arm = trial->epoch % every == every - 1 ? trial->leader ^ 1 : trial->leader;
}
