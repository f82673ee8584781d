/*
 * starting.c: every kernel call that happens before main fails in turn, once and for good.
 *
 * Runs itself with CALM_SIM_FAIL_NTH and CALM_SIM_FAIL_FROM from 1 to the number of calls, and with
 * less and less address space. A heap that could not start answers NULL with ENOMEM, and starts
 * once the kernel recovers. The children's machine has pages of the same size as the parent's.
 */
#define _GNU_SOURCE

#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include "arguments.h"
#include "calmalloc/calmalloc.h"
#include "os/os.h"
#include "os/sim/sim.h"

enum { STEPS = 2000, MIB = 1024 * 1024 };

static struct oracle oracle;

static size_t page_bytes(void)
{
    struct os_facts facts;
    os_start(&facts);
    return facts.page_bytes;
}

static int be_child(const char *parents_page_bytes)
{
    alarm(60);
    stress_repro = "the parent's words name the case";
    if (page_bytes() != strtoull(parents_page_bytes, NULL, 10))
        stress_fail("pages of %zu bytes, the parent's have %s", page_bytes(), parents_page_bytes);
    errno = 0;
    void *block = calm_malloc(100);
    if (block == NULL && errno != ENOMEM)
        stress_fail("malloc gave NULL and errno %d", errno);
    calm_free(block);
    void *large = calm_malloc(100000);
    calm_free(large);
    oracle_begin(&oracle, 7);
    oracle.live_max = 2 * (size_t)MIB;
    oracle.size_max = 64 * 1024;
    oracle.may_fail = true;
    oracle_steps_watched(&oracle, STEPS);
    if (getenv("CALM_SIM_SPACE") == NULL) {
        sim_recover();
        oracle.may_fail = false;
        oracle_steps_watched(&oracle, STEPS);
    }
    oracle_check(&oracle);
    size_t live = oracle.live_bytes;
    stress_check_heap(live, 100, 64 * (size_t)MIB);
    oracle_end(&oracle);
    return 0;
}

static void in_child(const char *program, const char *name, uint64_t value)
{
    static char number[32], pages[32], again[128];
    snprintf(number, sizeof number, "%llu", (unsigned long long)value);
    snprintf(pages, sizeof pages, "%zu", page_bytes());
    snprintf(again, sizeof again, "%s=%s, pages of %s bytes", name, number, pages);
    stress_repro = again;
    pid_t child = fork();
    if (child == 0) {
        char *words[] = {(char *)(uintptr_t)program, (char *)(uintptr_t)"child", pages, NULL};
        setenv(name, number, 1);
        execv(program, words);
        _exit(3);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        stress_fail("%s: the case ended with status 0x%x", program, (unsigned)status);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "child") == 0)
        return be_child(argv[2]);
    uint64_t calls = sim_fallible_calls() + 12; /* those before main, and the first few after it */
    for (uint64_t n = 1; n <= calls; n++) {
        in_child("/proc/self/exe", "CALM_SIM_FAIL_NTH", n);
        in_child("/proc/self/exe", "CALM_SIM_FAIL_FROM", n);
    }
    for (uint64_t mib = 1; mib <= 256; mib *= 2)
        in_child("/proc/self/exe", "CALM_SIM_SPACE", mib * MIB);
    return 0;
}
