/*
 * run.c: the threads of a replay. The memory they need comes by mmap, so that the allocator sees
 * the recorded calls only (and those of pthread_create).
 *
 * Each slot counts the steps made on it. A step knows how many come before it, and waits for them:
 * a free for the request, a request for the free of the slot's block before.
 */
#define _GNU_SOURCE
#include "run.h"
#include "stubs.h"

#include <linux/futex.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    BATCH_STEPS = 1 << 14,
    SLOTS_FIRST = 1 << 14,
    THREADS_MAX = 1 << 20,
    THREADS_AHEAD = 2048, /* a thread's first step may come after those of younger ones */
    SPINS = 64,
};

struct slot {
    void *block;
    uint64_t bytes; /* by the recording so far, which is ahead of the block */
    _Atomic uint32_t done;
    uint32_t added; /* steps, by the recording so far */
    bool is_live;
};

struct work {
    uint8_t what, function, align_log2;
    uint32_t site, slot, turn;
    uint64_t bytes, count;
};

struct worker {
    pthread_t id;
    struct work *works; /* BATCH_STEPS of them */
    uint32_t count;
    _Atomic uint32_t go;
    bool is_started, is_ending;
};

static struct runner *current;
static struct slot *slots;
static size_t slot_capacity;
static struct worker *workers;
static uint32_t worker_capacity, worker_count;
static uint32_t *busy; /* those with steps in this batch */
static uint32_t busy_count, added_count;
static _Atomic uint32_t unfinished;

uint64_t run_clock_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void futex_wait(_Atomic uint32_t *word, uint32_t value)
{
    while (atomic_load_explicit(word, memory_order_acquire) == value)
        syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void wait_for_turn(struct slot *slot, uint32_t turn)
{
    for (unsigned spins = 0; atomic_load_explicit(&slot->done, memory_order_acquire) != turn;)
        if (++spins > SPINS)
            sched_yield();
}

/* A byte of each page from `first` on, and where the block ends. */
static void touch(char *block, uint64_t first, uint64_t end)
{
    for (uint64_t at = first; at < end; at += current->page_bytes)
        *(volatile char *)(block + at) = 1;
    if (end > first)
        *(volatile char *)(block + end - 1) = 1;
}

static void *request(const struct work *work, void *block)
{
    uintptr_t bytes = work->bytes;
    switch (work->function) {
    case KIND_CALLOC: return stub_call(work->site, 1, bytes, (any_function)calloc);
    case KIND_ALIGNED:
        return stub_call(work->site, (uintptr_t)1 << work->align_log2, bytes,
                         (any_function)memalign);
    case KIND_RESIZED: return stub_call(work->site, (uintptr_t)block, bytes, (any_function)realloc);
    default: return stub_call(work->site, bytes, 0, (any_function)malloc);
    }
}

static void make_request(const struct work *work, struct slot *slot)
{
    void *block = request(work, slot->block);
    if (block == NULL) {
        atomic_fetch_add(&current->failed, 1);
        if (work->what == STEP_RESIZE)
            return; /* the block stays */
        slot->block = NULL;
        return;
    }
    slot->block = block;
    areas_mark(&current->areas, (uintptr_t)block);
    if (work->bytes < LARGE_TOUCH_BYTES)
        touch(block, 0, work->bytes);
}

static void make_step(const struct work *work)
{
    struct slot *slot = &slots[work->slot];
    wait_for_turn(slot, work->turn);
    if (work->what == STEP_FREE) {
        free(slot->block);
        slot->block = NULL;
    } else if (work->what != STEP_TOUCH) {
        make_request(work, slot);
    } else if (slot->block != NULL) {
        touch(slot->block, work->bytes, work->bytes + work->count);
    }
    atomic_store_explicit(&slot->done, work->turn + 1, memory_order_release);
}

static void make_steps(struct worker *worker)
{
    for (uint32_t i = 0; i < worker->count; i++)
        make_step(&worker->works[i]);
}

static void *work_on(void *argument)
{
    uint32_t index = (uint32_t)(uintptr_t)argument;
    for (uint32_t seen = 0;; seen++) {
        futex_wait(&workers[index].go, seen);
        struct worker *worker = &workers[index];
        make_steps(worker);
        bool is_ending = worker->is_ending;
        if (atomic_fetch_sub(&unfinished, 1) == 1)
            futex_wake(&unfinished);
        if (is_ending)
            return NULL;
    }
}

static _Noreturn void no_memory(void)
{
    refuse(current->path, "there is no memory for the replay's own tables");
}

void run_open(struct runner *runner)
{
    current = runner;
    runner->page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    slots = table_map(SLOTS_FIRST * sizeof *slots);
    slot_capacity = SLOTS_FIRST;
    /* Not moved later: threads wait on words in it. Mostly never touched. */
    workers = table_map(THREADS_MAX * sizeof *workers);
    worker_capacity = THREADS_MAX;
    busy = table_map(BATCH_STEPS * sizeof *busy);
    if (slots == NULL || workers == NULL || busy == NULL || !areas_open(&runner->areas))
        no_memory();
}

static struct worker *worker_of(uint32_t thread)
{
    if (thread >= worker_capacity || thread >= worker_count + THREADS_AHEAD)
        refuse(current->path, "it is damaged");
    worker_count = thread >= worker_count ? thread + 1 : worker_count;
    struct worker *worker = &workers[thread];
    if (worker->works == NULL) {
        worker->works = table_map(BATCH_STEPS * sizeof *worker->works);
        if (worker->works == NULL)
            no_memory();
    }
    return worker;
}

static struct work *next_work(uint32_t thread)
{
    struct worker *worker = worker_of(thread);
    if (worker->count == 0 && !worker->is_ending)
        busy[busy_count++] = thread;
    added_count++;
    return &worker->works[worker->count++];
}

static struct slot *slot_of(const struct step *step)
{
    if (step->slot >= slot_capacity) {
        run_batch(current); /* nobody looks while they move */
        size_t wanted = slot_capacity * 2;
        struct slot *larger = table_grow(slots, slot_capacity * sizeof *slots,
                                         wanted * sizeof *slots);
        if (larger == NULL)
            no_memory();
        slots = larger;
        slot_capacity = wanted;
    }
    struct slot *slot = &slots[step->slot];
    if (slot->is_live == (step->what == STEP_ALLOC))
        refuse(current->path, "it is damaged");
    return slot;
}

/* What the recording has alive after the step. */
static void account(struct runner *runner, const struct step *step, struct slot *slot)
{
    if (step->what == STEP_TOUCH)
        return;
    if (step->what != STEP_ALLOC)
        runner->live_bytes -= slot->bytes;
    slot->bytes = step->what == STEP_FREE ? 0 : step->kind.bytes;
    slot->is_live = step->what != STEP_FREE;
    runner->live_bytes += slot->bytes;
    runner->live_blocks += step->what == STEP_ALLOC;
    runner->live_blocks -= step->what == STEP_FREE;
    if (runner->live_bytes > runner->peak_live_bytes)
        runner->peak_live_bytes = runner->live_bytes;
}

static void end_thread(struct runner *runner, uint32_t thread)
{
    struct worker *worker = worker_of(thread);
    if (thread == 0 || (!worker->is_started && worker->count == 0))
        return;
    if (worker->count == 0)
        busy[busy_count++] = thread;
    worker->is_ending = true;
    run_batch(runner);
}

/* Of a block's pages, those that are inside it, in bytes. */
static bool limit_touch(const struct runner *runner, const struct slot *slot, struct work *work)
{
    uint64_t page = runner->page_bytes, pages = (slot->bytes + page - 1) / page;
    if (work->bytes >= pages)
        return false;
    uint64_t left = pages - work->bytes, count = work->count < left ? work->count : left;
    work->bytes *= page;
    uint64_t end = work->bytes + count * page;
    work->count = (end < slot->bytes ? end : slot->bytes) - work->bytes;
    return true;
}

/* Pages may be touched after the last thread that did something has ended. */
static uint32_t thread_of(const struct step *step)
{
    const struct worker *worker = worker_of(step->thread);
    bool is_there = worker->is_started || worker->count > 0;
    return step->what != STEP_TOUCH || is_there ? step->thread : 0;
}

void run_add(struct runner *runner, const struct step *step)
{
    if (step->what == STEP_THREAD_END) {
        end_thread(runner, step->thread);
        return;
    }
    struct slot *slot = slot_of(step);
    struct work work = {.what = step->what,
                        .function = step->kind.function,
                        .align_log2 = step->kind.align_log2,
                        .site = step->kind.site,
                        .slot = step->slot,
                        .turn = slot->added,
                        .bytes = step->kind.bytes,
                        .count = step->count};
    if (step->what == STEP_TOUCH && !limit_touch(runner, slot, &work))
        return;
    if ((step->what == STEP_RESIZE) != (work.function == KIND_RESIZED) &&
        step->what <= STEP_RESIZE && step->what != STEP_FREE)
        refuse(runner->path, "it is damaged");
    slot->added++;
    account(runner, step, slot);
    *next_work(thread_of(step)) = work;
    if (added_count == BATCH_STEPS)
        run_batch(runner);
}

static void start(struct runner *runner, uint32_t thread)
{
    struct worker *worker = &workers[thread];
    if (worker->is_started)
        return;
    atomic_store(&worker->go, 0);
    if (pthread_create(&worker->id, NULL, work_on, (void *)(uintptr_t)thread) != 0)
        refuse(runner->path, "no more threads can be made");
    worker->is_started = true;
    runner->threads_made++;
}

static uint64_t microseconds(struct timeval time)
{
    return (uint64_t)time.tv_sec * 1000000 + (uint64_t)time.tv_usec;
}

static void join(struct worker *worker)
{
    pthread_join(worker->id, NULL);
    table_unmap(worker->works, BATCH_STEPS * sizeof *worker->works);
    *worker = (struct worker){0};
}

void run_batch(struct runner *runner)
{
    struct rusage before, after;
    bool has_first = false;
    uint32_t others = 0;
    getrusage(RUSAGE_SELF, &before);
    uint64_t begun = run_clock_us();
    for (uint32_t i = 0; i < busy_count; i++) {
        if (busy[i] == 0) {
            has_first = true;
            continue;
        }
        start(runner, busy[i]);
        others++;
    }
    atomic_store(&unfinished, others);
    for (uint32_t i = 0; i < busy_count; i++) {
        if (busy[i] == 0)
            continue;
        atomic_fetch_add(&workers[busy[i]].go, 1);
        futex_wake(&workers[busy[i]].go);
    }
    if (has_first)
        make_steps(&workers[0]);
    for (uint32_t left; (left = atomic_load(&unfinished)) != 0;)
        futex_wait(&unfinished, left);
    getrusage(RUSAGE_SELF, &after);
    runner->calls_us += run_clock_us() - begun;
    runner->cpu_user_us += microseconds(after.ru_utime) - microseconds(before.ru_utime);
    runner->cpu_system_us += microseconds(after.ru_stime) - microseconds(before.ru_stime);
    for (uint32_t i = 0; i < busy_count; i++) {
        workers[busy[i]].count = 0;
        if (workers[busy[i]].is_ending)
            join(&workers[busy[i]]);
    }
    busy_count = added_count = 0;
}

void run_end_threads(struct runner *runner)
{
    for (uint32_t thread = 1; thread < worker_count; thread++)
        if (workers[thread].is_started)
            end_thread(runner, thread);
}
