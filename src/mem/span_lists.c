/*
 * span_lists.c: verifies the lists of free spans; see span_lists.h.
 */
#include "mem/span_lists.h"

static verdict verify_free(size_t unit, unsigned owner, unsigned state)
{
    const struct span_tag *tag = &region.tags[unit];
    const struct span_tag *last = &region.tags[unit + tag->units - 1];
    if (tag->state != state || last->state != state || last->units != tag->units)
        return "S1: a free span's ends disagree";
    size_t behind = unit + tag->units;
    if (behind < load(&region.units, RELAXED) && span_is_alike(behind, state, owner))
        return "S2: two free neighbours were not merged";
    for (size_t u = unit; u < behind; u++) {
        if (region_kind(u) != UNIT_FREE)
            return "S1: a unit of a free span is in use";
        if (region.tags[u].owner != owner)
            return "S5: a unit of a free span has another owner";
    }
    return NULL;
}

static verdict verify_lists(unsigned owner, unsigned state, size_t *units_listed)
{
    struct span_lists *in = span_lists_of(owner, state);
    for (unsigned list = 0; list < LIST_COUNT; list++) {
        if ((in->heads[list] != 0) != ((in->used[list / 64] >> list % 64 & 1) != 0))
            return "S4: the bitmap of span lists disagrees with the lists";
        for (size_t unit = in->heads[list]; unit != 0;
             unit = load(&region.tags[unit].next, RELAXED)) {
            verdict found = verify_free(unit, owner, state);
            if (found != NULL)
                return found;
            if (span_list_of(region.tags[unit].units) != list)
                return "S4: a free span is in the wrong list";
            *units_listed += region.tags[unit].units;
        }
    }
    return NULL;
}

static verdict verify_owners(const _Atomic uint32_t *owned_units)
{
    uint32_t units[SPAN_OWNER_LIMIT] = {0};
    for (size_t unit = 1; unit < load(&region.units, RELAXED); unit++)
        units[region.tags[unit].owner]++;
    for (unsigned owner = 1; owner < SPAN_OWNER_LIMIT; owner++)
        if (units[owner] != load(&owned_units[owner], RELAXED))
            return "S6: a unit has changed its owner";
    return NULL;
}

verdict span_lists_verify(const _Atomic uint32_t *owned_units, size_t dirty_units)
{
    size_t dirty = 0, clean = 0;
    verdict found = verify_owners(owned_units);
    for (unsigned owner = 0; owner < SPAN_OWNER_LIMIT && found == NULL; owner++) {
        if (owner != 0 && load(&owned_units[owner], RELAXED) == 0)
            continue;
        found = verify_lists(owner, SPAN_DIRTY, &dirty);
        if (found == NULL)
            found = verify_lists(owner, SPAN_CLEAN, &clean);
    }
    if (found == NULL && dirty != dirty_units)
        found = "S3: the count of dirty units is wrong";
    return found;
}
