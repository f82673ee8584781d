/*
 * policy_queue.c: jsq, jbsq1 and jbsq2: the policies that look for a short queue.
 *
 * jsq joins the shortest queue of all (Winston, "Optimality of the shortest line discipline", J.
 * Appl. Prob. 1977); ties go to the first from a random core on. jbsq lets a core have K tasks in
 * flight and keeps the rest at the dispatcher (Kogias et al., "R2P2", USENIX ATC 2019; Ibanez et
 * al., "nanoPU", OSDI 2021; RackSched, OSDI 2020): with K = 1 that is one shared queue. Both look
 * at every core.
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

/* The least loaded feasible core below `bound` tasks in flight, POLICY_NOBODY when there is none. A
 * core whose free blocks are as many as its tasks may have none left for one more. */
ALWAYS_INLINE uint32_t shortest(struct queue *queue, const struct policy_view *view,
                                const struct policy_task *task, uint32_t bound, bool is_sure)
{
    uint32_t core = policy_below((uint32_t)policy_draw(&queue->random), view->cores);
    uint32_t best = POLICY_NOBODY, least = bound;
    for (uint32_t seen = 0; seen < view->cores && least != 0; seen++) {
        const struct watch_line *line = &view->lines[core];
        uint32_t count = watch_count(line);
        if (count < least && policy_feasible(view, task, core) &&
            (!is_sure || policy_has_room(line, task->class, count))) {
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
