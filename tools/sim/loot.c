/*
 * loot.c: what a thief would find in the other cores' inboxes.
 *
 * Only the oldest task of an inbox may be taken, and only by a core that has a block for it, or
 * will when it has taken back what others freed. Counts of the oldest tasks by class (parts.h) tell
 * beforehand when no core has one: where all lack their block, looking at each would be in vain.
 */
#include "parts.h"

struct loot loot_of(const struct engine *engine, uint32_t thief)
{
    return (struct loot){.engine = engine, .thief = thief};
}

static bool has_block_for(const struct loot *loot, uint32_t class)
{
    const struct core *core = &loot->engine->parts->cores[loot->thief];
    return !has_blocks(loot->engine, class) || core->free[class] + core->backlog[class] > 0;
}

bool loot_is_at(const void *of, uint32_t core)
{
    const struct loot *loot = of;
    const struct engine_parts *parts = loot->engine->parts;
    const struct queue *inbox = &parts->cores[core].inbox;
    return inbox->count > 0 && has_block_for(loot, parts->tasks[inbox->head].class);
}

bool loot_is_nowhere(const struct loot *loot)
{
    const struct engine_parts *parts = loot->engine->parts;
    const struct queue *inbox = &parts->cores[loot->thief].inbox;
    uint32_t own = inbox->count > 0 ? parts->tasks[inbox->head].class : UINT32_MAX;
    for (uint32_t left = parts->has_heads; left != 0; left &= left - 1) {
        uint32_t class = bit_lowest(left);
        if (parts->heads[class] > (class == own) && has_block_for(loot, class))
            return false;
    }
    return true;
}
