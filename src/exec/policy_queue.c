/*
 * policy_queue.c: jsq, jiq and jbsq1 to jbsq4: the policies that look for a short queue.
 *
 * jsq joins the shortest queue of all (Winston, "Optimality of the shortest line discipline", J.
 * Appl. Prob. 1977); ties go to the first from a random core on. jbsq lets a core have K tasks in
 * flight and keeps the rest at the dispatcher (Kogias et al., "R2P2", USENIX ATC 2019; Ibanez et
 * al., "nanoPU", OSDI 2021; RackSched, OSDI 2020): with K = 1 that is one shared queue. Both look
 * at every core.
 *
 * jiq keeps a queue of cores that said they are idle and serves it in order; without one it goes to
 * a random core (Lu et al., "Join-Idle-Queue", Performance Evaluation 2011). A core is in the queue
 * at most once, and its entry may be old: it is used when the line still says idle, else dropped.
 */
#include "exec/policy_parts.h"

/* --- jsq and jbsq --- */

struct queue {
    uint64_t random;
};

static size_t queue_bytes(const struct policy_setup *setup)
{
    (void)setup;
    return sizeof(struct queue);
}

static void queue_start(void *state, const struct policy_setup *setup)
{
    *(struct queue *)state = (struct queue){.random = setup->seed};
}

/* The least loaded feasible core, or POLICY_REJECT; `least` gets its tasks in flight. */
static uint32_t shortest(struct queue *queue, const struct policy_view *view,
                         const struct policy_task *task, uint32_t *least)
{
    uint32_t core = policy_below((uint32_t)policy_draw(&queue->random), view->cores);
    uint32_t best = POLICY_REJECT;
    *least = view->inbox_capacity;
    for (uint32_t seen = 0; seen < view->cores && *least != 0; seen++) {
        uint32_t count = watch_count(&view->lines[core]);
        if (count < *least && policy_feasible(view, task, core)) {
            *least = count;
            best = core;
        }
        core = core + 1 < view->cores ? core + 1 : 0;
    }
    return best;
}

static struct policy_choice jsq_choose(void *state, const struct policy_view *view,
                                       const struct policy_task *task)
{
    uint32_t least;
    return policy_chose(shortest((struct queue *)state, view, task, &least));
}

ALWAYS_INLINE struct policy_choice jbsq_choose(void *state, const struct policy_view *view,
                                               const struct policy_task *task, uint32_t bound)
{
    uint32_t least;
    uint32_t core = shortest((struct queue *)state, view, task, &least);
    return policy_chose(core != POLICY_REJECT && least >= bound ? POLICY_HOLD : core);
}

#define JBSQ_CHOOSE(bound)                                                                         \
    static struct policy_choice jbsq##bound##_choose(void *state, const struct policy_view *view,  \
                                                     const struct policy_task *task)               \
    {                                                                                              \
        return jbsq_choose(state, view, task, bound);                                              \
    }
JBSQ_CHOOSE(1)
JBSQ_CHOOSE(2)
JBSQ_CHOOSE(3)
JBSQ_CHOOSE(4)

#define JBSQ(bound)                                                                                \
    {.name = "jbsq" #bound,                                                                        \
     .state_bytes = queue_bytes,                                                                   \
     .start = queue_start,                                                                         \
     .choose = jbsq##bound##_choose}
const struct policy policy_jbsq1 = JBSQ(1);
const struct policy policy_jbsq2 = JBSQ(2);
const struct policy policy_jbsq3 = JBSQ(3);
const struct policy policy_jbsq4 = JBSQ(4);

const struct policy policy_jsq = {
    .name = "jsq", .state_bytes = queue_bytes, .start = queue_start, .choose = jsq_choose};

/* --- jiq --- */

struct idle_queue {
    uint64_t random;
    uint32_t cores;
    uint32_t first, count;
    uint16_t ring[POLICY_CORES_MAX];
    bool is_queued[POLICY_CORES_MAX];
};

static size_t jiq_bytes(const struct policy_setup *setup)
{
    (void)setup;
    return sizeof(struct idle_queue);
}

static void jiq_start(void *state, const struct policy_setup *setup)
{
    struct idle_queue *queue = (struct idle_queue *)state;
    queue->random = setup->seed;
    queue->cores = setup->cores;
    queue->first = 0;
    queue->count = setup->cores; /* nobody is busy yet */
    for (uint32_t core = 0; core < POLICY_CORES_MAX; core++) {
        queue->ring[core] = (uint16_t)core;
        queue->is_queued[core] = core < setup->cores;
    }
}

static void jiq_idle(void *state, uint32_t core)
{
    struct idle_queue *queue = (struct idle_queue *)state;
    if (queue->is_queued[core])
        return;
    uint32_t last = queue->first + queue->count++;
    queue->ring[last < queue->cores ? last : last - queue->cores] = (uint16_t)core;
    queue->is_queued[core] = true;
}

static uint32_t jiq_take(struct idle_queue *queue)
{
    uint32_t core = queue->ring[queue->first];
    queue->first = queue->first + 1 < queue->cores ? queue->first + 1 : 0;
    queue->count--;
    queue->is_queued[core] = false;
    return core;
}

static struct policy_choice jiq_choose(void *state, const struct policy_view *view,
                                       const struct policy_task *task)
{
    struct idle_queue *queue = (struct idle_queue *)state;
    for (uint32_t left = queue->count; left > 0; left--) {
        uint32_t core = jiq_take(queue);
        if (watch_count(&view->lines[core]) != 0)
            continue;
        if (policy_feasible(view, task, core))
            return policy_chose(core);
        jiq_idle(queue, core); /* idle, but not for this class */
    }
    return policy_chose(policy_random_feasible(view, task, &queue->random));
}

const struct policy policy_jiq = {.name = "jiq",
                                  .state_bytes = jiq_bytes,
                                  .start = jiq_start,
                                  .choose = jiq_choose,
                                  .idle = jiq_idle};
