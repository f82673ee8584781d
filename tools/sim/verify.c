/*
 * verify.c: walks the simulated executor and holds it to its invariants E1 to E4 (engine.h).
 */
#include "parts.h"

static bool has_its_blocks(const struct core *core)
{
    for (unsigned class = 0; class < WATCH_CLASSES; class ++)
        if (core->free[class] + core->in_use[class] + core->backlog[class] != core->blocks)
            return false;
    return true;
}

verdict engine_verify(const struct engine *engine)
{
    const struct engine_parts *parts = engine->parts;
    uint64_t placed = 0;
    uint32_t heads[WATCH_CLASSES + 1] = {0};
    for (uint32_t i = 0; i < engine->options.cores; i++) {
        const struct core *core = &parts->cores[i];
        uint32_t here = core->inbox.count + (core->running != NO_TASK) + core->on_the_way;
        placed += here;
        if (core->inbox.count > 0)
            heads[parts->tasks[core->inbox.head].class]++;
        if (here > engine->options.inbox_capacity + 1)
            return "E4: more places of an inbox are taken than it has";
        if (watch_count(&parts->lines[i]) != here)
            return "E2: a line's count is not what its core has";
        if (!has_its_blocks(core))
            return "E3: blocks were lost or made";
    }
    for (unsigned class = 0; class <= WATCH_CLASSES; class ++) {
        bool is_said = (parts->has_heads >> class & 1) != 0;
        if (heads[class] != parts->heads[class] || is_said != (heads[class] > 0))
            return "E2: what waits longest is not what the inboxes have";
    }
    uint64_t inside = placed + parts->held.count + parts->waiting.count;
    if (engine->in_system != inside || engine->all_offered != engine->all_left + inside)
        return "E1: tasks were lost or made";
    return NULL;
}
