/*
 * policy_steal.c: tasks go around in turn, and a core that runs dry takes the oldest waiting task
 * of another (Blumofe and Leiserson, "Scheduling multithreaded computations by work stealing", JACM
 * 1999; ZygOS, SOSP 2017, for tasks of microseconds; "Efficient scheduling policies for
 * microsecond-scale tasks", NSDI 2022, found no better balancer).
 *
 * The victim is the fuller of two random ones, else the first from there on that has a task
 * waiting. One task in flight is the one that runs, so nobody takes it.
 */
#include "exec/policy_parts.h"

struct steal {
    uint64_t random;
    uint32_t next;
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

static struct policy_choice steal_choose(void *state, const struct policy_view *view,
                                         const struct policy_task *task)
{
    struct steal *steal = state;
    uint32_t core = policy_next_feasible(view, task, steal->next);
    if (core != POLICY_REJECT)
        steal->next = core + 1 < view->cores ? core + 1 : 0;
    return policy_chose(core);
}

static uint32_t steal_victim(void *state, const struct policy_view *view, uint32_t thief)
{
    struct steal *steal = state;
    uint64_t bits = policy_draw(&steal->random);
    uint32_t a = policy_below((uint32_t)bits, view->cores);
    uint32_t b = policy_below((uint32_t)(bits >> 32), view->cores);
    uint32_t count_a = watch_count(&view->lines[a]), count_b = watch_count(&view->lines[b]);
    if (count_a < count_b) {
        a = b;
        count_a = count_b;
    }
    if (count_a >= 2 && a != thief)
        return a;
    for (uint32_t seen = 0; seen < view->cores; seen++) {
        a = a + 1 < view->cores ? a + 1 : 0;
        if (a != thief && watch_count(&view->lines[a]) >= 2)
            return a;
    }
    return POLICY_NOBODY;
}

const struct policy policy_steal = {.name = "steal",
                                    .state_bytes = steal_bytes,
                                    .start = steal_start,
                                    .choose = steal_choose,
                                    .steal = steal_victim};
