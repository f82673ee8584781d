/*
 * policy_queue.c: jsq, jbsq1 and jbsq2: the policies that search for a short queue.
 *
 * jsq joins the shortest queue (Winston, "Optimality of the shortest line discipline", J. Appl.
 * Prob. 1977); ties go to the first from a random core on. jbsq allows K tasks in flight on each
 * core and holds the rest (Kogias et al., "R2P2", USENIX ATC 2019; Ibanez et al., "nanoPU", OSDI
 * 2021; RackSched, OSDI 2020): K = 1 is one shared queue. Both read every core's line.
 */
#include "exec/policy_parts.h"

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

/* The least loaded feasible core with fewer than `bound` tasks in flight, or POLICY_NOBODY.
 * needs_room: the core must have more free blocks than tasks, since each of its tasks may still
 * take one. */
ALWAYS_INLINE uint32_t shortest(struct queue *queue, const struct policy_view *view,
                                const struct policy_task *task, uint32_t bound, bool needs_room)
{
    uint32_t core = policy_below((uint32_t)policy_draw(&queue->random), view->cores);
    uint32_t best = POLICY_NOBODY, least = bound;
    for (uint32_t seen = 0; seen < view->cores && least != 0; seen++) {
        const struct watch_line *line = &view->lines[core];
        uint32_t count = watch_count(line);
        if (count < least && policy_feasible(view, task, core) &&
            (!needs_room || policy_has_room(line, task->class, count))) {
            least = count;
            best = core;
        }
        core = core + 1 < view->cores ? core + 1 : 0;
    }
    return best;
}

static uint32_t jsq_choose(void *state, const struct policy_view *view,
                           const struct policy_task *task)
{
    return shortest((struct queue *)state, view, task, view->inbox_capacity, false);
}

static uint32_t jbsq_choose(void *state, const struct policy_view *view,
                            const struct policy_task *task, uint32_t bound)
{
    uint32_t core = shortest((struct queue *)state, view, task, bound, true);
    return core == POLICY_NOBODY ? POLICY_HOLD : core;
}

static uint32_t jbsq1_choose(void *state, const struct policy_view *view,
                             const struct policy_task *task)
{
    return jbsq_choose(state, view, task, 1);
}

static uint32_t jbsq2_choose(void *state, const struct policy_view *view,
                             const struct policy_task *task)
{
    return jbsq_choose(state, view, task, 2);
}

const struct policy policy_jbsq1 = {.name = "jbsq1",
                                    .bound = 1,
                                    .state_bytes = queue_bytes,
                                    .start = queue_start,
                                    .choose = jbsq1_choose};

const struct policy policy_jbsq2 = {.name = "jbsq2",
                                    .bound = 2,
                                    .state_bytes = queue_bytes,
                                    .start = queue_start,
                                    .choose = jbsq2_choose};

const struct policy policy_jsq = {
    .name = "jsq", .state_bytes = queue_bytes, .start = queue_start, .choose = jsq_choose};
