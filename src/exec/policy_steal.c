/*
 * policy_steal.c: tasks go around in turn, and a core that runs dry takes the oldest waiting task
 * of another (Blumofe and Leiserson, "Scheduling multithreaded computations by work stealing", JACM
 * 1999; ZygOS, SOSP 2017, for tasks of microseconds; "Efficient scheduling policies for
 * microsecond-scale tasks", NSDI 2022, found no better balancer).
 *
 * Where the core whose turn it is works, up to four random ones are looked at, and an idle one gets
 * the task: a theft less. The victim is the core whose oldest task has waited longest, of 64 from a
 * random one on, or of more until one has a task waiting. One task in flight is the one that runs:
 * nobody takes it.
 */
#include "exec/policy_parts.h"

enum { IDLE_LOOKS = 4 };

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
    struct steal *steal = (struct steal *)state;
    uint32_t core = policy_next_feasible(view, task, steal->next);
    if (core == POLICY_REJECT)
        return policy_chose(core);
    if (watch_count(&view->lines[core]) != 0) {
        for (unsigned i = 0; i < IDLE_LOOKS; i++) {
            uint32_t other = policy_below((uint32_t)policy_draw(&steal->random), view->cores);
            if (watch_count(&view->lines[other]) == 0 && policy_feasible(view, task, other))
                return policy_chose(other);
        }
    }
    steal->next = core + 1 < view->cores ? core + 1 : 0;
    return policy_chose(core);
}

static uint32_t steal_victim(void *state, const struct policy_view *view, uint32_t thief)
{
    struct steal *steal = (struct steal *)state;
    return policy_victim(view, thief, policy_draw(&steal->random), NULL);
}

const struct policy policy_steal = {.name = "steal",
                                    .state_bytes = steal_bytes,
                                    .start = steal_start,
                                    .choose = steal_choose,
                                    .steal = steal_victim};
