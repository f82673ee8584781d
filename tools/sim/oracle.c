/*
 * oracle.c: least-work: the core that will be done first with what it has, known and not estimated.
 *
 * It does not ask which cores are feasible: it shows what knowing the work alone is worth.
 */
#include "peers.h"

struct oracle {
    const double *busy_until_ns;
    uint64_t random;
};

static size_t oracle_bytes(const struct policy_setup *setup)
{
    (void)setup;
    return sizeof(struct oracle);
}

static void oracle_start(void *state, const struct policy_setup *setup)
{
    *(struct oracle *)state = (struct oracle){.busy_until_ns = setup->busy_until_ns,
                                              .random = setup->seed};
}

static uint32_t oracle_choose(void *state, const struct policy_view *view,
                              const struct policy_task *task)
{
    struct oracle *oracle = state;
    (void)task;
    uint32_t core = policy_below((uint32_t)policy_draw(&oracle->random), view->cores);
    uint32_t best = core;
    double now = (double)view->now_ns, least = 1;
    for (uint32_t seen = 0; seen < view->cores && least > 0; seen++) { /* none has less than 0 */
        double left = oracle->busy_until_ns[core] > now ? oracle->busy_until_ns[core] - now : 0;
        if (seen == 0 || left < least) {
            least = left;
            best = core;
        }
        core = core + 1 < view->cores ? core + 1 : 0;
    }
    return best;
}

const struct policy policy_least_work = {.name = "least-work",
                                         .state_bytes = oracle_bytes,
                                         .start = oracle_start,
                                         .choose = oracle_choose};
