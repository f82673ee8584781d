/*
 * process.c: a machine that is the same in every run: two cores, 2 GiB, a clock that tests advance,
 * and seeded random bytes.
 *
 * Output, the environment and errno are the real ones.
 */
#define _GNU_SOURCE

#include "os/os.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/check.h"
#include "os/sim/state.h"

enum { SIM_CPUS = 2 };

static _Atomic uint64_t now_ms = 1000;
static _Atomic uint64_t random_state = 1;

static _Atomic size_t memory_max = SIZE_MAX;
static _Atomic size_t memory_high = SIZE_MAX;
static _Atomic bool limits_are_hidden;
static _Atomic uint64_t limits_read;

void sim_limit_group(size_t max, size_t high)
{
    store(&memory_max, max, RELAXED);
    store(&memory_high, high, RELAXED);
}

void sim_hide_group(bool is_hidden)
{
    store(&limits_are_hidden, is_hidden, RELAXED);
}

uint64_t sim_group_reads(void)
{
    return load(&limits_read, RELAXED);
}

bool os_limits_read(struct os_limits *out, enum os_limits_use use)
{
    (void)use;
    bool is_hidden = load(&limits_are_hidden, RELAXED);
    fetch_add(&limits_read, 1, RELAXED);
    *out = (struct os_limits){
        .memory_max = is_hidden ? SIZE_MAX : load(&memory_max, RELAXED),
        .memory_high = is_hidden ? SIZE_MAX : load(&memory_high, RELAXED),
        .cpus = UINT32_MAX,
    };
    return !is_hidden;
}

void os_start(struct os_facts *out)
{
    struct os_limits limits;
    store(&memory_max, sim_environment("CALM_SIM_GROUP_BYTES", SIZE_MAX), RELAXED);
    os_limits_read(&limits, OS_LIMITS_START);
    *out = (struct os_facts){
        .page_bytes = sim_page_bytes(),
        .memory_bytes = (size_t)2 << 30,
        .cpu_count = SIM_CPUS,
        .memory_limit_bytes = size_min(limits.memory_max, limits.memory_high),
        .core_limit = SIM_CPUS,
        .huge_pages = (enum os_huge)sim_environment("CALM_SIM_HUGE", OS_HUGE_ASKED),
        .address_limit_bytes = SIZE_MAX,
        .is_secure = false,
    };
}

/* Two cores, one cache. */
unsigned os_cpu(void)
{
    return os_thread_id() % SIM_CPUS;
}

unsigned os_cache_groups(uint8_t *group_of_cpu, unsigned cpus)
{
    for (unsigned cpu = 0; cpu < cpus; cpu++)
        group_of_cpu[cpu] = 0;
    return 1;
}

/* Checks locks: reading the clock is a system call on some machines. */
uint64_t os_clock_ms(void)
{
    sim_check_unlocked("os_clock_ms");
    return load(&now_ms, RELAXED);
}

uint64_t os_clock_real_ns(void)
{
    return load(&now_ms, RELAXED) * 1000000;
}

void sim_clock_advance(uint64_t ms)
{
    fetch_add(&now_ms, ms, RELAXED);
}

void sim_random_seed(uint64_t seed)
{
    store(&random_state, seed, RELAXED);
}

/* SplitMix64 (Steele, Lea, Flood, 2014): an addition and a finaliser. */
void os_random(void *out, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        uint64_t x = fetch_add(&random_state, 0x9E3779B97F4A7C15u, RELAXED);
        x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
        x = (x ^ x >> 27) * 0x94D049BB133111EBu;
        ((unsigned char *)out)[i] = (unsigned char)(x ^ x >> 31);
    }
}

int os_write(int fd, const char *words, size_t length)
{
    if (sim_enter(SIM_WRITE))
        return -EIO;
    int before = errno;
    int result = 0;
    while (length > 0 && result == 0) {
        ssize_t written = write(fd, words, length);
        if (written <= 0) {
            result = errno == EINTR ? 0 : written == 0 ? -EIO : -errno;
            continue;
        }
        words += written;
        length -= (size_t)written;
    }
    errno = before;
    return result;
}

bool os_file_identity(int fd, uint64_t out[2])
{
    int before = errno;
    struct stat file;
    bool is_open = fstat(fd, &file) == 0;
    errno = before;
    if (is_open) {
        out[0] = file.st_dev;
        out[1] = file.st_ino;
    }
    return is_open;
}

const char *os_environment(const char *name)
{
    return getenv(name);
}

uint32_t os_thread_id(void)
{
    return (uint32_t)syscall(SYS_gettid);
}

bool os_thread_is_noted(void)
{
    return true;
}

uint32_t os_thread_id_asked(void)
{
    return os_thread_id();
}

static bool is_gone(long process, long id)
{
    int before = errno;
    bool is_unknown = syscall(SYS_tgkill, process, id, 0) != 0 && errno == ESRCH;
    errno = before;
    return is_unknown;
}

bool os_task_has_ended(uint32_t id)
{
    return is_gone(getpid(), id) && is_gone(id, id);
}

uint32_t os_parent_id(void)
{
    return (uint32_t)getppid();
}

uint32_t os_process_id(void)
{
    return (uint32_t)getpid();
}

void os_set_errno(int error)
{
    errno = error;
}

void check_write(const char *words, size_t length)
{
    ssize_t written = write(STDERR_FILENO, words, length);
    (void)written; /* standard error may be closed: ignore that */
}

void check_abort(void)
{
    abort();
}

void sim_stop(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    check_stop_list("calmalloc sim: ", format, arguments);
}
