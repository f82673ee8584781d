/*
 * failing.c: every kernel call of a sequence of operations fails in turn, on the simulated kernel.
 *
 * A child for each case, made by fork from a heap that just began, runs the same sequence: in case
 * n the n-th call fails once; or every call from the n-th on; or every call of one kind. A request
 * then gives a block or NULL with ENOMEM, and loses nothing. Then the kernel recovers, the heap
 * verifies, and the same sequence goes through whole.
 */
#include <sys/wait.h>
#include <unistd.h>

#include "arguments.h"
#include "calmalloc/calmalloc.h"
#include "os/sim/sim.h"

enum { CASE_SECONDS = 60, MIB = 1024 * 1024, REPEATS = 1500 };

static struct oracle oracle;
static unsigned long cases;

/* Room enough that nothing is NULL when the kernel is willing. */
static void begin(uint64_t seed)
{
    oracle_begin(&oracle, seed);
    static const size_t size_max[] = {8192, 2 * (size_t)MIB, 48 * (size_t)MIB};
    oracle.size_max = size_max[seed % 3];
    oracle.live_max = oracle.size_max;
}

static void check_and_recover(uint64_t steps)
{
    sim_recover();
    oracle_check(&oracle);
    const char *verdict = calm_verify();
    if (verdict != NULL)
        stress_fail("calm_verify after failures: %s", verdict);
    oracle.may_fail = false;
    oracle_steps_watched(&oracle, steps);
    oracle_check(&oracle);
    const struct oracle *all[] = {&oracle};
    oracle_check_apart(all, 1, NULL);
    stress_check_heap(oracle.live_bytes, 100, oracle.peak_bytes * 2 + 32 * (size_t)MIB);
    oracle_end(&oracle);
    calm_trim();
    stress_check_heap(0, 100, 8 * (size_t)MIB);
    if (sim_resident_bytes() > 8 * (size_t)MIB)
        stress_fail("the kernel counts %zu bytes as resident", sim_resident_bytes());
}

static void sequence(uint64_t steps)
{
    oracle.may_fail = true;
    oracle_steps_watched(&oracle, steps);
    calm_trim();
}

/* Runs one case in a child; `prepare` says what fails. */
static void in_child(const struct arguments *arguments, uint64_t seed, const char *what, uint64_t n,
                     void (*prepare)(uint64_t))
{
    static char command[512];
    snprintf(command, sizeof command, "%s --seed %llu --seeds 1 --steps %llu (case: %s %llu)",
             arguments->program, (unsigned long long)seed, (unsigned long long)arguments->steps,
             what, (unsigned long long)n);
    stress_repro = command;
    cases++;
    pid_t child = fork();
    if (child == 0) {
        alarm(CASE_SECONDS);
        begin(seed);
        prepare(n);
        sequence(arguments->steps);
        check_and_recover(arguments->steps);
        _exit(0);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        stress_fail("the case ended with status 0x%x", (unsigned)status);
}

/* How many fallible calls the sequence makes when none fails. */
static uint64_t count_calls(uint64_t seed, uint64_t steps)
{
    int ends[2];
    uint64_t calls = 0;
    if (pipe(ends) != 0)
        stress_fail("pipe failed");
    pid_t child = fork();
    if (child == 0) {
        begin(seed);
        uint64_t before = sim_fallible_calls();
        sequence(steps);
        calls = sim_fallible_calls() - before;
        _exit(write(ends[1], &calls, sizeof calls) == sizeof calls ? 0 : 1);
    }
    if (read(ends[0], &calls, sizeof calls) != sizeof calls || waitpid(child, NULL, 0) != child)
        stress_fail("the sequence does not go through when nothing fails");
    close(ends[0]);
    close(ends[1]);
    return calls;
}

static void fail_commits(uint64_t nth)
{
    sim_fail_kind(SIM_COMMIT, nth);
}

static void fail_purges(uint64_t nth)
{
    sim_fail_kind(SIM_PURGE, nth);
}

static void limit_commits(uint64_t bytes)
{
    sim_limit_committed(sim_committed_bytes() + (size_t)bytes);
}

static void fail_moves(uint64_t nth)
{
    sim_fail_kind(SIM_MOVE, nth);
    sim_fail_kind(SIM_RENEW, nth);
}

static void fail_moves_with_holes(uint64_t nth)
{
    sim_make_holes(true);
    sim_fail_kind(SIM_MOVE, nth);
}

/* A request that fails again and again uses nothing up. */
static void fail_many_requests(uint64_t requests)
{
    sim_fail_kind(SIM_COMMIT, 1);
    size_t reserved = sim_reserved_bytes();
    for (uint64_t i = 0; i < requests; i++) {
        void *block = calm_malloc(16 + 16 * (i % 2000));
        calm_free(block);
    }
    if (sim_reserved_bytes() > reserved + 256 * (size_t)MIB)
        stress_fail("%zu bytes of address space went into requests that failed",
                    sim_reserved_bytes() - reserved);
    sim_recover();
}

static void run(const struct arguments *arguments, uint64_t seed)
{
    uint64_t calls = count_calls(seed, arguments->steps);
    if (calls < 6)
        stress_fail("the sequence makes only %llu kernel calls", (unsigned long long)calls);
    uint64_t stride = calls > 120
                          ? calls / 120
                          : 1; /* each of the first sixty, then as many spread over the rest */
    for (uint64_t n = 1; n <= calls; n += n < 30 ? 1 : stride) {
        in_child(arguments, seed, "only call", n, sim_fail_nth);
        if (n % 3 == 1)
            in_child(arguments, seed, "all calls from", n, sim_fail_from);
    }
    for (uint64_t n = 1; n < 8; n += 2) {
        in_child(arguments, seed, "all commits from", n, fail_commits);
        in_child(arguments, seed, "all purges from", n, fail_purges);
        in_child(arguments, seed, "all moves from", n, fail_moves);
        in_child(arguments, seed, "all moves, leaving holes, from", n, fail_moves_with_holes);
        in_child(arguments, seed, "bytes committed at most", n * 3 * MIB, limit_commits);
    }
    in_child(arguments, seed, "failed requests", REPEATS, fail_many_requests);
}

int main(int argc, char **argv)
{
    struct arguments arguments = arguments_read(argc, argv, 3, 500);
    for (uint64_t i = 0; i < arguments.seeds; i++)
        run(&arguments, arguments.seed + i);
    if (cases < 20)
        stress_fail("only %lu cases were run", cases);
    printf("%lu cases\n", cases);
    return 0;
}
