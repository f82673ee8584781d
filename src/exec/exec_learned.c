/*
 * exec_learned.c: what the policy `learned` knows, taken out of an executor and put into one.
 *
 * Owner: each state is that of the thread inside its dispatcher; before the start, of the starter.
 */
#include "exec/learned.h"
#include "exec/parts.h"

_Static_assert((int)CALM_EXEC_LEARNED_BYTES == (int)LEARNED_SNAPSHOT_BYTES, "one format");

int exec_learned_begin(struct calm_exec *exec, const struct calm_exec_config *config)
{
    if (config->learned == NULL)
        return 0;
    if (exec->policy != &policy_learned)
        return CALM_EXEC_ELEARNED;
    for (uint32_t i = 0; i < exec->dispatcher_count; i++)
        if (!learned_load((struct learned *)exec->dispatchers[i].state,
                          (const uint8_t *)config->learned, CALM_EXEC_LEARNED_BYTES))
            return CALM_EXEC_ELEARNED;
    return 0;
}

EXPORT int calm_exec_learned_save(calm_exec *exec, void *bytes)
{
    struct dispatcher *best = NULL;
    if (exec == NULL || bytes == NULL)
        return CALM_EXEC_ENULL;
    if (exec->policy != &policy_learned)
        return CALM_EXEC_ELEARNED;
    for (uint32_t i = 0; i < exec->dispatcher_count; i++) {
        struct dispatcher *dispatcher = &exec->dispatchers[i];
        if (!dispatcher_enter(dispatcher))
            continue;
        const struct learned *known = (const struct learned *)dispatcher->state;
        const struct learned *most = best == NULL ? NULL : (const struct learned *)best->state;
        if (most != NULL && known->bandit.samples <= most->bandit.samples) {
            dispatcher_leave(dispatcher);
            continue;
        }
        if (best != NULL)
            dispatcher_leave(best);
        best = dispatcher;
    }
    if (best == NULL)
        return CALM_EXEC_EBUSY;
    learned_save((const struct learned *)best->state, (uint8_t *)bytes);
    dispatcher_leave(best);
    return 0;
}
