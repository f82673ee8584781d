/*
 * watch.c: lets another process find our counters and tables.
 *
 * An ELF note in the library's file leads to the list of facts. A reader needs only program
 * headers: it works whatever the library's name, in a static program, stripped or not, and where
 * the file is out of reach. This process calls nothing here.
 *
 * Owner: none; all is constant. Design: docs/design/watching.md
 */
#include "front/watch.h"

#include "calmalloc/calmalloc.h"

#include "core/depot.h"
#include "core/large.h"
#include "core/registry.h"
#include "core/rows.h"
#include "core/large_cache.h"
#include "core/slab.h"
#include "mem/meta.h"
#include "site/learned.h"
#include "site/modules_seen.h"
#include "site/places.h"
#include "site/remote.h"
#include "site/sample.h"
#include "site/stacks.h"
#include "site/wrapper.h"

static const struct watch_fact region_facts[] = {
    FACT_AT("region", region),
    FACT_NUMBER("region.base", offsetof(struct region, base)),
    FACT_NUMBER("region.map", offsetof(struct region, map)),
    FACT_NUMBER("region.tags", offsetof(struct region, tags)),
    FACT_NUMBER("tag.bytes", sizeof(struct span_tag)),
    FACT_NUMBER("tag.units", offsetof(struct span_tag, units)),
    FACT_NUMBER("tag.slab", offsetof(struct span_tag, slab)),
    FACT_NUMBER("tag.asked", offsetof(struct span_tag, asked)),
    FACT_NUMBER("tag.class_before", offsetof(struct span_tag, class_before)),
    FACT_NUMBER("tag.is_large", offsetof(struct span_tag, is_large)),
    FACT_NUMBER("tag.site", offsetof(struct span_tag, site)),
    FACT_NUMBER("chunk.entry", sizeof(struct chunk_entry)),
    FACT_NUMBER("region.chunks", offsetof(struct region, chunks)),
    FACT_NUMBER("chunk.shift", CHUNK_SHIFT),
    FACT_NUMBER("unit.shift", UNIT_SHIFT),
    FACT_NUMBER("class.bits", CLASS_BITS),
    FACT_NUMBER("class.count", CLASS_COUNT),
    FACT_AT("class.facts", class_facts),
    FACT_NUMBER("class.facts_bytes", sizeof(struct class_facts)),
    FACT_NUMBER("class.capacity", offsetof(struct class_facts, capacity)),
    FACT_NUMBER("cohort.limit", COHORT_LIMIT),
    FACT_NUMBER("cohort.sampled", COHORT_SAMPLED),
    FACT_NUMBER("cohort.first", COHORT_FIRST),
    FACT_AT("cohort.apart", rows_are_separate),
    FACTS_END,
};

const struct fact_table watch_table = {
    .magic = "calmalloc facts",
    .version = WATCH_VERSION,
    .bytes = sizeof(struct fact_table),
    .library = CALM_VERSION_TEXT,
    .lists = {region_facts, depot_facts, batch_facts, registry_facts, large_facts,
              large_cache_facts, site_facts, intern_facts, seen_facts, sample_facts, stacks_facts,
              places_facts, modules_seen_facts, remote_facts, slab_facts, meta_facts,
              learned_table_facts, wrapper_table_facts},
};
