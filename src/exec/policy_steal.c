/*
 * policy_steal.c: tasks go to the cores in turn, slow cores get fewer, and an idle core steals the
 * oldest waiting task of another (Blumofe and Leiserson, "Scheduling multithreaded computations by
 * work stealing", JACM 1999; ZygOS, SOSP 2017, for tasks of microseconds; "Efficient scheduling
 * policies for microsecond-scale tasks", NSDI 2022, found no better balancer).
 *
 * If the core in turn is busy, up to four random cores are tried, and an idle one gets the task,
 * which saves a theft. If the chosen core is slow, with a smoothed service time above 1.5 times the
 * quickest, the task goes to a quicker core that would finish its present tasks and this one
 * sooner: of four random ones and the two that were best last time (Mitzenmacher, Prabhakar, Shah,
 * "Load balancing with memory", FOCS 2002).
 *
 * The victim is the core whose oldest task has waited longest, of 64 from a random one on, or of
 * more until one has a waiting task. A single task in flight is the running one, so no thief takes
 * it. A slow thief leaves tasks that the victim would finish sooner.
 */
#include "exec/policy_parts.h"

enum {
    RANDOM_TRIES = 4,
    REMEMBERED = 2,
    TRY_EVERY = 256, /* a slow core is avoided, but one time in 256 gets the task if idle */
    /* The quickest service time, in units of 2^-6 ns, rises by 1/2^6 each decision, to follow cores
     * that become slower. */
    QUICK_SHIFT = 6,
};

struct steal {
    uint64_t random;
    uint64_t quick; /* quickest service time; 0: unknown */
    uint32_t next;
    uint32_t left; /* times a slow core was avoided */
    uint32_t remembered[REMEMBERED];
};

static size_t steal_bytes(const struct policy_setup *setup)
{
    (void)setup;
    return sizeof(struct steal);
}

static void steal_start(void *state, const struct policy_setup *setup)
{
    *(struct steal *)state = (struct steal){.random = setup->seed};
}

static uint32_t random_core(struct steal *steal, const struct policy_view *view)
{
    return policy_below((uint32_t)policy_draw(&steal->random), view->cores);
}

/* The core in turn, or an idle one of a few others; POLICY_REJECT when none is feasible. */
static uint32_t in_turn(struct steal *steal, const struct policy_view *view,
                        const struct policy_task *task)
{
    uint32_t core = policy_next_feasible(view, task, steal->next);
    if (core == POLICY_REJECT)
        return core;
    if (watch_count(&view->lines[core]) != 0) {
        for (unsigned i = 0; i < RANDOM_TRIES; i++) {
            uint32_t other = random_core(steal, view);
            if (watch_count(&view->lines[other]) == 0 && policy_feasible(view, task, other))
                return other;
        }
    }
    steal->next = core + 1 < view->cores ? core + 1 : 0;
    return core;
}

ALWAYS_INLINE uint64_t service_ns(const struct policy_view *view, uint32_t core)
{
    return load(&view->lines[core].service_ns, RELAXED);
}

/* Whether the core takes more than 1.5 times the quickest service time, which this updates. */
static bool is_slow(struct steal *steal, const struct policy_view *view, uint32_t core)
{
    uint64_t service = service_ns(view, core) << QUICK_SHIFT;
    if (service == 0)
        return false;
    steal->quick += steal->quick >> QUICK_SHIFT;
    if (service < steal->quick || steal->quick == 0)
        steal->quick = service;
    return service > steal->quick + steal->quick / 2;
}

/* Time until the core would finish its present tasks and one more. */
ALWAYS_INLINE uint64_t done_in_ns(const struct policy_view *view, uint32_t core)
{
    return ((uint64_t)watch_count(&view->lines[core]) + 1) * service_ns(view, core);
}

/* Of the cores at least 1.5 times as quick as `core`, the one that would finish first, or
 * `core`. */
static uint32_t quicker(struct steal *steal, const struct policy_view *view,
                        const struct policy_task *task, uint32_t core)
{
    uint32_t best = core, second = core;
    uint64_t here_ns = service_ns(view, core), least_ns = done_in_ns(view, core);
    uint32_t remembered[REMEMBERED] = {steal->remembered[0], steal->remembered[1]};
    for (unsigned i = 0; i < REMEMBERED + RANDOM_TRIES; i++) {
        uint32_t other = i < REMEMBERED ? remembered[i] : random_core(steal, view);
        uint64_t other_ns = service_ns(view, other);
        if (other == best || here_ns < other_ns + other_ns / 2 ||
            done_in_ns(view, other) >= least_ns || !policy_feasible(view, task, other))
            continue;
        second = best;
        best = other;
        least_ns = done_in_ns(view, other);
    }
    if (best != core)
        steal->remembered[0] = best;
    if (second != core)
        steal->remembered[1] = second;
    return best;
}

static uint32_t steal_choose(void *state, const struct policy_view *view,
                             const struct policy_task *task)
{
    struct steal *steal = (struct steal *)state;
    uint32_t core = in_turn(steal, view, task);
    if (core == POLICY_REJECT || likely(!is_slow(steal, view, core)))
        return core;
    /* A core without tasks is not measured: one whose first task was long would stay slow. */
    if (++steal->left % TRY_EVERY == 0 && watch_count(&view->lines[core]) == 0)
        return core;
    return quicker(steal, view, task, core);
}

/* Whether the thief would finish the task before the victim reached its last one, or the task has
 * waited for as long as the thief takes longer. */
static bool is_worth_stealing(const struct policy_view *view, uint32_t victim, uint32_t thief)
{
    uint64_t slow_ns = service_ns(view, thief), quick_ns = service_ns(view, victim);
    return watch_count(&view->lines[victim]) * quick_ns >= slow_ns ||
           policy_waited(view, victim, 1) + quick_ns >= slow_ns;
}

/* Cores that a thief inspects: a thief with own work, and one without. */
enum { STEAL_LOOKS_BUSY = 2, STEAL_LOOKS_IDLE = 64 };

static bool has_loot(const struct policy_view *view, uint32_t core)
{
    return view->has_loot == NULL || view->has_loot(view->loot, core);
}

/*
 * The core whose oldest task has waited longest, of those inspected from a random one on, or
 * POLICY_NOBODY. A thief with own work steals only a task that has waited a service time longer
 * than its own; a thief without continues past STEAL_LOOKS_IDLE until it finds a victim.
 */
static uint32_t steal_victim(void *state, const struct policy_view *view, uint32_t thief)
{
    struct steal *steal = (struct steal *)state;
    if (view->has_no_loot)
        return POLICY_NOBODY;
    uint64_t longest = policy_waited(view, thief, 0);
    bool has_work = longest > 0;
    if (has_work)
        longest += service_ns(view, thief);
    uint32_t core = random_core(steal, view);
    uint32_t victim = POLICY_NOBODY;
    for (uint32_t seen = 1; seen <= view->cores; seen++) {
        while (!has_work && victim == POLICY_NOBODY && seen < view->cores &&
               watch_count(&view->lines[core]) <= 1) { /* common case: no task waits there */
            core = core + 1 < view->cores ? core + 1 : 0;
            seen++;
        }
        uint64_t waited = policy_waited(view, core, 1);
        if (waited > longest && core != thief && is_worth_stealing(view, core, thief) &&
            has_loot(view, core)) {
            longest = waited;
            victim = core;
        }
        if (has_work ? seen >= STEAL_LOOKS_BUSY
                     : seen >= STEAL_LOOKS_IDLE && victim != POLICY_NOBODY)
            break;
        core = core + 1 < view->cores ? core + 1 : 0;
    }
    return victim;
}

const struct policy policy_steal = {.name = "steal",
                                    .state_bytes = steal_bytes,
                                    .start = steal_start,
                                    .choose = steal_choose,
                                    .steal = steal_victim};
