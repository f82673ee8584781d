/*
 * modules_seen.c: a table that only grows, and the pages of code that it was filled from.
 *
 * An unloaded module takes its mapping and its path along; a later report would show bare
 * addresses. So the module of each page of code in a sampled stack is noted, while the stack keeps
 * the module loaded. A later module on the same pages is not noted.
 *
 * Owner: any thread, lock-free; an entry is read once its end is there. Two threads may note one
 * module twice; readers skip the copy.
 */
#include "site/modules_seen.h"

#include "base/atomic.h"

enum { SEEN_MAX = 128, PATH_BYTES = 232, PAGE_LOG2 = 12, PAGES = 512 };

struct seen_module {
    _Atomic uintptr_t end; /* 0: not written yet */
    uintptr_t start;
    uint64_t offset;
    char path[PATH_BYTES];
};

static struct seen_module *_Atomic table;
static _Atomic uint32_t count; /* may exceed SEEN_MAX */
static _Atomic uintptr_t pages[PAGES];

size_t modules_seen_bytes(void)
{
    return sizeof(struct seen_module) * SEEN_MAX;
}

void modules_seen_start(void *memory)
{
    store(&table, (struct seen_module *)memory, RELEASE);
}

static uint32_t known(void)
{
    uint32_t now = load(&count, RELAXED);
    return now < SEEN_MAX ? now : SEEN_MAX;
}

static void add(struct seen_module *in, const struct os_module *module)
{
    for (uint32_t i = 0, n = known(); i < n; i++)
        if (load(&in[i].end, ACQUIRE) == module->end && in[i].start == module->start)
            return;
    size_t length = __builtin_strlen(module->path);
    if (known() == SEEN_MAX || length >= PATH_BYTES)
        return;
    uint32_t index = fetch_add(&count, 1, RELAXED);
    if (index >= SEEN_MAX)
        return;
    in[index].start = module->start;
    in[index].offset = module->offset;
    __builtin_memcpy(in[index].path, module->path, length + 1);
    store(&in[index].end, module->end, RELEASE);
}

void modules_seen_note(const uintptr_t *callers, size_t depth)
{
    struct seen_module *in = load(&table, ACQUIRE);
    for (size_t i = 0; i < depth; i++) {
        uintptr_t page = (callers[i] - 1) >> PAGE_LOG2;
        _Atomic uintptr_t *kept = &pages[page % PAGES];
        if (likely(load(kept, RELAXED) == page))
            continue;
        struct os_module module;
        if (os_module_find(callers[i] - 1, &module))
            add(in, &module);
        store(kept, page, RELAXED);
    }
}

void modules_seen_visit(void (*visit)(const struct os_module *module, void *context), void *context)
{
    struct seen_module *in = load(&table, ACQUIRE);
    for (uint32_t i = 0, n = in == NULL ? 0 : known(); i < n; i++) {
        struct os_module module = {.end = load(&in[i].end, ACQUIRE)};
        if (module.end == 0)
            continue;
        module.start = in[i].start;
        module.offset = in[i].offset;
        module.bias = module.start - module.offset;
        module.path = in[i].path;
        visit(&module, context);
    }
}

const struct watch_fact modules_seen_facts[] = {
    FACT_AT("modules.table", table),
    FACT_AT("modules.count", count),
    FACT_NUMBER("modules.limit", SEEN_MAX),
    FACT_NUMBER("modules.bytes", sizeof(struct seen_module)),
    FACT_NUMBER("modules.start", offsetof(struct seen_module, start)),
    FACT_NUMBER("modules.offset", offsetof(struct seen_module, offset)),
    FACT_NUMBER("modules.path", offsetof(struct seen_module, path)),
    FACTS_END,
};
