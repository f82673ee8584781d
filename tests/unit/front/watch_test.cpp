/*
 * watch_test.cpp: front/watch.c: another process finds the facts as it would: through the note of
 * the file that has the library in it, by its program headers in memory.
 *
 * Seen to fail with a note of another name, and with a fact of the field beside the right one.
 */
#include <gtest/gtest.h>

#include <elf.h>
#include <link.h>

#include <map>

#include "../heap_support.h"

static const struct fact_table *found;

static void look_at_notes(const char *at, const char *end)
{
    while (at + sizeof(ElfW(Nhdr)) <= end) {
        ElfW(Nhdr) note;
        memcpy(&note, at, sizeof note);
        const char *name = at + sizeof note, *contents = name + (note.n_namesz + 3) / 4 * 4;
        if (note.n_namesz == 10 && strcmp(name, "calmalloc") == 0 && note.n_descsz == 8) {
            int64_t distance;
            memcpy(&distance, contents, sizeof distance);
            found = reinterpret_cast<const struct fact_table *>(contents + distance);
        }
        at = contents + (note.n_descsz + 3) / 4 * 4;
    }
}

static int look_at(struct dl_phdr_info *info, size_t, void *)
{
    for (unsigned i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_NOTE && info->dlpi_phdr[i].p_align == 4) {
            const char *start = reinterpret_cast<const char *>(info->dlpi_addr +
                                                               info->dlpi_phdr[i].p_vaddr);
            look_at_notes(start, start + info->dlpi_phdr[i].p_memsz);
        }
    return 0;
}

static std::map<std::string, const void *> facts_of(const struct fact_table *table)
{
    std::map<std::string, const void *> facts;
    EXPECT_EQ(table->lists[FACT_LISTS - 1], nullptr);
    for (unsigned i = 0; table->lists[i] != nullptr; i++)
        for (const struct watch_fact *fact = table->lists[i]; fact->name[0] != '\0'; fact++) {
            EXPECT_LT(strnlen(fact->name, sizeof fact->name), sizeof fact->name);
            EXPECT_TRUE(facts.emplace(fact->name, fact->value).second) << fact->name;
        }
    return facts;
}

TEST(Watch, TheNoteLeadsToTheFacts)
{
    ASSERT_TRUE(heap_start());
    dl_iterate_phdr(look_at, nullptr);
    ASSERT_EQ(found, &watch_table);
    EXPECT_STREQ(found->magic, "calmalloc facts");
    EXPECT_EQ(found->version, static_cast<uint32_t>(WATCH_VERSION));
    EXPECT_STREQ(found->library, CALM_VERSION_TEXT);
    auto facts = facts_of(found);
    EXPECT_GT(facts.size(), 60u);
    EXPECT_EQ(facts["region"], &region);
    EXPECT_EQ(facts["site.table"], &site_table);
    EXPECT_EQ(facts["remote.request"], &remote);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(facts["class.count"]),
              static_cast<uintptr_t>(CLASS_COUNT));
}

/* The words that facts tell of hold what the library's own functions say. */
TEST(Watch, TheFactsSayWhereTheNumbersAre)
{
    ASSERT_TRUE(heap_start());
    void *small = calm_malloc(100), *large = calm_malloc(9 << 20);
    calm_free(calm_malloc(1 << 20));
    auto facts = facts_of(&watch_table);
    auto number = [&](const char *name) { return reinterpret_cast<uintptr_t>(facts[name]); };
    auto word = [&](const char *name, size_t offset = 0) {
        return *reinterpret_cast<const size_t *>(number(name) + offset);
    };
    EXPECT_EQ(word("depot.newest"), reinterpret_cast<size_t>(depot_newest()));
    EXPECT_EQ(word("cache.newest"), reinterpret_cast<size_t>(registry_newest()));
    EXPECT_EQ(word("large.blocks"), large_count());
    EXPECT_EQ(word("large.units") << UNIT_SHIFT, large_bytes());
    size_t shelved = 0;
    for (size_t slot = 0; slot < number("large_cache.slot_count"); slot++)
        shelved += word("large_cache.slots", 8 * slot) &
                   ((1u << number("large_cache.units_bits")) - 1);
    EXPECT_EQ(shelved << UNIT_SHIFT, large_cache_bytes());
    EXPECT_GT(shelved, 0u);
    EXPECT_EQ(word("site.cohorts"), site_cohorts());
    calm_free(large);
    calm_free(small);
}
