/*
 * policy_prequal.c: Prequal's rule (Wydrowski et al., "Load is not what you should balance", NSDI
 * 2024).
 *
 * A pool of probes remembers what up to 16 random cores said: requests in flight and an estimate of
 * latency. A task goes to the remembered core that is not hot and has the least latency; when all
 * are hot, to the one with the least in flight. Hot is above a quantile (0.84, the paper's 2^-0.25)
 * of the counts seen lately. Each task brings three new probes; a probe that was used counts one
 * task more for the core, and goes after a few uses or when it is old; one goes with each task, in
 * turn the oldest and the worst, so that the pool does not fill with what nobody wants.
 *
 * What differs: a probe reads a watch line instead of asking over a network, so it costs one cache
 * line, and latency is (in flight + 1) times the core's smoothed service time instead of a median
 * of past latencies at that count. Probes of infeasible cores do not enter, and one that became so
 * is dropped.
 */
#include "peers.h"

enum {
    PROBES_MAX = 16,
    PROBES_A_TASK = 3,
    PROBE_USES_MAX = 2,
    COUNTS_KEPT = 64, /* a power of two: of requests in flight, for the quantile */
    HOT_QUANTILE_PERCENT = 84,
};
static const uint64_t probe_age_ns_max = 1000000;

struct probe {
    uint64_t time_ns;
    uint64_t latency_ns;
    uint32_t core;
    uint32_t count;
    uint32_t uses;
};

struct prequal {
    uint64_t random;
    uint32_t probes;
    uint32_t removals;
    uint32_t hot_count; /* above it a core is hot */
    uint32_t counts_seen;
    uint16_t counts[COUNTS_KEPT];
    struct probe probe[PROBES_MAX]; /* the oldest first */
};

static size_t prequal_bytes(const struct policy_setup *setup)
{
    (void)setup;
    return sizeof(struct prequal);
}

static void prequal_start(void *state, const struct policy_setup *setup)
{
    struct prequal *prequal = (struct prequal *)state;
    *prequal = (struct prequal){.random = setup->seed};
}

static void probe_drop(struct prequal *prequal, uint32_t index)
{
    prequal->probes--;
    for (uint32_t i = index; i < prequal->probes; i++)
        prequal->probe[i] = prequal->probe[i + 1];
}

/* The quantile of the counts kept, anew after every 64: counts above 63 count as 63. */
static void find_hot(struct prequal *prequal)
{
    uint8_t tally[COUNTS_KEPT] = {0};
    for (uint32_t i = 0; i < COUNTS_KEPT; i++)
        tally[prequal->counts[i] < COUNTS_KEPT ? prequal->counts[i] : COUNTS_KEPT - 1]++;
    uint32_t below = 0;
    for (uint32_t count = 0; count < COUNTS_KEPT; count++) {
        below += tally[count];
        if (below * 100 >= COUNTS_KEPT * HOT_QUANTILE_PERCENT) {
            prequal->hot_count = count;
            return;
        }
    }
}

static void probe_add(struct prequal *prequal, const struct policy_view *view,
                      const struct policy_task *task, uint32_t core)
{
    const struct watch_line *line = &view->lines[core];
    uint32_t count = watch_count(line);
    prequal->counts[prequal->counts_seen++ % COUNTS_KEPT] = (uint16_t)(count < UINT16_MAX
                                                                           ? count
                                                                           : UINT16_MAX);
    if (prequal->counts_seen % COUNTS_KEPT == 0)
        find_hot(prequal);
    if (!policy_feasible(view, task, core))
        return;
    if (prequal->probes == PROBES_MAX)
        probe_drop(prequal, 0);
    uint64_t service = load(&line->service_ns, RELAXED);
    prequal->probe[prequal->probes++] = (struct probe){
        .time_ns = view->now_ns, .latency_ns = (count + 1) * service, .core = core, .count = count};
}

/* True when probe a is the better place: cold before hot, then least latency, or least in flight.
 */
static bool is_better(const struct prequal *prequal, const struct probe *a, const struct probe *b)
{
    bool a_is_hot = a->count > prequal->hot_count, b_is_hot = b->count > prequal->hot_count;
    if (a_is_hot != b_is_hot)
        return b_is_hot;
    return a_is_hot ? a->count < b->count : a->latency_ns < b->latency_ns;
}

static void probe_remove_one(struct prequal *prequal)
{
    if (prequal->probes <= PROBES_A_TASK)
        return;
    uint32_t worst = 0;
    if (prequal->removals++ % 2 != 0)
        for (uint32_t i = 1; i < prequal->probes; i++)
            if (is_better(prequal, &prequal->probe[worst], &prequal->probe[i]))
                worst = i;
    probe_drop(prequal, worst);
}

static uint32_t prequal_choose(void *state, const struct policy_view *view,
                               const struct policy_task *task)
{
    struct prequal *prequal = (struct prequal *)state;
    while (prequal->probes > 0 && prequal->probe[0].time_ns + probe_age_ns_max < view->now_ns)
        probe_drop(prequal, 0);
    for (unsigned i = 0; i < PROBES_A_TASK; i++)
        probe_add(prequal, view, task,
                  policy_below((uint32_t)policy_draw(&prequal->random), view->cores));
    uint32_t best = PROBES_MAX;
    for (uint32_t i = prequal->probes; i-- > 0;) {
        if (!policy_feasible(view, task, prequal->probe[i].core))
            probe_drop(prequal, i), best -= best != PROBES_MAX;
        else if (best == PROBES_MAX ||
                 is_better(prequal, &prequal->probe[i], &prequal->probe[best]))
            best = i;
    }
    if (best == PROBES_MAX)
        return policy_random_feasible(view, task, &prequal->random);
    struct probe *probe = &prequal->probe[best];
    uint32_t core = probe->core;
    probe->latency_ns += probe->latency_ns / (probe->count + 1);
    probe->count++;
    if (++probe->uses >= PROBE_USES_MAX)
        probe_drop(prequal, best);
    probe_remove_one(prequal);
    return core;
}

const struct policy policy_prequal = {.name = "prequal",
                                      .state_bytes = prequal_bytes,
                                      .start = prequal_start,
                                      .choose = prequal_choose};
