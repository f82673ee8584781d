/*
 * policy_two.c: two feasible cores at random, the better one gets the task.
 *
 * Two choices instead of one make the longest queue doubly logarithmic (Mitzenmacher, "The power of
 * two choices in randomized load balancing", IEEE TPDS 2001). p2c compares requests in flight.
 */
#include "peers.h"

struct two {
    uint64_t random;
};

static size_t two_bytes(const struct policy_setup *setup)
{
    (void)setup;
    return sizeof(struct two);
}

static void two_start(void *state, const struct policy_setup *setup)
{
    *(struct two *)state = (struct two){.random = setup->seed};
}

/* Two feasible cores, different ones unless only one is feasible. */
static bool draw_two(struct two *two, const struct policy_view *view,
                     const struct policy_task *task, uint32_t *a, uint32_t *b)
{
    *a = policy_random_feasible(view, task, &two->random);
    *b = *a;
    if (*a == POLICY_REJECT)
        return false;
    for (unsigned i = 0; i < RANDOM_TRIES && view->cores > 1; i++) {
        uint32_t step = policy_below((uint32_t)policy_draw(&two->random), view->cores - 1);
        *b = *a + 1 + step < view->cores ? *a + 1 + step : *a + 1 + step - view->cores;
        if (likely(policy_feasible(view, task, *b)))
            return true;
    }
    *b = policy_next_feasible(view, task, *a + 1 < view->cores ? *a + 1 : 0);
    if (*b == POLICY_REJECT) /* the first has filled up meanwhile: the core itself will say */
        *b = *a;
    return true;
}

static uint32_t p2c_choose(void *state, const struct policy_view *view,
                           const struct policy_task *task)
{
    uint32_t a, b;
    if (!draw_two((struct two *)state, view, task, &a, &b))
        return POLICY_REJECT;
    return watch_count(&view->lines[b]) < watch_count(&view->lines[a]) ? b : a;
}

const struct policy policy_p2c = {
    .name = "p2c", .state_bytes = two_bytes, .start = two_start, .choose = p2c_choose};
