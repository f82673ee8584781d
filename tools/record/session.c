/*
 * session.c: from rings to the file. Events are taken in the order of their stamps up to a stamp
 * before which no thread will write any more (shared.h).
 */
#define _GNU_SOURCE
#include "session.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    AHEAD_WORDS = 48,
    TELL_WORDS = 4096,
    PAGES_A_LOOK = 8192,
    SAMPLE_MS_MIN = 5,
    SAMPLE_MS_MAX = 500,
    SAMPLE_COST_FACTOR = 50,         /* looking takes at most a 50th of the time */
    PRESUMED_BYTES_MAX = 128 * 1024, /* the recorder looks at larger blocks when they go */
};

static const uint64_t no_stamp = UINT64_MAX;

static uint64_t pages_of(const struct session *session, uint64_t address, uint64_t bytes)
{
    uint64_t before = address % session->page_bytes;
    return (before + bytes + session->page_bytes - 1) / session->page_bytes;
}

/* Of a block that is large. Its number is where no other block can begin. */
static uint32_t *number_of_large(struct session *session, uint64_t address)
{
    return &blocks_place(&session->live, address + 8)->slot_and_1;
}

static struct large *find_large(struct session *session, uint64_t address)
{
    return &session->large[*number_of_large(session, address)];
}

static void note_touched(struct session *session, uint64_t address, uint64_t pages)
{
    struct block *block = blocks_find(&session->live, address);
    if (block == NULL || !block->is_large)
        return;
    struct large *large = find_large(session, address);
    uint64_t most = pages_of(session, address, large->bytes);
    pages = pages < most ? pages : most;
    if (pages <= large->touched)
        return;
    encode_touch(session->encoder, block_name(block), large->touched, pages - large->touched);
    large->touched = pages;
}

/* A block that goes before anybody looked at it was presumably used. */
static void presume_touched(struct session *session, uint64_t address)
{
    const struct large *large = find_large(session, address);
    if (large->touched == 0 && large->bytes < PRESUMED_BYTES_MAX)
        note_touched(session, address, pages_of(session, address, large->bytes));
}

static void remember_large(struct session *session, struct block *block, struct large large)
{
    if (session->large_count == session->large_capacity) {
        size_t wanted = session->large_capacity == 0 ? 64 : session->large_capacity * 2;
        struct large *table = realloc(session->large, wanted * sizeof *table);
        if (table == NULL)
            return; /* it will be touched as little as a block can be */
        session->large = table;
        session->large_capacity = wanted;
    }
    if (blocks_place(&session->live, large.address + 8) == NULL)
        return;
    *number_of_large(session, large.address) = (uint32_t)session->large_count;
    session->large[session->large_count++] = large;
    block->is_large = 1;
}

static void forget_large(struct session *session, struct block *block, uint64_t address)
{
    uint32_t *number = number_of_large(session, address), gap = *number;
    *number = 0;
    block->is_large = 0;
    struct large last = session->large[--session->large_count];
    if (gap == session->large_count)
        return;
    session->large[gap] = last;
    *number_of_large(session, last.address) = gap;
}

/* The block's word is free again. */
static void forget(struct session *session, struct block *block, uint64_t address)
{
    if (block->is_large)
        forget_large(session, block, address);
    block->slot_and_1 = 0;
}

static void take_free(struct session *session, struct reader *reader, uint64_t address)
{
    struct block *block = blocks_find(&session->live, address);
    if (block == NULL) {
        session->unknown++;
        return;
    }
    if (block->is_large)
        presume_touched(session, address);
    encode_free(session->encoder, reader->thread, block_name(block));
    forget(session, block, address);
}

/* The word of an address that has a block now. It should be free; if it is not, the free of the
 * block before was not seen. */
static struct block *take_place(struct session *session, struct reader *reader, uint64_t address)
{
    struct block *block = blocks_place(&session->live, address);
    if (block == NULL) {
        session->encoder->trouble = ENOMEM;
        return NULL;
    }
    areas_mark(&session->areas, address);
    if (block->slot_and_1 != 0) {
        session->disorder++;
        take_free(session, reader, address);
    }
    return block;
}

static void take_alloc(struct session *session, struct reader *reader, uint64_t address,
                       struct kind kind)
{
    struct block *block = take_place(session, reader, address);
    if (block == NULL)
        return;
    block_rename(block, encode_alloc(session->encoder, reader->thread, kind));
    if (kind.bytes >= LARGE_TOUCH_BYTES)
        remember_large(session, block, (struct large){address, kind.bytes, 0});
}

static void take_begin(struct session *session, struct reader *reader, uint64_t address)
{
    struct block *block = blocks_find(&session->live, address);
    if (block == NULL || reader->resize_count == RESIZES_AT_ONCE) {
        session->unknown++;
        return;
    }
    struct resize *resize = &reader->resizes[reader->resize_count++];
    *resize = (struct resize){address, block_name(block), block->is_large, 0, 0};
    if (block->is_large) {
        presume_touched(session, address);
        const struct large *large = find_large(session, address);
        resize->bytes = large->bytes;
        resize->touched = large->touched;
    }
    forget(session, block, address);
}

/* The block stays what and where it was. */
static void take_failure(struct session *session, struct reader *reader, const struct resize *begun)
{
    struct block *block = take_place(session, reader, begun->address);
    if (block == NULL)
        return;
    block_rename(block, begun->name);
    if (begun->is_large)
        remember_large(session, block,
                       (struct large){begun->address, begun->bytes, begun->touched});
}

static void take_end(struct session *session, struct reader *reader, uint64_t old, uint64_t address,
                     struct kind kind)
{
    while (reader->resize_count > 0 && reader->resizes[reader->resize_count - 1].address != old)
        reader->resize_count--; /* a handler that did not return */
    if (reader->resize_count == 0) {
        if (address != 0) {
            kind.function = KIND_MALLOC; /* of a block that nobody knows: it is new here */
            take_alloc(session, reader, address, kind);
        }
        return;
    }
    struct resize begun = reader->resizes[--reader->resize_count];
    if (address == 0 && kind.bytes == 0) {
        encode_free(session->encoder, reader->thread, begun.name);
        return;
    }
    if (address == 0) {
        take_failure(session, reader, &begun);
        return;
    }
    struct block *block = take_place(session, reader, address);
    if (block == NULL)
        return;
    block_rename(block, encode_resize(session->encoder, reader->thread, begun.name, kind));
    uint64_t most = pages_of(session, address, kind.bytes);
    if (kind.bytes >= LARGE_TOUCH_BYTES)
        remember_large(
            session, block,
            (struct large){address, kind.bytes, begun.touched < most ? begun.touched : most});
}

static void learn_thread(struct session *session, struct reader *reader, unsigned ring)
{
    bool is_first = session->shared->rings[ring].thread == (uint32_t)session->shared->process;
    if (session->thread_count == 0)
        session->thread_count = 1; /* 0 is the process's first thread */
    reader->thread = is_first ? 0 : session->thread_count++;
    reader->is_known = true;
}

static uint64_t word_at(const struct ring *ring, uint64_t at)
{
    return ring->words[at % RING_WORDS];
}

/* Takes the event at the tail. */
static void take_event(struct session *session, struct reader *reader, const struct ring *ring)
{
    uint64_t at = reader->tail, first = word_at(ring, at++), address = first & RAW_ADDRESS_MASK;
    unsigned what = first >> RAW_KIND_SHIFT & 7;
    if ((first & RAW_STAMPED) != 0)
        reader->last = word_at(ring, at++);
    if (what == RAW_FREE) {
        take_free(session, reader, address);
    } else if (what == RAW_BEGIN) {
        take_begin(session, reader, address);
    } else if (what == RAW_TOUCHED) {
        note_touched(session, address, word_at(ring, at++));
    } else {
        uint64_t second = word_at(ring, at++), old = what == RAW_END ? word_at(ring, at++) : 0;
        uint64_t site = second & RAW_ADDRESS_MASK;
        struct kind kind = {.bytes = second >> RAW_SIZE_SHIFT};
        if (kind.bytes == RAW_SIZE_LONG)
            kind.bytes = word_at(ring, at++);
        kind.site = sites_number(&session->sites, site, session->encoder);
        kind.align_log2 = first >> RAW_ALIGN_SHIFT & 31;
        kind.function = what == RAW_MALLOC    ? KIND_MALLOC
                        : what == RAW_CALLOC  ? KIND_CALLOC
                        : what == RAW_ALIGNED ? KIND_ALIGNED
                                              : KIND_RESIZED;
        if (what == RAW_END)
            take_end(session, reader, old, address, kind);
        else
            take_alloc(session, reader, address, kind);
    }
    reader->tail = at;
}

static uint64_t stamp_at(const struct reader *reader, const struct ring *ring)
{
    if (reader->tail == reader->head)
        return no_stamp;
    bool is_stamped = (word_at(ring, reader->tail) & RAW_STAMPED) != 0;
    return is_stamped ? word_at(ring, reader->tail + 1) : reader->last;
}

static bool has_news(const struct session *session)
{
    for (unsigned i = 0; i < session->ring_count; i++)
        if (atomic_load_explicit(&session->shared->rings[i].head, memory_order_relaxed) !=
            session->readers[i].tail)
            return true;
    unsigned next = session->ring_count;
    return next < RINGS_MAX && session->shared->rings[next].thread != 0;
}

/* What all threads have published; returns the stamp before which nothing can follow. */
static uint64_t look_at_rings(struct session *session, bool is_last, uint64_t *fullest)
{
    struct shared *shared = session->shared;
    uint64_t limit = stamp_now() - shared->stamp_base;
    if (shared->has_barrier && !is_last)
        syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
    session->active_count = 0;
    for (unsigned i = 0; i < RINGS_MAX; i++) {
        struct ring *ring = &shared->rings[i];
        if (atomic_load_explicit(&ring->thread, memory_order_acquire) == 0) {
            if (i >= session->ring_count)
                break;
            continue;
        }
        session->ring_count = i >= session->ring_count ? i + 1 : session->ring_count;
        struct reader *reader = &session->readers[i];
        bool is_writing = atomic_load_explicit(&ring->is_writing, memory_order_acquire) != 0;
        uint64_t last = atomic_load_explicit(&ring->last, memory_order_acquire);
        if (is_writing && last < limit)
            limit = last;
        reader->head = atomic_load_explicit(&ring->head, memory_order_acquire);
        reader->stamp = stamp_at(reader, ring);
        uint64_t used = reader->head - reader->tail;
        *fullest = used > *fullest ? used : *fullest;
        if (used == 0)
            continue;
        if (!reader->is_known)
            learn_thread(session, reader, i);
        session->active[session->active_count++] = i;
    }
    return is_last ? no_stamp : limit;
}

/* Asks for the table's lines of the events that come next, so that few are waited for. */
static void look_ahead(struct session *session, struct reader *reader, const struct ring *ring)
{
    uint64_t to = reader->tail + AHEAD_WORDS;
    to = to < reader->head ? to : reader->head;
    uint64_t at = reader->ahead < reader->tail ? reader->tail : reader->ahead;
    while (at < to) {
        static const unsigned char words[8] = {1, 2, 2, 2, 1, 3, 2, 1};
        uint64_t first = word_at(ring, at);
        unsigned what = first >> RAW_KIND_SHIFT & 7;
        bool has_size = what != RAW_FREE && what != RAW_BEGIN && what != RAW_TOUCHED;
        __builtin_prefetch(blocks_look(&session->live, first & RAW_ADDRESS_MASK), 1);
        at += first >> RAW_STAMPED_SHIFT;
        has_size = has_size && word_at(ring, at + 1) >> RAW_SIZE_SHIFT == RAW_SIZE_LONG;
        at += words[what] + has_size;
    }
    reader->ahead = at;
}

/* Takes events of one ring while they are before all others'. */
static void take_run(struct session *session, unsigned index, uint64_t before)
{
    struct reader *reader = &session->readers[index];
    struct ring *ring = &session->shared->rings[index];
    while (reader->stamp < before) {
        look_ahead(session, reader, ring);
        take_event(session, reader, ring);
        reader->stamp = stamp_at(reader, ring);
        if (reader->tail - reader->told >= TELL_WORDS) {
            atomic_store_explicit(&ring->tail, reader->tail, memory_order_release);
            reader->told = reader->tail;
        }
    }
}

uint64_t session_drain(struct session *session, bool is_last)
{
    if (!is_last && !has_news(session))
        return 0;
    uint64_t fullest = 0, limit = look_at_rings(session, is_last, &fullest);
    for (;;) {
        uint64_t least = no_stamp, second = no_stamp;
        unsigned chosen = 0;
        for (unsigned i = 0; i < session->active_count; i++) {
            uint64_t stamp = session->readers[session->active[i]].stamp;
            if (stamp < least) {
                second = least;
                least = stamp;
                chosen = session->active[i];
            } else if (stamp < second) {
                second = stamp;
            }
        }
        if (least >= limit)
            break;
        /* Two that are equal are taken one by one. */
        take_run(session, chosen, second > least ? (second < limit ? second : limit) : least + 1);
    }
    for (unsigned i = 0; i < session->active_count; i++)
        atomic_store_explicit(&session->shared->rings[session->active[i]].tail,
                              session->readers[session->active[i]].tail, memory_order_release);
    atomic_fetch_add(&session->shared->rounds, 1);
    return fullest;
}

/* Present and this process's alone: the kernel's page of zeros, which a block has where it was read
 * and never written, is not resident memory. */
static uint64_t resident_pages(struct session *session, uint64_t address, uint64_t bytes)
{
    static uint64_t words[PAGES_A_LOOK];
    uint64_t left = pages_of(session, address, bytes), at = address / session->page_bytes;
    uint64_t found = 0;
    while (left > 0) {
        uint64_t count = left < PAGES_A_LOOK ? left : PAGES_A_LOOK;
        ssize_t got = pread(session->pagemap_fd, words, count * 8, (off_t)(at * 8));
        if (got <= 0)
            break;
        for (ssize_t i = 0; i < got / 8; i++)
            found += words[i] >> 63 & words[i] >> 56 & 1;
        left -= (uint64_t)got / 8;
        at += (uint64_t)got / 8;
    }
    return found;
}

void session_sample(struct session *session)
{
    uint64_t begun = microseconds(), elapsed = begun / 1000 - session->begun_ms, resident;
    char path[64];
    for (size_t i = 0; session->pagemap_fd >= 0 && i < session->large_count; i++) {
        struct large *large = &session->large[i];
        note_touched(session, large->address,
                     resident_pages(session, large->address, large->bytes));
    }
    snprintf(path, sizeof path, "/proc/%d/smaps", session->process);
    if (areas_resident(&session->areas, path, &resident))
        encode_sample(session->encoder, elapsed, resident / 1024);
    uint64_t now = microseconds(), wait = elapsed / 32;
    wait = wait < SAMPLE_MS_MIN ? SAMPLE_MS_MIN : wait > SAMPLE_MS_MAX ? SAMPLE_MS_MAX : wait;
    uint64_t least = (now - begun) * SAMPLE_COST_FACTOR / 1000;
    session->sample_due_ms = now / 1000 + (wait > least ? wait : least);
}

void session_reap_threads(struct session *session)
{
    struct shared *shared = session->shared;
    for (unsigned i = 0; i < session->ring_count; i++) {
        struct ring *ring = &shared->rings[i];
        struct reader *reader = &session->readers[i];
        uint32_t thread = atomic_load(&ring->thread);
        if (thread == 0 || syscall(SYS_tgkill, session->process, thread, 0) == 0 ||
            errno != ESRCH || atomic_load(&ring->head) != reader->tail)
            continue;
        if (reader->is_known)
            encode_thread_end(session->encoder, reader->thread);
        session->lost += atomic_load(&ring->lost);
        reader->is_known = false;
        reader->resize_count = 0;
        atomic_store(&ring->lost, 0);
        atomic_store(&ring->is_writing, 0);
        atomic_store(&ring->thread, 0);
    }
}
