/*
 * stopped SEED HOW STOPS HOLD_MS: a victim thread allocates and frees without pause; STOPS times it
 * runs for HOLD_MS and is then held for HOLD_MS at whatever instruction it has reached. HOW 0: by
 * ptrace, from a helper process. HOW 1: parked in a signal handler. HOW 2: it has the idle class
 * and a busy thread shares its core. The other threads, each on a core of its own, replace random
 * blocks and time each malloc and free.
 *
 * Measures what a stopped thread costs everyone else: `others_p999_ratio` is their P99.9 while the
 * victim is held over theirs while it runs; `stalled_stops_share` says in how many stops somebody
 * waited for half of it or longer. The victim and the others free each other's blocks, so a lock
 * that is held while the victim stands still is found. A call that takes t counts once for each
 * microsecond of t: otherwise one that waits for the whole stop would be one call among millions.
 * What the kernel says a thread was ready but had no core is subtracted from long calls, as a busy
 * machine would drown the rest. A call that sees both states counts as held. Does not measure the
 * victim, nor what is kept from reuse while it is held. Needs two cores. Where ptrace is refused it
 * says so and ends with code 77.
 */
#include "tail.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum how { BY_PTRACE, BY_SIGNAL, BY_IDLE_CLASS };
enum { OTHERS_MAX = 3, SLOTS = 4096, RING = 1024, BURST = 256, SWAP_EVERY = 8 };
enum { BYTES_MIN = 16, BYTES_SPAN = 1009, LEFT_OUT = 77, PATIENCE_MS = 5000 };
enum { LONG_US = 20, STOPS_MAX = 10000 };

#include "ring.h"

/* Between the victim and each other. */
static struct ring to_victim[OTHERS_MAX], from_victim[OTHERS_MAX];
static struct other {
    _Alignas(128) struct tail running;
    struct tail held;
    uint64_t allocated;
    uint64_t freed;
    uint64_t last_end; /* of its last call, in ticks */
    uint64_t coreless; /* ns it was ready without a core, when last read */
    int schedule_file;
} others[OTHERS_MAX];
static struct {
    _Alignas(128) uint64_t allocated;
    uint64_t freed;
    uint64_t bursts;
} victim_sums;

static atomic_bool stalled_stops[STOPS_MAX]; /* someone waited for half of the hold or longer */
static uint64_t seed, microsecond_ticks, hold_ms, stops;
static enum how how;
static unsigned other_count;
static cpu_set_t cores[OTHERS_MAX], victim_core;
static _Alignas(128) atomic_uint epoch; /* odd while the victim is held */
static atomic_bool is_over, is_parked, may_go_on, hog_is_busy;
static atomic_int victim_id;
static atomic_uint ready_others; /* that have filled their slots */

/* What main and the helper process say to each other. */
static struct shared {
    atomic_int wish;  /* 0 let go, 1 hold */
    atomic_int state; /* 0 let go, 1 held, negative: -errno of ptrace */
} *shared;

static uint64_t *block_new(uint64_t *random, uint64_t *allocated)
{
    uint64_t *block = allocate(BYTES_MIN + random_below(random, BYTES_SPAN), 0);
    *block = *random;
    *allocated += *random;
    return block;
}

static uint64_t block_free(uint64_t *block)
{
    uint64_t stamp = *block;
    free(block);
    return stamp;
}

/* Bursts of one size run its caches over and dry, so that it is often deep inside the allocator. */
static void *victim_run(void *unused)
{
    uint64_t random = random_stream(seed, 1000), *blocks[BURST], *block;
    uint64_t allocated = 0, freed = 0, bursts = 0;
    sched_setaffinity(0, sizeof victim_core, &victim_core);
    atomic_store(&victim_id, (int)syscall(SYS_gettid));
    while (!atomic_load_explicit(&is_over, memory_order_relaxed)) {
        size_t bytes = BYTES_MIN + random_below(&random, BYTES_SPAN);
        for (unsigned i = 0; i < BURST; i++) {
            blocks[i] = allocate(bytes, 0);
            *blocks[i] = next_random(&random);
            allocated += random;
        }
        for (unsigned i = 0; i < BURST; i++)
            if (i % 4 != 0 || !ring_give(&from_victim[i / 4 % other_count], blocks[i]))
                freed += block_free(blocks[i]);
        for (unsigned i = 0; i < other_count; i++)
            while ((block = ring_take(&to_victim[i])) != NULL)
                freed += block_free(block);
        bursts++;
    }
    victim_sums.allocated = allocated;
    victim_sums.freed = freed;
    victim_sums.bursts = bursts;
    return unused;
}

/* ns that this thread was ready but had no core since it was last asked. Makes no malloc call. */
static uint64_t coreless_ns(struct other *other)
{
    char text[96], *delay;
    ssize_t got = pread(other->schedule_file, text, sizeof text - 1, 0);
    if (got <= 0)
        fail("/proc/thread-self/schedstat cannot be read");
    text[got] = '\0';
    strtoull(text, &delay, 10);
    uint64_t now = strtoull(delay, NULL, 10), since = now - other->coreless;
    other->coreless = now;
    return since;
}

/*
 * Counts a long call as often as calls would have been made meanwhile. Time between two calls is
 * watched too, so that a core lost there is not subtracted from a later call.
 */
static void other_add(struct other *other, unsigned epoch_before, uint64_t before, uint64_t after)
{
    unsigned epoch_after = atomic_load_explicit(&epoch, memory_order_acquire);
    bool is_held = epoch_before % 2 == 1 || epoch_after != epoch_before;
    struct tail *tail = is_held ? &other->held : &other->running;
    uint64_t ticks = after > before ? after - before : 0;
    if (after - other->last_end > LONG_US * microsecond_ticks) {
        uint64_t lost = (uint64_t)((double)coreless_ns(other) / ns_a_tick);
        if (ticks > LONG_US * microsecond_ticks)
            ticks = ticks > lost ? ticks - lost : 0;
        after = ticks_after();
    }
    other->last_end = after;
    if (is_held && ticks > hold_ms * 1000 / 2 * microsecond_ticks)
        atomic_store_explicit(&stalled_stops[(epoch_before | 1) / 2 % STOPS_MAX], true,
                              memory_order_relaxed);
    tail_add_ticks(tail, ticks);
    for (; ticks > microsecond_ticks; ticks -= microsecond_ticks)
        tail_add_ticks(tail, ticks - microsecond_ticks);
}

static void other_free(struct other *other, uint64_t *block)
{
    unsigned epoch_before = atomic_load_explicit(&epoch, memory_order_acquire);
    other->freed += *block;
    uint64_t before = ticks_before();
    free(block);
    uint64_t after = ticks_after();
    other_add(other, epoch_before, before, after);
}

static uint64_t *other_malloc(struct other *other, uint64_t *random)
{
    size_t bytes = BYTES_MIN + random_below(random, BYTES_SPAN);
    unsigned epoch_before = atomic_load_explicit(&epoch, memory_order_acquire);
    uint64_t before = ticks_before();
    uint64_t *block = malloc(bytes);
    uint64_t after = ticks_after();
    other_add(other, epoch_before, before, after);
    if (block == NULL)
        fail("malloc(%zu) returned NULL", bytes);
    *block = *random;
    other->allocated += *random;
    return block;
}

static void *other_run(void *argument_)
{
    struct other *other = argument_;
    unsigned index = (unsigned)(other - others);
    uint64_t random = random_stream(seed, index), *slots[SLOTS], *block;
    sched_setaffinity(0, sizeof cores[index], &cores[index]);
    other->schedule_file = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    for (unsigned i = 0; i < SLOTS; i++)
        slots[i] = block_new(&random, &other->allocated);
    atomic_fetch_add(&ready_others, 1);
    coreless_ns(other);
    other->last_end = ticks_after();
    for (uint64_t i = 0; !atomic_load_explicit(&is_over, memory_order_relaxed); i++) {
        uint32_t slot = random_below(&random, SLOTS);
        if (i % SWAP_EVERY != 0 || !ring_give(&to_victim[index], slots[slot]))
            other_free(other, slots[slot]);
        block = i % SWAP_EVERY == 0 ? ring_take(&from_victim[index]) : NULL;
        slots[slot] = block != NULL ? block : other_malloc(other, &random);
    }
    for (unsigned i = 0; i < SLOTS; i++)
        other->freed += block_free(slots[i]);
    return NULL;
}

/* --- three ways to hold the victim --- */

static void pause_us(long microseconds)
{
    struct timespec pause = {microseconds / 1000000, microseconds % 1000000 * 1000};
    nanosleep(&pause, NULL);
}

static void park(int signal_number)
{
    int saved = errno;
    (void)signal_number;
    atomic_store(&is_parked, true);
    while (!atomic_load(&may_go_on))
        pause_us(100);
    atomic_store(&is_parked, false);
    errno = saved;
}

static void *hog_run(void *unused)
{
    sched_setaffinity(0, sizeof victim_core, &victim_core);
    while (!atomic_load_explicit(&is_over, memory_order_relaxed))
        if (!atomic_load_explicit(&hog_is_busy, memory_order_relaxed))
            pause_us(100);
    return unused;
}

/* Seizes thread `id` and holds it whenever that is wished. Signals that come between are passed on.
 */
static void helper_run(pid_t id)
{
    bool is_held = false;
    int status;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (ptrace(PTRACE_SEIZE, id, NULL, NULL) != 0) {
        atomic_store(&shared->state, -errno);
        _exit(0);
    }
    for (;; pause_us(50)) {
        if (atomic_load(&shared->wish) == 1 && !is_held) {
            ptrace(PTRACE_INTERRUPT, id, NULL, NULL);
            while (waitpid(id, &status, __WALL) == id && WIFSTOPPED(status) &&
                   status >> 16 != PTRACE_EVENT_STOP)
                ptrace(PTRACE_CONT, id, NULL, (void *)(long)WSTOPSIG(status));
            is_held = true;
            atomic_store(&shared->state, 1);
        } else if (atomic_load(&shared->wish) == 0 && is_held) {
            ptrace(PTRACE_CONT, id, NULL, NULL);
            is_held = false;
            atomic_store(&shared->state, 0);
        } else if (!is_held && waitpid(id, &status, __WALL | WNOHANG) == id && WIFSTOPPED(status)) {
            ptrace(PTRACE_CONT, id, NULL, (void *)(long)WSTOPSIG(status));
        }
    }
}

static bool is_held_now(void)
{
    return how == BY_PTRACE   ? atomic_load(&shared->state) == 1
           : how == BY_SIGNAL ? atomic_load(&is_parked)
                              : atomic_load(&hog_is_busy);
}

static void wait_until_held(bool wanted)
{
    for (long waited_us = 0; is_held_now() != wanted; waited_us += 50) {
        int refused = how == BY_PTRACE ? -atomic_load(&shared->state) : 0;
        if (refused > 0) {
            fprintf(stderr, "ptrace is refused here: %s\n", strerror(refused));
            _exit(LEFT_OUT);
        }
        if (waited_us > PATIENCE_MS * 1000L)
            fail("the victim was not %s within %d ms", wanted ? "held" : "let go", PATIENCE_MS);
        pause_us(50);
    }
}

static void hold(pthread_t victim)
{
    atomic_store(&may_go_on, false);
    atomic_store(&shared->wish, how == BY_PTRACE);
    atomic_store(&hog_is_busy, how == BY_IDLE_CLASS);
    if (how == BY_SIGNAL)
        pthread_kill(victim, SIGUSR1);
    wait_until_held(true);
    atomic_fetch_add(&epoch, 1);
}

static void let_go(void)
{
    atomic_fetch_add(&epoch, 1);
    atomic_store(&may_go_on, true);
    atomic_store(&shared->wish, 0);
    atomic_store(&hog_is_busy, false);
    wait_until_held(false);
}

/* The victim gets the last core we may use, and the main thread shares it; the others get the rest.
 */
static void choose_cores(void)
{
    cpu_set_t allowed;
    int last = -1;
    sched_getaffinity(0, sizeof allowed, &allowed);
    for (int core = 0; core < CPU_SETSIZE; core++) {
        if (!CPU_ISSET(core, &allowed))
            continue;
        if (last >= 0 && other_count < OTHERS_MAX)
            CPU_SET(last, &cores[other_count++]);
        last = core;
    }
    if (other_count == 0)
        fail("a victim and one other need two cores");
    CPU_SET(last, &victim_core);
}

static pid_t start_holding(pthread_t victim)
{
    struct sched_param none = {0};
    pid_t helper = 0;
    if (how == BY_IDLE_CLASS && pthread_setschedparam(victim, SCHED_IDLE, &none) != 0)
        fail("the idle class is refused");
    if (how == BY_SIGNAL)
        sigaction(SIGUSR1, &(struct sigaction){.sa_handler = park, .sa_flags = SA_RESTART}, NULL);
    if (how == BY_PTRACE) {
        helper = fork();
        if (helper == 0)
            helper_run(atomic_load(&victim_id));
        prctl(PR_SET_PTRACER, helper);
    }
    return helper;
}

static void result_tails(void)
{
    static struct tail running, held;
    unsigned stalled = 0;
    for (uint64_t i = 0; i < stops; i++)
        stalled += atomic_load(&stalled_stops[i]);
    for (unsigned i = 0; i < other_count; i++) {
        tail_merge(&running, &others[i].running);
        tail_merge(&held, &others[i].held);
    }
    if (running.count == 0 || held.count == 0) {
        fprintf(stderr, "too busy a machine: no call was timed %s a stop\n",
                held.count == 0 ? "during" : "outside");
        _exit(LEFT_OUT);
    }
    double before = tail_percentile(&running, 99.9), with_stop = tail_percentile(&held, 99.9);
    result_number("others", other_count);
    result_number("victim_bursts", (double)victim_sums.bursts);
    result_number("stalled_stops_share", (double)stalled / (double)stops);
    result_number("others_p999_ratio", with_stop / (before > grain_ns ? before : grain_ns));
    tail_result_empty();
    tail_result("running", &running);
    tail_result("held", &held);
}

int main(int argc, char **argv)
{
    pthread_t victim, hog, threads[OTHERS_MAX];
    seed = argument(argc, argv, 1, "seed");
    how = (enum how)argument(argc, argv, 2, "how");
    stops = argument(argc, argv, 3, "stops");
    hold_ms = argument(argc, argv, 4, "hold in ms");
    if (how > BY_IDLE_CLASS || stops == 0 || stops > STOPS_MAX || hold_ms == 0)
        fail("0 is ptrace, 1 a signal handler, 2 the idle class; 1 to %d stops", STOPS_MAX);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    choose_cores();
    tail_begin();
    microsecond_ticks = (uint64_t)(1000 / ns_a_tick);
    pthread_create(&victim, NULL, victim_run, NULL);
    while (atomic_load(&victim_id) == 0)
        pause_us(50);
    pid_t helper = start_holding(victim);
    if (how == BY_IDLE_CLASS)
        pthread_create(&hog, NULL, hog_run, NULL);
    for (unsigned i = 0; i < other_count; i++)
        pthread_create(&threads[i], NULL, other_run, &others[i]);
    sched_setaffinity(0, sizeof victim_core, &victim_core);
    while (atomic_load(&ready_others) < other_count)
        pause_us(50);
    uint64_t random = random_stream(seed, 2000);
    start_clock();
    for (uint64_t i = 0; i < stops; i++) {
        pause_us((long)hold_ms * 1000 + random_below(&random, 1000));
        hold(victim);
        pause_us((long)hold_ms * 1000);
        let_go();
    }
    stop_clock();
    atomic_store(&is_over, true);
    for (unsigned i = 0; i < other_count; i++)
        pthread_join(threads[i], NULL);
    pthread_join(victim, NULL);
    if (how == BY_IDLE_CLASS)
        pthread_join(hog, NULL);
    if (helper > 0) {
        kill(helper, SIGKILL);
        waitpid(helper, NULL, 0);
    }
    uint64_t allocated = victim_sums.allocated, freed = victim_sums.freed, *block;
    for (unsigned i = 0; i < other_count; i++) {
        while ((block = ring_take(&to_victim[i])) != NULL)
            freed += block_free(block);
        while ((block = ring_take(&from_victim[i])) != NULL)
            freed += block_free(block);
        allocated += others[i].allocated;
        freed += others[i].freed;
    }
    if (allocated != freed)
        fail("the stamps of freed blocks are not those of allocated ones");
    result_tails();
    return result_print(seed);
}
